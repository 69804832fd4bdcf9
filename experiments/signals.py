"""The signals that end a command: Ctrl-C, SIGTERM, and SIGHUP, which comes when a terminal is closed."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def ending_signals() -> tuple[signal.Signals, ...]:
    """Those that end a command. SIGHUP is none where it is ignored, as under `nohup`."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *(() if ignored else (signal.SIGHUP,)))


def exit_at_signals() -> None:
    """From now on SIGTERM and SIGHUP raise SystemExit with 128 + the signal's number,
    as SIGINT raises KeyboardInterrupt.
    """
    for number in ending_signals():
        if number != signal.SIGINT:
            signal.signal(number, lambda received, frame: sys.exit(128 + received))


@contextmanager
def received_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Within it, the signals that end a command go to a handler. In the main thread."""
    before = {number: signal.signal(number, handler) for number in ending_signals()}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
