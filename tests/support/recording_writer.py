"""Stands where a study's writer is."""

from typing import TypeVar

from experiments.tracking.writes import Finish, Write

Kind = TypeVar("Kind")


class RecordingWriter:
    """Keeps what is put."""

    def __init__(self) -> None:
        self.run_ids: dict[str, str] = {}
        self.puts: list[tuple[str, Write]] = []

    def put(self, key: str, write: Write) -> None:
        self.puts.append((key, write))

    def of(self, kind: type[Kind]) -> list[tuple[str, Kind]]:
        return [(key, write) for key, write in self.puts if isinstance(write, kind)]

    def ends(self) -> list[tuple[str, str]]:
        return [(key, end.status) for key, end in self.of(Finish)]
