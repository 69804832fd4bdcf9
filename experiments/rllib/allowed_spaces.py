"""Which observations and actions an algorithm takes, said before a trial starts: RLlib would raise within a network,
or learn nonsense.
"""

from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig

from experiments.config.errors import ConfigurationError
from experiments.envs.flattened import FLOATS
from experiments.envs.plain_actions import plain_space

ARRAYS = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)
"""Spaces whose elements are arrays."""
CHOICES = (gym.spaces.Discrete, gym.spaces.MultiDiscrete)


def check_spaces(
    algorithm: str,
    config_class: type[AlgorithmConfig],
    env: str,
    observations: gym.Space[Any],
    actions: gym.Space[Any],
    own_module: bool = False,
    own_filters: bool = False,
) -> None:
    """Make sure that an algorithm takes the observations and actions of an environment.

    Args:
        algorithm: Name of the algorithm.
        config_class: RLlib's class of it.
        env: The environment's name.
        observations: Space of the observations, as the networks get them.
        actions: Space of the actions, as the environment takes them.
        own_module: Whether the networks are a person's own: they take any array.
        own_filters: Whether a person says what the convolutions are.

    Raises:
        ConfigurationError: It does not; names what it takes, and what else would do.
    """
    if not (own_module and isinstance(observations, ARRAYS)):
        _check_observations(env, observations, own_filters)
    _check_actions(algorithm, config_class, env, actions)


def _check_observations(env: str, space: gym.Space[Any], own_filters: bool) -> None:
    """RLlib's networks are those of vectors, and those of pictures.

    They compute with floats and convert nothing else.
    """
    fits = isinstance(space, gym.spaces.Box) and len(space.shape) in (1, 3)
    if fits and space.dtype in FLOATS:
        if not own_filters:
            _check_sides(env, space.shape or ())
        return
    inner = "env" if fits else "wrappers.FlattenObservation(env)"
    raise ConfigurationError(
        f"env={env} has observations {space}. RLlib's networks take floats in a Box of 1 dimension, or of 3: "
        f"height, width, channels. Register it anew, wrapped: wrappers.DtypeObservation({inner}, numpy.float32), "
        "of gymnasium.wrappers (docs/own_files.md)."
    )


def _check_sides(env: str, shape: tuple[int, ...]) -> None:
    """RLlib's default convolutions are for square pictures, also where the square is of width and channels,
    which it then confuses.
    """
    if len(shape) == 3 and shape[0] != shape[1] == shape[2]:
        raise ConfigurationError(
            f"env={env} has pictures of shape {shape}. RLlib's networks expect height, width, channels: they would "
            f"be {shape[0]} high. Register it anew, wrapped: gymnasium.wrappers.TransformObservation(env, lambda x: "
            f"numpy.moveaxis(x, 0, 2), gymnasium.spaces.Box(low, high, {(*shape[1:], shape[0])}, numpy.float32)) "
            "(docs/own_files.md). If the shape is right, set algorithm.rl_module.conv_filters."
        )


def _check_actions(algorithm: str, config_class: type[AlgorithmConfig], env: str, space: gym.Space[Any]) -> None:
    """One choice, several choices, or numbers."""
    discrete, continuous = isinstance(space, gym.spaces.Discrete), isinstance(space, gym.spaces.Box)
    if (continuous and space.dtype not in FLOATS) or not (continuous or isinstance(plain_space(space), CHOICES)):
        raise ConfigurationError(
            f"env={env} has actions {space}. There are algorithms for Discrete, MultiDiscrete and MultiBinary ones, "
            "and for a Box of float32 or float64. Register it anew, wrapped in gymnasium.wrappers.TransformAction, "
            f"{_other_actions(space)} (docs/own_files.md)."
        )
    if why := wrong_actions(algorithm, config_class, env, space):
        if isinstance(space, gym.spaces.Box) and not has_range(space):
            raise ConfigurationError(
                f"{why}. Try algorithm=ppo, or register it anew with the bounds that its actions should have: "
                "gymnasium.wrappers.TransformAction(env, lambda a: a, gymnasium.spaces.Box(low, high)) "
                "(docs/own_files.md)."
            )
        others = (
            "ppo"
            if not (discrete or continuous)
            else "ppo or algorithm=dqn, or env=pendulum"
            if discrete
            else "ppo or algorithm=sac, or env=cartpole"
        )
        raise ConfigurationError(f"{why}. Try algorithm={others}.")


def wrong_actions(algorithm: str, config_class: type[AlgorithmConfig], env: str, space: gym.Space[Any]) -> str:
    """Why an algorithm does not take an environment's actions: DQN is for discrete ones,
    SAC for continuous ones between bounds.

    Args:
        algorithm: Name of the algorithm.
        config_class: RLlib's class of it.
        env: The environment's name.
        space: Space of its actions, as the environment takes them.

    Returns:
        A clause; "" if it takes them.
    """
    if issubclass(config_class, SACConfig):  # which RLlib derives from DQN's
        needed, fits = "continuous", isinstance(space, gym.spaces.Box)
        if isinstance(space, gym.spaces.Box) and not has_range(space):
            return f"algorithm={algorithm} squashes actions between two bounds, but env={env} has {space}"
    elif issubclass(config_class, DQNConfig):
        needed, fits = "discrete", isinstance(space, gym.spaces.Discrete)
    else:
        return ""
    return "" if fits else f"algorithm={algorithm} needs {needed} actions, but env={env} has {space}"


def has_range(space: gym.spaces.Box) -> bool:
    """True if [-1, 1] can be stretched to a Box: its bounds are finite, and so is the number between them,
    in its type. Integers are.
    """
    with np.errstate(over="ignore"):
        return space.dtype not in FLOATS or bool(np.isfinite(space.high - space.low).all())


def action_scaling(space: gym.Space[Any]) -> dict[str, bool]:
    """The settings of RLlib for the scale of actions, beside its defaults.

    By default it stretches them to the Box if all bounds are finite, and else leaves them,
    on whichever side of a bound.

    Args:
        space: Space of the actions.

    Returns:
        Arguments of `AlgorithmConfig.environment`: actions are cut off at the bounds of a Box that has some, and to
        which they cannot be stretched, as `gymnasium.wrappers.ClipAction` does.
    """
    is_clipped = (
        isinstance(space, gym.spaces.Box) and not has_range(space) and bool(np.isfinite([space.low, space.high]).any())
    )
    return {"normalize_actions": False, "clip_actions": True} if is_clipped else {}


def _other_actions(space: gym.Space[Any]) -> str:
    if not isinstance(space, gym.spaces.Box):
        return "with all its parts in one MultiDiscrete or one Box"
    floats = np.issubdtype(space.dtype, np.floating)
    return (
        "with a Box of float32"
        if floats
        else "with choices in a MultiDiscrete, or with a Box of float32 whose numbers it rounds"
    )
