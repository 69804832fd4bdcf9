"""An environment whose load one can dial: what a step costs, how, and how evenly.

For measuring the machinery around it.
"""

import math
import time
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import numpy.typing as npt

ID = "Synthetic-v0"

MODES = ("busy", "wait")
_MOST_FLOATS = 10_000_000
"""Of an observation: 40 MB, more than any network here takes; a slip of the pen should not take
the machine's memory."""


class Synthetic(gym.Env[npt.NDArray[np.float32], np.int64]):
    """Steps of a set cost, and a task that is learned within a few updates.

    A reset draws the observation, which the episode keeps. The right action is the one that the observation's first
    float names: of n actions the k-th where the float lies in the k-th of n equal parts of [-1, 1]. The right action
    has reward 1, any other 0, so a random policy's return is an episode's steps / num_actions and the best one's is its
    steps; the time limit says how many these are.

    Cost in mode `busy` is CPU time of the calling thread, burned in a loop of Python. A simulator's cost is work, not
    seconds: where processes share a core, or threads share Python's lock, a step must take longer, and a loop on the
    wall clock would not. What it cannot show is a core that slows down, by heat or by its other hyper-thread: a step
    then takes as long and would have done less. Cost in mode `wait` is time asleep, as with a simulator on another
    machine: it takes no CPU, and many wait side by side on one core. A step never takes less than its cost; Linux wakes
    a sleeper late by some 0.08 ms, more on a busy machine.

    Vectorised in mode `sync` a runner's envs are stepped in turn and their costs add;
    in mode `async` they are stepped side by side.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # Gymnasium declares it so

    def __init__(
        self,
        step_cost_ms: float = 1.0,
        mode: Literal["busy", "wait"] = "busy",
        jitter: float = 0.0,
        reset_cost_ms: float = 0.0,
        observation_size: int = 8,
        num_actions: int = 2,
    ) -> None:
        """Check and set the load.

        Args:
            step_cost_ms: Milliseconds that a step costs, on average; above 0.
            mode: `busy`: of CPU time; `wait`: asleep.
            jitter: Coefficient of variation of a step's cost, 0 or more. Costs are log-normal, drawn from the
                environment's own generator: positive, with now and then a straggler.
            reset_cost_ms: Milliseconds that a reset costs, always the same; 0 or more.
            observation_size: Floats in an observation, each in [-1, 1].
            num_actions: Number of actions, of which one is right.

        Raises:
            ValueError: One of them is outside its range; names it, and what to do.
        """
        if not 0 < step_cost_ms < math.inf:
            raise ValueError(
                f"step_cost_ms={step_cost_ms:g}: must be above 0; for an environment that costs next "
                "to nothing take env=cartpole"
            )
        if mode not in MODES:
            raise ValueError(f"mode={mode!r}: must be busy (a step burns CPU time) or wait (it sleeps)")
        if not 0 <= jitter < math.inf:
            raise ValueError(
                f"jitter={jitter:g}: must be 0 (all steps cost the same) or above, "
                "relative to step_cost_ms: 0.2, for example"
            )
        if not 0 <= reset_cost_ms < math.inf:
            raise ValueError(f"reset_cost_ms={reset_cost_ms:g}: must be 0 (a reset costs nothing) or above")
        if not 1 <= observation_size <= _MOST_FLOATS:
            raise ValueError(f"observation_size={observation_size}: must be between 1 and {_MOST_FLOATS} floats")
        if num_actions < 1:
            raise ValueError(f"num_actions={num_actions}: must be 1 or more; 2 for something to learn")
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (observation_size,), np.float32)
        self.action_space = gym.spaces.Discrete(num_actions)
        self._clock = time.thread_time if mode == "busy" else time.perf_counter
        self._spend = _burn if mode == "busy" else _sleep
        self._step_cost_s, self._reset_cost_s = step_cost_ms / 1000, reset_cost_ms / 1000
        self._jitter = jitter
        # Of the logarithm: its spread, and a mean that makes the cost's mean step_cost_ms.
        self._sigma = math.sqrt(math.log1p(jitter**2))
        self._mu = math.log(self._step_cost_s) - self._sigma**2 / 2
        self._num_actions = num_actions

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Draw an observation."""
        start = self._clock()
        super().reset(seed=seed)
        self._observation = (2 * self.np_random.random(self.observation_space.shape, np.float32) - 1).astype(np.float32)
        self._right = min(int((self._observation[0] + 1) / 2 * self._num_actions), self._num_actions - 1)
        if self._reset_cost_s:
            self._spend(start + self._reset_cost_s)
        return self._observation, {}

    def step(self, action: np.int64) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Spend a step's cost."""
        start = self._clock()
        self._spend(start + self._cost_s())
        return self._observation, float(action == self._right), False, False, {}

    def _cost_s(self) -> float:
        return self.np_random.lognormal(self._mu, self._sigma) if self._jitter else self._step_cost_s


def _burn(until: float) -> None:
    """Until the thread's CPU clock says so; reading it takes half a microsecond."""
    while time.thread_time() < until:
        pass


def _sleep(until: float) -> None:
    if (remaining := until - time.perf_counter()) > 0:
        time.sleep(remaining)


gym.register(ID, entry_point="experiments.envs.synthetic:Synthetic", max_episode_steps=200)
