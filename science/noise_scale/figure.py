"""The gradient noise scale over training, in rows of a gradient step."""

import math

import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import style, text
from analysis.plots.labels import End, label_ends
from analysis.plots.scaling_curve import looks, of_series

_APART = 0.012
"""Lines stand side by side, this share of the width apart, so that no whisker hides another."""
_BEYOND = 3.0
"""Times the highest finite number at which an interval without an upper end is cut."""


def plot(frame: pd.DataFrame, series: str = "network", batch: float | None = None, ax: Axes | None = None) -> Axes:
    """Draws a line per series with its intervals.

    Args:
        frame: From `noise_scale.over_time`: `env_steps`, `noise_scale` with _low and _high, and `series`.
        series: Column that tells lines apart.
        batch: Rows of a gradient step, drawn as a line; None: it has several, or none.
        ax: To draw on; None makes a figure.

    Returns:
        The axes.

    Raises:
        ValueError: A column is missing.
    """
    style.require(frame, ["env_steps", "noise_scale", "noise_scale_low", "noise_scale_high", series])
    ax = style.axes(ax)
    style.name_axes(ax, text.readable("env_steps"), "gradient noise scale (rows)")
    known = frame[frame["noise_scale"].map(lambda value: math.isfinite(value) and value > 0)] if len(frame) else frame
    if known.empty:
        return style.no_data(ax, "no measurement tells the gradient from its noise")
    ends = frame[["noise_scale", "noise_scale_low", "noise_scale_high"]].stack()
    finite = ends[ends.map(lambda value: math.isfinite(value) and value > 0)]
    top, bottom = _BEYOND * float(finite.max()), float(finite.min()) / _BEYOND
    width, open_ended, bare, named = float(known["env_steps"].max()), False, False, []
    shown = looks(known, series)
    for i, look in enumerate(shown):
        part = of_series(known, series, look.name).sort_values("env_steps")
        aside = _APART * width * (i - (len(shown) - 1) / 2)
        x = part["env_steps"] + aside
        bare |= bool(part[["noise_scale_low", "noise_scale_high"]].isna().any(axis=None))
        banded = of_series(frame, series, look.name).dropna(subset=["noise_scale_low", "noise_scale_high"])
        banded = banded[banded["noise_scale_low"] < top]  # of one without an estimate the lower end is known
        open_ended |= bool((banded["noise_scale_high"] > top).any() or (banded["noise_scale_low"] < bottom).any())
        low, high = banded["noise_scale_low"].clip(lower=bottom), banded["noise_scale_high"].clip(upper=top)
        ax.vlines(banded["env_steps"] + aside, low, high, color=look.colour, linewidth=1.2, zorder=2.4)
        ax.plot(x, part["noise_scale"], label=look.label, zorder=2.6, markersize=5, **look.line)
        named.append(
            End(look.label, float(x.iloc[-1]), float(part["noise_scale"].iloc[-1]), look.colour, look.dash, look.marker)
        )
    style.linear_axis(ax, "x")
    style.log_axis(ax, "y")
    ax.set_xlim(left=0)
    ax.set_ylim(bottom, top)
    if batch is not None:
        ax.axhline(batch, color=style.MUTED, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1.5)
    label_ends(ax, named)
    missing = len(frame) - len(known)
    style.note(
        ax,
        f"Dashed: rows of a gradient step, {text.number(batch)}." if batch is not None else "",
        "Whiskers that leave the figure have no end in these data." if open_ended else "",
        (
            f"{missing} point{'s have' if missing > 1 else ' has'} no marker: "
            "the gradient does not stand out from its noise."
        )
        if missing
        else "",
        style.NO_INTERVAL.format("whisker") if bare else "",
    )
    return ax
