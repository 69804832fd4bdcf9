"""A population over its generations: what each member came to, with which settings, and who took over whose weights."""

import math
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, to_hex
from matplotlib.patches import Rectangle

from analysis.plots import style, text

_ROW_IN = 0.54
_BAR = 0.74  # Of a row's height.
_GAP = 0.16  # Of a generation: for what leads from one to the next.
_CHARS_PER_IN = 16.0  # Of the smallest print.
_FEWEST_CHARS = 7  # Of a line of settings, below which they are left out.
_MOST_TICKS = 8
_WITHOUT = {"finished": "no score", "missing": "never ran"}


def plot(frame: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draws a row per member with a bar per generation: its score, and its settings where they are new.

    Args:
        frame: From `lineage.lineage`: member, generation, settings, start_env_steps, env_steps, status, score,
            parent_member, copied, is_best.
        ax: To draw on; None makes a figure as tall as the rows need.

    Returns:
        The axes. Arrows are copies; framed, with bold arrows, is the way to the best member of the end.

    Raises:
        ValueError: A column is missing.
    """
    style.require(
        frame,
        [
            "member",
            "generation",
            "settings",
            "start_env_steps",
            "env_steps",
            "status",
            "score",
            "parent_member",
            "copied",
            "is_best",
        ],
    )
    members = style.levels(frame["member"]) if len(frame) else []
    ax = style.axes(ax, 1.5 + _ROW_IN * max(len(members), 2))
    style.name_axes(ax, "env steps", "member (its seed)")
    scores = frame["score"].dropna() if len(frame) else pd.Series(dtype=float)
    if scores.empty:
        return style.no_data(ax, "no member has a score")
    style.rows(ax, [str(member) for member in members])
    ax.grid(visible=False)
    first, end = float(frame["start_env_steps"].min()), float(frame["env_steps"].max())
    ax.set_xlim(first, end)
    ends = sorted({first, *frame["env_steps"].astype(float)})
    if len(ends) <= _MOST_TICKS:
        ax.set_xticks(ends, [text.number(at) for at in ends])
    else:
        style.linear_axis(ax, "x")
    norm = Normalize(min(scores), max(scores) if max(scores) > min(scores) else min(scores) + 1)
    gap = _GAP * float((frame["env_steps"] - frame["start_env_steps"]).min())
    inches = float(ax.get_window_extent().width / ax.figure.dpi) / (end - first)
    most_chars = 0
    for row in frame.to_dict("records"):
        y = members.index(row["member"])
        left, right = row["start_env_steps"] + gap / 2, row["env_steps"] - gap / 2
        chars = int((right - left) * inches * _CHARS_PER_IN)
        most_chars = max(most_chars, chars)
        _bar(ax, row, left, right, y, norm, chars)
        if pd.notna(row["parent_member"]):
            _link(ax, (left - gap, members.index(row["parent_member"])), (left, y), row["copied"], row["is_best"])
    notes = {
        (
            f"Darker: a higher score at the end of a generation, {text.number(min(scores))} "
            f"to {text.number(max(scores))}."
        ): True,
        "Above the score: settings, where they are new.": most_chars >= _FEWEST_CHARS,
        "Arrow: a copy of weights and settings, which were then varied.": frame["copied"].any(),
        "Framed: the way to the best one.": frame["is_best"].any(),
    }
    style.note(ax, " ".join(sentence for sentence, applies in notes.items() if applies))
    return ax


def _bar(ax: Axes, row: dict[str, Any], left: float, right: float, y: int, norm: Normalize, chars: int) -> None:
    """A generation of a member, with as many words as it has room for."""
    scored = math.isfinite(row["score"])
    colour = to_hex(mpl.colormaps["viridis_r"](norm(row["score"]))) if scored else "white"
    edge = (
        {"edgecolor": style.ALARM, "linewidth": 2.4}
        if row["is_best"]
        else {"edgecolor": style.GREY, "linewidth": 0 if scored else 0.8}
    )
    ax.add_patch(
        Rectangle(
            (left, y - _BAR / 2), right - left, _BAR, facecolor=colour, zorder=3 if row["is_best"] else 2.5, **edge
        )
    )
    ink = style.ink_on(colour) if scored else style.MUTED
    words: dict[str, Any] = {
        "textcoords": "offset points",
        "ha": "center",
        "fontsize": style.TINY_PT,
        "color": ink,
        "zorder": 4,
    }
    outcome = text.number(row["score"]) if scored else _WITHOUT.get(row["status"], row["status"])
    settings = (
        text.short_names([row["settings"]], max(chars, 1))[row["settings"]]
        if row["generation"] == 0 or row["copied"]
        else ""
    )
    middle, lines = (left + right) / 2, settings.count("\n") + 1
    if not settings or chars < _FEWEST_CHARS:
        lines = 0
    else:
        ax.annotate(settings, (middle, y), (0, -4.5 * (lines - 1)), va="bottom", linespacing=0.95, **words)
    if len(outcome) <= chars:
        at = (0, -4.5 * (lines - 1) - 0.5) if lines else (0, 0)
        ax.annotate(
            outcome,
            (middle, y),
            at,
            va="top" if lines else "center_baseline",
            weight="bold" if scored else "normal",
            **words,
        )


def _link(ax: Axes, start: tuple[float, int], end: tuple[float, int], is_copy: bool, is_best: bool) -> None:
    """From the end of the parent's bar to the beginning of the child's."""
    look: dict[str, Any] = {
        "color": style.ALARM if is_best else style.INK if is_copy else style.GREY,
        "shrinkA": 0,
        "shrinkB": 0,
    }
    look |= {
        "linewidth": 2.4 if is_best else 1.1,
        "arrowstyle": "-|>" if is_copy else "-",
        "mutation_scale": 9 if is_best else 7,
    }
    ax.annotate("", xy=end, xytext=start, arrowprops=look, zorder=5 if is_best else 3.5 if is_copy else 2)
