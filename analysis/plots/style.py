"""The look that all figures share: colours, sizes, axes, ticks, notes and captions.

Nothing here touches matplotlib's global state: every property is passed to the artist it belongs to.
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure, SubFigure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, Locator, MaxNLocator, NullLocator

from analysis.plots.text import number, short_names

# At 6 inches of width, 10 points are as tall as 9 px text on a phone of 390 px, and stay 10 points on paper.
WIDTH_IN = 6.0
HEIGHT_IN = 3.6
DPI = 200
FONT_PT = 10.0
SMALL_PT = 9.0
TINY_PT = 8.0
_CHARS_PER_IN = 15.3  # Of small print.
_STEPS = (1, 2, 2.5, 5, 10)

# Okabe and Ito's palette, made for colour-blind readers; their yellow, too pale for a line on white, is darkened.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#A89400")
DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
INK = "#222222"
MUTED = "#595959"
GREY = "#BDBDBD"
FAINT = "#E6E6E6"
ACCENT = COLOURS[0]
ALARM = COLOURS[1]

NO_INTERVAL = "No {}: too few seeds for an interval."

# Viridis runs from dark to pale in even steps, also in grey print; its pale end is left out on white paper.
_SEQUENTIAL_END = 0.88
_MIN_CONTRAST = 4.5  # WCAG 2.1, level AA, for text.

# Frames.


def require(frame: pd.DataFrame, columns: Iterable[str]) -> None:
    """Checks that a figure gets the columns it draws.

    Raises:
        ValueError: One is missing. A frame without rows passes: it is drawn as "no data".
    """
    missing = [column for column in columns if column not in frame.columns]
    if missing and len(frame):
        raise ValueError(
            f"the figure needs the column {missing[0]!r}; the frame has {', '.join(map(str, frame.columns))}"
        )


def levels(column: pd.Series) -> list[Any]:
    """The values that occur: a categorical's in its order, numbers in ascending order, anything else as it comes."""
    present = column.dropna()
    if isinstance(column.dtype, pd.CategoricalDtype):
        held = set(present)
        return [value for value in column.cat.categories if value in held]
    found = list(dict.fromkeys(present.tolist()))
    return sorted(found) if pd.api.types.is_numeric_dtype(column) else found


def name_texts(column: pd.Series) -> dict[Any, str]:
    """A name in the margin for each value of a column of names; alike in all figures of a study,
    if it is a categorical.
    """
    names = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else levels(column)
    texts = short_names([str(name) for name in names])
    return {name: texts[str(name)] for name in names}


# Colours.


def sequential(count: int) -> list[str]:
    """Colours for an ordered axis, dark to pale, evenly spaced."""
    ends = np.linspace(0.0, _SEQUENTIAL_END, max(count, 2))[:count]
    return [to_hex(colour) for colour in mpl.colormaps["viridis"](ends)]


def luminance(colour: Any) -> float:
    """Relative luminance, 0 (black) to 1 (white), after WCAG 2.1."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def ink_for(colour: str) -> str:
    """The colour, darkened until text in it can be read on white."""
    rgb = np.asarray(to_rgb(colour))
    while 1.05 / (luminance(tuple(rgb)) + 0.05) < _MIN_CONTRAST:
        rgb = rgb * 0.93
    return to_hex(tuple(rgb))


def ink_on(colour: Any) -> str:
    """White or near black, whichever stands out more on `colour`."""
    lum = luminance(colour)
    return "white" if 1.05 / (lum + 0.05) > (lum + 0.05) / (luminance(INK) + 0.05) else INK


# Axes.


def axes(ax: Axes | None, height_in: float = HEIGHT_IN) -> Axes:
    """The axes to draw on, dressed: the caller's, or the only ones of a new figure outside pyplot."""
    if ax is None:
        ax = figure(height_in).subplots()
    dress(ax)
    return ax


def figure(height_in: float = HEIGHT_IN) -> Figure:
    """An empty figure of the width of the report, which nobody has to close."""
    return Figure(figsize=(WIDTH_IN, height_in), dpi=DPI, layout="constrained", facecolor="white")


def dress(ax: Axes) -> None:
    """Thin left and bottom spines, small ticks, a faint grid behind the data."""
    ax.set_facecolor("white")
    for side, spine in ax.spines.items():
        spine.set_visible(side in {"left", "bottom"})
        spine.set(color=MUTED, linewidth=0.8)
    ax.tick_params(which="both", labelsize=SMALL_PT, color=MUTED, labelcolor=INK, width=0.8, length=3, pad=3)
    ax.grid(visible=True, color=FAINT, linewidth=0.7, linestyle="-")
    ax.set_axisbelow(True)


def name_axes(ax: Axes, x: str, y: str) -> None:
    """Labels both axes."""
    ax.set_xlabel(x, fontsize=FONT_PT, color=INK)
    ax.set_ylabel(y, fontsize=FONT_PT, color=INK)


def title(ax: Axes, words: str) -> None:
    """Says above the axes what a reader could not tell from their labels."""
    ax.set_title(words, loc="left", fontsize=FONT_PT, color=INK, weight="bold")


