"""Observations that are no vector of floats become one."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from experiments.envs import flattened
from experiments.planning.terminal import plan_lines
from experiments.rllib.building import build_algorithm_config, environment_of
from tests.support.suite import PlanOf

VECTOR, PICTURE = spaces.Box(-1, 1, (3,), np.float32), spaces.Box(0, 255, (8, 8, 3), np.uint8)


@pytest.mark.parametrize(
    ("space", "needed"),
    [
        (spaces.Discrete(16), True),
        (spaces.MultiDiscrete([2, 3]), True),
        (spaces.MultiBinary(3), True),
        (spaces.Tuple((spaces.Discrete(3), VECTOR)), True),
        (spaces.Dict({"at": VECTOR, "goal": spaces.Discrete(3)}), True),
        (spaces.Box(0, 255, (128,), np.uint8), True),
        (VECTOR, False),
        (PICTURE, False),
        (spaces.Dict({"seen": PICTURE}), False),
        (spaces.Box(0, 1, (5, 5), np.float32), False),
    ],
    ids=str,
)
def test_choices_parts_and_integers_are_flattened_and_pictures_are_not(space: gym.Space[Any], needed: bool) -> None:
    assert flattened.is_needed(space) is needed


@pytest.mark.parametrize(("gym_id", "size", "ones"), [("FrozenLake-v1", 16, 1), ("Blackjack-v1", 32 + 11 + 2, 3)])
@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_any_registered_id_is_planned_as_vectors_and_said_to_be(plan_of: PlanOf, gym_id: str, size: int, ones: int, algorithm: str) -> None:
    plan = plan_of("study=single", f"algorithm={algorithm}", "env=gym", f"env.id={gym_id}", "env.max_episode_steps=50")
    trial = plan.trials[0]
    build_algorithm_config(trial)
    env = environment_of(trial)
    envs = gym.make_vec(env.id, num_envs=2, vectorization_mode="sync", **env.make_arguments)
    observations, _ = envs.reset(seed=[0, 1])
    assert (observations.shape, observations.dtype, observations.sum()) == ((2, size), np.float32, 2 * ones)
    (said,) = (line for line in plan_lines(plan) if line.startswith("env "))
    assert f"become {size} floats" in said


def test_an_environment_of_vectors_stays_as_it_is(plan_of: PlanOf) -> None:
    trial = plan_of("study=single", "env=cartpole").trials[0]
    assert environment_of(trial) == trial.env
