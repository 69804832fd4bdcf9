"""Observations and actions that no algorithm, or not this one, can take."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.algorithms.tqc import TQCConfig
from ray.rllib.core import DEFAULT_MODULE_ID

from experiments.config.errors import ConfigurationError
from experiments.rllib.allowed_spaces import check_spaces

VECTOR = spaces.Box(-1, 1, (4,), np.float32)
TWO, CONTINUOUS, SEVERAL = spaces.Discrete(2), spaces.Box(-1, 1, (2,), np.float32), spaces.MultiDiscrete([2, 3])
ALGORITHMS: dict[type[AlgorithmConfig], list[gym.Space[Any]]] = {
    PPOConfig: [TWO, CONTINUOUS, SEVERAL],
    APPOConfig: [TWO, CONTINUOUS, SEVERAL],
    IMPALAConfig: [TWO, CONTINUOUS, SEVERAL],
    DQNConfig: [TWO],
    SACConfig: [CONTINUOUS],
    TQCConfig: [CONTINUOUS],
}


@pytest.mark.parametrize("config_class", ALGORITHMS)
@pytest.mark.parametrize("actions", [TWO, CONTINUOUS, SEVERAL], ids=str)
def test_what_is_allowed_rllib_builds_and_what_is_not_names_another_algorithm(
    config_class: type[AlgorithmConfig], actions: gym.Space[Any]
) -> None:
    if actions in ALGORITHMS[config_class]:
        check_spaces("a", config_class, "mine", VECTOR, actions)
        module: Any = config_class().get_rl_module_spec(spaces={DEFAULT_MODULE_ID: (VECTOR, actions)}).build()
        assert module._forward_inference({"obs": torch.zeros(2, 4)})
    else:
        with pytest.raises(ConfigurationError, match=r"algorithm=a needs .* but env=mine has .*Try algorithm=ppo"):
            check_spaces("a", config_class, "mine", VECTOR, actions)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3,), (64, 64, 3)])
def test_vectors_and_pictures_of_floats_are_observations(shape: tuple[int, ...], dtype: Any) -> None:
    check_spaces("a", PPOConfig, "mine", spaces.Box(0, 1, shape, dtype), TWO)


@pytest.mark.parametrize(
    ("observations", "wrapped"),
    [
        (spaces.Discrete(16), "FlattenObservation"),
        (spaces.Dict({"a": VECTOR}), "FlattenObservation"),
        (spaces.Tuple((VECTOR, TWO)), "FlattenObservation"),
        (spaces.MultiBinary(3), "FlattenObservation"),
        (spaces.Box(0, 1, (5, 5), np.float32), "FlattenObservation"),
        (spaces.Box(0, 255, (128,), np.uint8), r"DtypeObservation\(env, numpy.float32\)"),
        (spaces.Box(0, 255, (84, 84, 3), np.uint8), r"DtypeObservation\(env, numpy.float32\)"),
        (spaces.Box(0, 1, (128,), np.float16), r"DtypeObservation\(env, numpy.float32\)"),
    ],
    ids=str,
)
def test_other_observations_are_refused_with_the_wrapper_that_makes_them_so(
    observations: gym.Space[Any], wrapped: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"env=mine has observations .*{wrapped}"):
        check_spaces("a", PPOConfig, "mine", observations, TWO)


def test_the_wrappers_that_are_named_make_observations_that_are_taken() -> None:
    made: Any = gym.wrappers.DtypeObservation(gym.wrappers.FlattenObservation(gym.make("FrozenLake-v1")), np.float32)
    check_spaces("a", PPOConfig, "mine", made.observation_space, made.action_space)
    observation, _ = made.reset(seed=0)
    assert (observation.dtype, observation.sum()) == (np.float32, 1)


@pytest.mark.parametrize(
    "actions",
    [
        spaces.Dict({"a": TWO}),
        spaces.Tuple((TWO, TWO)),
        spaces.Box(0, 5, (2,), np.int32),
        spaces.Box(0, 1, (2,), np.bool_),
        spaces.Box(-1, 1, (2,), np.float16),
        spaces.Text(3),
    ],
    ids=str,
)
def test_actions_that_no_algorithm_takes_are_refused(actions: gym.Space[Any]) -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"env=mine has actions .*There are algorithms for .*gymnasium.wrappers.TransformAction, with",
    ):
        check_spaces("a", PPOConfig, "mine", VECTOR, actions)


@pytest.mark.parametrize("config_class", [SACConfig, TQCConfig])
@pytest.mark.parametrize("bounds", [(-np.inf, np.inf), (0, np.inf), (-3e38, 3e38)])
def test_who_squashes_actions_is_refused_those_to_which_it_cannot_stretch_its_own(
    config_class: type[AlgorithmConfig], bounds: tuple[float, float]
) -> None:
    endless = spaces.Box(np.array([-1, bounds[0]], np.float32), np.array([1, bounds[1]], np.float32))
    with pytest.raises(
        ConfigurationError,
        match=r"algorithm=a squashes actions between two bounds.*ppo, or register .*TransformAction\(env",
    ):
        check_spaces("a", config_class, "mine", VECTOR, endless)
    check_spaces("a", PPOConfig, "mine", VECTOR, endless)


@pytest.mark.parametrize("shape", [(3, 84, 84), (4, 64, 64), (1, 10, 10), (128, 42, 42)])
def test_pictures_whose_channels_come_first_are_refused_with_the_wrapper_that_puts_them_last(
    shape: tuple[int, ...],
) -> None:
    picture = spaces.Box(0, 1, shape, np.float32)
    with pytest.raises(
        ConfigurationError,
        match=rf"{shape[0]} high.*TransformObservation.*\({shape[1]}, {shape[2]}, {shape[0]}\).*conv_filters",
    ):
        check_spaces("a", PPOConfig, "mine", picture, TWO)
    check_spaces("a", PPOConfig, "mine", picture, TWO, own_filters=True)
    check_spaces("a", PPOConfig, "mine", picture, TWO, own_module=True)
    check_spaces("a", PPOConfig, "mine", spaces.Box(0, 1, (*shape[1:], shape[0]), np.float32), TWO)
