"""Receives the trials' signs of life, in a process of its own on the driver's node.

Standard library only: it starts quickly.
"""

import time
from collections.abc import Collection

Key = tuple[str, int]
"""A trial's folder, and the number of its attempt."""
Memory = tuple[str, int]
"""The host of an attempt's own process, and the most bytes that its processes there took so far."""


class Heartbeats:
    """An actor of Ray's that trials send their signs of life to.

    They are timed here, by one clock: those of a cluster's nodes differ.
    """

    def __init__(self) -> None:
        self._last: dict[Key, float] = {}
        self._memory: dict[Key, Memory] = {}

    def add(self, trial: str, attempt: int) -> None:
        """A sign of life."""
        self._last[trial, attempt] = time.monotonic()

    def ages(self, attempts: Collection[Key]) -> dict[Key, float]:
        """Seconds since the last sign of each of the attempts that are under way; those of others are forgotten."""
        now = time.monotonic()
        self._last = {key: self._last[key] for key in attempts if key in self._last}
        return {key: now - last for key, last in self._last.items()}

    def add_memory(self, trial: str, attempt: int, host: str, resident_bytes: int) -> None:
        """The memory of an attempt's processes, which is more than they ever took before."""
        self._memory[trial, attempt] = host, resident_bytes

    def memory(self, attempts: Collection[Key]) -> dict[Key, Memory]:
        """Of each of the attempts that are under way; that of others is forgotten."""
        self._memory = {key: self._memory[key] for key in attempts if key in self._memory}
        return self._memory
