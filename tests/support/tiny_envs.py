"""Small environments with known behaviour, importable by Ray's workers: `tiny_envs:tiny/Count-v0`."""

import os
import re
import signal
import time
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import psutil

from tests.support.full_disk import fill, make_room


class Count(gym.Env[Any, Any]):
    """Episodes of `length` steps with reward 1 each.

    Shows the first uniform draw of its generator as the observation.
    """

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


class Taught(Count):
    """The same, with a reward that falls as the process sees more episodes: a curriculum kept on the class."""

    resets = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        Taught.resets += 1
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, *ended = super().step(action)
        return observation, reward / (1 + Taught.resets // 100), *ended


class Approximate(Count):
    """The same, which shows what processors have each their own digits of (MKL's arccosine, from `rsqrtps`)."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        import torch

        observation, *others = super().step(action)
        last_bits = torch.acos(torch.linspace(-1, 1, 4096)).view(torch.int32).sum() % 1024
        return np.array([observation[0], int(last_bits)], np.float32), *others


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


class Choices(Count):
    """The same, with actions of two parts."""

    def __init__(self, length: int = 5) -> None:
        super().__init__(length)
        self.action_space = gym.spaces.MultiDiscrete([3, 2])


class Shifted(Count):
    """Two choices that are counted from 1 and 2, seen in half precision; the reward is their sum, times what is seen.

    Takes no others.
    """

    def __init__(self, length: int = 5) -> None:
        super().__init__(length)
        self.observation_space = gym.spaces.Box(-1e4, 1e4, (2,), np.float16)
        self.action_space = gym.spaces.MultiDiscrete([3, 4], start=[1, 2])

    def reset(self, **how: Any) -> tuple[Any, dict[str, Any]]:
        return super().reset(**how)[0].astype(np.float16), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        observation, _, *rest = super().step(action)
        return observation.astype(np.float16), float(action.sum() * self._draw), *rest


class Picture(Count):
    """The same, seen as a grey picture of 12 x 12 that has the steps so far in every pixel."""

    def __init__(self, length: int = 5) -> None:
        super().__init__(length)
        self.observation_space = gym.spaces.Box(0, 255, (12, 12, 1), np.uint8)

    def reset(self, **how: Any) -> tuple[Any, dict[str, Any]]:
        return self._draw_steps(super().reset(**how)[0]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, *rest = super().step(action)
        return self._draw_steps(observation), *rest

    def _draw_steps(self, observation: Any) -> Any:
        return np.full((12, 12, 1), observation[1], np.uint8)


class Pixels(Count):
    """The same, seen as random pixels in floats, as RLlib's networks take them."""

    def __init__(self, length: int = 5) -> None:
        super().__init__(length)
        self.observation_space = gym.spaces.Box(0, 1, (12, 12, 1), np.float32)

    def reset(self, **how: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**how)
        return self._draw_pixels(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        _, *rest = super().step(action)
        return self._draw_pixels(), *rest

    def _draw_pixels(self) -> Any:
        return self.np_random.random((12, 12, 1), np.float32)


class Faulty(gym.Env[Any, Any]):
    """Episodes of `length` steps, reward 1 for action 1 while the shown draw is above 1/2 and for action 0 below;
    and one fault.

    Args:
        length: Steps of an episode.
        fault: What goes wrong: `raise`, `hang`, `hold` (a library that computes for ever and keeps Python's lock),
            `kill`, `full_disk`, `hoard` (keeps 4 MB of memory each step), `nan_reward`, `inf_reward`,
            `large_reward`, `nan_observation`, `inf_observation`.
        at: The step of an environment from which on it goes wrong.
        once: A file: whoever makes it has the fault, in one step, and nobody after.
        victim: What the name of the process begins with that `kill` kills, `ray::Trial` for example;
            by default the environment's own.
        disk: The folder that `full_disk` fills.
        leave: The bytes that it leaves.
        room_at: The step from which on there is room again.
        needs: A file without which the environment cannot be made.
        trace: A folder with a file per fault and process, `<fault>-<pid>`, that grows by a byte with each step.
    """

    _hoard: ClassVar[list[Any]] = []

    def __init__(
        self,
        length: int = 5,
        fault: str | None = None,
        at: int = 40,
        once: str | None = None,
        victim: str | None = None,
        disk: str | None = None,
        leave: int = 0,
        room_at: int | None = None,
        needs: str | None = None,
        trace: str | None = None,
    ) -> None:
        if needs is not None and not Path(needs).exists():
            raise RuntimeError("the simulator has no licence")
        self.observation_space = gym.spaces.Box(-1e9, 1e9, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self._length, self._fault, self._at, self._once, self._victim = length, fault, at, once, victim
        self._disk, self._leave, self._room_at, self._trace = disk, leave, room_at, trace
        self._total = 0
        self._filled = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        self._draw = float(self.np_random.uniform())
        return np.array([self._draw, 0.0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._trace is not None:
            with (Path(self._trace) / f"{self._fault}-{os.getpid()}").open("ab") as file:
                file.write(b".")
        self._steps += 1
        self._total += 1
        observation = np.array([self._draw, self._steps], np.float32)
        reward = float(int(action) == (self._draw > 0.5))
        if self._fault is not None and self._total > self._at and self._is_first():
            observation, reward = self._go_wrong(observation, reward)
        if self._filled and self._total == self._room_at:
            make_room(Path(self._disk))
        return observation, reward, self._steps >= self._length, False, {}

    def _is_first(self) -> bool:
        if self._once is None:
            return True
        try:
            Path(self._once).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _go_wrong(self, observation: Any, reward: float) -> tuple[Any, float]:
        match self._fault:
            case "raise":
                raise RuntimeError("the simulator crashed")
            case "hang":
                while True:
                    time.sleep(60)
            case "hold":
                re.match("(a+)+b", "a" * 60)
            case "kill":
                siblings = psutil.Process().parent().children()
                victims = (
                    [p.pid for p in siblings if p.name().startswith(self._victim)] if self._victim else [os.getpid()]
                )
                if not victims:
                    raise RuntimeError(f"no {self._victim} among {[p.name() for p in siblings]}")
                for pid in victims:
                    os.kill(pid, signal.SIGKILL)
            case "full_disk":
                fill(Path(self._disk), self._leave)
                self._filled = True
            case "hoard":
                self._hoard.append(np.ones(4_000_000, np.uint8))
            case "large_reward":
                reward = 1e38
            case "nan_reward" | "inf_reward":
                reward = float(self._fault[:3])
            case "nan_observation" | "inf_observation":
                observation[1] = float(self._fault[:3])
            case unknown:
                raise ValueError(unknown)
        return observation, reward


gym.register("tiny/Count-v0", entry_point=Count, max_episode_steps=1000, disable_env_checker=True)
gym.register("tiny/Approximate-v0", entry_point=Approximate, max_episode_steps=1000, disable_env_checker=True)
gym.register("tiny/Taught-v0", entry_point=Taught, max_episode_steps=1000, disable_env_checker=True)
gym.register("tiny/Choices-v0", entry_point=Choices, max_episode_steps=1000, disable_env_checker=True)
gym.register("tiny/Shifted-v0", entry_point=Shifted, max_episode_steps=1000, disable_env_checker=True)
gym.register("tiny/Picture-v0", entry_point=Picture, max_episode_steps=1000, disable_env_checker=True)
gym.register("tiny/Pixels-v0", entry_point=Pixels, max_episode_steps=1000, disable_env_checker=True)
gym.register("tiny/Reach-v0", entry_point=Reach, max_episode_steps=1000, disable_env_checker=True)
gym.register("tiny/Faulty-v0", entry_point=Faulty, max_episode_steps=1000, disable_env_checker=True)
gym.register("tiny/Endless-v0", entry_point=Count, disable_env_checker=True)
