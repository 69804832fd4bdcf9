"""How far learning curves are from that of a base, over env steps."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import lines, style, text
from analysis.plots.labels import label_ends


def plot(
    gaps: pd.DataFrame, delta: float | None = None, highlight: Sequence[Any] | None = None, ax: Axes | None = None
) -> Axes:
    """Draws a line per configuration: one or two with their bands, more with whiskers.

    Args:
        gaps: From `batch_invariance.curve_gaps`: config, env_steps, value, value_low, value_high.
        delta: A return: the band in which curves count as the same.
        highlight: Configurations in colour, the rest in grey. None: as `lines.draw` chooses.
        ax: To draw on; None makes a figure.

    Returns:
        The axes.

    Raises:
        ValueError: A column is missing.
    """
    style.require(gaps, ["config", "env_steps", "value", "value_low", "value_high"])
    ax = style.axes(ax)
    style.name_axes(ax, text.readable("env_steps"), "return minus the base batch's")
    if gaps.empty or gaps["value"].isna().all():
        return style.no_data(ax, "no two configurations have a seed in common")
    ends, grey = lines.draw(ax, gaps, "config", "env_steps", "value", highlight)
    ax.axhline(0, color=style.INK, linewidth=0.8, zorder=1.9)
    if delta is not None:
        ax.axhspan(-delta, delta, color=style.GREY, alpha=0.25, linewidth=0, zorder=1.5)
    style.linear_axis(ax, "x")
    style.linear_axis(ax, "y", most=5)
    ax.set_xlim(left=0)
    label_ends(ax, ends)
    style.note(ax, grey)
    return ax
