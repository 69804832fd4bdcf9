"""An environment that rules out actions, importable by Ray's workers: `masked_envs:masked/Ruled-v0`."""

from typing import Any

import gymnasium as gym
import numpy as np


class Ruled(gym.Env[Any, Any]):
    """Some of the actions are allowed in each step; the reward is the place of the one that is taken.
    Takes no other.

    Args:
        choices: Number of actions.
        start: The number from which they are counted.
        shape: Of what is observed beside the mask.
        length: Steps of an episode. At its end nothing is allowed.
        nothing_at: The step, 0 the reset, from which on nothing is allowed though the episode goes on.
    """

    def __init__(
        self,
        choices: int = 5,
        start: int = 3,
        shape: tuple[int, ...] = (3,),
        length: int = 7,
        nothing_at: int | None = None,
    ) -> None:
        seen = gym.spaces.Box(-1, 1, tuple(shape), np.float32)
        self.observation_space = gym.spaces.Dict(
            {"observation": seen, "action_mask": gym.spaces.Box(0, 1, (choices,), np.int8)}
        )
        self.action_space = gym.spaces.Discrete(choices, start=start)
        self._length, self._nothing_at = length, nothing_at

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        place = int(action) - int(self.action_space.start)
        if not self._mask[place]:
            raise ValueError(f"{action} is ruled out by {self._mask}")
        self._steps += 1
        return self._observe(), float(place), self._steps >= self._length, False, {}

    def _observe(self) -> dict[str, np.ndarray]:
        choices = int(self.action_space.n)
        self._mask = self.np_random.integers(0, 2, choices, np.int8)
        self._mask[self.np_random.integers(choices)] = 1
        if self._steps >= self._length or (self._nothing_at is not None and self._steps >= self._nothing_at):
            self._mask[:] = 0
        seen = self.np_random.uniform(-1, 1, self.observation_space["observation"].shape)
        return {"observation": seen.astype(np.float32), "action_mask": self._mask}


class Together(gym.vector.VectorEnv[Any, Any, Any]):
    """Many such environments in one step of NumPy, whose observations are already the mask with the rest behind it.
    Their episodes end by chance.

    Args:
        num_envs: Number of environments.
        nan_at: Steps after which what is observed is NaN.

    Attributes:
        steps: Steps, of all at once.
        env_steps: Steps of all together, without resets.
        ruled_out: Actions that were ruled out in these.
    """

    def __init__(self, num_envs: int = 1, nan_at: int | None = None) -> None:
        self.num_envs, self._nan_at, choices, seen = num_envs, nan_at, 5, 3
        self._shape = num_envs, seen
        self.metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}
        self.single_observation_space = gym.spaces.Box(-1, 1, (choices + seen,), np.float32)
        self.single_action_space = gym.spaces.Discrete(choices)
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)
        self._random, self._rows = np.random.default_rng(0), np.arange(num_envs)
        self.steps = self.env_steps = self.ruled_out = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self._over = np.zeros(self.num_envs, bool)
        return self._observe(), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        going = ~self._over
        if not self._mask[self._rows, actions][going].all():
            raise ValueError(f"{actions} are ruled out by {self._mask}")
        self.steps += 1
        self.env_steps += int(going.sum())
        self.ruled_out += int((self._mask[going] == 0).sum())
        self._over = going & (self._random.random(self.num_envs) < 1 / 7)
        return self._observe(), actions * 1.0, self._over, np.zeros(self.num_envs, bool), {}

    def _observe(self) -> np.ndarray:
        self._mask = self._random.integers(0, 2, (self.num_envs, int(self.single_action_space.n)))
        self._mask[self._rows, self._random.integers(self._mask.shape[1], size=self.num_envs)] = 1
        self._mask[self._over] = 0
        seen = self._random.uniform(-1, 1, self._shape) * (np.nan if self.steps == self._nan_at else 1)
        return np.concatenate([self._mask, seen], axis=1, dtype=np.float32)


gym.register("masked/Ruled-v0", entry_point=Ruled, max_episode_steps=1000, disable_env_checker=True)
gym.register("masked/Together-v0", vector_entry_point=Together)
