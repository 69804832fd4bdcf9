"""Tune's processes, and whether the next trial gets the last one's."""

import os
from pathlib import Path
from typing import Any

import pytest
from ray import tune
from ray.tune import CheckpointConfig, RunConfig, Trainable, TuneConfig

from experiments.study.process_reuse import ReuseUnlessWorn
from experiments.trial.trainable import WORN


class Short(Trainable):
    def step(self) -> dict[str, Any]:
        return {"process": os.getpid(), WORN: self.config["number"] in (1, 2), "done": True}

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        return True


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_a_trial_that_wore_its_process_out_leaves_it_to_no_other(tmp_path: Path) -> None:
    tuner = tune.Tuner(
        Short,
        param_space={"number": tune.grid_search(list(range(5)))},
        tune_config=TuneConfig(reuse_actors=True, scheduler=ReuseUnlessWorn(), max_concurrent_trials=1),
        run_config=RunConfig(storage_path=str(tmp_path), verbose=0, checkpoint_config=CheckpointConfig(checkpoint_at_end=False)),
    )
    processes = {result.config["number"]: result.metrics["process"] for result in tuner.fit()}
    assert processes[0] == processes[1]
    assert processes[1] != processes[2] != processes[3]
    assert processes[3] == processes[4]
