"""Lines that a study's driver notes on the way, a file for each kind."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from experiments.study.files.study_files import StudyFiles
from experiments.trial.json_lines import add_line, cut_torn_line


class Notes:
    """Notes in a study's folder. What a full disk does not take is kept in mind until it does."""

    def __init__(self, folder: Path, files: StudyFiles, database: str) -> None:
        """Notes, of which there need not be any.

        Args:
            folder: The folder on this machine that the driver works in.
            files: The files that the study keeps.
            database: File of Optuna, which must not know less than what is noted.
        """
        self._folder, self._files, self._database = folder, files, database
        self._unwritten: list[tuple[str, Mapping[str, Any]]] = []
        self._unkept: set[str] = set()
        """Files with lines that are not kept yet."""

    def add(self, file: str, *lines: Mapping[str, Any]) -> None:
        """Note lines, and those that could not be noted before."""
        self._unwritten += [(file, line) for line in lines]
        with suppress(OSError):
            while self._unwritten:
                name, line = self._unwritten[0]
                add_line(self._folder / name, line)
                self._unwritten.pop(0)
                self._unkept.add(name)
            if self._unkept:
                self._files.keep_database(self._database)
                self._files.keep(*self._unkept)
                self._unkept.clear()

    def cut_torn_lines(self, *files: str) -> None:
        """Cut what a driver that was killed left of a line."""
        for path in (self._folder / name for name in files):
            if path.exists():
                cut_torn_line(path)
