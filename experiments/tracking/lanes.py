"""Operations that wait for a store, and whose turn it is: with thousands of runs behind, that is found as fast as with
one.
"""

import heapq
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from experiments.tracking import writes
from experiments.tracking.store import MAX_VALUES


@dataclass(frozen=True, eq=False)
class Operation:
    """A write, to what `key` stands for."""

    key: str
    write: writes.Write
    put_at: float = field(default_factory=time.monotonic)

    @property
    def lane(self) -> tuple[str, bool]:
        """What it is delivered in line with: a run's rows, or its files."""
        return self.key, isinstance(self.write, writes.Files)


@dataclass(eq=False)
class Lane:
    """Operations that are delivered one after the other: a run's rows, or its files, so that neither waits
    for the other's disk.

    Attributes:
        pending: In order; those under way are still in it.
        busy: Whether some are under way.
        failing: Whether the last attempt failed.
        retry_at: When to try again (monotonic).
        at_most: How many to deliver in one call: fewer after a failure, for one of them may be bad, or all be too many
            for a slow store.
        waits: Whether it cannot go on before something else was delivered.
        queued_for: The time that its turn is queued for (monotonic); infinite if it is not.
    """

    pending: deque[Operation] = field(default_factory=deque)
    busy: bool = False
    failing: bool = False
    retry_at: float = 0.0
    at_most: int = MAX_VALUES
    waits: bool = False
    queued_for: float = math.inf

    def next(self) -> list[Operation]:
        """The next operation; with one that logs rows, those that follow it, as many as one call takes."""
        found, num_values = [], 0
        for operation in itertools.islice(self.pending, self.at_most):
            if not isinstance(operation.write, writes.Rows):
                break
            num_values += len(operation.write.values)
            if num_values > MAX_VALUES:
                break
            found.append(operation)
        return found or [self.pending[0]]


class Lanes:
    """All lanes with operations; not safe between threads.

    Attributes:
        num_pending: Operations that wait, or are under way.
        of: The lanes by key and whether they are of files.
    """

    def __init__(self, is_known: Callable[[str], bool], gather_s: Callable[[], float]) -> None:
        """None yet.

        Args:
            is_known: Whether the run of a key is open, or never will be.
            gather_s: How long reports are gathered now.
        """
        self.num_pending = 0
        self._is_known, self._gather_s = is_known, gather_s
        self.of: dict[tuple[str, bool], Lane] = {}
        self._turns: dict[bool, list[tuple[float, int, Lane]]] = {False: [], True: []}
        """By whether they fail: those that work come first."""
        self._numbers = itertools.count()
        self._waiting: dict[Hashable, list[Lane]] = {}
        """Key of a run, or of a lane of files, to what waits for it."""

    def put(self, operation: Operation) -> None:
        """Let it wait behind those of its lane."""
        lane = self.of.setdefault(operation.lane, Lane())
        lane.pending.append(operation)
        self.num_pending += 1
        self.queue(lane)

    def queue(self, lane: Lane) -> None:
        """Give a lane that has operations its turn."""
        if not lane.busy and not lane.waits and (due_at := self._due_at(lane)) < lane.queued_for:
            lane.queued_for = due_at
            heapq.heappush(self._turns[lane.failing], (due_at, next(self._numbers), lane))

    def hurry(self) -> None:
        """Queue all anew, since they may be due sooner."""
        for lane in self.of.values():
            self.queue(lane)

    def due(self, now: float) -> Lane | None:
        """The lane whose turn it is, those that work before those that fail; None: none is due."""
        for turns in self._turns.values():
            while turns and turns[0][0] <= now:
                at, _, lane = heapq.heappop(turns)
                if lane.busy or lane.waits or at != lane.queued_for:  # it was queued for another time
                    continue
                lane.queued_for = math.inf
                if (missing := self._missing(lane.pending[0])) is not None:
                    lane.waits = True
                    self._waiting.setdefault(missing, []).append(lane)
                elif self._due_at(lane) > now:
                    self.queue(lane)
                else:
                    return lane
        return None

    def next_at(self) -> float:
        """When to look again (monotonic), if nothing happens before; infinite: there is no need to."""
        return min((turns[0][0] for turns in self._turns.values() if turns), default=math.inf)

    def remove(self, lane: Lane, operations: list[Operation]) -> None:
        """Take out the first operations of a lane, which are dealt with: what waited for them goes on."""
        for _ in operations:
            lane.pending.popleft()
        self.num_pending -= len(operations)
        first = operations[0]
        if isinstance(first.write, writes.OpenRun):
            self._release(first.key)
        if not lane.pending:
            del self.of[first.lane]
            self._release(first.lane)

    def _release(self, awaited: Hashable) -> None:
        for lane in self._waiting.pop(awaited, ()):
            lane.waits = False
            self.queue(lane)

    def _missing(self, operation: Operation) -> Hashable | None:
        """What has to be delivered before. A run ends after its files: one that has ended is whole."""
        if isinstance(operation.write, writes.Finish) and (operation.key, True) in self.of:
            return operation.key, True
        needs = operation.write.needs(operation.key)
        return None if needs is None or self._is_known(needs) else needs

    def _due_at(self, lane: Lane) -> float:
        first, last = lane.pending[0], lane.pending[-1]
        gathers = isinstance(first.write, writes.LogReport) and isinstance(last.write, writes.Rows)
        return max(lane.retry_at, first.put_at + (self._gather_s() if gathers else 0.0))
