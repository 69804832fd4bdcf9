"""How a policy does in several environments: mean return of each, with its interval over episodes."""

import math

import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import style, text


def plot(summary: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draws a row per environment, in their order; the first one, that the policy was trained in,
    as a line through all.

    Args:
        summary: setting, return, return_low, return_high.
        ax: To draw on; None makes a figure as tall as the rows need.

    Returns:
        The axes.

    Raises:
        ValueError: A column is missing.
    """
    style.require(summary, ["setting", "return", "return_low", "return_high"])
    empty = summary.empty or summary["return"].isna().all()
    names = [] if empty else [style.name_texts(summary["setting"])[name] for name in summary["setting"]]
    ax = style.axes(ax, style.rows_height_in(names))
    style.name_axes(ax, "mean return", "")
    if empty:
        return style.no_data(ax, "no episode was played")
    bare = False
    for i, row in enumerate(summary.to_dict("records")):
        mean, low, high = (float(row[f"return{end}"]) for end in ("", "_low", "_high"))
        if not math.isfinite(mean):
            continue
        banded = math.isfinite(low) and math.isfinite(high)
        if banded:
            ax.hlines(i, low, high, color=style.COLOURS[0], linewidth=1.7)
        ax.plot(mean, i, marker=style.MARKERS[0], markersize=5, color=style.COLOURS[0], linestyle="")
        ax.annotate(
            text.number(mean),
            (mean, i),
            xytext=(0, 5),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=style.SMALL_PT,
            color=style.INK,
        )
        bare = bare or not banded
    if math.isfinite(first := float(summary["return"].iloc[0])):
        ax.axvline(first, color=style.MUTED, linewidth=1, linestyle=(0, (4, 2)), zorder=1.5)
    style.rows(ax, names)
    style.linear_axis(ax, "x")
    style.note(ax, style.NO_INTERVAL.format("whisker") if bare else "")
    return ax
