"""Ends trials that give no sign of life."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from experiments.contract import FAILED
from experiments.study.cluster.ray_process import PRELOADED
from experiments.study.stream import EventStream
from experiments.study.tune.attempts import Attempts, config_of
from experiments.study.tune.callbacks import DriverCallback
from experiments.study.tune.heartbeats import Heartbeats, Key
from experiments.trial.ready import IS_LIGHT

_LOOK_EVERY_S = 1.0


class SignsOfLife:
    """When each attempt gave its last sign of life, by this process' clock."""

    def __init__(self) -> None:
        self._last: dict[Key, float] = {}

    def silent_s(self, attempt: Key, ages: Mapping[Key, float], now: float) -> float:
        """For how long an attempt has given none.

        Args:
            attempt: Which.
            ages: As `Heartbeats` gives them; an attempt that it does not know has given none
                since this was first asked.
            now: On the monotonic clock.
        """
        seen = now - ages[attempt] if attempt in ages else now
        last = self._last[attempt] = (
            max(seen, self._last.get(attempt, seen)) if attempt in ages else self._last.get(attempt, seen)
        )
        return now - last


def receiver() -> Any:
    """The actor that takes the trials' signs of life, on this node."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    # A process of its own, that is not one of those made ready for trials.
    light = {"runtime_env": {"env_vars": {IS_LIGHT: "1"}}} if PRELOADED in os.environ else {}
    return ray.remote(num_cpus=0, max_restarts=-1)(Heartbeats).options(scheduling_strategy=here, **light).remote()


class Watchdog(DriverCallback):
    """Ends trials that give no sign of life for `faults.stall_after_s`.

    An environment that never returns from a step may hold every thread of its process: a trial sends its signs from
    between the steps, and is asked for nothing. Neither a clock nor a disk of another machine matters.
    """

    def __init__(
        self, stream: EventStream, attempts: Attempts, heartbeats: Any, is_reached: Callable[[Sequence[str]], bool]
    ) -> None:
        """Watch trials.

        Args:
            stream: Of the study's events.
            attempts: At the trials.
            heartbeats: The actor that takes the signs.
            is_reached: Whether nodes answer, by their ids: that one is cut off is no fault of the trial.
        """
        self._stream, self._attempts, self._heartbeats, self._is_reached = stream, attempts, heartbeats, is_reached
        self._signs = SignsOfLife()
        self._answer: Any = None
        self._next_look = 0.0

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Look at the trials that run, whenever the signs that were asked for have come:
        without them nothing is known.
        """
        now = time.monotonic()
        if self._answer is None and now >= self._next_look:
            attempts = [self._attempts.key(trial) for trial in trials if trial.status == "RUNNING"]
            self._answer = [self._heartbeats.ages.remote(attempts), self._heartbeats.memory.remote(attempts)]
        if self._answer is None or ray.wait(self._answer, num_returns=2, timeout=0)[1]:
            return
        answer, self._answer, self._next_look = self._answer, None, now + _LOOK_EVERY_S
        try:
            ages, memory = ray.get(answer)
        except RayError:  # it is being restarted
            return
        self._attempts.memory.update(memory)
        for trial in trials:
            if trial.status == "RUNNING":
                self._look(trial, ages, now)

    def _look(self, trial: Any, ages: Mapping[Key, float], now: float) -> None:
        config = config_of(trial)
        silent_s = self._signs.silent_s(self._attempts.key(trial), ages, now)
        limit = config.faults.stall_after_s
        if limit is not None and silent_s > limit and self._is_reached(self._attempts.nodes(trial)):
            self._stream.end(config, FAILED, f"stalled: no sign of life for {limit:g} s (faults.stall_after_s)")
            if (actor := trial.temporary_state.ray_actor) is not None:
                ray.kill(actor)  # Ray ends the runners and learners of a trial with it
