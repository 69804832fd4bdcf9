"""Scaling efficiency: what each runner gives, as a share of what one alone gives."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from analysis.plots import style, text
from analysis.plots.labels import End, label_ends
from analysis.plots.scaling_curve import looks, of_series

_APART = 0.025  # Series stand side by side, this share of the count apart, so that no whisker hides another.


def plot(
    efficiency: pd.DataFrame,
    series: str | None = None,
    axis: str = "num_env_runners",
    packed: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draws throughput over count times the throughput of one, a line per series, with intervals.

    Args:
        efficiency: From `scaling_laws.fit`, the frame `counts`: num, efficiency
            (1: linear scaling), efficiency_low, efficiency_high.
        series: Column that tells lines apart (algorithm, envs per runner); None: there is one line.
        axis: What was counted.
        packed: Trials ran side by side: said below.
        ax: To draw on; None makes a figure.

    Returns:
        The axes.

    Raises:
        ValueError: A column is missing.
    """
    style.require(efficiency, ["num", "efficiency", "efficiency_low", "efficiency_high", *([series] if series else [])])
    ax = style.axes(ax)
    style.name_axes(ax, text.readable(axis), "efficiency (% of linear scaling)")
    known = efficiency.dropna(subset=["num", "efficiency"]) if len(efficiency) else efficiency
    if known.empty:
        return style.no_data(ax, "no count has an efficiency")
    shown = looks(known, series)
    ends, bare, top = [], False, 1.0
    for i, look in enumerate(shown):
        part = of_series(known, series, look.name).sort_values("num")
        x = part["num"] * (1 + _APART * (i - (len(shown) - 1) / 2))
        banded = part[["efficiency_low", "efficiency_high"]].notna().all(axis=1)
        ax.vlines(
            x[banded],
            part.loc[banded, "efficiency_low"],
            part.loc[banded, "efficiency_high"],
            color=look.colour,
            linewidth=1.4,
            zorder=2.4,
        )
        ax.plot(x, part["efficiency"], label=look.label, zorder=2.6, markersize=5.5, **look.line)
        # One runner is 100% by definition and has no interval to miss.
        bare |= bool((~banded & (part["num"] > 1)).any())
        top = max(top, float(part[["efficiency", "efficiency_high"]].max(axis=None)))
        if series:
            ends.append(
                End(
                    look.label,
                    float(x.iloc[-1]),
                    float(part["efficiency"].iloc[-1]),
                    look.colour,
                    look.dash,
                    look.marker,
                )
            )
    ax.axhline(1.0, color=style.MUTED, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1.5)
    levels = style.levels(known["num"])
    style.log_axis(ax, "x", levels, lambda value: text.level(axis, value))
    ax.set_xlim(min(levels) / 1.15, max(levels) * 1.15)
    ax.set_ylim(0, 1.08 * top)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
    label_ends(ax, ends)
    style.note(
        ax,
        "Dashed: linear scaling, 100%." + (" Series stand side by side at each count." if len(shown) > 1 else ""),
        style.NO_INTERVAL.format("whisker") if bare else "",
        style.packed_note(packed),
    )
    return ax
