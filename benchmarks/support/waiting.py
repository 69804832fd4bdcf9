"""CartPole whose steps wait, as with a simulator elsewhere: env runners pay on any machine."""

import time
from typing import Any, SupportsFloat

import gymnasium as gym

STEP_S = 1e-3


class Waiting(gym.Wrapper[Any, Any, Any, Any]):
    """An environment, each of whose steps sleeps."""

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """As the environment's, later."""
        time.sleep(STEP_S)
        return self.env.step(action)


def cartpole(**kwargs: Any) -> gym.Env[Any, Any]:
    """CartPole that waits."""
    return Waiting(gym.make("CartPole-v1", **kwargs).unwrapped)


gym.register("WaitingCartPole-v0", entry_point="benchmarks.support.waiting:cartpole", max_episode_steps=500)
