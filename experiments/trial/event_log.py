"""The log of a trial's events: each is in it before anybody hears of it. Standard library only.

Whoever comes later, a new process of the trial or a new driver, finds all that was said. The log is kept by a
`Storage`, of which an object store needs no more than "write this object unless it exists" and "list the objects".
"""

import errno
import fcntl
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from experiments.contract import FAILED
from experiments.trial.events import Ended, Event, Started, event_of, record_of
from experiments.trial.json_lines import add_line, cut_torn_line, lines_of


class DamagedFileError(RuntimeError):
    """A file of an earlier process is missing, cut short, or unreadable; the message names it and the fix."""


class RefusedEventError(RuntimeError):
    """The log takes no such event: the trial is over, or a later attempt has begun."""


class Storage(Protocol):
    """Keeps the records of one log."""

    @property
    def place(self) -> str:
        """Where, for a person."""

    def records(self, after: int) -> Sequence[Mapping[str, Any]]:
        """The records beyond the first `after`, in order.

        Raises:
            ValueError: One is not readable.
        """

    def add(self, number: int, record: Mapping[str, Any]) -> None:
        """Keep a record, whole or not at all.

        Raises:
            FileExistsError: There is one with this number.
            OSError: The storage takes no more; it is as before.
        """


class JsonLines:
    """Records as the lines of a local file, to which several processes may add."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read, self._offset = 0, 0  # records, and bytes, that were read

    @property
    def place(self) -> str:
        """The file."""
        return str(self._path)

    def records(self, after: int) -> Sequence[Mapping[str, Any]]:
        """As `Storage` says; a line that a kill cut short is no record."""
        known = after if after == self._read else 0
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset if known else 0)
                content = file.read()
        except FileNotFoundError:
            return []
        found, size = lines_of(content)
        self._read, self._offset = known + len(found), (self._offset if known else 0) + size
        return found[after - known :]

    def add(self, number: int, record: Mapping[str, Any]) -> None:
        """As `Storage` says."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
            cut_torn_line(self._path)
            if number != self._read + 1 or self._path.stat().st_size != self._offset:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self._path))
            add_line(self._path, record)


class EventLog:
    """The events of one trial, in order.

    Attributes:
        count: Number of events that were read.
        attempt: Number of the newest attempt.
        end: How the trial ended; None while it has not. A trial that failed has not ended any more when
            it is started again.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.count = 0
        self.attempt = 0
        self.end: Ended | None = None

    def new(self) -> list[Event]:
        """The events that were added since this was last called, or `add` was.

        Raises:
            DamagedFileError: A record cannot be read.
        """
        events = self._events(self.count)
        for event in events:
            self._follow(event)
        return events

    def all(self) -> list[Event]:
        """All events. What failed and was started again has not ended.

        Raises:
            DamagedFileError: A record cannot be read.
        """
        events = self._events(0)
        started = max((e.number for e in events if isinstance(e, Started)), default=0)
        return [e for e in events if not isinstance(e, Ended) or e.number > started]

    def add(self, event: Event, attempt: int | None = None) -> list[Event]:
        """Keep an event.

        Args:
            event: Its number and attempt are set here.
            attempt: Attempt of the process that it comes from; None: the newest.

        Returns:
            As `new`; the event as it is in the log is the last.

        Raises:
            RefusedEventError: The trial is over, or `attempt` is not the newest.
            OSError: The storage takes no more; it is as before.
        """
        found: list[Event] = []
        while True:
            found += self.new()
            if self.end is not None and not (isinstance(event, Started) and self.end.status == FAILED):
                raise RefusedEventError(f"{self._storage.place}: the trial has {self.end.status}")
            if attempt is not None and attempt != self.attempt:
                raise self._over(attempt, self.attempt)
            mine = self.attempt + 1 if isinstance(event, Started) else self.attempt
            kept = replace(event, number=self.count + 1, attempt=mine)
            try:
                self._storage.add(kept.number, record_of(kept))
            except FileExistsError:
                continue
            return [*found, *self.new()]

    def check(self, attempt: int) -> None:
        """Make sure that an attempt is the newest, for what a process writes beside its events.

        Raises:
            RefusedEventError: A later one has begun.
            DamagedFileError: A record cannot be read.
        """
        newest = max((event.attempt for event in self._events(self.count)), default=self.attempt)
        if attempt != newest:
            raise self._over(attempt, newest)

    def start_again(self) -> bool:
        """Begin another attempt at a trial that failed; whether it had.

        A disk that takes no more leaves it for later.
        """
        self.new()
        failed = self.end is not None and self.end.status == FAILED
        if failed:
            with suppress(OSError):
                self.add(Started())
        return failed

    def _over(self, attempt: int, newest: int) -> RefusedEventError:
        return RefusedEventError(f"{self._storage.place}: attempt {attempt} is over, attempt {newest} has begun")

    def _events(self, after: int) -> list[Event]:
        place = self._storage.place
        fix = f"Remove the folder {place.rpartition('/')[0]} to run its trial again."
        try:
            events = [event_of(record) for record in self._storage.records(after)]
        except (ValueError, TypeError, KeyError) as error:  # no JSON; not what a record holds
            raise DamagedFileError(f"{place}: cannot be read ({error}). {fix}") from None
        for number, event in enumerate(events, after + 1):
            if event.number != number:
                raise DamagedFileError(f"{place}: lacks the event {number}. {fix}")
        return events

    def _follow(self, event: Event) -> None:
        self.count, self.attempt = event.number, event.attempt
        self.end = event if isinstance(event, Ended) else None if isinstance(event, Started) else self.end
