"""Tables of a page, and the sections of those that `side_by_side.html.j2` makes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """A table of the page.

    Attributes:
        columns: Its heads.
        rows: Cells: text, and what stands below it.
        prose: Whether its cells are words, which may break.
        title: Above it.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[tuple[str, str]]]
    prose: bool = False
    title: str = ""


def section(
    title: str, tables: Sequence[Table], sentence: str = "", figures: Sequence[Mapping[str, str]] = ()
) -> dict[str, Any]:
    """A section as the template takes it.

    Args:
        title: Its heading, of which its key for links is made.
        tables: One without rows is left out.
        sentence: Said above them; "": nothing.
        figures: Each with `source` and `caption`.
    """
    return {
        "key": title.lower().replace(" ", "-"),
        "title": title,
        "sentence": sentence,
        "tables": tables,
        "figures": figures,
    }
