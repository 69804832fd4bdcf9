"""What an environment does wrong after a while ends its trial once, with what it did."""

import gymnasium as gym
import pytest
from ray.rllib.algorithms.ppo import PPOConfig

from experiments.envs.checked import EnvironmentFaultError
from experiments.rllib.building import build_algorithm_config
from experiments.rllib.env_runner import EnvRunner, FastRunner
from experiments.trial.evaluation import environments
from tests.support.planning import plan_for
from tests.support.suite import TINY, PlanOf
from tests.support.trials import FAILURE, REPLAY, RESTARTS, Make, run

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_instance")]

ODD = ("env.id=odd_envs:odd/Odd-v0", "env.vectorize_mode=sync", "study.space={}", "seeds=[0]")
LICENCE = "odd/Odd-v0: ended its process with sys.exit: licence lost"
LATER = "+env.env_config.at=40"
"""After what a plan tries."""


def said(make: Make, plan_of: PlanOf, *words: str) -> tuple[str, int]:
    """Why its trial failed, and how often it was begun anew."""
    last = run(make(plan_of(*words).trials[0]))[-1]
    return last.get(FAILURE, ""), last[RESTARTS]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((*TINY, "+env.env_config.does=exit"), LICENCE),
        pytest.param((*TINY, "+env.env_config.does=exit", "fast=false"), LICENCE, marks=pytest.mark.slow),
        pytest.param(
            (*TINY, "+env.env_config.does=exit", "env.vectorize_mode=async", "hardware.total_envs=2"),
            LICENCE,
            marks=pytest.mark.slow,
        ),
        (
            (*TINY, "+env.env_config.does=exit", "hardware.num_env_runners=1", "hardware.num_envs_per_env_runner=2"),
            LICENCE,
        ),
        pytest.param(
            (*REPLAY, "algorithm=dqn", "hardware.total_envs=4", "+env.env_config.does=exit"),
            LICENCE,
            marks=pytest.mark.slow,
        ),
        (
            (*TINY, "+env.env_config.reward=array"),
            "odd/Odd-v0: step gave the reward array([10.]), which is not a number",
        ),
    ],
)
def test_it_ends_its_trial_at_once_with_what_it_did(
    make: Make, plan_of: PlanOf, words: tuple[str, ...], reason: str
) -> None:
    assert said(make, plan_of, *words, *ODD, LATER) == (reason, 0)


@pytest.mark.parametrize(
    "words",
    [
        ("+env.env_config.info=of changing length",),
        ("+env.env_config.info=of changing kind", "fast=false"),
        pytest.param(
            ("+env.env_config.info=a lock", "env.vectorize_mode=async", "hardware.total_envs=2"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_infos_that_nobody_reads_may_be_anything(make: Make, plan_of: PlanOf, words: tuple[str, ...]) -> None:
    assert said(make, plan_of, *TINY, *ODD, *words) == ("", 0)


def test_an_evaluation_says_it_as_training_does() -> None:
    env = plan_for(*TINY, *ODD, "+env.env_config.does=exit", LATER).trials[0].env
    envs = environments(env, 2)
    envs.reset(seed=[1, 2])
    for _ in range(46):  # of which each ninth resets
        envs.step([0, 0])
    with pytest.raises(EnvironmentFaultError, match=LICENCE):
        envs.step([0, 0])


class OwnConfig(PPOConfig):
    """Of a person's own, whose callbacks may read infos."""


@pytest.mark.parametrize("runner", [EnvRunner, FastRunner])
def test_infos_that_may_be_read_are_kept_and_named_where_they_do_not_fit(plan_of: PlanOf, runner: type) -> None:
    own = f"algorithm.config_class={OwnConfig.__module__}.{OwnConfig.__name__}"
    config = build_algorithm_config(plan_of(*TINY, *ODD, own, "+env.env_config.info=of changing length").trials[0])
    made = runner(config=config, worker_index=0)
    try:
        with pytest.raises(
            EnvironmentFaultError, match=r"cannot be batched at the key 'path' \(ValueError: could not broadcast"
        ):
            made.sample()
    finally:
        made.stop()
    assert isinstance(made.env.unwrapped, gym.vector.SyncVectorEnv)
