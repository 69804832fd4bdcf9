"""Scores of a search against scores on held-out seeds: the winner's curse, configuration by configuration."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import style
from analysis.plots.labels import label_points

MOST_NAMED = 8
"""Points that are named: the best on held-out seeds, and the base."""
_ROOM = 0.12  # Of the range, around the points.
_MARGIN = 0.3  # Of the range: where those stand that the search did not score.
_HEIGHT_IN = 4.0


def plot(frame: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draws a point per configuration, with its interval on held-out seeds;
    below the diagonal it did worse than in the search.

    Args:
        frame: From `search_results.winners_curse`: config, is_base, searched, confirmed, confirmed_low, confirmed_high.
            Scores, in returns.
        ax: To draw on; None makes a figure.

    Returns:
        The axes. The base configuration is a diamond; one without a score of the search stands in the left margin.

    Raises:
        ValueError: A column is missing.
    """
    style.require(frame, ["config", "is_base", "searched", "confirmed", "confirmed_low", "confirmed_high"])
    ax = style.axes(ax, _HEIGHT_IN)
    style.name_axes(ax, "mean score in the search (return)", "mean score on held-out seeds (return)")
    known = frame.dropna(subset=["confirmed"]) if len(frame) else frame
    if known.empty:
        return style.no_data(ax, "nothing was confirmed on held-out seeds")
    has_margin = bool(known["searched"].isna().any())
    searched = known["searched"].dropna()
    left, right, at = _limits(ax, known, has_margin)
    x = known["searched"].fillna(at)
    diagonal = np.linspace(left, right, 30) if len(searched) else np.empty(0)
    ax.plot(diagonal, diagonal, color=style.MUTED, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1.5)
    for is_base, colour, marker in ((False, style.ACCENT, "o"), (True, style.INK, "D")):
        rows = known["is_base"].astype(bool) == is_base
        part = known[rows]
        ax.vlines(
            x[rows], part["confirmed_low"], part["confirmed_high"], color=colour, linewidth=1.3, alpha=0.8, zorder=2.4
        )
        ax.plot(
            x[rows],
            part["confirmed"],
            marker,
            color=colour,
            markersize=7,
            markeredgecolor="white",
            markeredgewidth=0.6,
            zorder=3,
        )
    if has_margin:
        words: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": style.SMALL_PT, "color": style.MUTED}
        ax.text(at, 1.01, "no search score", transform=ax.get_xaxis_transform(), **words)
    best = (
        known[~known["is_base"].astype(bool)]
        .sort_values("confirmed", ascending=False, kind="stable")
        .index[:MOST_NAMED]
    )
    named = [i for i in known.index if i in best or known["is_base"][i]]
    notes = {
        "Dashed: as in the search. Below it: worse than there.": len(searched),
        "Diamond: the base configuration.": known["is_base"].any(),
        style.NO_INTERVAL.format("whisker"): known[["confirmed_low", "confirmed_high"]].isna().any(axis=None),
        f"Named: the best {MOST_NAMED} and the base.": len(named) < len(known),
    }
    style.note(ax, " ".join(sentence for sentence, applies in notes.items() if applies))
    texts = style.name_texts(frame["config"])
    ends = known[["confirmed_low", "confirmed_high"]].dropna()
    whiskers = [(x[i], y) for i, low, high in ends.itertuples() for y in np.linspace(low, high, 7)]
    spots = [(x[i], known["confirmed"][i]) for i in named]
    rest = [(x[i], known["confirmed"][i]) for i in known.index if i not in named]
    label_points(
        ax, spots, [texts[known["config"][i]] for i in named], [*rest, *whiskers, *zip(diagonal, diagonal, strict=True)]
    )
    return ax


def _limits(ax: Axes, known: pd.DataFrame, has_margin: bool) -> tuple[float, float, float]:
    """Sets limits around all points; returns the ends of the search scores' axis,
    and where in the margin left of it points stand.
    """
    scores = known[["searched", "confirmed", "confirmed_low", "confirmed_high"]]
    low, high = float(scores.min(axis=None)), float(scores.max(axis=None))
    height = (high - low) or max(1.0, 0.1 * abs(high))
    ax.set_ylim(low - _ROOM * height, high + _ROOM * height)
    searched = known["searched"].dropna()
    left, right = (float(searched.min()), float(searched.max())) if len(searched) else (low, high)
    width = max(right - left, 0.5 * height)
    middle = (left + right) / 2
    left, right = middle - (0.5 + _ROOM) * width, middle + (0.5 + _ROOM) * width
    at = left - _MARGIN / 2 * width
    ax.set_xlim(left - (_MARGIN if has_margin else 0) * width, right)
    style.linear_axis(ax, "x")
    style.linear_axis(ax, "y")
    if has_margin:
        ax.axvspan(left - _MARGIN * width, left, color=style.FAINT, alpha=0.6, linewidth=0, zorder=0.5)
        ax.set_xticks([tick for tick in ax.get_xticks() if left <= tick <= right])
    return left, right, at
