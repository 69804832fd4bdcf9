"""An environment whose observations are its last few ones side
by side: `experiments.envs.stacked:scaling/Stacked-v0`.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import FrameStackObservation, TransformObservation

ID = "scaling/Stacked-v0"


def why_not(space: gym.Space[Any]) -> str | None:
    """The reason why observations of a space cannot be stacked; None if they can."""
    if isinstance(space, gym.spaces.Box) and len(space.shape) in (1, 2, 3):
        return None
    return f"observations {space} are no vectors or pictures"


def side_by_side(frames: np.ndarray) -> np.ndarray:
    """Stacked frames as RLlib's networks take them, the oldest first.

    Args:
        frames: [frames, size] of vectors, [frames, height, width] or [frames, height, width, channels] of pictures.

    Returns:
        [frames * size], or [height, width, frames * channels].
    """
    if frames.ndim == 2:
        return frames.reshape(-1)
    return np.ascontiguousarray(np.moveaxis(frames, 0, 2)).reshape(*frames.shape[1:3], -1)


def stacked(gym_id: str, frame_stack: int, env_config: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """Make an environment with its frames stacked by Gymnasium: after a reset, all frames are the first observation.

    Args:
        gym_id: Gymnasium id of the environment itself.
        frame_stack: Frames of an observation.
        env_config: Keyword arguments of `gymnasium.make`.
    """
    frames: Any = FrameStackObservation(gym.make(gym_id, **env_config), frame_stack)
    low, high = side_by_side(frames.observation_space.low), side_by_side(frames.observation_space.high)
    return TransformObservation(
        frames, side_by_side, gym.spaces.Box(low, high, low.shape, frames.observation_space.dtype.type)
    )


gym.register(ID, entry_point=f"{__name__}:stacked", order_enforce=False, disable_env_checker=True)
