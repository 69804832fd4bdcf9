"""How many seeds show a difference of a given size."""

import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import style, text

_LINES = {"seeds": "two configurations alone", "seeds_among_all": "any of the study's"}


def plot(needed: pd.DataFrame, measure: str, num_seeds: int | None = None, ax: Axes | None = None) -> Axes:
    """Draws the number of seeds over the difference, both logarithmic.

    Args:
        needed: From `reproducibility.seeds_to_see`: difference, seeds, seeds_among_all.
        measure: The column of `runs` whose difference it is, for the x axis.
        num_seeds: Of the study, drawn as a line.
        ax: To draw on; None makes a figure.

    Returns:
        The axes.

    Raises:
        ValueError: A column is missing.
    """
    style.require(needed, ["difference", *_LINES])
    ax = style.axes(ax)
    style.name_axes(ax, f"difference in {text.readable(measure)}", "seeds per configuration")
    if needed.empty:
        return style.no_data(ax, "no two configurations have two seeds in common that differ")
    for i, (column, words) in enumerate(_LINES.items()):
        if i and needed[column].equals(needed["seeds"]):  # a study of two configurations, or of one
            continue
        line = ax.plot(needed["difference"], needed[column], linewidth=1.7, markersize=4.5, label=words)[0]
        line.set(color=style.COLOURS[i], linestyle=style.DASHES[i], marker=style.MARKERS[i])
    if num_seeds is not None:
        ax.axhline(
            num_seeds,
            color=style.MUTED,
            linewidth=1,
            linestyle=(0, (4, 2)),
            label=f"this study: {num_seeds}",
            zorder=1.5,
        )
    style.log_axis(ax, "x")
    style.log_axis(ax, "y")
    ax.legend(loc="upper right", frameon=False, fontsize=style.SMALL_PT)
    return ax
