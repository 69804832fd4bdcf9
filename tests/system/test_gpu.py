"""Studies whose learners are on a GPU, from the command on. Skipped where torch finds none."""

import importlib.util
import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.support.algorithms import env_of
from tests.support.driver import Driver
from tests.support.outputs import SMALL, assert_same, is_halfway, left_in, run_id
from tests.support.suite import ALGORITHMS, ROOT, TINY, RunSuite

GPUS = 1
SINGLE = ("study.space={}", f"hardware.num_gpus={GPUS}")
LONGER = ("budget_env_steps=16384", "report_every_env_steps=4096")

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


def logged(out: Path, metric: str) -> list[float]:
    """A metric's values in all runs of trials."""
    query = (
        "SELECT metrics.value FROM metrics JOIN tags USING (run_uuid) WHERE metrics.key = ? "
        "AND tags.key = 'kind' AND tags.value = 'trial'"
    )
    with sqlite3.connect(out / "mlflow.db") as database:
        return [value for (value,) in database.execute(query, [metric])]


def learner_gpus(out: Path) -> set[float]:
    """What the trials' learners had of a GPU, by their parameters in MLflow."""
    with sqlite3.connect(out / "mlflow.db") as database:
        return {
            float(value) for (value,) in database.execute("SELECT value FROM params WHERE key = 'num_gpus_per_learner'")
        }


def test_a_study_of_the_workstation_profile_logs_its_score_its_gpu_and_how_busy_that_was(
    run_suite: RunSuite, tmp_path: Path
) -> None:
    done = run_suite(
        *TINY, *LONGER, *SINGLE, "hardware=workstation", "hardware.num_cpus=16", "seeds=[0]", timeout_s=600
    )
    out = tmp_path / "out"
    assert done.returncode == 0, done.stdout + done.stderr
    assert learner_gpus(out) == {GPUS}
    assert len(logged(out, "final/score")) == 1
    if importlib.util.find_spec("pynvml"):  # of the extra gpu
        assert all(0 <= percent <= 100 for percent in logged(out, "system/gpu_percent"))
        assert logged(out, "system/gpu_percent")
    (config,) = out.glob("mlartifacts/smoke/*/*/artifacts/config.json")
    assert torch.cuda.get_device_name(0) in json.loads(config.read_text())["provenance"]["host"]["gpus"][0]


def test_two_trials_share_a_gpu_and_come_out_the_same(run_suite: RunSuite, tmp_path: Path) -> None:
    half = ("hardware.num_cpus=2", "hardware.num_gpus_per_learner=0.5", "seeds=[0]", "repeats=2")
    done = run_suite(*TINY, *SINGLE, *half, timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 at once" in done.stdout
    assert learner_gpus(tmp_path / "out") == {0.5}
    assert len(set(left_in(tmp_path / "out/mlflow.db").weights.values())) == 1


def test_a_killed_study_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    settings = (*SMALL, f"hardware.num_gpus={GPUS}")
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert Driver(whole, *settings).end() == 0
    Driver(out, *settings).until(lambda: is_halfway(out)).kill()
    assert Driver(out, f"resume={run_id(out, 'study')}").end() == 0
    assert learner_gpus(whole) == learner_gpus(out) == {0.5}
    assert_same(left_in(out / "mlflow.db"), left_in(whole / "mlflow.db"))


def test_a_logged_trial_is_reproduced(run_suite: RunSuite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run_suite(*TINY, *SINGLE, "seeds=[0]", timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    command = [sys.executable, "experiments/reproduce.py", f"run={run_id(out, 'trial')}", f"output_dir={out}"]
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    assert re.search(r"\bidentical\b", again.stdout), again.stdout


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("learners", [0, 1])
def test_every_algorithm_finishes(run_suite: RunSuite, tmp_path: Path, algorithm: str, learners: int) -> None:
    where = (
        "hardware.num_cpus=4",
        f"hardware.num_learners={learners}",
        "hardware.num_gpus_per_learner=0.5",
        "seeds=[0,1]",
    )
    words = ("study=smoke", *SINGLE, *where, f"algorithm={algorithm}", f"env={env_of(algorithm)}")
    done = run_suite(*words, timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    # the second trial after the first one in its process, or beside it
    assert len(logged(tmp_path / "out", "final/score")) == 2


@pytest.mark.alone
def test_learners_are_scaled_with_a_share_of_a_gpu(run_suite: RunSuite, tmp_path: Path) -> None:
    space = "study.space={algorithm.learners.num_learners:[0,1],algorithm.learners.num_gpus_per_learner:[0.25]}"
    done = run_suite("study=learner_scaling", f"hardware.num_gpus={GPUS}", "seeds=[0]", space, timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert learner_gpus(tmp_path / "out") == {0.25}
    assert len(logged(tmp_path / "out", "final/env_steps_per_s")) == 2
