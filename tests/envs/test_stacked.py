"""Frames side by side: vectors and pictures, the oldest first."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from experiments.envs import stacked

MADE = f"{stacked.__name__}:{stacked.ID}"


def made(gym_id: str, frame_stack: int, **env_config: Any) -> gym.Env[Any, Any]:
    return gym.make(MADE, gym_id=gym_id, frame_stack=frame_stack, env_config=env_config)


def test_vectors_are_joined_the_oldest_first() -> None:
    env = made("tiny_envs:tiny/Count-v0", 3, length=9)
    first, _ = env.reset(seed=0)
    draw = first[0]
    np.testing.assert_array_equal(first, [draw, 0, draw, 0, draw, 0])
    env.step(0)
    np.testing.assert_array_equal(env.step(0)[0], [draw, 0, draw, 1, draw, 2])
    np.testing.assert_array_equal(env.step(0)[0], [draw, 1, draw, 2, draw, 3])
    assert env.observation_space.shape == (6,)
    assert env.observation_space.contains(first)
    np.testing.assert_array_equal(env.reset(seed=0)[0], first)


def test_pictures_get_more_channels() -> None:
    env = made("tiny_envs:tiny/Picture-v0", 2)
    env.reset(seed=0)
    observation = env.step(0)[0]
    assert (observation.shape, observation.dtype) == ((12, 12, 2), np.uint8)
    assert observation[5, 7].tolist() == [0, 1]
    assert env.observation_space.contains(observation)


def test_every_frame_keeps_its_channels_together() -> None:
    frames = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    joined = stacked.side_by_side(frames)
    assert joined.shape == (3, 4, 10)
    np.testing.assert_array_equal(joined[1, 2], [*frames[0, 1, 2], *frames[1, 1, 2]])
    np.testing.assert_array_equal(stacked.side_by_side(frames[..., 0])[1, 2], frames[:, 1, 2, 0])


def test_the_environment_keeps_its_limit() -> None:
    env = made("Pendulum-v1", 2)
    env.reset(seed=0)
    steps = 1
    while not env.step(np.zeros(1, np.float32))[3]:
        steps += 1
    assert steps == 200


@pytest.mark.parametrize("space", [gym.spaces.Discrete(3), gym.spaces.Box(0, 1, ()), gym.spaces.Dict()])
def test_other_spaces_are_not_stacked(space: gym.Space[Any]) -> None:
    assert stacked.why_not(space) == f"observations {space} are no vectors or pictures"
