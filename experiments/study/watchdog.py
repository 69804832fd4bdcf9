"""Ends trials that give no sign of life."""

import time
from typing import Any

import ray

from experiments.metrics import FAILED
from experiments.study.event_stream import EventStream
from experiments.study.folder import StudyFolder
from experiments.study.tune import DriverCallback, config_of

_LOOK_EVERY_S = 1.0


class Watchdog(DriverCallback):
    """Ends trials that give no sign of life for `faults.stall_after_s`.

    A trial leaves its signs in its folder, since an environment that never returns from a step may hold every thread of its process. They
    are timed by this process' clock: a cluster's may differ.
    """

    def __init__(self, folder: StudyFolder, stream: EventStream) -> None:
        self._folder, self._stream = folder, stream
        self._seen: dict[Any, tuple[float | None, float]] = {}  # trial: its last sign, and when that was first seen
        self._next_look = 0.0

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Look at the trials that run."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_EVERY_S
        for trial in trials:
            if trial.status != "RUNNING":
                self._seen.pop(trial, None)
                continue
            config = config_of(trial)
            heartbeat = self._folder.trial(config).last_heartbeat()
            if trial not in self._seen or self._seen[trial][0] != heartbeat:
                self._seen[trial] = heartbeat, now
                continue
            limit = config.faults.stall_after_s
            if limit is not None and now - self._seen[trial][1] > limit:
                self._end(trial, limit)

    def _end(self, trial: Any, limit: float) -> None:
        self._stream.end(config_of(trial), FAILED, f"stalled: no sign of life for {limit:g} s (faults.stall_after_s)")
        trial.max_failures = 0  # it would only hang again
        self._seen.pop(trial)
        actor = trial.temporary_state.ray_actor
        if actor is not None:
            ray.kill(actor)  # Ray ends the runners and learners of a trial with it
