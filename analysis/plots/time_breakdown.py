"""Where time goes: shares of training time, or of wall-clock time in finer parts, per configuration."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from analysis.plots import style

# Part -> colour and hatch: apart in colour, in grey and in pattern.
PARTS: Mapping[str, tuple[str, str]] = {
    "sample": (style.COLOURS[0], ""),
    "learn": (style.COLOURS[4], ""),
    "sync": ("#FFFFFF", "////"),
    "other": ("#D9D9D9", ""),
}
"""Parts of training time, as in the metrics `throughput/*_share`."""
FINE_PARTS: Mapping[str, tuple[str, str]] = {
    "env_step": (style.COLOURS[0], ""),
    "inference": (style.COLOURS[5], ""),
    "connectors": ("#D6ECF8", "...."),
    "transfer": (style.COLOURS[3], "\\\\\\\\"),
    "waiting": ("#FFFFFF", "xxxx"),
    "learn": (style.COLOURS[4], ""),
    "sync": ("#FFFFFF", "////"),
    "evaluation": (style.COLOURS[2], ""),
    "logging": ("#F3EBB0", "----"),
    "unexplained": ("#D9D9D9", ""),
}
"""Parts of wall-clock time, as in the metrics `time/*_share`."""
_WORDS = {"sample": "sampling", "learn": "learning", "sync": "syncing weights", "other": "other"}
_FINE_WORDS = {
    "env_step": "stepping environments",
    "inference": "policy inference",
    "connectors": "connectors and episodes",
    "transfer": "moving data",
    "waiting": "waiting for the slowest",
    "learn": "learner updates",
    "sync": "syncing weights",
    "evaluation": "evaluation",
    "logging": "logging and checkpoints",
    "unexplained": "unexplained",
}
_NARROWEST = 0.07  # A share below it has no room for its number.
_KEY_COLUMNS = 3  # Of the finer parts' longer words.
_KEY_ROW_IN = 0.19


def plot(shares: pd.DataFrame, packed: bool = False, ax: Axes | None = None) -> Axes:
    """Draws a bar per configuration, in plan order, split into the parts.

    Which parts follows from the frame: `PARTS`, or `FINE_PARTS` if it has one that is in these alone.

    Args:
        shares: From `throughput.time_shares`: config, part, share (0 to 1).
        packed: Trials ran side by side: said below.
        ax: To draw on; None makes a figure as tall as the bars need.

    Returns:
        The axes.

    Raises:
        ValueError: A column is missing, a part is unknown, or parts of both kinds are mixed.
    """
    style.require(shares, ["config", "part", "share"])
    known = shares.dropna(subset=["share"]) if len(shares) else shares
    parts = _parts(set(known["part"])) if len(known) else PARTS
    fine = parts is FINE_PARTS
    words = _FINE_WORDS if fine else _WORDS
    names = style.levels(known["config"]) if len(known) else []
    texts = [style.name_texts(known["config"])[name] for name in names]
    # A part that took no time anywhere needs no place in the long key of the finer ones.
    named = [part for part in parts if not fine or (known.loc[known["part"] == part, "share"] > 0).any()]
    columns = min(_KEY_COLUMNS, len(named)) if fine else len(named)
    key_rows = -(-len(named) // max(columns, 1))
    ax = style.axes(ax, style.rows_height_in(texts, around_in=1.3 + _KEY_ROW_IN * (key_rows - 1)))
    style.name_axes(ax, f"share of {'wall-clock' if fine else 'training'} time (%)", "")
    if known.empty:
        return style.no_data(ax, "no run has reported its times")
    for i, name in enumerate(names):
        start = 0.0
        of_name = known[known["config"] == name].set_index("part")["share"]
        for part, (colour, hatch) in parts.items():
            share = float(of_name.get(part, 0.0))
            ax.barh(
                i, share, left=start, height=0.7, facecolor=colour, hatch=hatch, edgecolor=style.MUTED, linewidth=0.5
            )
            if share >= _NARROWEST:
                ax.text(
                    start + share / 2,
                    i,
                    f"{100 * share:.0f}",
                    ha="center",
                    va="center",
                    fontsize=style.SMALL_PT,
                    # On a pattern a number needs ground of its own.
                    color=style.INK if hatch else style.ink_on(colour),
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2} if hatch else None,
                )
            start += share
    style.rows(ax, texts)
    ax.grid(visible=False)
    ax.set_xlim(0, 1)
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
    ax.legend(
        handles=[
            Patch(facecolor=parts[p][0], hatch=parts[p][1], edgecolor=style.MUTED, linewidth=0.5, label=words[p])
            for p in named
        ],
        # The finer parts' key is nearly as wide as the figure: it stands above the names too.
        loc="lower right" if fine else "lower left",
        bbox_to_anchor=(1 if fine else 0, 1),
        ncols=columns,
        frameon=False,
        fontsize=style.SMALL_PT,
        handlelength=1.4 if fine else 1.2,
        handletextpad=0.5,
        columnspacing=1.0 if fine else 1.4,
        borderpad=0.2,
        borderaxespad=0.2,
    )
    style.note(ax, style.packed_note(packed))
    return ax


def _parts(found: set[str]) -> Mapping[str, tuple[str, str]]:
    """The kind that has all parts found.

    Raises:
        ValueError: Neither has.
    """
    unknown = sorted(found - set(PARTS) - set(FINE_PARTS))
    if unknown:
        raise ValueError(
            f"no part of time is called {unknown[0]!r}; there are {', '.join(PARTS)}; or, "
            f"finer, {', '.join(FINE_PARTS)}"
        )
    for parts in (PARTS, FINE_PARTS):
        if found <= set(parts):
            return parts
    coarse, fine = (
        next(p for p in PARTS if p in found - set(FINE_PARTS)),
        next(p for p in FINE_PARTS if p in found - set(PARTS)),
    )
    raise ValueError(f"{coarse!r} is a part of training time, {fine!r} one of wall-clock time: draw one kind at a time")
