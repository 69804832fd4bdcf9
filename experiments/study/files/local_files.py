"""Keeps other drivers away from a study in a folder, as `StoredStudy` does from one in an object store."""

from contextlib import suppress
from io import FileIO
from pathlib import Path

from experiments.study.files.stored_study import LOCK_FILE
from experiments.trial.folder import locked


class LocalLock:
    """The lock of a study in a folder: a file that its driver has locked, and in which it says who it is."""

    def __init__(self, folder: Path) -> None:
        """A lock, which is not taken yet.

        Args:
            folder: The study's, absolute; need not be there.
        """
        self._path = folder / LOCK_FILE
        self._file: FileIO | None = None

    def take(self, driver: str) -> str:
        """Keep other drivers away, until this process ends or `release` is called.

        Args:
            driver: What others are told of this process.

        Returns:
            Which driver is at work on the study; "" if it is this one now.

        Raises:
            OSError: The disk refuses.
        """
        file = self._path.open("a+b", buffering=0)
        if not locked(file):
            with file:
                return _said_in(file)
        self._file = file
        with suppress(OSError):  # a full disk, on which a study that is finished can still be resumed
            file.truncate(0)
            file.write(driver.encode())
        return ""

    def release(self) -> None:
        """Let other drivers take up the study."""
        if self._file is not None:
            with suppress(OSError):
                self._file.truncate(0)
            self._file.close()
            self._file = None

    def driver(self) -> str:
        """Which driver is at work on the study; "" if none is."""
        try:
            with self._path.open("r+b", buffering=0) as file:
                return "" if locked(file) else _said_in(file)
        except OSError:
            return ""


def _said_in(lock: FileIO) -> str:
    lock.seek(0)
    return lock.read().decode(errors="replace") or "another process"
