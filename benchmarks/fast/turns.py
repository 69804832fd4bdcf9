"""Turns of processes that train when they are asked to, whatever they are made of."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from benchmarks.support.harness import take_turns


class Asked(Protocol):
    """A warm process that serves: `benchmarks.fast.sides.Side`, or a peer in an environment of its own."""

    def ask(self, seconds: float) -> None:
        """Begin a turn of at least so long."""

    def answer(self) -> float:
        """What it did a second in the turn; of none but its start, 0."""

    def end(self) -> None:
        """Let it end."""


def turn_by_turn(starts: Mapping[str, Callable[[], Asked]], repeats: int, turn_s: float) -> dict[str, list[float]]:
    """What each does a second, turn by turn.

    Args:
        starts: Name to what starts the process.
        repeats: Turns of each.
        turn_s: How long a turn takes at least.
    """
    processes: dict[str, Asked] = {}
    try:
        for name, start in starts.items():
            processes[name] = start()
        for process in processes.values():
            process.answer()
        return take_turns({name: partial(_turn, process, turn_s) for name, process in processes.items()}, repeats)
    finally:
        for process in processes.values():
            process.end()


def _turn(process: Asked, seconds: float) -> float:
    process.ask(seconds)
    return process.answer()
