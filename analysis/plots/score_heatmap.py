"""Heatmap of a summary over two searched axes, such as learning rate and train batch:
the number and its interval in each cell.
"""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.patches import Rectangle

from analysis.plots import style, text

# Less is better: pale where it is slow, and on a logarithmic scale, for these range over decades.
_COSTS = ("env_steps_to_target", "seconds_to_target", "updates_to_target")
_TITLES = {
    "score": "Score: mean return of the final evaluation, over seeds",
    "auc": "Area under the learning curve: mean return, over seeds",
    "env_steps_to_target": "Env steps to target, restricted mean",
    "seconds_to_target": "Training seconds to target, restricted mean",
    "env_steps_per_s": "Throughput, env steps/s",
}
_ROW_IN = 0.58


def plot(
    summary: pd.DataFrame,
    value: str = "score",
    x: str = "train_batch_size_total",
    y: str = "lr",
    title: str | None = None,
    packed: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draws a cell per configuration; darker is better. What the study's answer chose is framed, else the best number.

    In times to target, a cell in which some seed never reached the target reads ``>=`` and how many seeds reached it.

    Args:
        summary: From `convergence.summarise`: a row per pair of `x` and `y`, with `value`, `value`_low, `value`_high,
            and, for times to target, num_reached and num_seeds; with `chosen`, if the study has an answer.
        value: Column to show.
        x: Searched axis, from left to right.
        y: Searched axis, from the bottom up.
        title: Above the axes. None: what `value` is.
        packed: Trials ran side by side; said where `value` is in seconds.
        ax: To draw on; None makes a figure.

    Returns:
        The axes. A setting that is missing from `summary` leaves its cell empty.

    Raises:
        ValueError: A column is missing, or several configurations fall into one cell.
    """
    cost = value in _COSTS
    style.require(
        summary, [x, y, value, f"{value}_low", f"{value}_high", *(["num_reached", "num_seeds"] if cost else [])]
    )
    if summary.empty or summary[value].isna().all():
        ax = style.axes(ax)
        style.name_axes(ax, text.readable(x), text.readable(y))
        style.title(ax, _TITLES.get(value, text.readable(value)) if title is None else title)
        return style.no_data(ax, "no finished seed")
    if summary.duplicated([x, y]).any():
        raise ValueError(f"several configurations share {x} and {y}: pick those of one value of the other axes first")
    columns, rows = style.levels(summary[x]), style.levels(summary[y])
    ax = style.axes(ax, max(2.2, 1.2 + _ROW_IN * len(rows)))
    style.name_axes(ax, text.readable(x), text.readable(y))
    style.title(ax, _TITLES.get(value, text.readable(value)) if title is None else title)

    known = summary.dropna(subset=[value])
    cells = np.full((len(rows), len(columns)), np.nan)
    for row in summary.to_dict("records"):
        cells[rows.index(row[y]), columns.index(row[x])] = row[value]
    found = cells[np.isfinite(cells)]
    lowest, highest = float(found.min()), float(found.max())
    if lowest == highest:  # A single value is the best there is, hence at the dark end.
        norm = Normalize(lowest, lowest + 1) if cost else Normalize(highest - 1, highest)
    else:
        norm = LogNorm(lowest, highest) if cost and lowest > 0 else Normalize(lowest, highest)
    image = ax.imshow(cells, cmap="Blues_r" if cost else "Blues", norm=norm, aspect="auto", origin="lower")
    best = lowest if cost else highest
    framed = summary["chosen"] if "chosen" in summary else summary[value] == best

    wide_in = float(ax.get_window_extent().width / ax.figure.dpi) / len(columns)
    for row, is_framed in zip(summary.to_dict("records"), framed, strict=True):
        column, line = columns.index(row[x]), rows.index(row[y])
        if not math.isfinite(row[value]):
            _empty(ax, column, line, "no data")
            continue
        ink = style.ink_on(image.cmap(image.norm(row[value])))
        _write(ax, column, line, row, value, cost, ink, wide_in)
        if cost and not row["num_reached"]:
            ax.add_patch(
                Rectangle(
                    (column - 0.5, line - 0.5), 1, 1, fill=False, edgecolor=ink, hatch="//", linewidth=0, alpha=0.25
                )
            )
        if is_framed:
            ax.add_patch(
                Rectangle((column - 0.46, line - 0.44), 0.92, 0.88, fill=False, edgecolor=style.ALARM, linewidth=2.5)
            )
    for line, column in np.argwhere(np.isnan(cells)):
        if not ((summary[x] == columns[column]) & (summary[y] == rows[line])).any():
            _empty(ax, int(column), int(line), "not run")

    ax.set_xticks(range(len(columns)), [text.level(x, level) for level in columns])
    ax.set_yticks(range(len(rows)), [text.level(y, level) for level in rows])
    ax.tick_params(length=0)
    ax.grid(visible=False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    style.note(
        ax,
        f"Framed: {'the recommended one' if 'chosen' in summary else 'the best by this number'}. Darker is better.",
        "\u2265: some seeds never reached the target and count with their budget, so the mean is a lower bound."
        if cost and (known["num_reached"] < known["num_seeds"]).any()
        else "",
        style.packed_note(packed and value in {"seconds_to_target", "env_steps_per_s"}),
    )
    return ax


def _write(
    ax: Axes, column: int, line: int, row: dict[str, Any], value: str, cost: bool, ink: str, wide_in: float
) -> None:
    """Value above, interval and reached seeds below; a narrow cell has room for the value only."""
    censored = cost and row["num_reached"] < row["num_seeds"]
    shown = ("\u2265 " if censored else "") + text.number(row[value])
    below = text.interval(row[f"{value}_low"], row[f"{value}_high"])
    if censored:
        if row["num_reached"] and below and wide_in >= 1.0:
            below = f"{below}\n{int(row['num_reached'])} of {int(row['num_seeds'])} reached"
        else:  # Where no seed reached it, the interval is the budget twice.
            below = (
                f"{int(row['num_reached'])} of {int(row['num_seeds'])} reached"
                if row["num_reached"]
                else "never reached"
            )
    if wide_in < 0.8:
        below = ""
    size = style.FONT_PT if wide_in > 0.5 else style.TINY_PT
    ax.annotate(
        shown,
        (column, line),
        xytext=(0, 4 if "\n" in below else 0),
        textcoords="offset points",
        ha="center",
        va="bottom" if below else "center",
        fontsize=size + 1 if below else size,
        color=ink,
        weight="bold",
    )
    if below:
        ax.annotate(
            below,
            (column, line),
            xytext=(0, 4 if "\n" in below else -1),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=style.TINY_PT,
            color=ink,
            linespacing=1.1,
        )


def _empty(ax: Axes, column: int, line: int, why: str) -> None:
    ax.add_patch(
        Rectangle((column - 0.5, line - 0.5), 1, 1, facecolor="white", edgecolor=style.GREY, hatch="///", linewidth=0)
    )
    ax.text(
        column,
        line,
        why,
        ha="center",
        va="center",
        fontsize=style.TINY_PT,
        color=style.MUTED,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    )