def rows(ax: Axes, texts: Sequence[str]) -> None:
    """A row for each text, the first on top, with the text at its left."""
    ax.set_yticks(range(len(texts)), texts, fontsize=SMALL_PT)
    ax.set_ylim(len(texts) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")
    ax.spines["left"].set_visible(False)


def rows_height_in(texts: Sequence[str], around_in: float = 1.1) -> float:
    """Height of a figure of :func:`rows`: of the rows, and of what stands around them."""
    most = max((text.count("\n") + 1 for text in texts), default=1)
    return around_in + max(len(texts), 2) * (0.13 + 0.14 * most)


class _LogTicks(Locator):
    """Ticks at 1, 1-3 or 1-2-5 of each decade, or at even steps: three to six or so, whatever the range."""

    def __call__(self) -> list[float]:
        return self.tick_values(*sorted(self.axis.get_view_interval()))  # type: ignore[union-attr]

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        if not 0 < vmin < vmax < math.inf:
            return []
        decades = range(math.floor(math.log10(vmin)), math.ceil(math.log10(vmax)) + 1)
        for steps in ((1,), (1, 3), (1, 2, 5)):
            ticks = [step * 10.0**decade for decade in decades for step in steps if vmin <= step * 10.0**decade <= vmax]
            if len(ticks) >= 3:
                return ticks
        return [float(tick) for tick in MaxNLocator(6, steps=_STEPS).tick_values(vmin, vmax) if vmin <= tick <= vmax]


def log_axis(
    ax: Axes, which: Literal["x", "y"], ticks: Sequence[float] = (), words: Callable[[float], str] = number
) -> None:
    """A logarithmic axis with ticks at the values given (a study's levels), else at round ones, written by `words`."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    ax.set(**{f"{which}scale": "log"})
    axis.set_minor_locator(NullLocator())
    if ticks:
        axis.set_ticks(list(ticks), [words(tick) for tick in ticks])
    else:
        axis.set_major_locator(_LogTicks())
        axis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))


def linear_axis(ax: Axes, which: Literal["x", "y"], most: int = 6) -> None:
    """A linear axis with few round ticks: ``0``, ``20k``, ``40k``."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_locator(MaxNLocator(most, steps=_STEPS))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))


def no_data(ax: Axes, why: str) -> Axes:
    """Says in the axes that there is nothing to draw, and why."""
    ax.set(xticks=[], yticks=[])
    ax.grid(visible=False)
    text = textwrap.fill(f"no data: {why}", 48)
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", fontsize=FONT_PT, color=MUTED)
    return ax


# Words in and around the axes.


def note(ax: Axes, *sentences: str) -> None:
    """Small print below the axes; empty sentences are left out.

    Alone in its figure, the axes leaves it to the figure, whose full width it may use;
    else it stands below the x label.
    """
    kept = [sentence for sentence in sentences if sentence]
    if not kept:
        return
    if len(ax.figure.axes) == 1:
        note_figure(ax.figure, *kept)
        return
    chars = max(20, int(ax.get_window_extent().width / ax.figure.dpi * _CHARS_PER_IN))
    ax.annotate(
        "\n".join(textwrap.fill(sentence, chars) for sentence in kept),
        xy=(0.0, 0.0),
        xycoords=("axes fraction", ax.xaxis.label),
        xytext=(0, -3),
        textcoords="offset points",
        ha="left",
        va="top",
        fontsize=SMALL_PT,
        color=MUTED,
        annotation_clip=False,
    )


def note_figure(figure: Figure | SubFigure, *sentences: str) -> Text:
    """Small print at the foot of a figure, below what is there already; a constrained layout makes room for it."""
    width_in = figure.bbox.width / figure.dpi
    before = figure.get_supxlabel()
    lines = [
        *([before] if before else []),
        *(textwrap.fill(sentence, int(width_in * _CHARS_PER_IN)) for sentence in sentences if sentence),
    ]
    return figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=SMALL_PT, color=MUTED)


def caption(study: str, num_seeds: int | Iterable[int], interval: str) -> str:
    """The seeds and the intervals that a figure rests on.

    Args:
        study: Its name.
        num_seeds: Of each configuration; several numbers become a range.
        interval: How the 95% intervals were made, in words: ``stratified bootstrap``. Empty: there are none.

    Returns:
        ``Study lr_batch; 2 to 3 seeds per configuration; 95% intervals: stratified bootstrap.``
    """
    counts = (
        [int(num_seeds)] if isinstance(num_seeds, int | np.integer) else sorted({int(count) for count in num_seeds})
    )
    if not counts:
        seeds = "no seeds"
    elif counts[0] == counts[-1]:
        seeds = f"{counts[0]} seed{'' if counts[0] == 1 else 's'} per configuration"
    else:
        seeds = f"{counts[0]} to {counts[-1]} seeds per configuration"
    has_interval = bool(interval) and bool(counts) and counts[-1] > 1
    return f"Study {study}; {seeds}; " + (f"95% intervals: {interval}." if has_interval else "no intervals.")


def annotate_caption(figure: Figure | SubFigure, text: str) -> Text:
    """Writes a caption under a figure and its notes."""
    return note_figure(figure, text)


def packed_note(packed: bool) -> str:
    """The words under a figure of speeds or seconds when trials ran side by side."""
    return "Trials shared the machine: speeds and seconds are not those of a trial alone." if packed else ""
