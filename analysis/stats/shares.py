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
    return _interval(count, total, confidence, "wilson")


def jeffreys_interval(count: npt.ArrayLike, total: npt.ArrayLike, confidence: float = CONFIDENCE) -> tuple[Array, Array]:
    """Jeffreys' interval of a probability: quantiles of Beta(count + 1/2, total - count + 1/2).

    From 0 where none has the property, and to 1 where all have it (Brown, Cai and DasGupta 2001, Statistical Science 16:101). Of a rare
    property it covers more evenly than Wilson's.

    Args:
        count: How many have the property.
        total: Of how many; at least 1.
        confidence: Of the interval.

    Returns:
        Low and high, of the arguments' shape.
    """
    return _interval(count, total, confidence, "jeffreys")


def _interval(count: npt.ArrayLike, total: npt.ArrayLike, confidence: float, method: str) -> tuple[Array, Array]:
    count, total = np.asarray(count), np.asarray(total)
    low, high = proportion_confint(count, total, alpha=1 - confidence, method=method)
    return np.where(count == 0, 0.0, low), np.where(count == total, 1.0, high)  # exactly, not but for rounding
