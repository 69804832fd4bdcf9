"""Intervals of shares."""

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis.stats.distributions import normal_quantile
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
    share, z = count / total, -normal_quantile((1 - confidence) / 2)
    whole = 1 + z**2 / total
    centre = (share + z**2 / (2 * total)) / whole
    half = z * np.sqrt(share * (1 - share) / total + z**2 / (4 * total**2)) / whole
    return _exact(count, total, centre - half, centre + half)


def jeffreys_interval(
    count: npt.ArrayLike, total: npt.ArrayLike, confidence: float = CONFIDENCE
) -> tuple[Array, Array]:
    """Jeffreys' interval of a probability: quantiles of Beta(count + 1/2, total - count + 1/2).

    From 0 where none has the property, and to 1 where all have it (Brown, Cai and DasGupta 2001, Statistical Science
    16:101). Of a rare property it covers more evenly than Wilson's.

    Args:
        count: How many have the property.
        total: Of how many; at least 1.
        confidence: Of the interval.

    Returns:
        Low and high, of the arguments' shape.
    """
    count, total, tail = np.asarray(count), np.asarray(total), (1 - confidence) / 2
    beta = count + 0.5, total - count + 0.5
    return _exact(count, total, special.betaincinv(*beta, tail), special.betainccinv(*beta, tail))


def _exact(count: Array, total: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """An interval whose ends at 0 and 1 are exact, not but for rounding."""
    return np.where(count == 0, 0.0, low), np.where(count == total, 1.0, high)
