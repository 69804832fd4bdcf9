"""An environment whose observations are one vector of floats, as networks take them: `experiments.envs.flattened:scaling/Flattened-v0`."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import DtypeObservation, FlattenObservation

ID = "scaling/Flattened-v0"
_PARTS = (gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)


def is_needed(space: gym.Space[Any]) -> bool:
    """Whether observations are no array of floats, and flattening makes them one: choices, several parts, a vector of integers.

    Pictures of integers are left: what their values mean is for a person to say.
    """
    if isinstance(space, gym.spaces.Box):
        return len(space.shape) <= 1 and not np.issubdtype(space.dtype, np.floating)
    if isinstance(space, gym.spaces.Dict):
        return all(map(_is_part, space.values()))
    return isinstance(space, _PARTS) or (isinstance(space, gym.spaces.Tuple) and all(map(_is_part, space)))


def _is_part(space: gym.Space[Any]) -> bool:
    return is_needed(space) or (isinstance(space, gym.spaces.Box) and len(space.shape) <= 1)


def flattened(gym_id: str, env_config: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """Make an environment whose observations Gymnasium flattens: a choice among n becomes n numbers, one of them 1.

    Args:
        gym_id: Of the environment itself.
        env_config: Keyword arguments of `gymnasium.make`.
    """
    return DtypeObservation(FlattenObservation(gym.make(gym_id, **env_config)), np.float32)


gym.register(ID, entry_point=f"{__name__}:flattened", order_enforce=False, disable_env_checker=True)
