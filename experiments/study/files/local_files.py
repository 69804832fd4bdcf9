"""A study in a folder of this machine, or of a file system that several share."""

from contextlib import suppress
from io import FileIO
from pathlib import Path

from experiments.study.files.study_files import LOCK_FILE, STATE_FILE
from experiments.trial.folder import TrialFolder, locked


class LocalFiles:
    """As `StudyFiles`: what the driver writes is kept where it writes it."""

    def __init__(self, folder: Path) -> None:
        """A study, which need not be begun.

        Args:
            folder: The folder of the study, absolute; need not be there.
        """
        self.place, self._folder = str(folder), folder
        self._lock: FileIO | None = None

    def trial(self, name: str) -> TrialFolder:
        """As `StudyFiles.trial`."""
        return TrialFolder(self._folder / "trials" / name)

    def is_begun(self) -> bool:
        """As `StudyFiles.is_begun`."""
        return (self._folder / STATE_FILE).exists() or (self._folder / "trials").exists()

    def read(self, name: str) -> bytes:
        """As `StudyFiles.read`."""
        return (self._folder / name).read_bytes()

    def fetch_modules(self) -> None:
        """As `StudyFiles.fetch_modules`: they are there."""

    def keep(self, *names: str) -> None:
        """As `StudyFiles.keep`: they are."""

    def keep_database(self, name: str) -> None:
        """As `StudyFiles.keep_database`: it is."""

    def discard(self) -> None:
        """As `StudyFiles.discard`: a folder that was removed leaves nothing."""

    def take(self, driver: str) -> str:
        """As `StudyFiles.take`: the driver locks a file, in which it says who it is."""
        file = (self._folder / LOCK_FILE).open("a+b", buffering=0)
        if not locked(file):
            with file:
                return _said_in(file)
        self._lock = file
        with suppress(OSError):  # a full disk, on which a study that is finished can still be resumed
            file.truncate(0)
            file.write(driver.encode())
        return ""

    def release(self) -> None:
        """As `StudyFiles.release`."""
        if self._lock is not None:
            with suppress(OSError):
                self._lock.truncate(0)
            self._lock.close()
            self._lock = None

    def driver(self) -> str:
        """As `StudyFiles.driver`."""
        try:
            with (self._folder / LOCK_FILE).open("r+b", buffering=0) as file:
                return "" if locked(file) else _said_in(file)
        except OSError:
            return ""


def _said_in(lock: FileIO) -> str:
    lock.seek(0)
    return lock.read().decode(errors="replace") or "another process"
