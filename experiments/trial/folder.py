"""A trial's own folder: what survives its process. Standard library only.

`reports.jsonl` has every report, `restarts.jsonl` why the trial was taken up again, `checkpoints/<env steps>/` its checkpoints. Each is
written by the trial's process alone, and whole or not at all, so that whoever comes after a kill finds nothing half done.
"""

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

STATE_FILE = "trial_state.json"
"""File of a checkpoint: the trial's counters."""
TRIAL_FILE = "trial.json"
"""File of a checkpoint: the TrialConfig."""
_SIZES_FILE = "complete.json"
_LOCK_WAIT_S = 90.0
_Line = TypeVar("_Line")


class DamagedFileError(RuntimeError):
    """A file of an earlier process is missing, cut short, or unreadable; the message names it and the fix."""


@dataclass(frozen=True)
class Report:
    """One report of a trial.

    Attributes:
        env_steps: The point on the study's report grid.
        at_ms: When it was made, ms since the epoch.
        metrics: As in `experiments.metrics`, and nothing else.
        done: Whether the trial finished with it.
        weights: Digest of the final weights, with the last report.
    """

    env_steps: int
    at_ms: int
    metrics: Mapping[str, float]
    done: bool = False
    weights: str = ""


@dataclass(frozen=True)
class Restart:
    """Why a trial was taken up again from a checkpoint, or from its start.

    Attributes:
        reason: In words.
        env_steps: The last report before it.
        at_ms: When, ms since the epoch.
        kind: `fault` (something raised), `process` (a process died) or `study` (the study was interrupted and resumed).
    """

    reason: str
    env_steps: int
    at_ms: int
    kind: str


