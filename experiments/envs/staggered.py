"""An environment whose first episode is cut short: `experiments.envs.staggered:scaling/Staggered-v0`.

Environments that start together and whose episodes all last until the time limit stay at the same time of the episode
for ever, and each training batch is of one part of it (Bharthulwar, Tao and Su 2025, arXiv 2511.21011). Where the first
episode of each ends at a time of its own, their later ones are spread evenly. No env step is taken for that which is
not learned from: the cut is a truncation, from which values are bootstrapped, as at the time limit itself.
"""

import math
from collections.abc import Mapping
from typing import Any

import gymnasium as gym

ID = "scaling/Staggered-v0"
CUT = "suite_cut_short"
"""Key of the infos of a step that ended an episode before its time limit: its return is not that of a whole episode."""
FIRST_SHARE = "first_share"
"""Attribute of an environment, by which a runner says when its first episode ends."""


def first_shares(num_envs: int, runner: int, num_runners: int) -> list[float]:
    """The shares of the time limit at which the first episodes of a runner's environments end.

    Those of the whole trial are 1/n, 2/n, ..., 1 for n environments: spread evenly, and the same for every seed. They
    go round the runners, so that each of these has early ones and late ones.

    Args:
        num_envs: Environments of the runner.
        runner: Number of the env runner, from 0.
        num_runners: Number of env runners.
    """
    return [(env * num_runners + runner + 1) / (num_envs * num_runners) for env in range(num_envs)]


class Staggered(gym.Wrapper[Any, Any, Any, Any]):
    """Ends the first episode at a share of the time limit, later ones where the environment ends them.

    Attributes:
        first_share: Share of the time limit at which the first episode ends, until it has; None: none is cut.
    """

    def __init__(self, env: gym.Env[Any, Any], time_limit: int) -> None:
        """Wrap an environment.

        Args:
            env: The environment.
            time_limit: Env steps after which it truncates an episode.
        """
        super().__init__(env)
        self.first_share: float | None = None
        self._time_limit, self._steps = time_limit, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """As the environment's."""
        self._steps = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """As the environment's, truncated where the first episode is cut."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        if self.first_share is not None:
            if not (terminated or truncated) and self._steps >= math.ceil(self.first_share * self._time_limit):
                truncated, info = True, {**info, CUT: True}
            if terminated or truncated:
                self.first_share = None
        return observation, reward, terminated, truncated, info


def staggered(gym_id: str, env_config: Mapping[str, Any], time_limit: int) -> gym.Env[Any, Any]:
    """Make an environment whose first episode can be cut short.

    Args:
        gym_id: Gymnasium id of the environment itself.
        env_config: Keyword arguments of `gymnasium.make`.
        time_limit: Env steps after which it truncates an episode.
    """
    return Staggered(gym.make(gym_id, **env_config), time_limit)


gym.register(ID, entry_point=f"{__name__}:staggered", order_enforce=False, disable_env_checker=True)
