"""Trials in the driver's own process, in place of Ray's actors: what a cluster of many nodes asks of a driver,
on one machine.

Tune's controller and the suite's callbacks are the real ones. What is left out are the actors' processes, and their
placement groups, which Ray makes by a process on each node: a call of an actor is made at once, in this process, and
its result put into Ray's object store, from where the controller takes it.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import ray
from ray.actor import ActorClass
from ray.air.execution import AcquiredResources, ResourceManager, ResourceRequest
from ray.tune.execution import tune_controller
from ray.tune.execution.tune_controller import TuneController

from experiments.config.trial_config import TrialConfig
from experiments.study.stream import EventStream
from experiments.trial.events import Event, Reported


@dataclass
class Timing:
    """What events take the driver's main thread, without the trials that it now runs itself.

    Attributes:
        steps: CPU seconds, and seconds by the clock, of each step of Tune's controller,
            and how many events it passed on.
        first_report_at: Unix time of the first report that a trial made, and that no earlier execution had.
        events: Passed on so far, those of earlier executions included.
        trials_cpu_s: Of the trials so far.
        trials_s: The same by the clock.
    """

    steps: list[tuple[float, float, int]] = field(default_factory=list)
    first_report_at: float = 0.0
    events: int = 0
    trials_cpu_s: float = 0.0
    trials_s: float = 0.0
    in_step: bool = False

    def run(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A trial's part of the work."""
        cpu, clock = time.thread_time(), time.perf_counter()
        try:
            return call(*args, **kwargs)
        finally:
            self.trials_cpu_s += time.thread_time() - cpu
            self.trials_s += time.perf_counter() - clock

    def summary(self) -> dict[str, Any]:
        """Milliseconds per event over the whole study and in its first and last tenth, and the slowest steps'."""
        cpu, clock, events = np.array(self.steps).T
        parts = np.array_split(np.arange(len(events)), 10)
        means = [
            {"cpu_ms": 1e3 * cpu[p].sum() / events[p].sum(), "ms": 1e3 * clock[p].sum() / events[p].sum()}
            for p in parts
        ]
        slowest = {f"step_p{q}_ms": 1e3 * float(np.quantile(clock[events > 0], q / 100)) for q in (50, 99, 100)}
        whole = {"cpu_ms": 1e3 * cpu.sum() / events.sum(), "ms": 1e3 * clock.sum() / events.sum()}
        return {
            "new_events": int(events.sum()),
            "first_report_at": self.first_report_at,
            "tenths": means,
            **whole,
            **slowest,
        }


class _Method:
    """A method of an actor: `.remote(...)` calls it."""

    def __init__(self, timing: Timing, call: Callable[..., Any]) -> None:
        self._timing, self._call = timing, call

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """The future of a result that is there."""
        return self._timing.run(lambda: ray.put(self._call(*args, **kwargs)))


class _Actor:
    """A handle of an actor that is an object of this process."""

    def __init__(self, timing: Timing, trainable: Any) -> None:
        self._timing, self._trainable = timing, trainable

    def __getattr__(self, name: str) -> _Method:
        if name in ("__ray_ready__", "__ray_terminate__"):
            return _Method(self._timing, lambda: None)
        return _Method(self._timing, getattr(self._trainable, name))


class _InProcess(ActorClass):  # type: ignore[misc]  # Ray ships no type information
    """A class of actors that are objects of this process."""

    def __init__(self, timing: Timing, trainable: type) -> None:
        # What this process prints is not a trial's.
        self._timing, self._trainable = (
            timing,
            type(trainable.__name__, (trainable,), {"_open_logfiles": lambda *files: None}),
        )

    def remote(self, **kwargs: Any) -> _Actor:
        """A new one."""
        return _Actor(self._timing, self._timing.run(self._trainable, **kwargs))


class _Reserved(AcquiredResources):  # type: ignore[misc]  # likewise
    """What a trial has reserved; no actor need be told."""

    def _annotate_remote_entity(self, entity: Any, bundle: dict[str, float], bundle_index: int) -> Any:
        return entity


class _Reservations(ResourceManager):  # type: ignore[misc]  # likewise
    """The CPUs that were declared, in place of placement groups."""

    def __init__(self) -> None:
        self._free = ray.cluster_resources()["CPU"]
        self._requested: Counter[ResourceRequest] = Counter()

    def request_resources(self, resource_request: ResourceRequest) -> None:
        self._requested[resource_request] += 1

    def cancel_resource_request(self, resource_request: ResourceRequest) -> None:
        self._requested[resource_request] -= 1

    def has_resources_ready(self, resource_request: ResourceRequest) -> bool:
        return self._requested[resource_request] > 0 and self._free >= resource_request.required_resources["CPU"]

    def acquire_resources(self, resource_request: ResourceRequest) -> _Reserved:
        self._requested[resource_request] -= 1
        self._free -= resource_request.required_resources["CPU"]
        return _Reserved(resource_request)

    def free_resources(self, acquired_resource: _Reserved) -> None:
        self._free += acquired_resource.resource_request.required_resources["CPU"]

    def clear(self) -> None:
        self._requested.clear()


def use(heard: Callable[[Timing], None]) -> Timing:
    """Put trials into this process, and time each step of the driver.

    Args:
        heard: Called after each step.
    """
    timing = Timing()

    class Classes:
        """In place of Tune's cache of actor classes."""

        def get(self, trainable: type) -> _InProcess:
            """The class of actors of a trainable."""
            return _InProcess(timing, trainable)

    step, passed = TuneController.step, EventStream._pass

    def timed_step(self: TuneController) -> None:
        trials_cpu_s, trials_s, events = timing.trials_cpu_s, timing.trials_s, timing.events
        cpu, clock, timing.in_step = time.thread_time(), time.perf_counter(), True
        step(self)
        timing.in_step = False
        cpu_s = time.thread_time() - cpu - (timing.trials_cpu_s - trials_cpu_s)
        seconds = time.perf_counter() - clock - (timing.trials_s - trials_s)
        timing.steps.append((cpu_s, seconds, timing.events - events))
        heard(timing)

    def counted_pass(self: EventStream, trial: TrialConfig, event: Event) -> None:
        new = event.number > self._of(trial).number
        timing.events += new
        if new and timing.in_step and isinstance(event, Reported) and not timing.first_report_at:
            timing.first_report_at = time.time()
        passed(self, trial, event)

    kill = ray.kill
    ray.kill = lambda actor, **options: None if isinstance(actor, _Actor) else kill(actor, **options)
    tune_controller._ActorClassCache, tune_controller.PlacementGroupResourceManager = Classes, _Reservations
    TuneController.step, EventStream._pass = timed_step, counted_pass  # type: ignore[method-assign]
    return timing
