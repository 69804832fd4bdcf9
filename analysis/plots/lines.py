"""Lines with intervals: what the figures of curves share."""

from collections.abc import Sequence
from typing import Any, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter
from matplotlib.transforms import ScaledTranslation

from analysis.plots import style, text
from analysis.plots.labels import End

MOST_LEADERS = 5
"""Lines drawn in colour where there are more configurations than colours and the caller names none."""

_MOST_BANDS = 2  # More of them hide each other.
_WHISKERS = 5
_APART_PT = 1.6  # Steps of few seeds take few values: lines are moved apart where one would hide another.


def draw(
    ax: Axes,
    frame: pd.DataFrame,
    series: str,
    x: str,
    y: str,
    highlight: Sequence[Any] | None = None,
    steps: bool = False,
) -> tuple[list[End], str]:
    """Draws a line per value of `series`, the highlighted in colour, the rest in grey behind them, and intervals.

    Up to two coloured lines have bands. More would hide each other: then each line has whiskers, at points of its own.

    Numbers (learning rates) get colours from dark to pale, names get distinct ones; dashes and markers differ as well,
    so that a grey print can be read.

    Args:
        ax: To draw on.
        frame: Has the columns `series`, `x`, `y`, and `y`_low and `y`_high for the bands.
        series: Column that tells lines apart.
        x: Column.
        y: Column.
        highlight: Values of `series` in colour. None: all that the palette can tell apart, else the leaders.
        steps: The value holds until the next point. Of many such lines, only the first of `highlight` has a band, which
            is as wide as the others' at the same share and number of seeds; there are no whiskers.

    Returns:
        Where the coloured lines end, for `labels.label_ends`, and a note on what is grey or has no band.
    """
    data = frame.dropna(subset=[x, y])
    names = style.levels(data[series])
    ordered = pd.api.types.is_numeric_dtype(data[series])
    most = len(names) if ordered else len(style.COLOURS)
    if highlight is not None:
        chosen = [name for name in names if name in set(highlight)]
    else:
        leaders = _leaders(data, series, x, y)
        chosen = names if len(names) <= most else [name for name in names if name in leaders]
    look: dict[str, Any] = {"drawstyle": "steps-post"} if steps else {}
    first = [name for name in highlight or _leaders(data, series, x, y) if name in chosen][:1]
    with_band = first if steps and len(chosen) > _MOST_BANDS else chosen
    whiskers = not steps and len(chosen) > _MOST_BANDS
    grey = [name for name in names if name not in chosen]
    for name in grey:
        part = data[data[series] == name].sort_values(x)
        ax.plot(part[x], part[y], color=style.GREY, linewidth=0.8, zorder=1.8, **look)

    colours = style.sequential(len(chosen)) if ordered else style.COLOURS
    texts = {name: text.short_setting(series, name) for name in chosen} if ordered else style.name_texts(frame[series])
    ends, unbanded = [], False
    for i, name in enumerate(chosen):
        label = texts[name]
        dash, marker = style.DASHES[i % len(style.DASHES)], "" if steps else style.MARKERS[i % len(style.MARKERS)]
        part = data[data[series] == name].sort_values(x)
        colour = colours[i % len(colours)]
        banded = part.dropna(subset=[f"{y}_low", f"{y}_high"])
        unbanded |= len(banded) < len(part)
        start, every = _marked(len(part), i, len(chosen)) if whiskers else (0, max(1, -(-len(part) // 10)))
        if whiskers:
            marked = part.iloc[start::every]
            ax.vlines(
                marked[x], marked[f"{y}_low"], marked[f"{y}_high"], color=colour, linewidth=1.1, alpha=0.8, zorder=2.2
            )
        elif len(banded) and name in with_band:
            step: Literal["post"] | None = "post" if steps else None
            ax.fill_between(
                banded[x], banded[f"{y}_low"], banded[f"{y}_high"], color=colour, alpha=0.15, linewidth=0, step=step
            )
        ax.plot(
            part[x],
            part[y],
            color=colour,
            linewidth=1.7,
            linestyle=dash,
            marker=marker,
            markersize=4,
            markevery=(start, every),
            markeredgecolor="white",
            markeredgewidth=0.4,
            zorder=2.5 + 0.01 * i,
            label=label,
            **look,
        )
        if steps:
            shift_in = _APART_PT / 72 * (i - (len(chosen) - 1) / 2)
            ax.lines[-1].set_transform(ax.transData + ScaledTranslation(0, shift_in, ax.figure.dpi_scale_trans))
        ends.append(End(label, float(part[x].iloc[-1]), float(part[y].iloc[-1]), colour, dash, marker))
    words = [f"Grey: {len(grey)} other configuration{'s' if len(grey) > 1 else ''}, without intervals." if grey else ""]
    if unbanded:
        words.append(style.NO_INTERVAL.format("whisker" if whiskers else "band"))
    elif whiskers:
        words.append("Whiskers: intervals, for each line at other points.")
    elif len(with_band) < len(chosen):
        words.append(f"Band: {texts[first[0]]}; the others' are about as wide.".replace("\n", " "))
    if steps and len(chosen) > 1:
        words.append("Lines that would hide each other are moved apart a little.")
    return ends, " ".join(word for word in words if word)


def draw_shares(ax: Axes, profile: pd.DataFrame, x: str, highlight: Sequence[Any] | None) -> None:
    """Draws a share of runs over `x`, a line per configuration, named at the right: most end where others do.

    Args:
        ax: To draw on.
        profile: `config`, `x`, `share`, `share_low`, `share_high`.
        x: Column.
        highlight: As in `draw`.
    """
    _, grey = draw(ax, profile, "config", x, "share", highlight, steps=True)
    style.linear_axis(ax, "x")
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
    ax.set_ylim(-0.03, 1.03)
    ax.margins(x=0)
    key(ax)
    style.note(ax, grey)


def _marked(num_points: int, line: int, num_lines: int) -> tuple[int, int]:
    """First point and step of a line's whiskers: no two lines share a point of the grid."""
    stride = max(1, num_points // (num_lines * _WHISKERS))
    return line * stride, num_lines * stride


def _leaders(data: pd.DataFrame, series: str, x: str, y: str) -> list[Any]:
    """The lines that end highest, highest first; among equals, those that were highest before."""
    names = style.levels(data[series])
    values = {name: data[data[series] == name].sort_values(x)[y].tolist()[::-1] for name in names}
    return sorted(names, key=lambda name: values[name], reverse=True)[:MOST_LEADERS]


def key(ax: Axes) -> None:
    """Names the coloured lines at the right, in the order of the plan: for lines that end where others do."""
    ax.legend(
        loc="upper left",
        bbox_to_anchor=(1.01, 1.02),
        frameon=False,
        fontsize=style.SMALL_PT,
        handlelength=2.2,
        labelspacing=0.7,
        borderpad=0,
    )
