"""The performance-sensitivity plane (Adkins et al. 2024): the score tuned for each environment
over what the tuning brought.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import style
from analysis.plots.labels import label_points

_X, _Y = "difference", "tuned"


def plot(points: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draws a point an algorithm; high and left is better.

    Args:
        points: `algorithm`; `tuned` and `difference`, the sensitivity, with _low and _high.
        ax: To draw on; None makes a figure.

    Returns:
        The axes. Along the dashed line the best common setting scores as much as that of the algorithm whose common
        setting is best.

    Raises:
        ValueError: A column is missing.
    """
    ends = [f"{name}{end}" for name in (_X, _Y) for end in ("", "_low", "_high")]
    style.require(points, ["algorithm", *ends])
    ax = style.axes(ax)
    style.name_axes(ax, "sensitivity: tuned minus best common setting", "score tuned for each environment")
    known = points.dropna(subset=[_X, _Y]) if len(points) else points
    if known.empty:
        return style.no_data(ax, "no algorithm has a sensitivity")
    ax.vlines(known[_X], known[f"{_Y}_low"], known[f"{_Y}_high"], color=style.ACCENT, linewidth=0.9, zorder=2)
    ax.hlines(known[_Y], known[f"{_X}_low"], known[f"{_X}_high"], color=style.ACCENT, linewidth=0.9, zorder=2)
    ax.plot(known[_X], known[_Y], "o", color=style.ACCENT, markersize=6, zorder=3)
    ax.margins(0.15)
    common = float((known[_Y] - known[_X]).max())
    along = np.array(ax.get_xlim())
    ax.set(xlim=along, ylim=ax.get_ylim())
    ax.plot(along, common + along, color=style.GREY, linewidth=1.0, linestyle="--", zorder=1)
    style.note(
        ax,
        "High and left is better. Dashed: one setting for all environments scores as much "
        "as the best of these points'.",
        style.NO_INTERVAL.format("whisker") if known[ends].isna().any(axis=None) else "",
    )
    texts = style.name_texts(points["algorithm"])
    label_points(ax, list(zip(known[_X], known[_Y], strict=True)), [texts[name] for name in known["algorithm"]], [])
    return ax
