"""A trial's own folder in an object store, with a copy on the machine that works with it."""

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from experiments.storage.objects import Objects
from experiments.trial.event_log import EventLog
from experiments.trial.folder import ERROR_FILE, PRINTED_FILES, PROVENANCE_FILE, TrialFolder

_CHECKPOINTS = "checkpoints"
_BLOCK = 16
"""Events of a log that are read with one request."""


class EventObjects:
    """Records as objects of a store, of which nobody can write the same number twice.

    Each is an object of its own, so that it can be added to a log that nothing can be added to. Every `_BLOCK`-th has
    the ones since the last such one as well, a line each: who reads a log reads these, and the few after them.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    @property
    def place(self) -> str:
        """The address of all of them."""
        return self._objects.uri

    def records(self, after: int) -> Sequence[Mapping[str, Any]]:
        """As `Storage` says."""
        there = [int(name.removesuffix(".jsonl")) for name in self._objects.names()]
        blocks = {number for number in there if number % _BLOCK == 0}
        needed = {block if (block := -(-number // _BLOCK) * _BLOCK) in blocks else number for number in there[after:]}
        contents = self._objects.read_all([_event(number) for number in sorted(needed)])
        found = [json.loads(line) for content in contents for line in content.splitlines()]
        return [record for record in found if record["number"] > after]

    def add(self, number: int, record: Mapping[str, Any]) -> None:
        """As `Storage` says."""
        block = [] if number % _BLOCK else self.records(number - _BLOCK)[: _BLOCK - 1]
        self._objects.create(_event(number), "\n".join(map(json.dumps, [*block, record])).encode())


class StoredTrialFolder(TrialFolder):
    """A trial's own folder in an object store.

    Events are objects of their own. A checkpoint is one object, a tar, which is there whole or not at all, and before
    the event of its report: whatever becomes of a process, the store holds a beginning of the trial, from which
    another one goes on.
    """

    def __init__(self, study: Objects, name: str, copy: Path, temporary: bool = False) -> None:
        """A folder, of which nothing is read yet.

        Args:
            study: Objects of the study.
            name: The trial's folder in the study's.
            copy: The trial's folder on this machine, in one of the study's that is laid out in the same way.
            temporary: Whether `close` removes the study's folder on this machine.
        """
        super().__init__(copy)
        self._study, self._objects, self._temporary = study, study.below(f"trials/{name}"), temporary
        self.log = EventLog(EventObjects(self._objects.below("events")))

    def open(self) -> None:
        """Bring what there is to this machine.

        A process of an earlier attempt may live elsewhere: what it adds to the log is refused.
        """
        self.fetch()

    def close(self, logs: Path | None = None) -> None:
        """As of a local folder; what the trial's processes printed goes to the store."""
        super().close(logs)
        with suppress(OSError):  # words for a person, of a trial whose events are safe
            for name in (ERROR_FILE, *PRINTED_FILES):
                if (file := self.path / name).is_file():
                    self._objects.write(name, file)
        if self._temporary:
            shutil.rmtree(self.path.parent.parent, ignore_errors=True)

    def fetch(self) -> None:
        """Bring the checkpoints and the trial's files to this machine, in the place of what is there."""
        shutil.rmtree(self.path / _CHECKPOINTS, ignore_errors=True)
        (self.path / _CHECKPOINTS).mkdir(parents=True)
        for env_steps in self.saved():
            self.take(env_steps)
        for name in self._objects.files():
            (self.path / name).write_bytes(self._objects.read(name))

    def began_with(self, now: Mapping[str, Any]) -> Mapping[str, Any]:
        """The provenance that the trial began with; `now`, if it begins now."""
        with suppress(OSError):  # as on a disk: no more than a record is lost
            try:
                self._objects.create(PROVENANCE_FILE, json.dumps(now).encode())
            except FileExistsError:
                return dict(json.loads(self._objects.read(PROVENANCE_FILE)))
        return now

    def beside(self, name: str) -> "StoredTrialFolder":
        """Another trial's folder of the same study."""
        return StoredTrialFolder(self._study, name, self.path.parent / name)

    def of_study(self, name: str) -> Path:
        """A file that the study keeps for all of its trials."""
        file = super().of_study(name)
        file.write_bytes(self._study.read(name))
        return file

    def saved(self) -> list[int]:
        """Env steps of the checkpoints in the store, the oldest first."""
        return [int(name.removesuffix(".tar")) for name in self._objects.below(_CHECKPOINTS).names()]

    def check_saved(self, env_steps: int) -> None:
        """Nothing: an object is whole."""

    def take(self, env_steps: int) -> Path:
        """Bring a checkpoint to this machine; where it is."""
        into = self.checkpoint(env_steps)
        into.parent.mkdir(parents=True, exist_ok=True)
        self._objects.read_folder(_object(env_steps), into)
        return into

    def add_checkpoint(
        self, env_steps: int, attempt: int, write: Callable[[Path], None], keep: int, keep_best: bool
    ) -> Path:
        """As in a local folder; what the policy does not keep is removed when the store has the new one.

        Raises:
            OSError: The disk or the store takes no more; the earlier checkpoints in the store are as before.
            RefusedEventError: A later attempt has begun; they are as before.
        """
        final = super().add_checkpoint(env_steps, attempt, write, keep, keep_best)
        self._objects.write_folder(_object(env_steps), final)
        kept = {int(path.name) for path in self.checkpoints()}
        self._objects.remove(_object(each) for each in self.saved() if each not in kept)
        return final

    def leave_out_once_over(self, name: str) -> bool:
        """As in a local folder: the checkpoints without it take the place of those with it."""
        found = super().leave_out_once_over(name)
        for checkpoint in self.checkpoints() if found else []:
            self._objects.write_folder(f"{_CHECKPOINTS}/{checkpoint.name}.tar", checkpoint)
        return found


def folder_at(place: str) -> TrialFolder:
    """A trial's own folder, for the process that trains it.

    Args:
        place: Path of the folder, or its address in an object store.
    """
    if "://" not in place:
        return TrialFolder(Path(place))
    study, _, name = place.rpartition("/trials/")
    return StoredTrialFolder(
        Objects(study), name, Path(tempfile.mkdtemp(prefix="rl-study-")) / "trials" / name, temporary=True
    )


def _event(number: int) -> str:
    return f"{number:06d}.jsonl"


def _object(env_steps: int) -> str:
    return f"{_CHECKPOINTS}/{env_steps:012d}.tar"
