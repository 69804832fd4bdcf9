"""Where a study keeps what survives its driver: in a folder of this machine, or in an object store."""

from typing import Protocol

from experiments.trial.folder import TrialFolder

LOCK_FILE = "lock"
"""Of a study; renewed or locked by the driver that is at work, which says in it who it is."""
STATE_FILE = "study.json"
"""The study's plan: by it a study is known."""


class StudyFiles(Protocol):
    """The files that a study keeps. Its driver works with files in a folder of this machine.

    Every method may raise an OSError: the disk or the store refuses.

    Attributes:
        place: Where it is kept: the folder, or an address.
    """

    place: str

    def trial(self, name: str) -> TrialFolder:
        """A trial's own folder; it need not exist."""

    def is_begun(self) -> bool:
        """True if a study was begun: a driver that is killed on the way to that leaves nothing of it, or no trials."""

    def read(self, name: str) -> bytes:
        """A file's content, as it is kept."""

    def fetch_modules(self) -> None:
        """Bring the modules of a person's own into the folder, if they are elsewhere."""

    def keep(self, *names: str) -> None:
        """Keep files of the folder; of one within it, all that are in it. What is not there is left out."""

    def keep_database(self, name: str) -> None:
        """The same of a SQLite database, with what is in its log of writes."""

    def discard(self) -> None:
        """Remove what is left of another study, if it may be there."""

    def take(self, driver: str) -> str:
        """Keep other drivers away, until this process ends or `release` is called.

        Args:
            driver: What others are told of this process.

        Returns:
            Which driver is at work on the study; "" if it is this one now.
        """

    def driver(self) -> str:
        """Which driver is at work on the study; "" if none is."""

    def release(self) -> None:
        """Let other drivers take up the study."""
