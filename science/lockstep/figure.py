"""Staggered environments beside others, from few with long fragments to many with short ones."""

import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import lines, style, text
from analysis.plots.labels import label_ends

_HEIGHT_IN = 4.0  # the longest name of a measure
_WAYS = {False: "together", True: "staggered"}


def plot(levels: pd.DataFrame, measure: str = "auc", ax: Axes | None = None) -> Axes:
    """Draws a line for environments that start together and one for staggered ones, with bands.

    Args:
        levels: From `lockstep.compare`: environments, fragment, stagger, the measure, measure_low, measure_high.
        measure: Column.
        ax: To draw on; None makes a figure.

    Returns:
        The axes.

    Raises:
        ValueError: A column is missing.
    """
    style.require(levels, ["environments", "fragment", "stagger", measure, f"{measure}_low", f"{measure}_high"])
    ax = style.axes(ax, _HEIGHT_IN)
    style.name_axes(ax, "environments x fragment (env steps)", text.readable(measure))
    if levels.empty or levels[measure].isna().all():
        return style.no_data(ax, "no finished trial has a value")
    fragments = dict(zip(levels["environments"], levels["fragment"], strict=True))
    ways = pd.Categorical(
        [_WAYS[bool(way)] for way in levels["stagger"]], categories=list(_WAYS.values()), ordered=True
    )
    ends, note = lines.draw(ax, levels.assign(way=ways), "way", "environments", measure)
    style.log_axis(ax, "x", style.levels(levels["environments"]), lambda value: f"{value:g} x {fragments[value]:g}")
    style.linear_axis(ax, "y", most=5)
    label_ends(ax, ends)
    style.note(ax, note)
    return ax
