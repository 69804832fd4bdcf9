"""How a search went: what each trial came to, the best so far, and what held-out seeds made of it."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import style
from analysis.plots.labels import End, label_ends, target_line

MOST_CONFIRMED = 8
"""Confirmed configurations that are drawn: the best, and the base."""
_STRIP = 0.16  # Of the env steps: where the confirmed ones stand.
_CONFIRMED = style.ALARM
_DOT = "#8C8C8C"


def plot(
    frame: pd.DataFrame, confirmed: pd.DataFrame | None = None, target: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draws a dot per trial where it ended, and the best so far; at the right what was confirmed.

    Args:
        frame: From `search_results.progress`: env_steps, outcome, score, best.
        confirmed: From `search_results.winners_curse`: config, is_base, confirmed with _low and _high. None: nothing
            stands at the right.
        target: Of the env, drawn as a line.
        ax: To draw on; None makes a figure.

    Returns:
        The axes. Hollow: stopped early, at its last evaluation. Crosses at the bottom:
        trials that ended without a score.

    Raises:
        ValueError: A column is missing.
    """
    style.require(frame, ["env_steps", "outcome", "score", "best"])
    ax = style.axes(ax)
    style.name_axes(ax, "env steps spent in the search", "score (mean return)")
    scored = frame.dropna(subset=["score"]) if len(frame) else frame
    if scored.empty:
        return style.no_data(ax, "no trial of the search has a score")
    without = frame[frame["score"].isna()]
    stopped = scored["outcome"] != "finished"
    ax.plot(frame["env_steps"], frame["best"], color=style.ACCENT, linewidth=1.7, drawstyle="steps-post", zorder=2.2)
    dot: dict[str, Any] = {"markersize": 5, "markeredgecolor": _DOT, "markeredgewidth": 1.1, "zorder": 2.5}
    ax.plot(scored["env_steps"][~stopped], scored["score"][~stopped], "o", color=_DOT, **dot)
    ax.plot(scored["env_steps"][stopped], scored["score"][stopped], "o", color="white", **dot)
    ax.plot(
        without["env_steps"],
        [0.03] * len(without),
        "x",
        color=style.INK,
        markersize=5,
        transform=ax.get_xaxis_transform(),
        zorder=2.5,
    )
    target_line(ax, target)
    shown = _shown(confirmed)
    total = float(frame["env_steps"].max())
    ax.set_xlim(0, total * (1.03 + (_STRIP if len(shown) else 0)))
    style.linear_axis(ax, "x")
    style.linear_axis(ax, "y")
    ends = _confirm(ax, shown, total) if len(shown) else []
    words = {
        "A dot: a trial, where it ended.": True,
        "Hollow: stopped early, at its last evaluation.": stopped.any(),
        "\u00d7: ended without a score.": len(without),
        "Line: the best so far; of a configuration with several seeds, their mean.": True,
        "Right: means over held-out seeds, with intervals.": len(shown),
        "Diamond: the base configuration.": len(shown) and shown["is_base"].any(),
    }
    style.note(ax, " ".join(word for word, applies in words.items() if applies))
    label_ends(ax, ends)
    return ax


def _shown(confirmed: pd.DataFrame | None) -> pd.DataFrame:
    """The confirmed ones that there is room for, best first."""
    if confirmed is None or not len(confirmed):
        return pd.DataFrame()
    style.require(confirmed, ["config", "is_base", "confirmed", "confirmed_low", "confirmed_high"])
    ranked = confirmed.dropna(subset=["confirmed"]).sort_values("confirmed", ascending=False, kind="stable")
    best = ranked[~ranked["is_base"].astype(bool)].index[:MOST_CONFIRMED]
    return ranked[ranked.index.isin(best) | ranked["is_base"].astype(bool)]


def _confirm(ax: Axes, shown: pd.DataFrame, total: float) -> list[End]:
    """Draws the confirmed ones side by side at the right of the search; returns their labels."""
    start = total * 1.03
    ax.axvspan(start, total * (1.03 + _STRIP), color=style.FAINT, alpha=0.6, linewidth=0, zorder=0.5)
    ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= total])
    words: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": style.SMALL_PT, "color": style.MUTED}
    ax.text(start + total * _STRIP / 2, 1.01, "confirmed", transform=ax.get_xaxis_transform(), **words)
    texts, ends = style.name_texts(shown["config"]), []
    for place, row in enumerate(shown.to_dict("records")):
        x = start + total * _STRIP * (place + 0.5) / len(shown)
        colour, marker = (style.INK, "D") if row["is_base"] else (_CONFIRMED, "o")
        ax.vlines(x, row["confirmed_low"], row["confirmed_high"], color=colour, linewidth=1.3, zorder=2.4)
        ax.plot(
            [x],
            [row["confirmed"]],
            marker,
            color=colour,
            markersize=6,
            markeredgecolor="white",
            markeredgewidth=0.6,
            zorder=3,
        )
        ends.append(End(texts[row["config"]], x, row["confirmed"], colour))
    return ends
