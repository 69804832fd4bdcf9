"""How far some seeds of a configuration lie from as many others of it: the noise that a difference has to exceed."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis.plots import lines, style, text


def plot(gaps: pd.DataFrame, measure: str, ax: Axes | None = None) -> Axes:
    """Draws a line per configuration: below it lie 95% of the differences between two groups of its seeds.

    Args:
        gaps: From `reproducibility.group_gaps`: config, group, gap_95.
        measure: The column of `runs` that was compared, for the y axis.
        ax: To draw on; None makes a figure.

    Returns:
        The axes. Configurations beyond the palette are grey.

    Raises:
        ValueError: A column is missing.
    """
    style.require(gaps, ["config", "group", "gap_95"])
    ax = style.axes(ax)
    style.name_axes(ax, "seeds on either side", f"difference in {text.readable(measure).partition(' (')[0]}")
    known = gaps.dropna(subset="gap_95") if len(gaps) else gaps
    if known.empty:
        return style.no_data(ax, "it takes four finished seeds of a configuration")
    names, texts = style.levels(known["config"]), style.name_texts(known["config"])
    for i, name in enumerate(names):
        part = known[known["config"] == name].sort_values("group")
        line = ax.plot(part["group"], part["gap_95"], linewidth=0.8, color=style.GREY, zorder=1.8)[0]
        if i < len(style.COLOURS):
            line.set(
                color=style.COLOURS[i],
                linestyle=style.DASHES[i % len(style.DASHES)],
                marker=style.MARKERS[i],
                linewidth=1.7,
            )
            line.set(markersize=4.5, label=texts[name], zorder=2.5)
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    style.linear_axis(ax, "y")
    ax.set_ylim(bottom=0)
    lines.key(ax)
    grey = len(names) - len(style.COLOURS)
    style.note(
        ax,
        "95% of the splits of a configuration's seeds lie below its line.",
        f"Grey: {grey} others." if grey > 0 else "",
    )
    return ax
