"""Sample cost against time cost: env steps to target over seconds to target, with the Pareto front."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import style, text
from analysis.plots.labels import label_points

_STEPS, _SECONDS = "env_steps_to_target", "seconds_to_target"


def plot(costs: pd.DataFrame, packed: bool = False, ax: Axes | None = None) -> Axes:
    """Draws a point per configuration; left and low is better, the front is joined and named.

    Args:
        costs: From `throughput.pareto`: config, env_steps_to_target and seconds_to_target with _low and _high,
            on_front, num_seeds, num_reached.
        packed: Trials ran side by side, so seconds are not those of a trial alone: said below.
        ax: To draw on; None makes a figure.

    Returns:
        The axes. Hollow: some seed never reached the target, so that both costs are lower bounds.

    Raises:
        ValueError: A column is missing.
    """
    intervals = [f"{cost}{end}" for cost in (_STEPS, _SECONDS) for end in ("", "_low", "_high")]
    style.require(costs, ["config", *intervals, "on_front", "num_seeds", "num_reached"])
    ax = style.axes(ax)
    style.name_axes(ax, text.readable(_SECONDS), text.readable(_STEPS))
    known = costs.dropna(subset=[_STEPS, _SECONDS]) if len(costs) else costs
    if known.empty:
        return style.no_data(ax, "no configuration has reached the target")
    front = known[known["on_front"].astype(bool)].sort_values([_SECONDS, _STEPS])
    rest = known[~known["on_front"].astype(bool)]
    for part, colour in ((rest, "#8C8C8C"), (front, style.ACCENT)):
        top, faint = (3, 0.8) if part is front else (2, 0.35)
        line: dict[str, Any] = {"color": colour, "linewidth": 0.9, "alpha": faint, "zorder": top}
        ax.vlines(part[_SECONDS], part[f"{_STEPS}_low"], part[f"{_STEPS}_high"], **line)
        ax.hlines(part[_STEPS], part[f"{_SECONDS}_low"], part[f"{_SECONDS}_high"], **line)
        censored = part["num_reached"] < part["num_seeds"]
        marker = "o" if part is rest else "D"
        ax.plot(
            part[_SECONDS][~censored], part[_STEPS][~censored], marker, color=colour, markersize=6, zorder=top + 0.5
        )
        ax.plot(
            part[_SECONDS][censored],
            part[_STEPS][censored],
            marker,
            color="white",
            markeredgecolor=colour,
            markeredgewidth=1.5,
            markersize=6,
            zorder=top + 0.5,
        )
    if len(front) > 1:
        ax.plot(front[_SECONDS], front[_STEPS], color=style.ACCENT, linewidth=1.2, drawstyle="steps-post", zorder=1.9)
    style.log_axis(ax, "x")
    style.log_axis(ax, "y")
    ax.margins(0.12)
    style.note(
        ax,
        "Left and low is better. Diamonds: the front; of those that mostly reach it, none is better in both.",
        "Hollow: some seeds never reached the target; both costs are lower bounds."
        if (known["num_reached"] < known["num_seeds"]).any()
        else "",
        style.NO_INTERVAL.format("whisker") if known[intervals].isna().any(axis=None) else "",
        style.packed_note(packed),
    )
    texts = style.name_texts(costs["config"])
    spots = list(zip(front[_SECONDS], front[_STEPS], strict=True))
    label_points(
        ax, spots, [texts[name] for name in front["config"]], list(zip(rest[_SECONDS], rest[_STEPS], strict=True))
    )
    return ax
