"""Where training time goes: shares of sampling, learning, syncing and the rest, per configuration."""

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
_WORDS = {"sample": "sampling", "learn": "learning", "sync": "syncing weights", "other": "other"}
_NARROWEST = 0.07  # A share below it has no room for its number.


def plot(shares: pd.DataFrame, packed: bool = False, ax: Axes | None = None) -> Axes:
    """Draws a bar per configuration, in plan order, split into the parts.

    Args:
        shares: From `throughput.time_shares`: config, part, share (0 to 1).
        packed: Trials ran side by side: said below.
        ax: To draw on; None makes a figure as tall as the bars need.

    Returns:
        The axes.

    Raises:
        ValueError: A column is missing, or a part is unknown.
    """
    style.require(shares, ["config", "part", "share"])
    known = shares.dropna(subset=["share"]) if len(shares) else shares
    names = style.levels(known["config"]) if len(known) else []
    texts = [style.name_texts(known["config"])[name] for name in names]
    ax = style.axes(ax, style.rows_height_in(texts, around_in=1.3))
    style.name_axes(ax, "share of training time (%)", "")
    if known.empty:
        return style.no_data(ax, "no run has reported its times")
    unknown = sorted(set(known["part"]) - set(PARTS))
    if unknown:
        raise ValueError(f"no part of training time is called {unknown[0]!r}; there are {', '.join(PARTS)}")
    for i, name in enumerate(names):
        start = 0.0
        of_name = known[known["config"] == name].set_index("part")["share"]
        for part, (colour, hatch) in PARTS.items():
            share = float(of_name.get(part, 0.0))
            ax.barh(i, share, left=start, height=0.7, facecolor=colour, hatch=hatch, edgecolor=style.MUTED, linewidth=0.5)
            if share >= _NARROWEST:
                ink = style.ink_on(colour)
                ax.text(start + share / 2, i, f"{100 * share:.0f}", ha="center", va="center", fontsize=style.SMALL_PT, color=ink)
            start += share
    style.rows(ax, texts)
    ax.grid(visible=False)
    ax.set_xlim(0, 1)
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
    ax.legend(
        handles=[Patch(facecolor=c, hatch=h, edgecolor=style.MUTED, linewidth=0.5, label=_WORDS[part]) for part, (c, h) in PARTS.items()],
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=len(PARTS),
        frameon=False,
        fontsize=style.SMALL_PT,
        handlelength=1.2,
        handletextpad=0.5,
        columnspacing=1.4,
        borderpad=0.2,
        borderaxespad=0.2,
    )
    style.note(ax, style.packed_note(packed))
    return ax
