"""The best learning rate, or another setting, against train batch, or another one,
with rules and the fitted power drawn in.
"""

import math
from collections.abc import Collection, Mapping
from typing import Protocol

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import style, text
from analysis.plots.labels import End, label_ends

RULES: Mapping[str, float] = {"constant": 0.0, "square root": 0.5, "linear": 1.0}
"""Powers p of the rules lr ~ batch^p."""

_RULE_DASHES = ((0, (5, 2)), (0, (1.2, 1.4)), (0, (5, 1.5, 1.2, 1.5)))
_ARROW_PT = 20
_BATCH = "train_batch_size_total"


class Slope(Protocol):
    """A fitted power with its 95% interval, NaN ends where there is none, and the point its line goes through."""

    @property
    def estimate(self) -> float:
        """The power."""

    @property
    def low(self) -> float:
        """Lower end."""

    @property
    def high(self) -> float:
        """Upper end."""

    @property
    def reference_batch(self) -> float:
        """The point's batch, env steps."""

    @property
    def reference_lr(self) -> float:
        """The point's learning rate."""


def plot(
    best: pd.DataFrame,
    exponent: Slope | None = None,
    rejected: Collection[str] = (),
    lr: str = "lr",
    ax: Axes | None = None,
    *,
    over: str = _BATCH,
    rules: Mapping[str, float] = RULES,
) -> Axes:
    """Draws the best learning rate of each batch and lines of the rules through the centre of these points.

    Args:
        best: From `learning_rate_batch.best_learning_rates`: `over`, best_lr, best_lr_low, best_lr_high, at_edge,
            low_open, high_open, grid_best_lr. An arrow stands where the best may lie beyond the grid.
        exponent: The fitted power, drawn as a line, its interval as a fan.
        rejected: Those of `rules` that the data reject.
        lr: What is best: the learning rate, its multiple, or another setting.
        ax: To draw on; None makes a figure.
        over: Column of what it is drawn against.
        rules: Name to power; three at most.

    Returns:
        The axes; rules and fit only with two batches or more.

    Raises:
        ValueError: A column is missing, or a rule is unknown.
    """
    columns = [over, "best_lr", "best_lr_low", "best_lr_high", "at_edge", "low_open", "high_open", "grid_best_lr"]
    style.require(best, columns)
    unknown = [rule for rule in rejected if rule not in rules]
    if unknown:
        raise ValueError(f"no rule is called {unknown[0]!r}; there are {', '.join(rules)}")
    ax = style.axes(ax)
    style.name_axes(ax, text.readable(over), text.readable(lr))
    known = best.dropna(subset=["best_lr"]) if len(best) else best
    if known.empty:
        return style.no_data(ax, "no batch has a best learning rate")

    batches = known[over].to_numpy(dtype=float)
    span = np.array([batches.min() / 1.25, batches.max() * 1.25])
    ends = _lines(ax, span, _centre(known, exponent, over), exponent, rejected, rules) if len(set(batches)) > 1 else []
    ax.vlines(known[over], known["best_lr_low"], known["best_lr_high"], color=style.INK, linewidth=1.6, zorder=3)
    arrows = 0
    for row in known.to_dict("records"):
        edge = row["at_edge"]
        ax.plot(
            row[over],
            row["best_lr"],
            "o",
            color="white" if edge else style.INK,
            markeredgecolor=style.ALARM if edge else style.INK,
            markeredgewidth=1.8,
            markersize=7,
            zorder=4,
        )
        for side, is_open in (("low", row["low_open"]), ("high", row["high_open"])):
            end = row["best_lr"] if edge == side else row[f"best_lr_{side}"]
            if (edge == side or is_open) and math.isfinite(end):
                _arrow(ax, row[over], end, down=side == "low")
                arrows += 1
    ax.plot(known[over], known["grid_best_lr"], "_", color=style.ACCENT, markersize=13, markeredgewidth=2, zorder=3.5)

    levels = style.levels(best[over])
    style.log_axis(ax, "x", levels, lambda batch: text.level(over, batch))
    style.log_axis(ax, "y", words=text.rate)
    ax.set_xlim(*span)
    _room(ax, known)
    label_ends(ax, ends)
    style.note(
        ax,
        "Horizontal bar: best learning rate of the grid.",
        "Arrow: the best may lie beyond the edge of the grid." if arrows else "",
        style.NO_INTERVAL.format("whisker") if known[["best_lr_low", "best_lr_high"]].isna().any(axis=None) else "",
        "One value only: no rule can be told from another." if len(set(batches)) < 2 else "",
    )
    return ax


