"""What is learned at each learning rate, a line for each width of the networks."""

import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import lines, style, text
from analysis.plots.labels import label_ends

_HEIGHT_IN = 4.0  # the longest name of a measure


def plot(levels: pd.DataFrame, measure: str = "auc", lr: str = "lr", ax: Axes | None = None) -> Axes:
    """Draws a line for each width: where the best learning rate carries over, they are highest at the same place.

    Args:
        levels: From `question.carried`: width, the learning rate, the measure, measure_low, measure_high.
        measure: Column.
        lr: Column of the learning rate, or of its multiple.
        ax: To draw on; None makes a figure.

    Returns:
        The axes.

    Raises:
        ValueError: A column is missing.
    """
    style.require(levels, ["width", lr, measure, f"{measure}_low", f"{measure}_high"])
    ax = style.axes(ax, _HEIGHT_IN)
    style.name_axes(ax, text.readable(lr), text.readable(measure))
    if levels.empty or levels[measure].isna().all():
        return style.no_data(ax, "no finished trial has a value")
    ends, note = lines.draw(ax, levels, "width", lr, measure)
    style.log_axis(ax, "x", style.levels(levels[lr]), text.rate)
    style.linear_axis(ax, "y", most=5)
    label_ends(ax, ends)
    style.note(ax, note)
    return ax
