"""The price of speed: throughput against the staleness of the samples that the learner trains on."""

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.plots import style, text
from analysis.plots.labels import label_points
from analysis.plots.scaling_curve import looks, of_series

_STALE, _SPEED = "staleness_updates", "env_steps_per_s"
_LOG_BEYOND = 20.0  # A linear axis hides the slow ones of speeds that differ by more.


def plot(
    points: pd.DataFrame,
    series: str = "algorithm",
    label: str | None = "config",
    limit_updates: float | None = None,
    packed: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draws a point per configuration, with intervals in both directions; left and high is better.

    Args:
        points: A row a configuration: staleness_updates, how many updates the learner has made since the weights that a
            sample was taken with; env_steps_per_s; both with _low and _high; `series`, and `label`.
        series: Column that colours and markers stand for.
        label: Column that names the points; None: they have no names.
        limit_updates: Staleness beyond which learning is known to suffer, drawn as a line.
        packed: Trials ran side by side: said below.
        ax: To draw on; None makes a figure.

    Returns:
        The axes.

    Raises:
        ValueError: A column is missing.
    """
    intervals = [f"{name}{end}" for name in (_STALE, _SPEED) for end in ("", "_low", "_high")]
    style.require(points, [*intervals, series, *([label] if label else [])])
    ax = style.axes(ax)
    style.name_axes(ax, "staleness of the samples (updates)", text.readable(_SPEED))
    known = points.dropna(subset=[_STALE, _SPEED, series]) if len(points) else points
    if known.empty:
        return style.no_data(ax, "no run has reported its staleness")
    shown = looks(known, series)
    for look in shown:
        part = of_series(known, series, look.name)
        up = part.dropna(subset=[f"{_SPEED}_low", f"{_SPEED}_high"])
        across = part.dropna(subset=[f"{_STALE}_low", f"{_STALE}_high"])
        ax.vlines(up[_STALE], up[f"{_SPEED}_low"], up[f"{_SPEED}_high"], color=look.colour, linewidth=1.2, zorder=2.4)
        ax.hlines(
            across[_SPEED],
            across[f"{_STALE}_low"],
            across[f"{_STALE}_high"],
            color=look.colour,
            linewidth=1.2,
            zorder=2.4,
        )
        ax.plot(
            part[_STALE], part[_SPEED], label=look.label, zorder=3, markersize=6.5, **{**look.line, "linestyle": ""}
        )
    _limits(ax, known)
    if limit_updates is not None:
        ax.axvline(limit_updates, color=style.MUTED, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1.5)
    if len(shown) > 1:
        ax.legend(
            handles=[
                Line2D([], [], label=look.label, markersize=6.5, **{**look.line, "linestyle": ""}) for look in shown
            ],
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=min(len(shown), 4),
            frameon=False,
            fontsize=style.SMALL_PT,
            handletextpad=0.2,
            columnspacing=1.4,
            borderpad=0.2,
        )
    style.note(
        ax,
        "Left: fresh samples. High: fast.",
        f"Dashed: {text.number(limit_updates)} updates, beyond which learning may suffer."
        if limit_updates is not None
        else "",
        style.NO_INTERVAL.format("whisker") if known[intervals].isna().any(axis=None) else "",
        style.packed_note(packed),
    )
    if label:
        texts = style.name_texts(points[label])
        obstacles = []
        for row in known.to_dict("records"):
            ends = [(row[_STALE], row[f"{_SPEED}{end}"]) for end in ("_low", "_high")]
            ends += [(row[f"{_STALE}{end}"], row[_SPEED]) for end in ("_low", "_high")]
            obstacles += [spot for spot in ends if all(map(math.isfinite, spot))]
        label_points(
            ax, list(zip(known[_STALE], known[_SPEED], strict=True)), [texts[name] for name in known[label]], obstacles
        )
    return ax


def _limits(ax: Axes, known: pd.DataFrame) -> None:
    """Both axes from 0, but for speeds that lie far apart."""
    furthest = float(known[[_STALE, f"{_STALE}_high"]].max(axis=None))
    style.linear_axis(ax, "x")
    ax.set_xlim(-0.04 * max(furthest, 1.0), 1.12 * max(furthest, 1.0))
    speeds = known[[_SPEED, f"{_SPEED}_low", f"{_SPEED}_high"]]
    low, high = float(speeds.min(axis=None)), float(speeds.max(axis=None))
    if 0 < low < high / _LOG_BEYOND:
        style.log_axis(ax, "y")
        ax.set_ylim(low / 1.5, high * 1.5)
    else:
        style.linear_axis(ax, "y")
        ax.set_ylim(0, 1.15 * high)
