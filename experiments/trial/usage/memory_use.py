"""The memory that a trial's processes take, told while they train: who is killed for want of it can say nothing."""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from experiments.trial.usage.resource_usage import memory_bytes

_LOOK_EVERY_S = 0.25
_LEAST_GROWTH = 32 * 2**20
"""Bytes from one message to the next: a trial that takes no more says nothing."""

_FILE = "memory"


class MemoryUse:
    """Tells of each new peak, from a thread of its own: a training iteration may take long."""

    def __init__(self, tell: Callable[[int], object]) -> None:
        """Begin with this process.

        Args:
            tell: Takes the resident bytes of all the processes.
        """
        self._tell, self._processes = tell, [psutil.Process()]
        self._peak = self._told = 0
        self._most_reported_mib = 0.0
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="MemoryUse", daemon=True).start()

    def add(self, processes: Iterable[psutil.Process]) -> None:
        """Count others as well."""
        self._processes = list(dict.fromkeys([*self._processes, *processes]))

    def note(self, reported_mib: float) -> None:
        """Take in what a report says of all processes, those on other hosts as well."""
        self._most_reported_mib = max(self._most_reported_mib, reported_mib)

    def peak_mib(self) -> float:
        """The most that the processes had at a time, so far: those on this host as they are watched, with those on
        others as they were noted.
        """
        self._look()
        return max(self._most_reported_mib, self._peak / 2**20)

    def close(self) -> None:
        """Look no more."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK_EVERY_S):
            self._look()
            if self._peak >= self._told + _LEAST_GROWTH:
                self._told = self._peak
                self._tell(self._told)

    def _look(self) -> None:
        self._peak = max(self._peak, sum(map(memory_bytes, self._processes)))


def leave(folder: Path, attempt: int, resident_bytes: int) -> None:
    """Leave the peak of an attempt at a trial in a folder, for the driver on the same host."""
    new = folder / f"{_FILE}.new"
    new.write_text(f"{attempt} {resident_bytes}")
    new.replace(folder / _FILE)


def left(folder: Path) -> tuple[int, int] | None:
    """The last attempt that left its peak there, and the peak in bytes; None if there is none."""
    try:
        attempt, resident_bytes = map(int, (folder / _FILE).read_text().split())
    except OSError:
        return None
    return attempt, resident_bytes
