"""Atari Pong as grey frames, preprocessed by RLlib's own wrappers. Needs the extra `atari`."""

from typing import Any

import gymnasium as gym

ID = "scaling/Pong-v0"


def make(frame_size: int = 64, frame_stack: int = 4, **kwargs: Any) -> gym.Env[Any, Any]:
    """Pong without its own frame skip, wrapped as RLlib wraps Atari (`rllib/env/wrappers/atari_wrappers.py`).

    Args:
        frame_size: Width and height of an observation, pixels.
        frame_stack: Frames per observation.
        **kwargs: Passed to `gymnasium.make`.

    Returns:
        An environment with observations (frame_size, frame_size, frame_stack), float32 in [-1, 1].
    """
    import ale_py
    import cv2  # noqa: F401  # RLlib's wrapper imports it at the first frame: too late to refuse the study
    from ray.rllib.env.wrappers.atari_wrappers import wrap_atari_for_new_api_stack

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # its banner
    gym.register_envs(ale_py)
    env = gym.make("ale_py:ALE/Pong-v5", frameskip=1, repeat_action_probability=0.25, **kwargs)
    return wrap_atari_for_new_api_stack(env, dim=frame_size, framestack=frame_stack)  # type: ignore[no-any-return]


# frames: 30 minutes of play, as Atari's standard
gym.register(ID, entry_point="experiments.envs.pong:make", max_episode_steps=108_000)
