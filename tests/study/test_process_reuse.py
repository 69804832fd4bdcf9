"""Tune's processes, and whether the next trial gets the last one's."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray import tune
from ray.tune import CheckpointConfig, RunConfig, Trainable, TuneConfig

from experiments.study.event_stream import EventStream
from experiments.study.folder import StudyFolder
from experiments.study.tune import StudyScheduler
from experiments.trial.trainable import RECYCLE_PROCESS


class Short(Trainable):
    def step(self) -> dict[str, Any]:
        return {"process": os.getpid(), RECYCLE_PROCESS: self.config["number"] == 1, "done": True}

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        return True


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_a_process_that_is_to_be_recycled_gets_no_other_trial(tmp_path: Path) -> None:
    attempts = SimpleNamespace(has_ended=lambda trial: False)
    scheduler = StudyScheduler(EventStream(StudyFolder(tmp_path), []), attempts)  # type: ignore[arg-type]
    tuner = tune.Tuner(
        Short,
        param_space={"number": tune.grid_search([0, 1, 2])},
        tune_config=TuneConfig(reuse_actors=True, scheduler=scheduler, max_concurrent_trials=1),
        run_config=RunConfig(storage_path=str(tmp_path), verbose=0, checkpoint_config=CheckpointConfig(checkpoint_at_end=False)),
    )
    processes = {result.config["number"]: result.metrics["process"] for result in tuner.fit()}
    assert processes[0] == processes[1] != processes[2]
