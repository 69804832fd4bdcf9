"""The suite's own command with instruments in it, or with one of its measures taken out.

python -m benchmarks.support.driver [--measure FILE] [--without MEASURE ...] [--stub [--in-process]]
    -- <overrides as for run.py>

The instruments and the switches are put in place of names in `experiments.study.driver`.
"""

import argparse
import functools
import json
import os
import resource
import signal
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray.tune import TuneConfig

from experiments import run
from experiments.planning import plan as planning
from experiments.study import driver as study
from experiments.study.cluster import ray_process
from experiments.study.tune import execution
from experiments.study.tune.callbacks import DriverCallback
from experiments.tracking.lanes import Operation
from experiments.tracking.store import Store
from experiments.tracking.writer import Writer
from experiments.tracking.writes import LogReport

if TYPE_CHECKING:
    from benchmarks.support.in_process import Timing

MEASURES = ("reuse_actors", "tracking", "safety")
"""What can be taken out: the reuse of a trial's process by the next trial; MLflow; checkpoints,
determinism and the watchdog."""

marks: dict[str, float] = {}
"""Unix times of `<function>.start` and `<function>.end`."""
peaks_mib: dict[str, float] = {}
"""Peak resident memory of this process up to each `<function>.start`."""
_writers: list["MeasuredWriter"] = []
_timing: "Timing | None" = None


class MeasuredWriter(Writer):
    """The writer, with its thread's CPU seconds and the time of its first connection."""

    def __init__(self, connect: Callable[[], Store], num_threads: int = 1) -> None:
        """As the writer."""
        self.cpu_s = self.connect_s = self.connect_cpu_s = 0.0
        self.operations = self.values = 0
        _writers.append(self)

        def timed() -> Store:
            start, cpu = time.perf_counter(), time.thread_time()
            store = connect()
            self.connect_s += time.perf_counter() - start
            self.connect_cpu_s += time.thread_time() - cpu
            return store

        super().__init__(timed, num_threads)

    def _deliver(self, operation: Operation, *more: Operation) -> None:
        start = time.thread_time()
        try:
            super()._deliver(operation, *more)
        finally:
            self.operations += 1
            self.values += sum(len(o.write.values) for o in (operation, *more) if isinstance(o.write, LogReport))
            self.cpu_s += time.thread_time() - start


class NullStore:
    """A store that takes everything and keeps nothing."""

    def __init__(self, *args: Any) -> None:
        """As `Store`."""

    def open_run(self, *args: Any) -> str:
        """A new id."""
        return uuid.uuid4().hex

    def create_run(self, *args: Any) -> str:
        """A new id."""
        return uuid.uuid4().hex

    def experiment(self, name: str) -> str:
        """An id."""
        return name

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args: None


def main() -> None:
    """The suite's command; writes what was measured when it ends."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.support.driver", description=__doc__)
    parser.add_argument("--measure", type=Path)
    parser.add_argument("--without", action="append", default=[], choices=MEASURES)
    parser.add_argument("--stub", action="store_true", help="trials that report without training")
    parser.add_argument(
        "--in-process",
        action="store_true",
        help="trials in the driver's own process, so that as many run at once as CPUs are declared",
    )
    parser.add_argument(
        "--kill-after-events", type=int, help="SIGKILL to the driver, once its trials have said so much"
    )
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    marks["imports.end"] = time.time()
    _put(study, "Writer", MeasuredWriter)
    for module, name in ((planning, "plan_study"), (ray_process, "start_ray"), (study, "run_study")):
        _put(module, name, _marked(name, getattr(module, name)))
    if "reuse_actors" in arguments.without:
        _put(execution, "TuneConfig", _without_reuse)
    if "tracking" in arguments.without:
        _put(study, "Store", NullStore)
    if "safety" in arguments.without:
        from benchmarks.support.unsafe import UnsafeTrial

        _put(execution, "Trial", UnsafeTrial)
        _put(execution, "Watchdog", lambda *given: DriverCallback())
    if arguments.stub:
        from benchmarks.support.stub import StubTrial

        _put(execution, "Trial", StubTrial)
    if arguments.in_process:
        from benchmarks.support import in_process

        global _timing
        _timing = in_process.use(functools.partial(_kill_at, arguments.kill_after_events, arguments.measure))
    sys.argv = ["experiments/run.py", *arguments.overrides]
    try:
        run.main(arguments.overrides)
    finally:
        if arguments.measure:
            arguments.measure.write_text(json.dumps(_measured()))


def _kill_at(events: int | None, measure: Path, timing: "Timing") -> None:
    """As a power cut would, once enough events were passed on: nothing is cleaned up."""
    if events is not None and timing.events >= events:
        measure.write_text(json.dumps(_measured()))
        os.kill(os.getpid(), signal.SIGKILL)


def _measured() -> dict[str, Any]:
    writer = _writers[0] if _writers else None
    return {
        "marks": marks,
        "peaks_mib": peaks_mib,
        "peak_rss_mib": _peak_mib(),
        "writer_busy_s": writer.busy_s if writer else 0.0,
        "writer_cpu_s": writer.cpu_s if writer else 0.0,
        "connect_s": writer.connect_s if writer else 0.0,
        "connect_cpu_s": writer.connect_cpu_s if writer else 0.0,
        "operations": writer.operations if writer else 0,
        "values": writer.values if writer else 0,
        **(_timing.summary() if _timing and _timing.steps else {}),
    }


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def _put(module: Any, name: str, value: Any) -> None:
    if not hasattr(module, name):
        raise SystemExit(f"{module.__name__} has no {name} any more: adapt benchmarks/support/driver.py")
    setattr(module, name, value)


def _marked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def marked(*args: Any, **kwargs: Any) -> Any:
        marks.setdefault(f"{name}.start", time.time())
        peaks_mib.setdefault(f"{name}.start", _peak_mib())
        try:
            return function(*args, **kwargs)
        finally:
            marks.setdefault(f"{name}.end", time.time())

    return marked


def _without_reuse(**kwargs: Any) -> TuneConfig:
    return TuneConfig(**{**kwargs, "reuse_actors": False})


if __name__ == "__main__":
    main()
