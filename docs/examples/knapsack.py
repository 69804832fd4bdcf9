"""An environment of one's own that rules out actions, to copy: things are packed while they fit.

rl-scaling run modules=[docs/examples/knapsack.py] env=gym env.id=Knapsack-v0
"""

from typing import Any

import gymnasium
import numpy as np

THINGS = 8


class Knapsack(gymnasium.Env[dict[str, np.ndarray], np.int64]):
    """Things are packed until none fits; the reward is the value of each. They weigh twice what the knapsack bears.

    At random 2.29 is packed, by value for weight 3.01, at best 3.07: means of 500 episodes.
    """

    observation_space = gymnasium.spaces.Dict(
        {
            "action_mask": gymnasium.spaces.MultiBinary(THINGS),  # 1: it is not packed yet, and fits
            "observations": gymnasium.spaces.Box(0, THINGS / 2, (2 * THINGS + 1,), np.float32),
        }
    )
    action_space = gymnasium.spaces.Discrete(THINGS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        """Other things."""
        super().reset(seed=seed)
        self.weights, self.values = self.np_random.uniform(0.1, 1, (2, THINGS))
        self.left, self.room = np.ones(THINGS, bool), self.weights.sum() / 2
        return self._observed(), {}

    def step(self, action: np.int64) -> tuple[dict, float, bool, bool, dict]:
        """Pack one more."""
        if not self._fits()[action]:
            raise ValueError(f"thing {action} is packed, or too heavy")
        self.left[action] = False
        self.room -= self.weights[action]
        return self._observed(), float(self.values[action]), not self._fits().any(), False, {}

    def _fits(self) -> np.ndarray:
        return self.left & (self.weights <= self.room)

    def _observed(self) -> dict[str, np.ndarray]:
        seen = np.concatenate([self.weights * self.left, self.values * self.left, [self.room]])
        return {"action_mask": self._fits().astype(np.int8), "observations": seen.astype(np.float32)}


gymnasium.register("Knapsack-v0", entry_point=Knapsack, max_episode_steps=THINGS)
