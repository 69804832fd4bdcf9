"""EnvPool (Weng et al., 2206.10558): a vector environment in C++ for the ids that it shares with Gymnasium.

Needs the extra `envpool`.

Same rules, observation space and episode length as Gymnasium's environment of that id, but numbers of its own: another
random generator, and 32 bits in places where Gymnasium has 64. An episode is not Gymnasium's to the bit.
"""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

ID = "scaling/EnvPool-v0"
"""For `gymnasium.make_vec`, with the arguments of `EnvPoolVector`."""


def why_not(gym_id: str) -> str | None:
    """Why EnvPool cannot stand in for one of Gymnasium's environments; None if it can."""
    try:
        import envpool
    except ImportError:
        return "EnvPool is not installed. Install it: pip install -e '.[envpool]'"
    if gym_id not in envpool.list_all_envs():
        return f"EnvPool has no {gym_id}. Try env.backend=gymnasium"
    return None


class EnvPoolVector(VectorEnv[Any, Any, Any]):
    """EnvPool's environments as Gymnasium's vector API has them.

    An environment that ended is reset by the next step, as RLlib expects it: EnvPool does the same.
    """

    def __init__(self, num_envs: int, gym_id: str, num_threads: int = 1) -> None:
        """Make them.

        Args:
            num_envs: Number of environments.
            gym_id: Gymnasium's id.
            num_threads: Threads of C++ that step the environments.
        """
        like: Any = gym.make(gym_id)
        self.metadata = {**like.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = like.observation_space, like.action_space
        self.observation_space, self.action_space = (
            batch_space(like.observation_space, num_envs),
            batch_space(like.action_space, num_envs),
        )
        self._limit = (
            {}
            if like.spec is None or like.spec.max_episode_steps is None
            else {"max_episode_steps": like.spec.max_episode_steps}
        )
        like.close()
        self._gym_id, self._num_threads = gym_id, num_threads
        self._pool: Any = self._new_pool(range(num_envs))

    def _new_pool(self, seeds: Sequence[int]) -> Any:
        import envpool

        return envpool.make(
            self._gym_id,
            env_type="gymnasium",
            num_envs=self.num_envs,
            num_threads=self._num_threads,
            env_seed=[seed % 2**31 for seed in seeds],  # as many bits as it takes
            **self._limit,
        )

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all of them.

        Args:
            seed: One for each environment; of a single one the others follow, as in Gymnasium. Takes a new pool:
                EnvPool's cannot be seeded again.
            options: None are known.

        Returns:
            Observations [N, ...], and no infos.
        """
        if seed is not None:
            seeds = [seed + index for index in range(self.num_envs)] if isinstance(seed, int) else seed
            if len(seeds) != self.num_envs or None in seeds:
                raise ValueError(f"{self.num_envs} environments need a seed each, not {seed}.")
            self.close_extras()
            self._pool = self._new_pool([one for one in seeds if one is not None])
        return self._as_observations(self._pool.reset()[0]), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """A step of all of them.

        Args:
            actions: [N, ...].

        Returns:
            Observations [N, ...], rewards, whether terminated and whether truncated [N], and no infos.
        """
        observations, rewards, terminated, truncated, _ = self._pool.step(
            np.asarray(actions).astype(self._pool.action_space.dtype)
        )
        return self._as_observations(observations), rewards.astype(np.float64), terminated, truncated, {}

    def _as_observations(self, observations: Any) -> Any:
        return observations.astype(self.single_observation_space.dtype, copy=False)

    def close_extras(self, **kwargs: Any) -> None:
        """End its threads."""
        self._pool.close()


gym.register(ID, vector_entry_point=f"{__name__}:EnvPoolVector")
