"""Delivers writes to a store from threads of its own: in order for each run, side by side for different runs.

A store that fails never stops a study: writes wait and are tried again. What a store does not take before the
end is counted, and can be put again later, by whoever has it in a file: no write does anything when it is
delivered a second time.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from experiments.config.errors import first_line
from experiments.contract import Tag
from experiments.tracking import writes
from experiments.tracking.lanes import Lane, Lanes, Operation
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
FINAL_PATIENCE_S = 600.0
"""How long one that goes on taking writes is waited for at least: a study that was resumed may have taken a minute."""

logger = logging.getLogger(__name__)


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
        self._lanes = Lanes(lambda key: key in self.run_ids or key in self._lost, self._gather_s)
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
            self._lanes.put(Operation(key, write))
            self._changed.notify()

    @property
    def pending(self) -> int:
        """Operations that wait, or are under way."""
        with self._changed:
            return self._lanes.num_pending

    def close(self, wait_s: float | None = None, patient: bool = False) -> None:
        """Deliver what is queued, and end the threads.

        Args:
            wait_s: How long at most; by default `FINAL_WAIT_S`, or `FINAL_WAIT_SHARE` of the time
                since the writer was made.
            patient: Whether that begins anew with every call that the store takes, since one that is behind is not
                away; until the wait is as long as all the time before it, or `FINAL_PATIENCE_S`.
        """
        age_s = time.monotonic() - self._started_at
        if wait_s is None:
            wait_s = max(FINAL_WAIT_S, FINAL_WAIT_SHARE * age_s)
        most_s = max(wait_s, age_s, FINAL_PATIENCE_S) if patient else wait_s
        with self._changed:
            self._closing = True
            self._lanes.hurry()
            self._changed.notify_all()
            pending, now = self.pending, time.monotonic()
            quiet_until, give_up = now + wait_s, now + most_s
            while self.pending and (left_s := min(quiet_until, give_up) - time.monotonic()) > 0:
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
                operations = lane.next()
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
                if lane.pending:
                    self._lanes.queue(lane)
                self._changed.notify_all()

    def _wait_for_lane(self) -> Lane | None:
        """The lane whose turn it is; None when all is over."""
        while not self._over:
            now = time.monotonic()
            if now >= self._quiet_until and (lane := self._lanes.due(now)) is not None:
                return lane
            wait_s = max(self._lanes.next_at(), self._quiet_until) - now
            self._changed.wait(None if math.isinf(wait_s) else max(0.0, wait_s))
        return None

    def _gather_s(self) -> float:
        return 0.0 if self._closing else min(max(GATHER_S, GATHER_CALLS * self._last_call_s), GATHER_MAX_S)

    def _record_delivery(self, lane: Lane, operations: list[Operation], error: Exception | None) -> None:
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
        self._lanes.remove(lane, operations)
        lane.at_most = min(2 * lane.at_most, MAX_VALUES)
        lane.failing, lane.retry_at = False, 0.0
        self._silent, self._quiet_until = False, 0.0
        if self._failing and not any(other.failing for other in self._lanes.of.values()):
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
