"""Data against compute to a target: what was run, the frontier that is predicted, and the best point at a budget."""

import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import style
from analysis.plots.labels import label_points

MEASURED, PREDICTED, BEST = "measured", "predicted", "best"
"""What a point is."""
_X, _Y = "flops", "env_steps"


def plot(points: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draws a dot a configuration and the frontier as a line with a band; left and low is better.

    Args:
        points: `what`: measured, predicted (of the frontier, by flops) or best; `flops`; `env_steps` with _low and
            _high; `label` of the best; `censored`, whether some seed did not reach the target.
        ax: To draw on; None makes a figure.

    Returns:
        The axes.

    Raises:
        ValueError: A column is missing.
    """
    ends = [_Y, f"{_Y}_low", f"{_Y}_high"]
    style.require(points, ["what", "label", "censored", _X, *ends])
    ax = style.axes(ax)
    style.name_axes(ax, "compute to target (floating-point operations)", "env steps to target")
    known = points.dropna(subset=[_X, _Y]) if len(points) else points
    if known.empty:
        return style.no_data(ax, "no configuration has reached the target")
    measured, predicted, best = (known[known["what"] == what] for what in (MEASURED, PREDICTED, BEST))
    for part, colour in ((measured, "#8C8C8C"), (best, style.ALARM)):
        ax.vlines(part[_X], part[f"{_Y}_low"], part[f"{_Y}_high"], color=colour, linewidth=0.9, zorder=2)
    censored = measured["censored"].astype(bool)
    for some, face in ((measured[~censored], "#8C8C8C"), (measured[censored], "white")):
        ax.plot(some[_X], some[_Y], "o", color=face, markeredgecolor="#8C8C8C", markersize=5, zorder=2.5)
    if len(predicted):
        ax.fill_between(
            predicted[_X], predicted[f"{_Y}_low"], predicted[f"{_Y}_high"], color=style.ACCENT, alpha=0.15, linewidth=0
        )
        ax.plot(predicted[_X], predicted[_Y], color=style.ACCENT, linewidth=1.5, marker=".", zorder=3)
    ax.plot(best[_X], best[_Y], "D", color=style.ALARM, markersize=6, zorder=4)
    style.log_axis(ax, "x")
    style.log_axis(ax, "y")
    ax.margins(0.12)
    style.note(
        ax,
        "Left and low is better. Grey: what was run; line with band: the frontier that is predicted."
        if len(predicted)
        else "Left and low is better.",
        "Hollow: some seeds never reached the target; both numbers are lower bounds." if censored.any() else "",
        style.NO_INTERVAL.format("whisker") if known[ends].isna().any(axis=None) else "",
    )
    if len(best):
        spots = list(zip(known[_X], known[_Y], strict=True))
        label_points(ax, list(zip(best[_X], best[_Y], strict=True)), list(best["label"]), spots)
    return ax
