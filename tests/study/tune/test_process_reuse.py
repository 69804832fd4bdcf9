"""Tune's processes, and whether the next trial gets the last one's."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray import tune
from ray.tune import CheckpointConfig, FailureConfig, RunConfig, Trainable, TuneConfig

from experiments.study.files.folder import StudyFolder
from experiments.study.stream import EventStream
from experiments.study.tune.callbacks import StudyScheduler
from experiments.trial.tune_keys import EVENTS, RECYCLE_PROCESS
from tests.support.tune_callbacks import OfErrors


class Short(Trainable):
    def step(self) -> dict[str, Any]:
        return {"process": os.getpid(), RECYCLE_PROCESS: self.config["number"] == 1, "done": True}

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        return True


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_a_process_that_is_to_be_recycled_gets_no_other_trial(tmp_path: Path) -> None:
    attempts = SimpleNamespace(has_ended=lambda trial: False, goes_on_alone=lambda trial: False)
    scheduler = StudyScheduler(EventStream(StudyFolder(tmp_path), []), attempts)  # type: ignore[arg-type]
    tuner = tune.Tuner(
        Short,
        param_space={"number": tune.grid_search([0, 1, 2])},
        tune_config=TuneConfig(reuse_actors=True, scheduler=scheduler, max_concurrent_trials=1),
        run_config=RunConfig(
            storage_path=str(tmp_path), verbose=0, checkpoint_config=CheckpointConfig(checkpoint_at_end=False)
        ),
    )
    processes = {result.config["number"]: result.metrics["process"] for result in tuner.fit()}
    assert processes[0] == processes[1] != processes[2]


class Dying(Trainable):
    def step(self) -> dict[str, Any]:
        return {EVENTS: [], RECYCLE_PROCESS: False, "done": True, "process": os.getpid()}

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        died = Path(new_config["died"])
        if new_config["number"] == 1 and not died.exists():
            died.touch()
            if new_config["how"] == "raises":
                raise RuntimeError("cannot be reset")
            os.kill(os.getpid(), signal.SIGKILL)
        return True


class Counted:
    """Attempts at trials that nobody ends."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.losses: list[int] = []

    def has_ended(self, trial: Any) -> bool:
        return False

    def goes_on_alone(self, trial: Any) -> bool:
        return False

    def begin(self, trial: Any) -> None:
        self.begun.append(trial.config["number"])

    def lost(self, trial: Any) -> None:
        self.losses.append(trial.config["number"])


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize("how", ["dies", "raises"])
def test_a_trial_whose_process_is_lost_as_it_is_handed_on_to_it_is_taken_up_again(how: str, tmp_path: Path) -> None:
    attempts, stream = Counted(), SimpleNamespace()
    scheduler = StudyScheduler(stream, attempts)  # type: ignore[arg-type]
    callback = OfErrors(stream, attempts, scheduler)  # type: ignore[arg-type]
    tuner = tune.Tuner(
        Dying,
        param_space={"number": tune.grid_search([0, 1, 2]), "died": str(tmp_path / "died"), "how": how},
        tune_config=TuneConfig(reuse_actors=True, scheduler=scheduler, max_concurrent_trials=1),
        run_config=RunConfig(
            storage_path=str(tmp_path),
            verbose=0,
            callbacks=[callback],
            failure_config=FailureConfig(max_failures=-1),
            checkpoint_config=CheckpointConfig(checkpoint_at_end=False),
        ),
    )
    results = tuner.fit()
    assert sorted(
        result.config["number"] for result in results if result.metrics and result.metrics.get("process")
    ) == [0, 1, 2]
    assert (tmp_path / "died").exists()
    assert attempts.losses == [1]
    assert sorted(attempts.begun) == [0, 1, 2]
