"""Probability of improvement of each configuration over each other one (Agarwal et al. 2108.13264)."""

import math

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle

from analysis.plots import style, text

_MOST_WITH_NUMBERS = 16
_MOST_WITH_FLAT_NAMES = 4
# Orange to white to purple, without the dark ends, on which no frame shows; purple ends darker,
# so that grey print tells the sides apart.
_COLOURS = ListedColormap(colormaps["PuOr"](np.linspace(0.25, 0.86, 256)))


def plot(pairs: pd.DataFrame, alpha: float = 0.05, ax: Axes | None = None) -> Axes:
    """Draws, in row a and column b, the probability in percent that a run of a beats a run of b.

    Args:
        pairs: From `convergence.pairwise`: config_a, config_b, probability_of_improvement, p_adjusted; a row per pair,
            in either direction or both. The missing direction is one minus the other.
        alpha: A pair is significantly different where p_adjusted is at most this; its cells are framed.
        ax: To draw on; None makes a figure as tall as the matrix needs.

    Returns:
        The axes; without numbers in the cells above 16 configurations.

    Raises:
        ValueError: A column is missing.
    """
    style.require(pairs, ["config_a", "config_b", "probability_of_improvement", "p_adjusted"])
    names = _names(pairs) if len(pairs) else []
    size = len(names)
    texts = {**style.name_texts(pairs["config_b"]), **style.name_texts(pairs["config_a"])} if size else {}
    shown = [texts[name] for name in names]
    flat = size <= _MOST_WITH_FLAT_NAMES  # Nobody has to turn the head where there is room.
    above_in = 0.5 if flat else 0.08 * max(len(line) for name in shown for line in name.split("\n"))
    per_row_in = 0.16 + 0.15 * max((name.count("\n") + 1 for name in shown), default=1)
    ax = style.axes(ax, 0.9 + above_in + min(7.0, per_row_in * max(size, 4)))
    if pairs.empty or pairs["probability_of_improvement"].isna().all():
        style.name_axes(ax, "configuration", "configuration")
        return style.no_data(ax, "there is no pair of configurations with common seeds")
    chance, apart = np.full((size, size), np.nan), np.zeros((size, size), dtype=bool)
    for row in pairs.to_dict("records"):
        a, b = names.index(row["config_a"]), names.index(row["config_b"])
        chance[a, b] = row["probability_of_improvement"]
        if not math.isfinite(chance[b, a]):
            chance[b, a] = 1 - chance[a, b]
        apart[a, b] = apart[b, a] = row["p_adjusted"] <= alpha
    image = ax.imshow(chance, cmap=_COLOURS, vmin=0, vmax=1, aspect="auto")
    for a, b in zip(*np.where(apart), strict=True):
        ax.add_patch(Rectangle((b - 0.45, a - 0.45), 0.9, 0.9, fill=False, edgecolor="black", linewidth=1.3))
    if size <= _MOST_WITH_NUMBERS:
        for (a, b), value in np.ndenumerate(chance):
            if math.isfinite(value):
                ink = style.ink_on(image.cmap(image.norm(value)))
                weight = "bold" if apart[a, b] else "normal"
                ax.text(
                    b,
                    a,
                    f"{100 * value:.0f}",
                    ha="center",
                    va="center",
                    fontsize=style.SMALL_PT,
                    color=ink,
                    weight=weight,
                )
    size_pt = style.SMALL_PT if size <= 25 else style.TINY_PT
    above = list(text.short_names([str(name) for name in names], chars=15, lines=3).values()) if flat else shown
    ax.set_xticks(range(size), above, rotation=0 if flat else 90, fontsize=size_pt)
    ax.set_yticks(range(size), shown, fontsize=size_pt)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.grid(visible=False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    style.name_axes(ax, "a run of the row beats one of the column: probability (%)", "")
    ax.xaxis.set_label_position("bottom")
    told = "Framed: significantly different" if apart.any() else "No pair is significantly different"
    style.note(ax, f"{told} after correction for many comparisons (adjusted p at most {alpha:g}).")
    return ax


def _names(pairs: pd.DataFrame) -> list[object]:
    """All configurations, in plan order if the columns hold it."""
    first, second = style.levels(pairs["config_a"]), style.levels(pairs["config_b"])
    found = list(dict.fromkeys([*first, *second]))
    dtype = pairs["config_a"].dtype
    if isinstance(dtype, pd.CategoricalDtype):
        order = list(dtype.categories)
        found.sort(key=lambda name: order.index(name) if name in order else len(order))
    return found
