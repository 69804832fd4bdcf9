"""Which observations and actions an algorithm takes, said before a trial starts: RLlib would raise within a network, or learn nonsense."""

from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig

from experiments.config.errors import ConfigurationError

ARRAYS = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)
"""Spaces whose elements are arrays."""


def check_spaces(
    algorithm: str,
    config_class: type[AlgorithmConfig],
    env: str,
    observations: gym.Space[Any],
    actions: gym.Space[Any],
    own_module: bool = False,
) -> None:
    """Make sure that an algorithm takes the observations and actions of an environment.

    Args:
        algorithm: Its name.
        config_class: RLlib's class of it.
        env: The environment's name.
        observations: Its space.
        actions: Its space.
        own_module: Whether the networks are a person's own: they take any array.

    Raises:
        ConfigurationError: It does not; names what it takes, and what else would do.
    """
    if not (own_module and isinstance(observations, ARRAYS)):
        _check_observations(env, observations)
    _check_actions(algorithm, config_class, env, actions)


def _check_observations(env: str, space: gym.Space[Any]) -> None:
    """RLlib's networks are those of vectors, and those of pictures. They compute with floats and convert nothing else."""
    fits = isinstance(space, gym.spaces.Box) and len(space.shape) in (1, 3)
    if fits and np.issubdtype(space.dtype, np.floating):
        return
    inner = "env" if fits else "wrappers.FlattenObservation(env)"
    raise ConfigurationError(
        f"env={env} has observations {space}. RLlib's networks take floats in a Box of 1 dimension, or of 3: height, width, channels. "
        f"Register it anew, wrapped: wrappers.DtypeObservation({inner}, numpy.float32), of gymnasium.wrappers (docs/own_files.md)."
    )


def _check_actions(algorithm: str, config_class: type[AlgorithmConfig], env: str, space: gym.Space[Any]) -> None:
    """One choice, several choices, or numbers."""
    discrete = isinstance(space, gym.spaces.Discrete) and space.start == 0
    continuous = isinstance(space, gym.spaces.Box) and len(space.shape) == 1 and np.issubdtype(space.dtype, np.floating)
    if not (discrete or continuous or isinstance(space, gym.spaces.MultiDiscrete)):
        raise ConfigurationError(
            f"env={env} has actions {space}. There are algorithms for Discrete ones that start at 0, for MultiDiscrete ones, and for "
            "floats in a Box of 1 dimension. Register it anew, wrapped in gymnasium.wrappers.TransformAction (docs/own_files.md)."
        )
    if why := wrong_actions(algorithm, config_class, env, space):
        others = (
            "ppo"
            if not (discrete or continuous)
            else "ppo or algorithm=dqn, or env=pendulum"
            if discrete
            else "ppo or algorithm=sac, or env=cartpole"
        )
        raise ConfigurationError(f"{why}. Try algorithm={others}.")


def wrong_actions(algorithm: str, config_class: type[AlgorithmConfig], env: str, space: gym.Space[Any]) -> str:
    """Why an algorithm does not take an environment's actions: DQN is for discrete ones, SAC for continuous ones.

    Args:
        algorithm: Its name.
        config_class: RLlib's class of it.
        env: The environment's name.
        space: Of its actions.

    Returns:
        A clause; "" if it takes them.
    """
    if issubclass(config_class, SACConfig):  # which RLlib derives from DQN's
        needed, fits = "continuous", isinstance(space, gym.spaces.Box)
    elif issubclass(config_class, DQNConfig):
        needed, fits = "discrete", isinstance(space, gym.spaces.Discrete)
    else:
        return ""
    return "" if fits else f"algorithm={algorithm} needs {needed} actions, but env={env} has {space}"
