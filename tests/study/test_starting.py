"""Trials that start from a trained policy."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.config.errors import ConfigurationError
from experiments.config.trial_config import TrialConfig
from experiments.rllib import starting_weights
from experiments.study.starting import Starting
from experiments.tracking.place import Place
from tests.policies.test_policy import ASYNC, LOCAL, ONE, REMOTE
from tests.support.suite import TINY, PlanOf
from tests.support.trials import REPLAY, Make, run

STILL = "algorithm.training.lr=1e-30"
"""A learning rate that moves no weight in single precision."""
STILL_OF_THREE = tuple(f"algorithm.training.{name}=1e-30" for name in ("actor_lr", "critic_lr", "alpha_lr"))
TRAINED: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ppo": ((*TINY, *ONE, "env=cartpole", LOCAL), (STILL,)),
    "ppo, remote": ((*TINY, *ONE, "env=pendulum", REMOTE), (STILL,)),
    "dqn": ((*REPLAY, *ONE, "algorithm=dqn", "env=cartpole", LOCAL), (STILL,)),
    "sac": ((*REPLAY, *ONE, "algorithm=sac", "env=pendulum", REMOTE), STILL_OF_THREE),
    "tqc": ((*REPLAY, *ONE, "algorithm=tqc", "env=pendulum", LOCAL), STILL_OF_THREE),
    "appo": ((*ASYNC, "algorithm=appo", REMOTE), (STILL,)),
    "impala": ((*ASYNC, "algorithm=impala", REMOTE), (STILL,)),
}
MARKS = {"ppo": (), **dict.fromkeys(("sac", "tqc", "appo", "impala"), pytest.mark.nightly)}
"""The others are slow. IMPALA and APPO start as PPO with a remote runner does, SAC and TQC as DQN."""
pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_instance")]


@pytest.fixture
def studies(tmp_path: Path) -> Path:
    return tmp_path / "studies"


def looked_up(trained: Path, own: Path) -> Starting:
    return Starting.of(str(trained), Place(own, "", 1.0))


def started(config: TrialConfig, start: Starting, study: Path) -> tuple[TrialConfig, Path]:
    """A trial that starts from a policy, and its folder, in that of a study that keeps the weights."""
    study.mkdir(parents=True)
    starting_weights.keep(start.policy, study / starting_weights.FILE)
    return replace(config, starts_from=start.policy), study / "trials" / "own"


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, pytest.mark.slow)) for name in TRAINED])
def test_a_trial_that_learns_nothing_scores_as_the_policy_that_it_starts_from(
    plan_of: PlanOf, make: Make, studies: Path, name: str
) -> None:
    overrides, still = TRAINED[name]
    trained = run(make(plan_of(*overrides).trials[0], folder=studies / "one" / "trials" / "own"))
    start = looked_up(studies / "one" / "trials" / "own", studies.parent)
    untouched, folder = started(plan_of(*overrides, *still).trials[0], start, studies / "two")
    again = run(make(untouched, folder=folder))
    assert again[-1]["final/score"] == trained[-1]["final/score"]
    without = run(make(replace(untouched, starts_from=None), folder=studies / "two" / "trials" / "without"))
    assert without[-1]["weights"] != again[-1]["weights"]
    assert start.policy.env_steps == plan_of(*overrides).trials[0].budget_env_steps
    if still == STILL_OF_THREE:  # the third one is the temperature's
        temperatures = [
            starting_weights.of_checkpoint(next(f.glob("checkpoints/0*")))["curr_log_alpha"]
            for f in folder.parent.iterdir()
        ]
        assert start.weights["curr_log_alpha"] in temperatures
        assert len(np.unique(temperatures)) == 2


@pytest.mark.slow
def test_running_statistics_are_taken_over_and_go_on(plan_of: PlanOf, make: Make, studies: Path) -> None:
    overrides = (*TINY, *ONE, "env=pendulum", "preprocessing=normalize", LOCAL)
    counts = [_count_after(plan_of, make, studies, overrides)]
    start = looked_up(studies / "one" / "trials" / "own", studies.parent)
    config, folder = started(plan_of(*overrides).trials[0], start, studies / "two")
    run(make(config, folder=folder))
    counts.append(_count_in(folder))
    assert counts[1] == 2 * counts[0] > 0


def _count_after(plan_of: PlanOf, make: Make, studies: Path, overrides: tuple[str, ...]) -> float:
    folder = studies / "one" / "trials" / "own"
    run(make(plan_of(*overrides).trials[0], folder=folder))
    return _count_in(folder)


def _count_in(folder: Path) -> float:
    weights: Mapping[str, Any] = starting_weights.of_checkpoint(max(folder.glob("checkpoints/0*")))
    return float(weights["preprocessing.of_observations.count"].item())


def test_wrong_starts_are_refused_by_name(plan_of: PlanOf, make: Make, studies: Path) -> None:
    overrides = (*TINY, *ONE, "env=cartpole", LOCAL)
    folder = studies / "one" / "trials" / "own"
    run(make(plan_of(*overrides).trials[0], folder=folder))
    start = looked_up(folder, studies.parent)
    start.check(plan_of(*overrides, "algorithm.training.lr=1e-4"))
    with pytest.raises(
        ConfigurationError,
        match=r"study.start=.*: its networks are not those of 'ppo-cartpole': encoder.* \[64, 4\].*\[32, 4\]",
    ):
        start.check(plan_of(*overrides, "algorithm.rl_module.fcnet_hiddens=[32]"))
    with pytest.raises(ConfigurationError, match="its networks are not those of 'ppo-acrobot'"):
        start.check(plan_of(*TINY, *ONE, "env=acrobot", LOCAL))
    with pytest.raises(ConfigurationError, match=r"study\.start=.*pickles.*copy its study's folder into"):
        looked_up(folder, studies / "elsewhere")
    with pytest.raises(ConfigurationError, match="there is no store"):
        Starting.of("nothing", Place(studies.parent, f"sqlite:///{studies.parent}/mlflow.db", 1.0))
    changed = replace(start.policy, weights="0" * 16)
    with pytest.raises(ConfigurationError, match="no longer those"):
        starting_weights.keep(changed, studies / "start.npz")


def test_the_configuration_is_another_one_and_knows_the_weights_alone(
    plan_of: PlanOf, make: Make, studies: Path
) -> None:
    trial = plan_of(*TINY, *ONE, "env=cartpole", LOCAL).trials[0]
    run(make(trial, folder=studies / "one" / "trials" / "own"))
    policy = looked_up(studies / "one" / "trials" / "own", studies.parent).policy
    ids = [
        replace(trial, starts_from=p).config_id
        for p in (None, policy, replace(policy, source="elsewhere"), replace(policy, weights="0"))
    ]
    assert ids[0] == trial.config_id
    assert ids[1] == ids[2]
    assert len(set(ids)) == 3
    there_and_back = TrialConfig.from_mapping(replace(trial, starts_from=policy).to_mapping())
    assert there_and_back.starts_from == policy
