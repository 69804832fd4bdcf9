"""Intervals of shares."""

import numpy as np
import numpy.typing as npt
from statsmodels.stats.proportion import proportion_confint

from analysis.stats.interval import CONFIDENCE, Array


def share_interval(count: npt.ArrayLike, total: npt.ArrayLike, confidence: float = CONFIDENCE) -> tuple[Array, Array]:
    """Wilson's interval of a share.

    Args:
        count: How many have the property.
        total: Of how many; at least 1.
        confidence: Of the interval.

    Returns:
        Low and high, of the arguments' shape.
    """
    count, total = np.asarray(count), np.asarray(total)
    low, high = proportion_confint(count, total, alpha=1 - confidence, method="wilson")
    return np.where(count == 0, 0.0, low), np.where(count == total, 1.0, high)  # exactly, not but for rounding
