"""An environment of one's own, to copy: a room is kept warm by turning its heater on and off.

rl-scaling run 'modules=[docs/examples/my_env.py]' env=gym env.id=Room-v0
"""

from typing import Any

import gymnasium
import numpy as np


class Room(gymnasium.Env[np.ndarray, np.int64]):
    """Temperature in degrees; a reward of 1 for each minute between 20 and 22."""

    observation_space = gymnasium.spaces.Box(-50, 50, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Another day."""
        super().reset(seed=seed)
        self.inside, self.outside, self.heater = self.np_random.uniform([15, -5, 0], [25, 10, 1])
        return self._observed(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict]:
        """A minute later."""
        self.heater += 0.3 * (float(action) - self.heater)  # it takes minutes to warm up and to cool down
        self.inside += 0.02 * (self.outside - self.inside) + 1.5 * self.heater + self.np_random.normal(0, 0.1)
        return self._observed(), float(20 <= self.inside <= 22), False, False, {}

    def _observed(self) -> np.ndarray:
        about_one = [(self.inside - 21) / 5, self.outside / 10, self.heater]  # as networks like it
        return np.array(about_one, np.float32)


gymnasium.register("Room-v0", entry_point=Room, max_episode_steps=200, reward_threshold=180.0)
