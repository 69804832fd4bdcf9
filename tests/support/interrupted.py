"""Trials whose process is given up on the way, and that go on from their checkpoints."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.config.trial_config import TrialConfig
from experiments.planning.machines import Cluster, Node
from experiments.trial.trainable import Trial
from tests.support.suite import PlanOf
from tests.support.trials import FAILURE, REPRODUCIBLE, RESTARTS, STEP, WEIGHTS, learned, step, with_folder

PPO = (
    "budget_env_steps=3072",
    "report_every_env_steps=512",
    "evaluation.episodes=2",
    "evaluation.final_episodes=2",
    "algorithm.training.train_batch_size_per_learner=512",
    "checkpoint.every_env_steps=1024",
)
REPLAY = (
    "report_every_env_steps=100",
    "checkpoint.every_env_steps=200",
    "algorithm.training.num_steps_sampled_before_learning_starts=100",
    "evaluation.episodes=2",
    "evaluation.final_episodes=2",
)


def trial_in(config: TrialConfig, folder: Path) -> Trial:
    return Trial(with_folder(config, folder))


def uninterrupted(config: TrialConfig, folder: Path) -> Iterator[dict[str, Any]]:
    trial = trial_in(config, folder)
    try:
        while True:
            result = step(trial)
            yield result
            if result["done"]:
                return
    finally:
        trial.cleanup()


def interrupted(config: TrialConfig, folder: Path, after: int, times: int) -> Iterator[dict[str, Any]]:
    """All results of a trial whose process is given up `times` times, each time after `after` reports."""
    for left in reversed(range(times + 1)):
        trial = trial_in(config, folder)
        results = 0
        try:
            while not left or results < after:
                result = step(trial)
                results += 1
                yield result
                if result["done"]:
                    return
        finally:
            trial._abandon()  # as a kill leaves it: nothing is saved
            trial.cleanup()


def assert_same_when_interrupted(
    plan_of: PlanOf, tmp_path: Path, algorithm: str, env: str, settings: tuple[str, ...]
) -> None:
    """Train a trial whole, and with two interruptions: the same to the bit."""
    local = () if any("runners" in s for s in settings) else ("hardware.num_env_runners=0",)
    common = ("study=smoke", "study.space={}", "seeds=[0]", f"algorithm={algorithm}", f"env={env}")
    plan = plan_of(*common, *settings, *local, cluster=Cluster((Node(4, 0),)))
    config = plan.trials[0]
    whole = list(uninterrupted(config, tmp_path / "whole"))
    pieces = list(interrupted(config, tmp_path / "pieces", after=3, times=2))
    assert FAILURE not in whole[-1]
    by_step = {result[STEP]: result for result in pieces if STEP in result}  # the others were trained again
    assert len(pieces) > len(by_step) == len(whole)  # some of it was trained again
    assert [learned(by_step[result[STEP]]) for result in whole] == [learned(result) for result in whole]
    assert pieces[-1][WEIGHTS] == whole[-1][WEIGHTS]
    assert (pieces[-1][RESTARTS], pieces[-1][REPRODUCIBLE]) == (2, True)
    assert whole[-1]["progress/updates"] > 0
    (checkpoint,) = (tmp_path / "whole" / "checkpoints").iterdir()
    size = sum(p.stat().st_size for p in checkpoint.rglob("*"))
    assert 0.5 < plan.configurations[0].final_bytes / size < 2  # as the plan announced
