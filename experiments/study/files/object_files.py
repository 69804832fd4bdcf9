"""What a study keeps in an object store beside its trials' folders, and the copy of it that its driver works with."""

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

LOCK_FILE = "lock"
"""Of a study; renewed or locked by the driver that is at work, which says in it who it is."""


class StoredStudy:
    """A study's own folder in an object store.

    What the driver writes is in the store before it acts on it; the copy on its machine can be lost at any time.

    Attributes:
        objects: Those of the study.
    """

    def __init__(self, uri: str, copy: Path) -> None:
        """A study, which need not be begun.

        Args:
            uri: Its address.
            copy: Its folder on this machine, absolute; need not be there.
        """
        self.objects, self._copy = Objects(uri), copy
        self._lease: Lease | None = None

    @property
    def is_taken(self) -> bool:
        """Whether this process is the study's driver, and the copy up to date."""
        return self._lease is not None

    def take(self, driver: str) -> str:
        """Keep other drivers away, and bring what there is to this machine, in the place of the copy's files.

        Args:
            driver: What others are told of this process.

        Returns:
            Which driver is at work on the study; "" if it is this one now.

        Raises:
            OSError: The store or the disk refuses.
        """
        if self.objects.exists(LOCK_FILE):
            print(
                f"{self.objects.uri}: looking for a sign of life of the driver before, for {SILENT_S:g} s at most",
                file=sys.stderr,
            )
        lease = Lease(self.objects, LOCK_FILE, _interrupt)
        if said := lease.take(driver):
            return said
        self._lease = lease
        try:
            for file in self._copy.glob("*"):
                if file.is_file():
                    file.unlink()
            self.fetch(name for name in self.objects.files() if name != LOCK_FILE)
            self.fetch_modules()
        except OSError:
            self.release()
            raise
        return ""

    def driver(self) -> str:
        """Which driver is at work on the study; "" if none is, which takes a while to see if one was killed."""
        return Lease(self.objects, LOCK_FILE, _interrupt).owner()

    def release(self) -> None:
        """Let other drivers take up the study."""
        if self._lease is not None:
            with suppress(OSError):  # it is not renewed any more, which is enough
                self._lease.release()
            self._lease = None

    def fetch(self, names: Iterable[str]) -> None:
        """Bring files to this machine."""
        for name in names:
            file = self._copy / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.objects.read(name))

    def fetch_modules(self) -> None:
        """Bring the modules of a person's own to this machine."""
        self.fetch(f"{KEPT_IN}/{name}" for name in self.objects.below(KEPT_IN).names())

    def keep(self, *names: str) -> None:
        """Put files of the copy into the store; of a folder, all that are in it. What is not there is left out.

        Raises:
            OSError: The store does not take them.
        """
        for name in names:
            path = self._copy / name
            for file in path.rglob("*") if path.is_dir() else [path]:
                if file.is_file():
                    self.objects.write(file.relative_to(self._copy).as_posix(), file)

    def keep_database(self, path: Path) -> None:
        """Put a SQLite database of the copy into the store, with what is in its log of writes; raises as `keep`."""
        if path.exists():
            try:
                with closing(sqlite3.connect(path)) as database:
                    content = database.serialize()
            except sqlite3.Error as error:
                raise OSError(errno.EIO, str(error), str(path)) from None
            self.objects.write(path.name, content)

    def discard(self) -> None:
        """Remove the copy, and what there is in the store but the lock."""
        shutil.rmtree(self._copy, ignore_errors=True)
        self.objects.remove(name for name in self.objects.names() if name != LOCK_FILE)


def _interrupt() -> None:
    """End this driver in order: another one has gone on with the study."""
    print(
        "another driver has taken the study up, since this one was not heard of for a while: it ends here",
        file=sys.stderr,
    )
    _thread.interrupt_main(signal.SIGINT)
