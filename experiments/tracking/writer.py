"""Delivers writes to a store from threads of its own: in order for each run, side by side for different runs.

A store that fails never stops a study: writes wait and are tried again. What a store does not take before the
end is counted, and can be put again later, by whoever has it in a file: no write does anything when it is
delivered a second time.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import assert_never

from experiments.config.errors import first_line
from experiments.contract import Tag
from experiments.tracking import writes
from experiments.tracking.store import MAX_VALUES, Store, StoreError

RETRY_S = 2.0
GATHER_S = 1.0
"""How long reports are gathered: a write of several costs little more than a write of one."""
GATHER_CALLS = 2.0
"""The same, in calls, if the store is so slow that this is longer."""
GATHER_MAX_S = 10.0
FINAL_WAIT_S = 45.0
"""How long the end of a study waits for a store that does not answer. Another process may lock SQLite for 30 s."""
FINAL_WAIT_SHARE = 0.1
"""The same, of the time that the study took, if that is longer."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Operation:
    """A write, to what `key` stands for."""

    key: str
    write: writes.Write
    put_at: float = field(default_factory=time.monotonic)


@dataclass(eq=False)
class _Lane:
    """Operations that are delivered one after the other: a run's rows, or its files, so that neither waits
    for the other's disk.

    Attributes:
        pending: In order; those under way are still in it.
        busy: Whether some are under way.
        failing: Whether the last attempt failed.
        retry_at: When to try again (monotonic).
        at_most: How many to deliver in one call: fewer after a failure, for one of them may be bad, or all be too many
            for a slow store.
    """

    pending: deque[Operation] = field(default_factory=deque)
    busy: bool = False
    failing: bool = False
    retry_at: float = 0.0
    at_most: int = MAX_VALUES


