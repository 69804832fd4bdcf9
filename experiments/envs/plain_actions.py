"""An environment whose actions are numbered as networks
choose them: `experiments.envs.plain_actions:scaling/PlainActions-v0`.

RLlib's networks count choices from 0, whatever a space's `start` and type say, and put several choices
or numbers side by side.
"""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.wrappers import TransformAction

from experiments.envs.flattened import FLOATS

ID = "scaling/PlainActions-v0"


def plain_space(space: gym.Space[Any]) -> gym.Space[Any]:
    """The space that networks choose from: choices from 0 on, in one dimension; a Box with one dimension.

    Args:
        space: Space of an environment's actions.

    Returns:
        The space itself, if nothing differs, or if networks choose no such actions: nested ones,
        text, integers in a Box.
    """
    plain: gym.Space[Any] = space
    if isinstance(space, gym.spaces.Discrete):
        plain = gym.spaces.Discrete(int(space.n))
    elif isinstance(space, gym.spaces.MultiDiscrete):
        plain = gym.spaces.MultiDiscrete(space.nvec.reshape(-1).astype(np.int64))
    elif isinstance(space, gym.spaces.MultiBinary):
        plain = gym.spaces.MultiDiscrete(np.full(int(np.prod(space.shape)), 2))
    elif isinstance(space, gym.spaces.Box) and space.dtype in FLOATS:
        plain = gym.spaces.Box(space.low.reshape(-1), space.high.reshape(-1), dtype=space.low.dtype.type)
    return space if plain == space else plain


def start_of(space: gym.Space[Any]) -> npt.NDArray[np.int64]:
    """The lowest of the choices of a space, in its shape; 0 where nothing is counted."""
    return np.asarray(getattr(space, "start", 0), np.int64)


def to_native(space: gym.Space[Any]) -> Callable[[npt.ArrayLike], Any]:
    """The function from actions of `plain_space(space)` to those of the space itself.

    Args:
        space: Space of the environment's actions.

    Returns:
        A function of one action, or of several, (..., parts), to (..., *shape of the space), in its type.
    """
    plain = plain_space(space)
    if plain is space:
        return lambda actions: actions
    dimensions, shape, start = len(plain.shape or ()), space.shape or (), start_of(space)

    def shaped(actions: npt.ArrayLike) -> npt.NDArray[Any]:
        given = np.asarray(actions)
        return given.reshape(given.shape[: given.ndim - dimensions] + shape)

    if isinstance(space, gym.spaces.Box):
        return shaped
    # of a choice a number, and no array without dimensions
    return lambda actions: (shaped(actions) + start).astype(space.dtype)[()]


def plain_actions(gym_id: str, env_config: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """Make an environment that takes the actions of `plain_space`.

    Args:
        gym_id: Gymnasium id of the environment itself.
        env_config: Keyword arguments of `gymnasium.make`.
    """
    env: gym.Env[Any, Any] = gym.make(gym_id, **env_config)
    space = env.action_space
    return TransformAction(env, to_native(space), plain_space(space))


gym.register(ID, entry_point=f"{__name__}:plain_actions", order_enforce=False, disable_env_checker=True)