def _centre(known: pd.DataFrame, exponent: Slope | None, over: str) -> tuple[float, float]:
    """Where all lines meet: the fit's own point, else the middle of the points on the logarithmic axes."""
    if exponent is not None and math.isfinite(exponent.reference_batch) and math.isfinite(exponent.reference_lr):
        return exponent.reference_batch, exponent.reference_lr
    batch, rate = np.exp(np.log(known[[over, "best_lr"]].to_numpy(dtype=float)).mean(axis=0))
    return float(batch), float(rate)


def _arrow(ax: Axes, batch: float, rate: float, down: bool) -> None:
    ax.annotate(
        "",
        xy=(batch, rate),
        xytext=(0, -_ARROW_PT if down else _ARROW_PT),
        textcoords="offset points",
        arrowprops={
            "arrowstyle": "<|-",
            "color": style.ALARM,
            "linewidth": 1.8,
            "shrinkA": 0,
            "shrinkB": 0,
            "mutation_scale": 14,
        },
        zorder=3,
    )


def _lines(
    ax: Axes,
    span: np.ndarray,
    centre: tuple[float, float],
    exponent: Slope | None,
    rejected: Collection[str],
    rules: Mapping[str, float],
) -> list[End]:
    """The rules, the fit and its fan, all through the centre; returns their ends."""

    def through(power: float) -> np.ndarray:
        return np.asarray(centre[1] * (span / centre[0]) ** power)

    ends = []
    for (rule, power), dashes in zip(rules.items(), _RULE_DASHES, strict=False):
        colour = style.GREY if rule in rejected else style.MUTED
        ax.plot(span, through(power), color=colour, linestyle=dashes, linewidth=1.4, zorder=2)
        ends.append(
            End(
                f"{rule} ({power:g})" + ("\nrejected" if rule in rejected else ""),
                span[1],
                float(through(power)[1]),
                colour,
            )
        )
    if exponent is not None and math.isfinite(exponent.estimate):
        ax.plot(span, through(exponent.estimate), color=style.ACCENT, linewidth=2.2, zorder=2.5)
        if math.isfinite(exponent.low) and math.isfinite(exponent.high):
            # The fan pinches at the centre, so it needs that point as well.
            xs = np.array([span[0], centre[0], span[1]])
            low, high = (centre[1] * (xs / centre[0]) ** power for power in (exponent.low, exponent.high))
            ax.fill_between(xs, low, high, color=style.ACCENT, alpha=0.13, linewidth=0, zorder=1.5)
            known = f"\n[{exponent.low:.2f}, {exponent.high:.2f}]".replace("-", "\u2212")
        else:
            known = ""
        shown = f"fit: p = {exponent.estimate:.2f}".replace("-", "\u2212") + known
        ends.append(End(shown, span[1], float(through(exponent.estimate)[1]), style.ACCENT))
    return ends


def _room(ax: Axes, known: pd.DataFrame) -> None:
    """Limits that hold points, whiskers and arrows, but not the whole fan of a wide interval."""
    values = known[["best_lr", "best_lr_low", "best_lr_high", "grid_best_lr"]].to_numpy(dtype=float)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    ax.set_ylim(low / 2.4, high * 2.4)
