"""Environments that give what none may give, or what few do: `odd_envs:odd/Odd-v0`."""

import sys
import threading
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

SPACES = {
    "floats": gym.spaces.Box(-1, 1, (2,), np.float32),
    "picture": gym.spaces.Box(0, 255, (2,), np.uint8),
    "choice": gym.spaces.Discrete(3),
    "parts": gym.spaces.Dict({"here": gym.spaces.Box(-1, 1, (2,), np.float32), "there": gym.spaces.Discrete(3)}),
}
OBSERVED = {
    "another shape": np.zeros(1, np.float32),
    "no array": None,
    "uneven": [[0.0], [0.0, 1.0]],
    "doubles": np.zeros(2),
    "a list": [0.0, 0.0],
    "outside": np.full(2, 3, np.float32),
    "a nan": np.full(2, np.nan, np.float32),
    "of 3": 3,
    "one part": {"here": np.zeros(2, np.float32)},
    "a part of 3": {"here": np.zeros(2, np.float32), "there": 3},
}
REWARDS = {
    "array": np.array([10.0]),
    "none": None,
    "text": "12",
    "complex": 1j,
    "nan": float("nan"),
    "byte": np.uint8(10),
    "scalar": np.array(10.0),
}
FLAGS = {"text": "no", "none": None, "array": np.array([True]), "two": 2, "numbers": 1, "numpy's": np.bool_(True)}
INFOS = {
    "of changing length": lambda n: {"path": np.zeros(n)},
    "of changing kind": lambda n: {"state": "text" if n % 3 else n},
    "a mapping or a number": lambda n: {"state": {"x": n} if n % 2 else n},
    "of numbers": lambda n: {n: n},
    "a lock": lambda n: {"lock": threading.Lock()},
    "none": lambda n: None,
}
"""By a number that is drawn anew at each step."""


class Odd(gym.Env[Any, Any]):
    """Five steps with reward 1, none of which says anything of the actions; from a step on one thing is odd.

    Args:
        observe: Key of OBSERVED.
        reward: Key of REWARDS.
        terminated: Key of FLAGS.
        truncated: Key of FLAGS.
        info: Key of INFOS.
        does: `exit`, `raise`; `four`: gives four values, `alone`: resets without an info;
            `free`: pays no attention to its seed.
        space: Key of SPACES.
        at: The step of an environment, over all its episodes, from which on it is odd.
        holds: MiB that it takes.
    """

    def __init__(self, space: str = "floats", at: int = 0, does: str | None = None, holds: int = 0, **odd: str) -> None:
        self._held = np.ones(holds * 2**20, np.uint8)
        self.observation_space, self.action_space = SPACES[space], gym.spaces.Discrete(2)
        self._at, self._does, self._odd = at, does, odd
        self._total = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=None if self._does == "free" else seed)
        self._steps = 0
        return self._observed() if self._is("alone") else (self._observed(), self._info())

    def step(self, action: Any) -> Any:
        self._steps += 1
        self._total += 1
        if self._is("exit"):
            sys.exit("licence lost")
        if self._is("raise"):
            raise RuntimeError("the simulator crashed")
        terminated = self._chosen(FLAGS, "terminated", self._steps >= 5)
        rest = terminated, self._chosen(FLAGS, "truncated", False), self._info()
        given = self._observed(), self._chosen(REWARDS, "reward", 1.0), *rest
        return given[:4] if self._is("four") else given

    def _is(self, does: str) -> bool:
        return self._does == does and self._total >= self._at

    def _chosen(self, values: dict[str, Any], what: str, usual: Any) -> Any:
        return values[self._odd[what]] if what in self._odd and self._total >= self._at else usual

    def _observed(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self._chosen(OBSERVED, "observe", self.observation_space.sample())

    def _info(self) -> Any:
        return self._chosen(INFOS, "info", lambda n: {})(int(self.np_random.integers(1, 9)))


class Seedless(Odd):
    """Cannot be given a seed."""

    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class Lone(Odd):
    """Cannot be made while there is another one."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        if Lone.made:
            raise RuntimeError("the licence is for one simulator")
        Lone.made += 1

    def close(self) -> None:
        Lone.made = 0


class OddVector(gym.vector.VectorEnv):
    """Has rewards of another shape than it should."""

    metadata: ClassVar = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs: int, max_episode_steps: int | None = None) -> None:
        self.num_envs, self.single_observation_space, self.single_action_space = (
            num_envs,
            SPACES["floats"],
            gym.spaces.Discrete(2),
        )
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)

    def reset(self, **how: Any) -> Any:
        return np.zeros((self.num_envs, 2), np.float32), {}

    def step(self, actions: Any) -> Any:
        flags = np.zeros(self.num_envs, bool)
        return self.reset()[0], np.ones((self.num_envs, 1)), flags, flags, {}


for name, kind in (("Odd", Odd), ("Seedless", Seedless), ("Lone", Lone)):
    gym.register(f"odd/{name}-v0", entry_point=kind, vector_entry_point=OddVector, max_episode_steps=50)