class TrialFolder:
    """A trial's own folder, made if need be."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] | None = None
        self._next_beat = 0.0

    def open(self) -> None:
        """Make the folder, and wait until no other process writes in it: one that lost its driver may live for some seconds.

        Raises:
            RuntimeError: Another process still does.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = (self.path / "lock").open("w")
        give_up = time.monotonic() + _LOCK_WAIT_S
        while not locked(self._lock):
            if time.monotonic() >= give_up:
                raise RuntimeError(f"{self.path} is in use by another process")
            time.sleep(0.1)
        for path in self.path.glob("*.jsonl"):
            cut_torn_line(path)
        self.beat()

    def close(self) -> None:
        """Let go of the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def beat(self) -> None:
        """Leave a sign of life; at most one a second, so that it can be done often."""
        if time.monotonic() >= self._next_beat:
            self._next_beat = time.monotonic() + 1.0
            (self.path / "heartbeat").touch()

    def last_beat(self) -> float | None:
        """When the last sign of life was left, as `time.time()`; None without any."""
        try:
            return (self.path / "heartbeat").stat().st_mtime
        except FileNotFoundError:
            return None

    def reports(self) -> list[Report]:
        """All reports, in order. A line that a kill cut short is no report."""
        return _read(self.path / "reports.jsonl", Report)

    def check_reports(self, expected: Iterable[int]) -> None:
        """Make sure that the reports at some env steps are there.

        Raises:
            DamagedFileError: One is not.
        """
        if missing := set(expected) - {report.env_steps for report in self.reports()}:
            raise DamagedFileError(
                f"{self.path / 'reports.jsonl'}: lacks the report at {min(missing)} env steps, and the trial has a checkpoint beyond. "
                f"Remove the folder {self.path} to run its trial again."
            )

    def add_report(self, report: Report) -> None:
        """Keep a report.

        Raises:
            OSError: The disk takes no more; the file is as before.
        """
        add_line(self.path / "reports.jsonl", vars(report))

    def restarts(self) -> list[Restart]:
        """How often and why the trial was taken up again."""
        return _read(self.path / "restarts.jsonl", Restart)

    def add_restart(self, restart: Restart) -> None:
        """Keep a restart.

        Raises:
            OSError: The disk takes no more; the file is as before.
        """
        add_line(self.path / "restarts.jsonl", vars(restart))

    def began_with(self, now: Mapping[str, Any]) -> Mapping[str, Any]:
        """The provenance that the trial began with; `now`, if it begins now."""
        return began_with(self.path, now)

    def beside(self, name: str) -> "TrialFolder":
        """Another trial's folder of the same study."""
        return TrialFolder(self.path.parent / name)

    def checkpoint(self, env_steps: int) -> Path:
        """Where the checkpoint of a place on the report grid is, if there is one."""
        return self.path / "checkpoints" / f"{env_steps:012d}"

    def checkpoints(self) -> list[Path]:
        """The complete checkpoints, the oldest first."""
        return sorted(p for p in self.path.glob("checkpoints/*") if p.name.isdigit())

    def add_checkpoint(self, env_steps: int, write: Callable[[Path], None], keep: int, keep_best: bool) -> Path:
        """Write a checkpoint, and then remove what the policy does not keep.

        Args:
            env_steps: Its place on the report grid.
            write: Writes its files into the folder that it is given.
            keep: How many of the newest are kept.
            keep_best: Whether the one with the highest evaluation return is kept as well.

        Raises:
            OSError: The disk takes no more; the earlier checkpoints are as before.
        """
        final = self.checkpoint(env_steps)
        partial = final.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            partial.mkdir(parents=True)
            write(partial)
            sizes = {str(p.relative_to(partial)): p.stat().st_size for p in sorted(partial.rglob("*")) if p.is_file()}
            (partial / _SIZES_FILE).write_text(json.dumps(sizes))
            if final.exists():  # the same stretch, trained again after a fault
                shutil.rmtree(final)
            partial.rename(final)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        self._prune(keep, keep_best)
        return final

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
    path = folder / "provenance.json"
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
    fix = f"Remove the folder {path} to go on from the checkpoint before it, or from the start."
    try:
        sizes = json.loads((path / _SIZES_FILE).read_text())
    except (OSError, ValueError) as error:
        raise DamagedFileError(f"{path / _SIZES_FILE}: cannot be read ({error}). {fix}") from None
    for name, size in sizes.items():
        file = path / name
        if not file.is_file():
            raise DamagedFileError(f"{file}: is missing. {fix}")
        if file.stat().st_size != size:
            raise DamagedFileError(f"{file}: has {file.stat().st_size} bytes instead of {size}. {fix}")


def locked(file: IO[str]) -> bool:
    """Take the lock on an open file, until it is closed or its process ends; False if another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _return_mean(checkpoint: Path) -> float:
    value = json.loads((checkpoint / STATE_FILE).read_text()).get("return_mean")
    return float("-inf") if value is None else float(value)


def _read(path: Path, kind: type[_Line]) -> list[_Line]:
    try:
        return [kind(**line) for line in read_lines(path)]
    except (ValueError, TypeError) as error:  # no JSON; not what a line holds
        raise DamagedFileError(f"{path}: cannot be read ({error}). Remove the folder {path.parent} to run its trial again.") from None


def read_lines(path: Path) -> list[Mapping[str, Any]]:
    """The lines of a JSON Lines file; none if there is no file. A line that a kill cut short is none.

    Raises:
        ValueError: A line is not JSON.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in content[: content.rfind(b"\n") + 1].splitlines()]


def cut_torn_line(path: Path) -> None:
    """Remove what a kill left of a line."""
    content = path.read_bytes()
    os.truncate(path, content.rfind(b"\n") + 1)


def add_line(path: Path, content: Mapping[str, Any]) -> None:
    """Add a line to a JSON Lines file.

    Raises:
        OSError: The disk takes no more; the file is as before.
    """
    line = (json.dumps(content) + "\n").encode()
    with path.open("ab", buffering=0) as file:
        end = file.tell()
        try:
            if file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        except OSError as error:
            file.truncate(end)
            raise OSError(error.errno, error.strerror, str(path)) from None
