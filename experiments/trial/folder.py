"""A trial's own folder: what survives its process. Standard library only.

`events.jsonl` is the log of its events, `checkpoints/<env steps>/` has its checkpoints. Each is written whole or not at
all, so that whoever comes after a kill finds nothing half done.
"""

import fcntl
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import IO, Any

from experiments.contract import FAILED
from experiments.trial.event_log import DamagedFileError, EventLog, JsonLines
from experiments.trial.events import Event, reports

STATE_FILE = "trial_state.json"
"""File of a checkpoint: the trial's counters."""
TRIAL_FILE = "trial.json"
"""File of a checkpoint: the TrialConfig."""
LOG_FILE = "events.jsonl"
PROVENANCE_FILE = "provenance.json"
ERROR_FILE = "error.txt"
"""Tracebacks of what was raised."""
PRINTED_FILES = ("stdout", "stderr")
"""The output of its process; as Tune names the files."""
_SIZES_FILE = "complete.json"
_PARTIAL = ".partial"


class TrialFolder:
    """A trial's own folder, made if need be."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = EventLog(JsonLines(path / LOG_FILE))
        self._lock: IO[str] | None = None

    def open(self) -> None:
        """Make the folder, and keep it from being deleted.

        Nobody waits for a process of an earlier attempt that lives on, perhaps on a node that is cut off: what it
        writes is refused.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = (self.path / "lock").open("a+")
        locked(self._lock, shared=True)

    def close(self, logs: Path | None = None) -> None:
        """Let go of the folder.

        Args:
            logs: A folder with what the process printed, which is added to the trial's files; None: there is none.
        """
        for name in PRINTED_FILES:
            with suppress(OSError):  # there is none, or a full disk: words for a person
                if logs is not None and (printed := (logs / name).read_bytes()):
                    with (self.path / name).open("ab") as file:
                        file.write(printed)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def check_reports(self, events: Sequence[Event], expected: Iterable[int]) -> None:
        """Make sure that the reports at some env steps are among the events of the log.

        Raises:
            DamagedFileError: One is not.
        """
        if missing := set(expected) - {report.env_steps for report in reports(events)}:
            raise DamagedFileError(
                f"{self.path / LOG_FILE}: lacks the report at {min(missing)} env steps, and the trial has a checkpoint "
                f"beyond. Remove the folder {self.path} to run its trial again."
            )

    def began_with(self, now: Mapping[str, Any]) -> Mapping[str, Any]:
        """The provenance that the trial began with; `now`, if it begins now."""
        return began_with(self.path, now)

    def beside(self, name: str) -> "TrialFolder":
        """Another trial's folder of the same study."""
        return TrialFolder(self.path.parent / name)

    def of_study(self, name: str) -> Path:
        """A file that the study keeps for all of its trials."""
        return self.path.parent.parent / name

    def checkpoint(self, env_steps: int) -> Path:
        """Where the checkpoint of a place on the report grid is, if there is one."""
        return self.path / "checkpoints" / f"{env_steps:012d}"

    def take(self, env_steps: int) -> Path:
        """Where a checkpoint is on this machine, which it is brought to if need be."""
        return self.checkpoint(env_steps)

    def fetch(self) -> None:
        """Bring all checkpoints to this machine, if they are elsewhere."""

    def saved(self) -> list[int]:
        """Env steps of the complete checkpoints, the oldest first, wherever they are."""
        return [int(path.name) for path in self.checkpoints()]

    def check_saved(self, env_steps: int) -> None:
        """Make sure that a checkpoint is whole.

        Raises:
            DamagedFileError: It is not.
        """
        check_checkpoint(self.checkpoint(env_steps))

    def checkpoints(self) -> list[Path]:
        """The complete checkpoints on this machine, the oldest first."""
        return sorted(p for p in self.path.glob("checkpoints/*") if p.name.isdigit())

    def add_checkpoint(
        self, env_steps: int, attempt: int, write: Callable[[Path], None], keep: int, keep_best: bool
    ) -> Path:
        """Write a checkpoint, and then remove what the policy does not keep.

        Args:
            env_steps: Its place on the report grid.
            attempt: Attempt that writes it.
            write: Writes its files into the folder that it is given.
            keep: Number of the newest that are kept.
            keep_best: Whether the one with the highest evaluation return is kept as well.

        Raises:
            OSError: The disk takes no more; the earlier checkpoints are as before.
            RefusedEventError: A later attempt has begun; they are as before.
        """
        final = self.checkpoint(env_steps)
        partial = final.with_suffix(f".{attempt}{_PARTIAL}")  # an earlier attempt may be writing at the same place
        for left in final.parent.glob(f"*{_PARTIAL}"):
            number = left.suffixes[0][1:]
            if not number.isdigit() or int(number) <= attempt:
                shutil.rmtree(left, ignore_errors=True)
        try:
            partial.mkdir(parents=True)
            write(partial)
            sizes = {str(p.relative_to(partial)): p.stat().st_size for p in sorted(partial.rglob("*")) if p.is_file()}
            (partial / _SIZES_FILE).write_text(json.dumps(sizes))
            self.log.check(attempt)
            if final.exists():  # the same stretch, trained again after a fault
                shutil.rmtree(final)
            partial.rename(final)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        self._prune(keep, keep_best)
        return final

    def copy_checkpoint(self, checkpoint: Path) -> None:
        """Keep a copy of a checkpoint that another trial wrote, at the same env steps.

        Args:
            checkpoint: Where that one is on this machine.

        Raises:
            OSError: It cannot be read, or the disk takes no more.
        """

        def write(path: Path) -> None:
            shutil.copytree(checkpoint, path, ignore=shutil.ignore_patterns(_SIZES_FILE), dirs_exist_ok=True)

        self.add_checkpoint(int(checkpoint.name), self.log.attempt, write, keep=1, keep_best=False)

    def leave_out_once_over(self, name: str) -> bool:
        """Remove a file from all checkpoints of a trial that nobody trains on any more; whether there were any.

        Args:
            name: Of the file, within a checkpoint.
        """
        self.log.new()
        if self.log.end is None or self.log.end.status == FAILED:  # what failed may be tried again
            return False
        found = [checkpoint for checkpoint in self.checkpoints() if (checkpoint / name).exists()]
        for checkpoint in found:
            sizes = json.loads((checkpoint / _SIZES_FILE).read_text())
            sizes.pop(name, None)
            written = checkpoint / f"{_SIZES_FILE}{_PARTIAL}"
            written.write_text(json.dumps(sizes))
            written.rename(checkpoint / _SIZES_FILE)
            (checkpoint / name).unlink()
        return bool(found)

    def _prune(self, keep: int, keep_best: bool) -> None:
        found = self.checkpoints()
        kept = set(found[-keep:])
        if keep_best:
            kept.add(max(found, key=_return_mean))
        for path in found:
            if path not in kept:
                shutil.rmtree(path, ignore_errors=True)