class Writer:
    """Delivers operations to a store, from threads of its own.

    Attributes:
        run_ids: Key to id, of the runs that are open.
        experiment_ids: Name to id, of the experiments that were put.
        versions: Registered model to its versions that were put, as the registry has them.
        busy_s: Seconds that threads spent in the store, failures included.
        undelivered: Operations that the store had not taken when the writer was closed.
        refused: Operations that the store will never take; each was given up, so that it did not hold up the others.
    """

    def __init__(self, connect: Callable[[], Store], num_threads: int = 1) -> None:
        """Start the threads.

        Args:
            connect: Makes the store; called in a thread, again after a failure.
            num_threads: Calls under way at the same time; see `store.num_writers`.
        """
        self.run_ids: dict[str, str] = {}
        self.experiment_ids: dict[str, str] = {}
        self.versions: dict[str, set[str]] = {}
        self.busy_s = 0.0
        self.undelivered = 0
        self.refused = 0
        self._connect, self._connecting = connect, threading.Lock()
        self._store: Store | None = None
        self._lanes: dict[tuple[str, bool], _Lane] = {}
        self._maybe_created: dict[str, writes.OpenRun] = {}
        """Runs whose making failed once and may have happened all the same."""
        self._lost: set[str] = set()
        """Keys of runs that cannot be opened."""
        self._warned: set[str] = set()
        self._failing = False
        """Some lane is."""
        self._silent = False
        """The last attempt of any lane failed."""
        self._quiet_until = 0.0
        self._last_call_s = 0.0
        self._closing = self._over = False
        self._changed = threading.Condition()
        self._started_at = time.monotonic()
        for number in range(num_threads):  # daemons: a store that never answers must not keep the process alive
            threading.Thread(target=self._deliver_all, name=f"tracking-{number}", daemon=True).start()

    def put(self, key: str, write: writes.Write) -> None:
        """Queue a write to what `key` stands for; returns at once."""
        with self._changed:
            self._lanes.setdefault((key, isinstance(write, writes.Files)), _Lane()).pending.append(
                Operation(key, write)
            )
            self._changed.notify()

    @property
    def pending(self) -> int:
        """Operations that wait, or are under way."""
        with self._changed:
            return sum(len(lane.pending) for lane in self._lanes.values())

    def close(self, wait_s: float | None = None, patient: bool = False) -> None:
        """Deliver what is queued, and end the threads.

        Args:
            wait_s: How long at most; by default `FINAL_WAIT_S`, or `FINAL_WAIT_SHARE` of the time
                since the writer was made.
            patient: Whether that begins anew with every call that the store takes, since one that is behind is not
                away; until the wait is as long as all the time before it.
        """
        age_s = time.monotonic() - self._started_at
        if wait_s is None:
            wait_s = max(FINAL_WAIT_S, FINAL_WAIT_SHARE * age_s)
        most_s = max(wait_s, age_s) if patient else wait_s
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            pending, now = self.pending, time.monotonic()
            quiet_until, give_up = now + wait_s, now + most_s
            while self._lanes and (left_s := min(quiet_until, give_up) - time.monotonic()) > 0:
                self._changed.wait(left_s)
                if patient and self.pending != pending:
                    pending, quiet_until = self.pending, time.monotonic() + wait_s
            self._over = True
            self._changed.notify_all()
            self.undelivered = self.pending

    def _deliver_all(self) -> None:
        while True:
            with self._changed:
                lane = self._wait_for_lane()
                if lane is None:
                    return
                operations = _next(lane)
                lane.busy = True
                if self._silent:
                    self._quiet_until = time.monotonic() + RETRY_S  # one attempt tells for all
            start, error = time.perf_counter(), None
            try:
                self._deliver(*operations)
            except Exception as caught:  # noqa: BLE001  # whatever the store does, the study goes on
                error = caught
            with self._changed:
                self._last_call_s = time.perf_counter() - start
                self.busy_s += self._last_call_s
                lane.busy = False
                self._record_delivery(lane, operations, error)
                self._changed.notify_all()

    def _wait_for_lane(self) -> _Lane | None:
        """The lane whose turn it is; None when all is over."""
        while not self._over:
            ready = [lane for lane in self._lanes.values() if not lane.busy and self._is_deliverable(lane.pending[0])]
            now = time.monotonic()
            lane = min(ready, key=lambda one: self._turn(one, now), default=None)
            if lane is None:
                self._changed.wait()
                continue
            wait_s = max(self._due_at(lane), self._quiet_until) - now
            if wait_s <= 0:
                return lane
            self._changed.wait(wait_s)
        return None

    def _is_deliverable(self, operation: Operation) -> bool:
        """True if the run that it needs is open. A run ends after its files: one that has ended is whole."""
        if isinstance(operation.write, writes.Finish) and (operation.key, True) in self._lanes:
            return False
        needs = operation.write.needs(operation.key)
        return needs is None or needs in self.run_ids or needs in self._lost

    def _turn(self, lane: _Lane, now: float) -> tuple[bool, bool, float]:
        """Sorts the lanes that are due first, those of them that work before those that fail."""
        due_at = self._due_at(lane)
        return due_at > now, due_at <= now and lane.failing, due_at

    def _due_at(self, lane: _Lane) -> float:
        first, last = lane.pending[0], lane.pending[-1]
        gathers = (
            isinstance(first.write, writes.LogReport) and isinstance(last.write, writes.Rows) and not self._closing
        )
        gather_s = min(max(GATHER_S, GATHER_CALLS * self._last_call_s), GATHER_MAX_S)
        return max(lane.retry_at, first.put_at + (gather_s if gathers else 0.0))

    def _record_delivery(self, lane: _Lane, operations: list[Operation], error: Exception | None) -> None:
        first = operations[0]
        if error is not None and not (isinstance(error, StoreError) and error.permanent):
            if not self._failing:
                logger.warning("MLflow does not take a write (%s); it is kept and tried again.", first_line(error))
            self._failing = self._silent = lane.failing = True
            lane.retry_at = self._quiet_until = time.monotonic() + RETRY_S
            lane.at_most = max(1, len(operations) // 2)
            return
        if error is not None and len(operations) > 1:
            lane.at_most = 1
            return
        if error is not None:
            self._refuse(first, error)
        for _ in operations:
            lane.pending.popleft()
        lane.at_most = min(2 * lane.at_most, MAX_VALUES)
        lane.failing, lane.retry_at = False, 0.0
        self._silent, self._quiet_until = False, 0.0
        if not lane.pending:
            del self._lanes[first.key, isinstance(first.write, writes.Files)]
        if self._failing and not any(other.failing for other in self._lanes.values()):
            self._failing = False
            logger.warning("MLflow takes writes again; nothing was lost.")

    def _refuse(self, operation: Operation, error: Exception) -> None:
        self.refused += 1
        if isinstance(operation.write, writes.OpenRun):
            self._lost.add(operation.key)
        if operation.key not in self._warned:
            self._warned.add(operation.key)
            message = "MLflow refuses a write (%s of %s: %s); it is left out."
            logger.warning(message, operation.write.call, operation.key, first_line(error))

    def _deliver(self, operation: Operation, *more: Operation) -> None:
        with self._connecting:
            if self._store is None:
                self._store = self._connect()
        store, key = self._store, operation.key
        match operation.write:
            case writes.OpenExperiment():
                self.experiment_ids[key] = store.experiment(key)
            case writes.SetViews(states):
                store.set_views(key, states)
            case writes.OpenRun() as run:
                self._open_run(store, key, run)
            case _ if key in self._lost:
                raise StoreError("its run could not be opened", permanent=True)
            case writes.Rows():
                rows = [one.write for one in (operation, *more) if isinstance(one.write, writes.Rows)]
                store.log_rows(self.run_ids[key], *rows)
            case writes.LogTexts(texts):
                store.log_texts(self.run_ids[key], texts)
            case writes.LogTable(columns, name):
                store.log_table(self.run_ids[key], columns, name)
            case writes.LogModel(experiment, model):
                if (version := store.log_model(self.run_ids[key], experiment, model)) is not None:
                    self.versions.setdefault(str(model.registered), set()).add(version)
            case writes.MakeChampion(experiment, model):
                store.make_champion(self.run_ids[key], experiment, model)
            case writes.Finish(status, end_ms):
                store.finish(self.run_ids[key], status, end_ms)
                if (made := self._maybe_created.get(key)) is not None:
                    store.delete_duplicates(self.run_ids[key], made.experiment, made.tags, made.identity)
            case unknown:
                assert_never(unknown)

    def _open_run(self, store: Store, key: str, run: writes.OpenRun) -> None:
        if (study := run.tags.get(Tag.STUDY_RUN)) is not None:  # known by the study's key until the run exists
            if study in self._lost:
                raise StoreError("the run of its study could not be opened", permanent=True)
            run = replace(run, tags={**run.tags, Tag.STUDY_RUN: self.run_ids[study]})
        maybe_created = key in self._maybe_created
        self._maybe_created[key] = run
        if run.new and not maybe_created:
            run_id = store.create_run(run.experiment, run.name, run.start_ms, run.tags)
        else:
            run_id = store.open_run(run.experiment, run.name, run.start_ms, run.tags, run.identity)
        if not maybe_created:
            del self._maybe_created[key]
        self.run_ids[key] = run_id


def _next(lane: _Lane) -> list[Operation]:
    """The next operation; with one that logs rows, those that follow it, as many as one call takes."""
    found, num_values = [], 0
    for operation in islice(lane.pending, lane.at_most):
        if not isinstance(operation.write, writes.Rows):
            break
        num_values += len(operation.write.values)
        if num_values > MAX_VALUES:
            break
        found.append(operation)
    return found or [lane.pending[0]]
