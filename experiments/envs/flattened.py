"""An environment whose observations are one vector of floats,
as networks take them: `experiments.envs.flattened:scaling/Flattened-v0`.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import DtypeObservation, FlattenObservation

ID = "scaling/Flattened-v0"
FLOATS = (np.float32, np.float64)
"""Types that RLlib makes single precision. Half precision it leaves as it is, which no layer takes;
longer ones torch does not have."""
_PARTS = (gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)


def is_needed(space: gym.Space[Any]) -> bool:
    """True if observations are no array of floats as torch computes with, and flattening makes them one:
    choices, several parts, a number, a vector of another type.

    Pictures of integers are left: what their values mean is for a person to say.
    """
    if isinstance(space, gym.spaces.Box):
        return space.shape == () or (len(space.shape) == 1 and space.dtype not in FLOATS) or has_other_floats(space)
    if isinstance(space, gym.spaces.Dict):
        return all(map(_is_part, space.values()))
    return isinstance(space, _PARTS) or (isinstance(space, gym.spaces.Tuple) and all(map(_is_part, space)))


def has_other_floats(space: gym.Space[Any]) -> bool:
    """True if observations are floats of another type than networks compute with, be they their own."""
    return isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating) and space.dtype not in FLOATS


def _is_part(space: gym.Space[Any]) -> bool:
    return is_needed(space) or (isinstance(space, gym.spaces.Box) and len(space.shape) <= 1)


def flattened(gym_id: str, env_config: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """Make an environment whose observations Gymnasium flattens: a choice among n becomes n numbers, one of them 1.
    Of arrays of numbers only the type changes.

    Args:
        gym_id: Gymnasium id of the environment itself.
        env_config: Keyword arguments of `gymnasium.make`.
    """
    env: gym.Env[Any, Any] = gym.make(gym_id, **env_config)
    is_flat = isinstance(env.observation_space, gym.spaces.Box) and len(env.observation_space.shape) > 0
    return DtypeObservation(env if is_flat else FlattenObservation(env), np.float32)


gym.register(ID, entry_point=f"{__name__}:flattened", order_enforce=False, disable_env_checker=True)
