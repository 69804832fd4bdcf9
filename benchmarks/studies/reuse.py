"""From the order to run a trial to its first report: in a process of its own,
and in one that another trial has left.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import ray

from benchmarks.support.commanded import plan_of_command
from benchmarks.support.harness import Report, Table, against, ratios, spread
from experiments.config.schema import HardwareSettings
from experiments.planning.machines import Cluster, Node
from experiments.study.cluster.ray_process import start_ray
from experiments.trial.trainable import Trial
from experiments.trial.tune_keys import FOLDER, MEASURE_SYSTEM, TRIAL

TARGET_S = 0.7
STEPS = 2000
OVERRIDES = (
    "study.space={}",
    f"algorithm.training.train_batch_size_per_learner={STEPS}",
    f"report_every_env_steps={STEPS}",
    f"budget_env_steps={4 * STEPS}",
    f"evaluation.every_env_steps={4 * STEPS}",
)


def measure(quick: bool) -> Report:
    """Run it."""
    repeats = 1 if quick else 5
    trial = plan_of_command(OVERRIDES, Cluster((Node(2, 0),))).trials[0]
    start_ray(HardwareSettings("benchmark", num_cpus=2, num_gpus=0))
    fresh, reused = [], []
    try:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:

            def config(number: int) -> dict[str, Any]:
                return {TRIAL: {**trial.to_mapping(), FOLDER: str(Path(folder) / str(number))}, MEASURE_SYSTEM: True}

            for repeat in range(repeats):
                start = time.perf_counter()
                actor = ray.remote(Trial).options(num_cpus=1).remote(config(2 * repeat))
                ray.get(actor.train.remote())
                fresh.append(time.perf_counter() - start)
                while not ray.get(actor.train.remote())["done"]:
                    pass
                start = time.perf_counter()
                ray.get(actor.reset_config.remote(config(2 * repeat + 1)))
                ray.get(actor.train.remote())
                reused.append(time.perf_counter() - start)
                ray.get(actor.cleanup.remote())
                ray.kill(actor)
    finally:
        ray.shutdown()
    return Report(
        name="reuse",
        title="A trial's start",
        compared=(
            "PPO on CartPole-v1 with 16 environments in the trial's own process: seconds from the order to run "
            f"a trial to its first report, {STEPS:,} env steps of training included. *Fresh*: Ray starts the process, "
            "which imports RLlib. *Reused*: a process whose trial has ended builds the next one."
        ),
        verdict=(
            f"Target of {TARGET_S} s on a reused process {against(sorted(reused)[len(reused) // 2], TARGET_S, ' s')}."
        ),
        tables=(
            Table(
                "To the first report",
                ("", "seconds", "of fresh"),
                (("fresh", spread(fresh, ".2f"), ""), ("reused", spread(reused, ".2f"), ratios(reused, fresh))),
                f"Median (minimum-maximum) of {repeats}.",
                {"of fresh": False},
            ),
        ),
    )
