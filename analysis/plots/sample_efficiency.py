"""Sample efficiency: the share of seeds that hold the env's target, over env steps."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from analysis.plots import lines, style, text


def plot(profile: pd.DataFrame, highlight: Sequence[Any] | None = None, ax: Axes | None = None) -> Axes:
    """Draws a line per configuration; the earlier it rises, the better.

    Args:
        profile: From `convergence.target_profile`: config, env_steps, share, share_low, share_high.
        highlight: Configurations in colour, the rest in grey. None: all, or those with the largest share at the end if
            there are more than the palette can tell apart.
        ax: To draw on; None makes a figure.

    Returns:
        The axes.

    Raises:
        ValueError: A column is missing.
    """
    style.require(profile, ["config", "env_steps", "share", "share_low", "share_high"])
    ax = style.axes(ax)
    style.name_axes(ax, text.readable("env_steps"), "seeds that hold the target (%)")
    if profile.empty or profile["share"].isna().all():
        return style.no_data(ax, "no finished seed, or the environment has no target")
    lines.draw_shares(ax, profile, "env_steps", highlight)
    return ax
