"""Learning curves: evaluation return over env steps or wall-clock time, with intervals over seeds."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import lines, style, text
from analysis.plots.labels import label_ends, target_line

_PANEL_HEIGHT_IN = 0.95


def plot(
    bands: pd.DataFrame,
    x: Literal["env_steps", "wall_s"] = "env_steps",
    target: float | None = None,
    series: str = "config",
    highlight: Sequence[Any] | None = None,
    measure: str = "evaluation return",
    ax: Axes | None = None,
) -> Axes:
    """Draws a line per configuration in one panel: one or two with their bands, more with whiskers.

    Args:
        bands: From `convergence.curve_bands`: config, `x`, value, value_low, value_high.
        x: Column of the x axis.
        target: Of the env, drawn as a line.
        series: Column that tells lines apart: ``config``, or a searched axis, if the frame has it and no two
            configurations share a value of it.
        highlight: Values of `series` in colour, the rest in grey. None: all, or the lines that end highest if there
            are more than the palette can tell apart.
        measure: What `bands` holds, for the y axis.
        ax: To draw on; None makes a figure.

    Returns:
        The axes.

    Raises:
        ValueError: A column is missing.
    """
    style.require(bands, [series, x, "value", "value_low", "value_high"])
    ax = style.axes(ax)
    style.name_axes(ax, text.readable(x), _named(measure, series))
    if bands.empty or bands["value"].isna().all():
        return style.no_data(ax, "no run has reported an evaluation")
    ends, grey = lines.draw(ax, bands, series, x, "value", highlight)
    style.linear_axis(ax, "x")
    style.linear_axis(ax, "y", most=5)
    ax.set_xlim(left=0)
    target_line(ax, target)
    label_ends(ax, ends)
    style.note(ax, grey)
    return ax


def panels(
    bands: pd.DataFrame,
    panel: str,
    series: str,
    x: Literal["env_steps", "wall_s"] = "env_steps",
    target: float | None = None,
    measure: str = "evaluation return",
) -> list[Axes]:
    """Draws a panel per configuration of two searched axes, laid out as `score_heatmap`, all on the same scales.

    Each panel has one line with its band; the other lines of its column are grey behind it. In one panel, the bands of
    few seeds would hide each other.

    Args:
        bands: As for `plot`, with the columns `panel` and `series`: merge them in from `convergence.summarise`.
        panel: Searched axis from left to right, such as ``train_batch_size_total``.
        series: Searched axis from the bottom up, such as ``lr``.
        x: Column of the x axis.
        target: Of the env, drawn as a line.
        measure: What `bands` holds, for the y axis.

    Returns:
        The axes of a new figure, row by row from the top left; one without data if `bands` has none.

    Raises:
        ValueError: A column is missing, or several configurations share a panel.
    """
    style.require(bands, [panel, series, x, "value", "value_low", "value_high"])
    if bands.empty or bands["value"].isna().all():
        return [plot(bands, x, target, series, measure=measure)]
    if bands.duplicated([panel, series, x]).any():
        raise ValueError(
            f"several configurations share {panel} and {series}: pick those of one value of the other axes first"
        )
    columns, rows = style.levels(bands[panel]), style.levels(bands[series])[::-1]
    figure = style.figure(max(2.6, 0.75 + len(rows) * (_PANEL_HEIGHT_IN if len(rows) > 1 else 2)))
    grid = figure.subplots(len(rows), len(columns), sharex=True, sharey=True, squeeze=False)
    known = bands.dropna(subset=["value"]).sort_values(x)
    of_column = {column: known[known[panel] == column] for column in columns}
    for row, lines_of_row in zip(rows, grid, strict=True):
        for column, ax in zip(columns, lines_of_row, strict=True):
            style.dress(ax)
            _panel(ax, of_column[column], series, row, x)
            target_line(ax, target, named=False)
    for column, ax in zip(columns, grid[0], strict=True):
        style.title(ax, text.setting(panel, column) if len(columns) == 1 else text.short_setting(panel, column))
    for row, ax in zip(rows, grid[:, -1], strict=True):
        ax.annotate(
            text.short_setting(series, row),
            (1.03, 0.5),
            xycoords="axes fraction",
            va="center",
            weight="bold",
            fontsize=style.SMALL_PT,
            color=style.INK,
        )
    for ax in grid.flat:
        style.linear_axis(ax, "x", most=6 if len(columns) == 1 else 4 if len(columns) <= 3 else 2)
        style.linear_axis(ax, "y", most=3)
        ax.set_xlim(left=0)
    figure.supylabel(measure, fontsize=style.FONT_PT, color=style.INK)
    for ax in grid[-1]:
        ax.set_xlabel(text.readable(x) if len(columns) < 4 else "", fontsize=style.FONT_PT, color=style.INK)
    if len(columns) >= 4:
        grid[-1][len(columns) // 2].set_xlabel(text.readable(x), fontsize=style.FONT_PT, color=style.INK)
    style.note_figure(
        figure,
        (
            f"Grey: the other values of {text.readable(series).partition(' (')[0]} at the same "
            f"{text.readable(panel).partition(' (')[0]}."
        )
        if len(rows) > 1
        else "",
        f"Dashed: the target, {text.number(target)}." if target is not None and math.isfinite(target) else "",
        style.NO_INTERVAL.format("band") if bands[["value_low", "value_high"]].isna().any(axis=None) else "",
    )
    return list(grid.flat)


def _panel(ax: Axes, of_column: pd.DataFrame, series: str, row: object, x: str) -> None:
    for value in style.levels(of_column[series]):
        part = of_column[of_column[series] == value]
        if value != row:
            ax.plot(part[x], part["value"], color=style.GREY, linewidth=0.7, zorder=1.8)
            continue
        banded = part.dropna(subset=["value_low", "value_high"])
        ax.fill_between(
            banded[x],
            banded["value_low"],
            banded["value_high"],
            color=style.ACCENT,
            alpha=0.22,
            linewidth=0,
            zorder=1.7,
        )
        ax.plot(
            part[x],
            part["value"],
            color=style.ACCENT,
            linewidth=1.7,
            marker="o",
            markersize=2.5,
            markevery=max(1, -(-len(part) // 15)),
            zorder=3,
        )


def _named(measure: str, series: str) -> str:
    return measure if series == "config" else f"{measure}, by {text.readable(series)}"
