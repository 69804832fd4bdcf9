"""Throughput of each configuration: env steps per training second, with intervals over seeds."""

import math

import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import style, text


def plot(speeds: pd.DataFrame, packed: bool = False, ax: Axes | None = None) -> Axes:
    """Draws a bar per configuration, the fastest on top, its number behind it.

    Args:
        speeds: From `throughput.speeds`: config, env_steps_per_s, env_steps_per_s_low, env_steps_per_s_high.
        packed: Trials ran side by side, so the speeds are not those of a trial alone: said below.
        ax: To draw on; None makes a figure as tall as the bars need.

    Returns:
        The axes; a configuration without a speed keeps its row.

    Raises:
        ValueError: A column is missing.
    """
    style.require(speeds, ["config", "env_steps_per_s", "env_steps_per_s_low", "env_steps_per_s_high"])
    empty = speeds.empty or speeds["env_steps_per_s"].isna().all()
    ordered = speeds if empty else speeds.sort_values("env_steps_per_s", ascending=False, kind="stable")
    texts = style.name_texts(speeds["config"]) if not empty else {}
    names = [texts[name] for name in ordered["config"]] if not empty else []
    ax = style.axes(ax, style.rows_height_in(names))
    style.name_axes(ax, text.readable("env_steps_per_s"), "")
    if empty:
        return style.no_data(ax, "no finished seed has a throughput")
    reach, bare = 0.0, False
    for i, row in enumerate(ordered.to_dict("records")):
        speed, low, high = (float(row[f"env_steps_per_s{end}"]) for end in ("", "_low", "_high"))
        if not math.isfinite(speed):
            ax.text(0, i, " no data", ha="left", va="center", fontsize=style.SMALL_PT, color=style.MUTED)
            continue
        banded = math.isfinite(low) and math.isfinite(high)
        ax.barh(i, speed, height=0.66, color=style.COLOURS[5], linewidth=0)
        if banded:
            ax.hlines(i, low, high, color=style.INK, linewidth=1.4)
        end = max(speed, high) if banded else speed
        ax.annotate(
            text.number(speed),
            (end, i),
            xytext=(5, 0),
            textcoords="offset points",
            ha="left",
            va="center",
            fontsize=style.SMALL_PT,
            color=style.INK,
        )
        reach, bare = max(reach, end), bare or not banded
    style.rows(ax, names)
    style.linear_axis(ax, "x")
    ax.set_xlim(0, reach * 1.14)
    style.note(ax, style.NO_INTERVAL.format("whisker") if bare else "", style.packed_note(packed))
    return ax
