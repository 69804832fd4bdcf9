"""Env steps to target, env steps/s and time to target side by side: what is gained in one is lost in another."""

import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import style

MEASURES = ("env_steps", "env_steps_per_s", "minutes")
_COLUMNS = ["config", *(f"{name}{end}" for name in MEASURES for end in ("", "_low", "_high"))]
_WORDS = {"env_steps": "env steps to target", "env_steps_per_s": "env steps/s", "minutes": "{} to target"}
_PANEL_TICKS = 4


def plot(
    predicted: pd.DataFrame, measure: str = "minutes", chosen: str = "", ax: Axes | None = None, of: str = "layout"
) -> Axes:
    """Draws a row for each layout, or each learning setting, the soonest on top, with its interval.

    Args:
        predicted: Rows of `product.Product.table`: config, and env_steps, env_steps_per_s and minutes with `_low`
            and `_high`.
        measure: One of `MEASURES`.
        chosen: The `config` of the row that is highlighted.
        ax: To draw on; None makes a figure as tall as the rows need.
        of: The column that names the rows.

    Returns:
        The axes; a row of which nothing is known stays empty.

    Raises:
        ValueError: A column is missing.
    """
    style.require(predicted, [of, *_COLUMNS])
    sooner_first = predicted.sort_values("minutes", kind="stable") if len(predicted) else predicted
    known = sooner_first.dropna(subset=["minutes"]) if len(predicted) else predicted
    names = [str(name) for name in sooner_first.get(of, ())]
    ax = style.axes(ax, style.rows_height_in(names))
    unit, times = _unit(known) if measure == "minutes" and len(known) else ("minutes", 1.0)
    style.name_axes(ax, _WORDS[measure].format(unit), of)
    if known.empty:
        return style.no_data(ax, "no layout was measured")
    for i, row in enumerate(sooner_first.to_dict("records")):
        colour = style.ACCENT if chosen and row["config"] == chosen else style.MUTED
        estimate, low, high = (times * float(row[f"{measure}{end}"]) for end in ("", "_low", "_high"))
        ax.hlines(i, low, high, color=colour, linewidth=1.8)
        ax.plot([estimate], [i], marker="o", markersize=5.5, color=colour, linestyle="none")
    style.rows(ax, names)
    style.linear_axis(ax, "x", _PANEL_TICKS)
    ax.set_xlim(left=0)
    return ax


def panels(predicted: pd.DataFrame, chosen: str = "", of: str = "layout") -> list[Axes]:
    """Draws both factors and their product side by side, with the same rows.

    Args:
        predicted: As for `plot`, with a row at least.
        chosen: As for `plot`.
        of: As for `plot`.

    Returns:
        The three axes of a new figure.
    """
    figure = style.figure(style.rows_height_in([str(name) for name in predicted[of]]))
    found = [
        plot(predicted, measure, chosen, ax, of)
        for measure, ax in zip(MEASURES, figure.subplots(1, 3, sharey=True), strict=True)
    ]
    for ax in found[1:]:
        ax.set_ylabel("")
        ax.tick_params(axis="y", labelleft=False)
    return found


def _unit(rows: pd.DataFrame) -> tuple[str, float]:
    """The unit in which the times are read best, and how many of it a minute is."""
    middle = float(rows["minutes"].median())
    return ("seconds", 60.0) if middle < 1.5 else ("minutes", 1.0) if middle < 90 else ("hours", 1 / 60)
