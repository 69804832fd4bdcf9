"""Observations that are no vector of floats become one."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from experiments.config.errors import ConfigurationError
from experiments.envs import flattened
from experiments.planning.plan import Plan
from experiments.planning.terminal import plan_lines
from experiments.rllib.building import build_algorithm_config, environment_of
from tests.support.drawn_spaces import trial_with
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
        (spaces.Box(-1, 1, (3,), np.float16), True),
        (spaces.Box(0, 1, (8, 8, 3), np.float16), True),
        (spaces.Box(0, 1, (3,), np.bool_), True),
        (spaces.Box(-1, 1, (), np.float32), True),
        (spaces.Box(-1, 1, (3,), np.float64), False),
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
def test_any_registered_id_is_planned_as_vectors_and_said_to_be(
    plan_of: PlanOf, gym_id: str, size: int, ones: int, algorithm: str
) -> None:
    plan = plan_of("study=single", f"algorithm={algorithm}", "env=gym", f"env.id={gym_id}", "env.max_episode_steps=50")
    trial = plan.trials[0]
    build_algorithm_config(trial)
    env = environment_of(trial)
    envs = gym.make_vec(env.id, num_envs=2, vectorization_mode="sync", **env.make_arguments)
    observations, _ = envs.reset(seed=[0, 1])
    assert (observations.shape, observations.dtype, observations.sum()) == ((2, size), np.float32, 2 * ones)
    (said,) = (line for line in plan_lines(plan) if line.startswith("env "))
    assert f"become {size} floats" in said


def plan_with(plan_of: PlanOf, actions: gym.Space[Any], observations: gym.Space[Any], *overrides: str) -> Plan:
    index = trial_with("ppo", actions, observations).env.env_config["index"]
    own = ("env=gym", "env.id=drawn/Spaces-v0", "env.name=mine", f"env.env_config={{index: {index}}}")
    return plan_of("study=single", *own, *overrides)


def said_of(plan: Plan) -> list[str]:
    return [line.removeprefix("env         mine: ") for line in plan_lines(plan) if line.startswith("env ")]


def test_the_plan_says_what_becomes_of_observations_and_actions(plan_of: PlanOf) -> None:
    assert said_of(plan_with(plan_of, spaces.Discrete(2), VECTOR)) == []
    shifted, half = spaces.MultiDiscrete([3, 4], start=[1, 2]), spaces.Box(0, np.inf, (1,), np.float32)
    assert said_of(plan_with(plan_of, shifted, spaces.Box(-1, 1, (3,), np.float16))) == [
        "observations Box(-1.0, 1.0, (3,), float16) become 3 floats",
        (
            "actions MultiDiscrete([3 4], start=[1 2]) are chosen as MultiDiscrete([3 4]), "
            "and converted to the environment's own"
        ),
    ]
    (cut,) = said_of(plan_with(plan_of, half, VECTOR))
    assert cut.startswith("actions Box(0.0, inf, (1,), float32) are clipped to their bounds")
    filters = "++algorithm.rl_module.conv_filters=[[4,3,2]]"
    (picture,) = said_of(plan_with(plan_of, spaces.Discrete(2), spaces.Box(0, 1, (3, 12, 12), np.float32), filters))
    assert picture == "observations are pictures, 3 high, 12 wide, with 12 channels"


def test_actions_are_not_numbered_anew_around_a_vector_implementation(plan_of: PlanOf) -> None:
    trial = trial_with("ppo", spaces.MultiBinary(2), VECTOR, vectorize_mode="vector_entry_point")
    with pytest.raises(ConfigurationError, match=r"vector_entry_point: .*"):
        environment_of(trial)


def test_an_environment_of_vectors_stays_as_it_is(plan_of: PlanOf) -> None:
    trial = plan_of("study=single", "env=cartpole").trials[0]
    assert environment_of(trial) == trial.env
