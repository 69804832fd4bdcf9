"""The seconds in which this process stood still, and a clock without them. Standard library only.

A container that is paused, a job that Slurm suspends, a virtual machine that is moved and `kill -STOP` stop all threads
of a process at once. A thread that wakes every `EVERY_S` finds it out: it wakes late. Late it also is while native code
holds Python's global lock, and while the machine has no CPU for it; neither is a pause, and the kernel tells both:

- who waits for the lock wakes every `sys.getswitchinterval()`, 5 ms, to ask for it, and each time counts as one that
  the thread went to sleep;
- seconds in which a thread could run and had no CPU are counted by the kernel's scheduler.

What is left of a gap, the thread slept through: the process stood still. How little CPU time was used is not asked,
since environments that wait and GPUs that compute use none either. Of a suspended machine the monotonic clock, which
everything is measured by, does not go on; the boot-time clock does.

Where the kernel does not count (not Linux), no gap is a pause; suspends are seen where there is a boot-time clock.
"""

import resource
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

EVERY_S = 0.25
"""How often the thread wakes: by up to so much a pause is taken for shorter than it was, and never for longer."""
LEAST_S = 2.0
"""The shortest pause that counts: in less, a busy machine may also be late."""
_LEAST_SHARE = 0.75
"""Of a gap, that must be left: a wait for the lock may take longer each time than it was to, by a few percent, or by
twice 5 ms where the kernel's timers are coarse."""
_AT_ONCE_S = 0.05
"""The longest that reading clock and counts may take."""
_OVERDUE_S = 5.0
"""The longest wait for a thread that is overdue."""
_SCHEDULER = Path("/proc/thread-self/schedstat")


@dataclass(frozen=True)
class Tick:
    """What the kernel tells a thread that has woken.

    Attributes:
        at_s: Seconds of the monotonic clock, which is that of `time.perf_counter` on Linux.
        boot_s: Seconds of the clock that goes on while the machine is suspended.
        sleeps: How often the thread has gone to sleep so far.
        starved_s: Seconds so far in which it could run and had no CPU; None where the kernel does not tell.
    """

    at_s: float
    boot_s: float
    sleeps: int
    starved_s: float | None


@dataclass(frozen=True)
class Pauses:
    """Pauses of this process.

    Attributes:
        count: How many.
        seconds: Their seconds.
        clock_s: Of these, the seconds in which the monotonic clock went on: all but those of a suspended machine.
    """

    count: int = 0
    seconds: float = 0.0
    clock_s: float = 0.0

    def __sub__(self, earlier: "Pauses") -> "Pauses":
        """Those since an earlier time."""
        return Pauses(self.count - earlier.count, self.seconds - earlier.seconds, self.clock_s - earlier.clock_s)

    def after(self, before: Tick, now: Tick, switch_s: float) -> "Pauses":
        """These, and the one between two ticks in a row, if there was one.

        Args:
            before: The earlier tick.
            now: The later one.
            switch_s: Seconds after which a thread that waits for Python's lock asks for it again.
        """
        clock_s = _still_s(before, now, switch_s)
        suspended_s = (now.boot_s - now.at_s) - (before.boot_s - before.at_s)
        seconds = clock_s + (suspended_s if suspended_s >= LEAST_S else 0.0)
        return Pauses(self.count + 1, self.seconds + seconds, self.clock_s + clock_s) if seconds else self


def _still_s(before: Tick, now: Tick, switch_s: float) -> float:
    """Seconds of the monotonic clock between two ticks in which the process stood still; 0 if it did not."""
    gap_s, sleeps = now.at_s - before.at_s, now.sleeps - before.sleeps
    if before.starved_s is None or now.starved_s is None or sleeps < 1:  # the kernel does not count
        return 0.0
    left_s = gap_s - EVERY_S - sleeps * switch_s - (now.starved_s - before.starved_s)
    return left_s if left_s >= max(LEAST_S, _LEAST_SHARE * gap_s) else 0.0


def tick() -> Tick:
    """The calling thread's, now."""
    while True:
        began_s = time.perf_counter()
        boot_s = time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else began_s
        try:
            starved_s = int(_SCHEDULER.read_text().split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            starved_s = None
        # Each call may have to wait for Python's lock: clock and counts must be of one time.
        sleeps = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw if hasattr(resource, "RUSAGE_THREAD") else 0
        at_s = time.perf_counter()
        if at_s - began_s < _AT_ONCE_S:
            return Tick(at_s, boot_s, sleeps, starved_s)


class _Watch:
    """The thread that ticks, one a process."""

    def __init__(self) -> None:
        self._ticked = threading.Condition()
        self._thread: threading.Thread | None = None
        self._last_s = 0.0
        self._pauses = Pauses()

    def begin(self) -> None:
        """Begin, once, to tick until the process ends."""
        with self._ticked:
            if self._thread is None or not self._thread.is_alive():  # the second in a fork of the process
                self._last_s = time.perf_counter()
                self._thread = threading.Thread(target=self._run, name="Pauses", daemon=True)
                self._thread.start()

    def so_far(self) -> Pauses:
        """Pauses up to now.

        After a pause any thread may be the first to go on: it waits until the one that ticks has seen it.
        """
        with self._ticked:
            if self._thread is not None and self._is_overdue() and self._thread.is_alive():
                self._ticked.wait_for(lambda: not self._is_overdue(), _OVERDUE_S)
            return self._pauses

    def _is_overdue(self) -> bool:
        return time.perf_counter() - self._last_s >= LEAST_S

    def _run(self) -> None:
        last = tick()
        while True:
            time.sleep(EVERY_S)
            now = tick()
            with self._ticked:
                self._pauses = self._pauses.after(last, now, sys.getswitchinterval())
                self._last_s = now.at_s
                self._ticked.notify_all()
            last = now


_watch = _Watch()
begin, so_far = _watch.begin, _watch.so_far


def unpaused_s() -> float:
    """Now, as `time.perf_counter` has it, without the pauses since `begin`: what is measured by it is no slower for a
    pause.
    """
    while True:
        before = so_far()
        now = time.perf_counter()
        if so_far().clock_s == before.clock_s:  # else a pause came between the two
            return now - before.clock_s
