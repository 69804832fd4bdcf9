#!/usr/bin/env bash
# A study on the nodes of a Slurm job: Ray starts on all of them, the study runs on the first, and both end together. From the repository's
# root, which all nodes see, with its environment in .venv:
#   sbatch deploy/slurm/study.sh study=lr_batch study.key=lr-batch output_dir=/shared/outputs tracking.uri=http://HOST:5000
# What follows the script's name are the study's settings; by study.key a job that is queued again goes on where it was. Other sizes:
#   sbatch --nodes=8 --gpus-per-node=1 --time=24:00:00 deploy/slurm/study.sh ...
#SBATCH --job-name=rl-study
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --exclusive
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@180
set -euo pipefail

export PATH="${PWD}/.venv/bin:${PATH}"
export RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=300 # 30 s are too short where many nodes read Python from one file server
RAY_AUTH_TOKEN="$(openssl rand -hex 32)"
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN # other users' jobs may reach this node

# This script runs on the job's first node, where the study's driver will be: it leaves its process id here.
driver="$(mktemp)"
trap 'rm -f "${driver}"' EXIT

address="$(scontrol show hostnames "${SLURM_JOB_NODELIST}" | head -n 1):6379"
# shellcheck disable=SC2016  # the inner shell's own parameters
srun --nodes="${SLURM_JOB_NUM_NODES}" --cpus-per-task="${SLURM_CPUS_PER_TASK}" \
    ray symmetric-run --address "${address}" --min-nodes "${SLURM_JOB_NUM_NODES}" --num-cpus "${SLURM_CPUS_PER_TASK}" --disable-usage-stats -- \
    bash -c 'echo "$$" > "$0" && exec python experiments/run.py "$@"' "${driver}" "$@" "hardware.address=${address}" &
step=$!

# Three minutes before the time is over, or when the job is preempted: the driver saves the study and ends with 143.
trap 'kill -TERM "$(cat "${driver}")" || true' TERM
status=0
wait "${step}" || status=$?
while kill -0 "${step}" 2>/dev/null; do # a signal ended the wait, and not the step
    status=0
    wait "${step}" || status=$?
done
if [ "${status}" -eq 143 ]; then
    scontrol requeue "${SLURM_JOB_ID}"
fi
exit "${status}"