def began_with(folder: Path, now: Mapping[str, Any]) -> Mapping[str, Any]:
    """The provenance in a folder: what is there, else `now`, which is then put there."""
    path = folder / PROVENANCE_FILE
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        with suppress(OSError):  # no more than a record is lost, and the store has it as well
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(now))
        return now


def check_checkpoint(path: Path) -> None:
    """Make sure that a checkpoint is whole.

    Raises:
        DamagedFileError: It is not.
    """
    if damage := damage_of(path):
        raise DamagedFileError(
            f"{damage}. Remove the folder {path} to go on from the checkpoint before it, or from the start."
        )


def damage_of(checkpoint: Path) -> str:
    """The damage to the files of a checkpoint, as a clause that names one; "" if they are whole."""
    try:
        sizes = json.loads((checkpoint / _SIZES_FILE).read_text())
    except (OSError, ValueError) as error:
        return f"{checkpoint / _SIZES_FILE}: cannot be read ({error})"
    for name, size in sizes.items():
        file = checkpoint / name
        if not file.is_file():
            return f"{file}: is missing"
        if file.stat().st_size != size:
            return f"{file}: has {file.stat().st_size} bytes instead of {size}"
    return ""


def locked(file: IO[Any] | FileIO, shared: bool = False) -> bool:
    """Take the lock on an open file, until it is closed or its process ends; False if another process has it.

    Args:
        file: A file that is open for reading and writing.
        shared: Whether others may have it as well that share it.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _return_mean(checkpoint: Path) -> float:
    value = json.loads((checkpoint / STATE_FILE).read_text())["return_mean"]
    return float("-inf") if value is None else float(value)
