"""Where more batch stops paying: env steps against updates to target,
with the curve of McCandlish et al. (1812.06162).
"""

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import style, text
from analysis.plots.labels import label_points

_UPDATES, _STEPS = "updates_to_target", "env_steps_to_target"


def plot(
    batches: pd.DataFrame,
    min_updates: float = math.nan,
    min_env_steps: float = math.nan,
    critical_batch: float = math.nan,
    critical_batch_low: float = math.nan,
    critical_batch_high: float = math.nan,
    no_fit: str = "these data allow no fit of the trade-off.",
    ax: Axes | None = None,
) -> Axes:
    """Draws a point per batch and the fitted curve (S / Smin - 1) (E / Emin - 1) = 1.

    Args:
        batches: A row per train batch at its best learning rate: train_batch_size_total, updates_to_target and
            env_steps_to_target, each with _low and _high.
        min_updates: Smin, the updates that no batch saves; NaN: no fit.
        min_env_steps: Emin, the env steps that no batch saves; NaN: no fit.
        critical_batch: Env steps per batch, named at the turn of the curve, where both costs are twice their least.
        critical_batch_low: Lower end of its interval.
        critical_batch_high: Upper end of its interval.
        no_fit: What is said below where there is no fit.
        ax: To draw on; None makes a figure.

    Returns:
        The axes.

    Raises:
        ValueError: A column is missing.
    """
    intervals = [f"{cost}{end}" for cost in (_UPDATES, _STEPS) for end in ("", "_low", "_high")]
    style.require(batches, ["train_batch_size_total", *intervals])
    ax = style.axes(ax)
    style.name_axes(ax, text.readable(_UPDATES), text.readable(_STEPS))
    known = batches.dropna(subset=[_UPDATES, _STEPS]) if len(batches) else batches
    if known.empty:
        return style.no_data(ax, "no batch has reached the target")
    colours = style.sequential(len(known))
    known = known.sort_values("train_batch_size_total")
    obstacles: list[tuple[float, float]] = []
    for colour, row in zip(colours, known.to_dict("records"), strict=True):
        # One whisker: updates are env steps over the batch, so both costs rise and fall together.
        ends = [row[f"{_UPDATES}_low"], row[f"{_UPDATES}_high"]], [row[f"{_STEPS}_low"], row[f"{_STEPS}_high"]]
        ax.plot(*ends, color=colour, linewidth=1.5, solid_capstyle="butt", zorder=3)
        obstacles.append((row[_UPDATES], row[_STEPS]))
        obstacles += zip(*(np.linspace(low, high, 9) for low, high in ends), strict=True)
        ax.plot(row[_UPDATES], row[_STEPS], "o", color=colour, markersize=7, zorder=4)
    style.log_axis(ax, "x")
    style.log_axis(ax, "y")
    ax.margins(0.15)
    # Named at the upper ends of the whiskers, away from the curve.
    spots = [
        (row[f"{_UPDATES}_high"], row[f"{_STEPS}_high"])
        if math.isfinite(row[f"{_STEPS}_high"])
        else (row[_UPDATES], row[_STEPS])
        for row in known.to_dict("records")
    ]
    names = [f"batch {text.level('train_batch_size_total', batch)}" for batch in known["train_batch_size_total"]]
    fitted = math.isfinite(min_updates) and math.isfinite(min_env_steps)
    if fitted:
        obstacles += _curve(ax, min_updates, min_env_steps, known)
        if math.isfinite(critical_batch):
            ax.plot(
                2 * min_updates,
                2 * min_env_steps,
                "X",
                color=style.ALARM,
                markersize=9,
                markeredgecolor="white",
                zorder=5,
            )
            spots.append((2 * min_updates, 2 * min_env_steps))
            known_to = text.interval(critical_batch_low, critical_batch_high)
            names.append(f"critical batch {text.number(critical_batch)}" + (f"\n{known_to}" if known_to else ""))
    style.note(
        ax,
        "Curve: (S/Smin \u2212 1)(E/Emin \u2212 1) = 1, fitted." if fitted else no_fit[:1].upper() + no_fit[1:],
        style.NO_INTERVAL.format("whisker") if known[intervals].isna().any(axis=None) else "",
    )
    label_points(ax, spots, names, obstacles)
    return ax


def _curve(ax: Axes, min_updates: float, min_env_steps: float, known: pd.DataFrame) -> list[tuple[float, float]]:
    """Draws the trade-off over the range of the data and of the critical batch; returns points on it."""
    low = min(float(known[_UPDATES].min()) / 1.3, 1.5 * min_updates)
    high = max(float(known[_UPDATES].max()) * 1.3, 3 * min_updates)
    updates = np.geomspace(max(low, 1.02 * min_updates), high, 200)
    env_steps = min_env_steps * (1 + 1 / (updates / min_updates - 1))
    tallest = max(float(known[_STEPS].max()), 2 * min_env_steps) * 1.6
    drawn = env_steps <= tallest  # The curve has no top: it ends where the data do.
    ax.plot(updates[drawn], env_steps[drawn], color=style.MUTED, linewidth=1.5, zorder=2)
    return list(zip(updates[drawn][::8], env_steps[drawn][::8], strict=True))
