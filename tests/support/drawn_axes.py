"""What a figure shows, for the tests that look at it."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure


def words(ax: Axes) -> list[str]:
    return [word.get_text() for word in ax.texts if word.get_text()]


def note_of(ax: Axes) -> str:
    assert isinstance(ax.figure, Figure)
    return " ".join(ax.figure.get_supxlabel().split())


def lines_of(ax: Axes) -> list[Any]:
    """Untyped, for matplotlib's types leave open whether data are numbers."""
    return list(ax.lines)
