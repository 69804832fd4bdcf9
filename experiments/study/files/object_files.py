"""A study in an object store, and the copy of it that its driver works with."""

import _thread
import errno
import shutil
import signal
import sqlite3
import sys
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

from experiments.config.own_modules import KEPT_IN
from experiments.storage.lease import SILENT_S, Lease
from experiments.storage.objects import Objects
from experiments.study.files.study_files import LOCK_FILE, STATE_FILE
from experiments.trial.folder import TrialFolder
from experiments.trial.stored_folder import StoredTrialFolder


class ObjectFiles:
    """As `StudyFiles`: what the driver writes is in an object store before it acts on it; the copy on its machine can
    be lost at any time.
    """

    def __init__(self, uri: str, copy: Path) -> None:
        """A study, which need not be begun.

        Args:
            uri: The study's address in the object store.
            copy: Its folder on this machine, absolute; need not be there.
        """
        self.place, self._objects, self._copy = uri, Objects(uri), copy
        self._lease: Lease | None = None

    def trial(self, name: str) -> TrialFolder:
        """As `StudyFiles.trial`."""
        return StoredTrialFolder(self._objects, name, self._copy / "trials" / name)

    def is_begun(self) -> bool:
        """As `StudyFiles.is_begun`."""
        return self._objects.exists(STATE_FILE) or bool(self._objects.below("trials").names())

    def read(self, name: str) -> bytes:
        """As `StudyFiles.read`: while this process is the driver, the copy is up to date."""
        return self._objects.read(name) if self._lease is None else (self._copy / name).read_bytes()

    def take(self, driver: str) -> str:
        """As `StudyFiles.take`; brings what there is to this machine, in the place of the copy's files."""
        if self._objects.exists(LOCK_FILE):
            print(
                f"{self._objects.uri}: looking for a sign of life of the driver before, for {SILENT_S:g} s at most",
                file=sys.stderr,
            )
        lease = Lease(self._objects, LOCK_FILE, _interrupt)
        if said := lease.take(driver):
            return said
        self._lease = lease
        try:
            for file in self._copy.glob("*"):
                if file.is_file():
                    file.unlink()
            self.fetch(name for name in self._objects.files() if name != LOCK_FILE)
            self.fetch_modules()
        except OSError:
            self.release()
            raise
        return ""

    def driver(self) -> str:
        """As `StudyFiles.driver`; that there is none takes a while to see if one was killed."""
        return Lease(self._objects, LOCK_FILE, _interrupt).owner()

    def release(self) -> None:
        """As `StudyFiles.release`."""
        if self._lease is not None:
            with suppress(OSError):  # it is not renewed any more, which is enough
                self._lease.release()
            self._lease = None

    def fetch(self, names: Iterable[str]) -> None:
        """Bring files to this machine."""
        for name in names:
            file = self._copy / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self._objects.read(name))

    def fetch_modules(self) -> None:
        """As `StudyFiles.fetch_modules`."""
        self.fetch(f"{KEPT_IN}/{name}" for name in self._objects.below(KEPT_IN).names())

    def keep(self, *names: str) -> None:
        """As `StudyFiles.keep`."""
        for name in names:
            path = self._copy / name
            for file in path.rglob("*") if path.is_dir() else [path]:
                if file.is_file():
                    self._objects.write(file.relative_to(self._copy).as_posix(), file)

    def keep_database(self, name: str) -> None:
        """As `StudyFiles.keep_database`."""
        path = self._copy / name
        if path.exists():
            try:
                with closing(sqlite3.connect(path)) as database:
                    content = database.serialize()
            except sqlite3.Error as error:
                raise OSError(errno.EIO, str(error), str(path)) from None
            self._objects.write(path.name, content)

    def discard(self) -> None:
        """As `StudyFiles.discard`: the copy, and what there is in the store but the lock."""
        shutil.rmtree(self._copy, ignore_errors=True)
        self._objects.remove(name for name in self._objects.names() if name != LOCK_FILE)


def _interrupt() -> None:
    """End this driver in order: another one has gone on with the study."""
    print(
        "another driver has taken the study up, since this one was not heard of for a while: it ends here",
        file=sys.stderr,
    )
    _thread.interrupt_main(signal.SIGINT)
