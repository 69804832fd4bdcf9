"""Small environments with known behaviour, importable by Ray's workers: `tiny_envs:tiny/Count-v0`."""

from typing import Any

import gymnasium as gym
import numpy as np


class Count(gym.Env[Any, Any]):
    """Episodes of `length` steps with reward 1 each. Shows the first uniform draw of its generator as the observation."""

    def __init__(self, length: int = 5, nan_after: int | None = None, crash_after: int | None = None) -> None:
        self.observation_space = gym.spaces.Box(-1e9, 1e9, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self._length, self._nan_after, self._crash_after = length, nan_after, crash_after
        self._total = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        self._draw = float(self.np_random.uniform())
        return np.array([self._draw, 0.0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        self._total += 1
        if self._crash_after is not None and self._total > self._crash_after:
            raise RuntimeError("the simulator crashed")
        reward = float("nan") if self._nan_after is not None and self._total > self._nan_after else 1.0
        return np.array([self._draw, self._steps], np.float32), reward, self._steps >= self._length, False, {}


class Reach(gym.Env[Any, Any]):
    """One step; the reward is the action itself: the best is the upper end of the Box."""

    def __init__(self, high: float = 3.0) -> None:
        self.observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = gym.spaces.Box(-high, high, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(1, np.float32), float(action[0]), True, False, {}


gym.register("tiny/Count-v0", entry_point=Count, disable_env_checker=True)
gym.register("tiny/Reach-v0", entry_point=Reach, disable_env_checker=True)
