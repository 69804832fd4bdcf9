"""Delivers operations to a store, in order, from a thread of its own.

A store that fails never stops a study: operations wait, are tried again, and what cannot be delivered in the end is kept in a file.
"""

import collections
import itertools
import json
import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.errors import first_line
from experiments.tracking.store import Store

RETRY_S = 2.0
GATHER_S = 1.0
"""How long reports are gathered: a write of several costs little more than a write of one."""
FINAL_WAIT_S = 30.0
"""How long the end of a study waits for a store that does not answer."""

STUDY_RUN = "study_run"
"""Tag of a trial's run: the id of its study's run."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Operation:
    """One call of a `Store`, on the run that `key` stands for."""

    method: str
    key: str
    args: tuple[Any, ...]


class Writer:
    """Delivers operations to a store, in order, from a thread of its own."""

    def __init__(self, connect: Callable[[], Store], spool: Path) -> None:
        """Start the thread.

        Args:
            connect: Makes the store; called in the thread, again after a failure.
            spool: File for what cannot be delivered.
        """
        self._connect, self._spool = connect, spool
        self._store: Store | None = None
        self._pending: collections.deque[Operation] = collections.deque()
        self._changed = threading.Condition()
        self._closing_at = math.inf
        self.run_ids: dict[str, str] = {}
        self.experiment_ids: dict[str, str] = {}
        self.busy_s = 0.0
        """Seconds spent in the store, failures included."""
        self.undelivered = 0
        self._thread = threading.Thread(target=self._deliver_all, name="tracking", daemon=True)
        self._thread.start()

    def put(self, method: str, key: str, *args: Any) -> None:
        """Queue a call of `Store.method` on the run of `key`; returns at once."""
        with self._changed:
            self._pending.append(Operation(method, key, args))
            self._changed.notify()

    def close(self, wait_s: float = FINAL_WAIT_S) -> None:
        """Deliver what is queued, for `wait_s` at most if the store fails, and end the thread."""
        with self._changed:
            self._closing_at = time.monotonic() + wait_s
            self._changed.notify()
        self._thread.join()

    def _deliver_all(self) -> None:
        failing = False
        while True:
            with self._changed:
                while not self._pending and self._closing_at == math.inf:
                    self._changed.wait()
                if not self._pending:
                    return
                if self._pending[0].method == "log_metrics" and self._closing_at == math.inf:
                    self._changed.wait_for(lambda: self._closing_at < math.inf, GATHER_S)
                operation, *more = self._next()
            start = time.perf_counter()
            try:
                self._deliver(operation, *more)
            except Exception as error:  # noqa: BLE001  # whatever the store does, the study goes on
                if not failing:
                    logger.warning("MLflow does not take a write (%s); it is kept and tried again.", first_line(error))
                failing = True
                self._store = None
                if time.monotonic() >= self._closing_at:
                    self._save_undelivered()
                    return
                with self._changed:
                    self._changed.wait(RETRY_S)
            else:
                if failing:
                    logger.warning("MLflow takes writes again; nothing was lost.")
                failing = False
                with self._changed:
                    for done in (operation, *more):
                        self._pending.remove(done)
            finally:
                self.busy_s += time.perf_counter() - start

    def _next(self) -> list[Operation]:
        """The next operation, and with a report all that wait for the same run before something else does."""
        first = self._pending[0]
        if first.method != "log_metrics":
            return [first]
        of_run = (o for o in self._pending if o.key == first.key)
        return list(itertools.takewhile(lambda o: o.method == "log_metrics", of_run))

    def _deliver(self, operation: Operation, *more: Operation) -> None:
        if self._store is None:
            self._store = self._connect()
        if operation.method == "create_run":
            experiment, name, start_ms, tags = operation.args
            if STUDY_RUN in tags:  # known by the study's key until the run exists
                tags = {**tags, STUDY_RUN: self.run_ids[tags[STUDY_RUN]]}
            self.run_ids[operation.key] = self._store.create_run(experiment, name, start_ms, tags)
        elif operation.method == "experiment":
            self.experiment_ids[operation.key] = self._store.experiment(operation.key)
        elif operation.method == "set_views":
            self._store.set_views(operation.key, *operation.args)
        elif operation.method == "log_metrics":
            self._store.log_reports(self.run_ids[operation.key], [o.args for o in (operation, *more)])
        else:
            getattr(self._store, operation.method)(self.run_ids[operation.key], *operation.args)

    def _save_undelivered(self) -> None:
        self.undelivered = len(self._pending)
        with self._spool.open("a") as file:
            for operation in self._pending:
                line = {"method": operation.method, "run": self.run_ids.get(operation.key, operation.key), "args": operation.args}
                file.write(json.dumps(line, default=str) + "\n")
