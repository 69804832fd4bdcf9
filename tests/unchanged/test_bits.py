"""What is learned is what an earlier commit of the suite learned, to the bit, on the same machine:
floats depend on the processor.
"""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.driver import Driver
from tests.support.outputs import Left, assert_same, is_halfway, left_in, of_metrics_in
from tests.support.suite import ROOT

BEFORE = "d567f16"
SHORT = (
    "budget_env_steps=4096 report_every_env_steps=2048 checkpoint.every_env_steps=2048 evaluation.episodes=2 "
    "evaluation.final_episodes=5 seeds=[0] tracking.tensorboard=false tracking.system_metrics=false "
    "hardware.num_cpus=3 report=false study=single ~tuned"
)
CASES = {
    "PPO": "",
    "PPO on an environment without a vector of its own": "env=acrobot",
    "PPO with runners": "hardware.num_env_runners=2 hardware.num_envs_per_env_runner=4",
    "PPO with a learner process": "hardware.num_learners=1",
    "PPO by RLlib's own parts": "fast=false",
    "PPO with a recurrent network": "++algorithm.rl_module.use_lstm=true",
    "PPO-EWMA": "algorithm=ppo_ewma",
    "PPO, staggered": "env=pendulum env.stagger=true",
    "PPO, normalised, on physics": "env=halfcheetah preprocessing=normalize",
    "DQN": "algorithm=dqn",
    "DQN, normalised": "algorithm=dqn env=acrobot preprocessing=normalize",
    "SAC": "algorithm=sac env=pendulum",
}
"""Algorithms that promise bits: IMPALA and APPO sample while they learn."""
ONE_BY_ONE = "seeds=[0,1] hardware.max_concurrent_trials=1"

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.nightly]


@pytest.fixture(autouse=True)
def mkl(monkeypatch: pytest.MonkeyPatch) -> None:
    """The earlier commit leaves MKL its choice of kernels."""
    monkeypatch.setenv("RL_SCALING_MKL", "shipped")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The suite as it was."""
    if subprocess.run(
        ["git", "cat-file", "-e", f"{BEFORE}^{{commit}}"], cwd=ROOT, capture_output=True, check=False
    ).returncode:
        pytest.skip(f"commit {BEFORE} is not in this clone")
    folder = tmp_path_factory.mktemp("before") / BEFORE
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", folder, BEFORE], cwd=ROOT, check=True)
    yield folder
    subprocess.run(["git", "worktree", "remove", "--force", folder], cwd=ROOT, check=True)


def command(out: Path, words: str) -> list[str]:
    return [sys.executable, "experiments/run.py", *shlex.split(f"{SHORT} {words}"), f"output_dir={out}"]


def importing(root: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(root)}


def run(root: Path, out: Path, words: str) -> None:
    done = subprocess.run(
        command(out, words), cwd=root, env=importing(root), capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def assert_as_before(found: Left, reference: Left) -> None:
    """In all that was logged before."""
    assert_same(of_metrics_in(reference, found), reference)


@pytest.mark.parametrize("case", CASES)
def test_what_is_learned_is_what_was_learned(case: str, before: Path, tmp_path: Path) -> None:
    for root in (before, ROOT):
        run(root, tmp_path / root.name, CASES[case])
    assert_as_before(left_in(tmp_path / ROOT.name / "mlflow.db"), left_in(tmp_path / BEFORE / "mlflow.db"))


def test_a_killed_study_goes_on_to_what_was_learned(before: Path, tmp_path: Path) -> None:
    words = f"algorithm=dqn {ONE_BY_ONE}"
    run(before, tmp_path / "before", words)
    out = tmp_path / "out"
    Driver(out, *(word for word in shlex.split(f"{SHORT} {words}") if word != "report=false")).until(
        lambda: is_halfway(out)
    ).kill()
    resumed = Driver(out, f"resume={next((out / 'studies').iterdir())}")
    assert resumed.end() == 0
    assert_as_before(left_in(out / "mlflow.db"), left_in(tmp_path / "before" / "mlflow.db"))


def test_a_study_that_was_begun_before_is_finished_now(before: Path, tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    run(before, whole, ONE_BY_ONE)
    with subprocess.Popen(
        command(out, ONE_BY_ONE), cwd=before, env=importing(before), stdout=subprocess.DEVNULL, start_new_session=True
    ) as begun:
        while not is_halfway(out):
            assert begun.poll() is None
            time.sleep(0.01)
        begun.kill()
    assert Driver(out, f"resume={next((out / 'studies').iterdir())}").end() == 0
    assert_as_before(left_in(out / "mlflow.db"), left_in(whole / "mlflow.db"))
