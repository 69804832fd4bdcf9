"""What got slower since a page was written: its ratios against those of a new run."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_SPREAD = re.compile(r"^(?P<median>[\d.]+) \((?P<least>[\d.]+)-(?P<most>[\d.]+)\)$")
_NUMBER = re.compile(r"^[-+]?\d")

Place = tuple[str, str, str]
"""Title of a table, text of a row, heading of a column."""


class _Ratio(NamedTuple):
    median: float
    least: float
    most: float


def fallen(before: str, now: str, more_is_better: Mapping[str, bool]) -> list[str]:
    """The ratios of a page that are worse than on an earlier one by more than both vary from turn to turn.

    Args:
        before: An earlier page, or a part of one, of the same machine: Markdown.
        now: The new one.
        more_is_better: Heading of each column of ratios that is looked at to whether a larger one is better.

    Returns:
        A sentence for each.
    """
    old, found = dict(_ratios(before, more_is_better)), []
    for place, ratio in _ratios(now, more_is_better):
        if (was := old.get(place)) is None:
            continue
        is_more = more_is_better[place[2]]
        fell = (
            ratio.median < was.least and ratio.most < was.median
            if is_more
            else ratio.median > was.most and ratio.least > was.median
        )
        if fell:
            _, row, column = place
            word = "fell" if is_more else "rose"
            found.append(
                f"{row}: {column} {word} to {ratio.median:g} ({ratio.least:g}-{ratio.most:g}) "
                f"from {was.median:g} ({was.least:g}-{was.most:g})"
            )
    return found


def _ratios(page: str, columns: Mapping[str, bool]) -> Iterator[tuple[Place, _Ratio]]:
    title, headings = "", list[str]()
    for line in page.splitlines():
        if line.startswith("#"):
            title = line.lstrip("# ")
        if not line.startswith("| "):
            headings = []
            continue
        cells = _cells(line)
        if not headings:
            headings = cells
            continue
        row = ", ".join([cells[0], *(cell for cell in cells[1:] if cell and not _NUMBER.match(cell))])
        for heading, cell in zip(headings, cells, strict=False):
            if heading in columns and (matched := _SPREAD.match(cell)):
                ratio = _Ratio(*(float(matched[name]) for name in _Ratio._fields))
                if ratio.least < ratio.most:  # a single turn does not say how much it varies
                    yield (title, row, heading), ratio


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
