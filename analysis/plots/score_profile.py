"""Performance profile: the share of runs that score above a threshold, over thresholds (Agarwal et al. 2108.13264)."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import lines, style
from analysis.plots.labels import target_line


def plot(
    profile: pd.DataFrame, highlight: Sequence[Any] | None = None, target: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draws a line per configuration; higher is better.

    Args:
        profile: From `convergence.score_profile`: config, threshold, share, share_low, share_high.
        highlight: Configurations in colour, the rest in grey. None: all, or the best at the highest thresholds if
            there are more than the palette can tell apart.
        target: Of the env, drawn as a line.
        ax: To draw on; None makes a figure.

    Returns:
        The axes.

    Raises:
        ValueError: A column is missing.
    """
    style.require(profile, ["config", "threshold", "share", "share_low", "share_high"])
    ax = style.axes(ax)
    style.name_axes(ax, "score threshold (mean return)", "runs that score above it (%)")
    if profile.empty or profile["share"].isna().all():
        return style.no_data(ax, "no finished seed has a score")
    lines.draw_shares(ax, profile, "threshold", highlight)
    target_line(ax, target, vertical=True)
    return ax
