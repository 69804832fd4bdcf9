"""A trial's signs of life. Standard library only."""

import time
from collections.abc import Callable

EVERY_S = 1.0


class Heartbeat:
    """Leaves a sign of life, at most one in `EVERY_S`, so that it can be done often.

    A process that a copy of it is sent to leaves its own.
    """

    def __init__(self, send: Callable[[], object]) -> None:
        """Send signs of life by calling `send`."""
        self._send = send
        self._next = 0.0

    def __call__(self) -> None:
        """Leave one now, unless the last one was left a moment ago."""
        if (now := time.monotonic()) >= self._next:
            self._next = now + EVERY_S
            self._send()
