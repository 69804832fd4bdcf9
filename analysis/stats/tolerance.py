"""What order statistics say of any distribution: the least that most seeds reach, and where the median lies."""

import math

import numpy as np
from scipy import special

from analysis.stats.interval import CONFIDENCE, Array, Interval

CONTENT = 0.9
"""Share of all seeds that a bound is about."""


def fewest_seeds(content: float = CONTENT, confidence: float = CONFIDENCE) -> int:
    """Seeds from which on there is a lower tolerance bound: 29 for 90% of seeds with 95% confidence (Wilks 1941).

    Args:
        content: Share of all seeds that are to lie at or above the bound.
        confidence: That at least so many do.
    """
    return math.ceil(math.log(1 - confidence) / math.log(content))


def lower_bound(values: Array, content: float = CONTENT, confidence: float = CONFIDENCE) -> float:
    """The value that at least a share of all seeds reach, with a confidence: an order statistic,
    whatever the distribution (Wilks 1941).

    The r-th smallest of n values is one if a binomial count of n seeds, each below the quantile with probability 1 -
    content, is r or more with at least this confidence; the largest such r is taken.

    Args:
        values: (num_seeds,) without NaN; minus infinity for a seed without an end.
        content: Share of all seeds at or above the bound.
        confidence: That at least so many are.

    Returns:
        The bound; NaN with fewer than `fewest_seeds`.
    """
    ordered = np.sort(values)
    ranks = np.arange(1, len(ordered) + 1)
    holds = special.bdtrc(ranks - 1, len(ordered), 1 - content) >= confidence
    return float(ordered[holds.sum() - 1]) if holds.any() else math.nan


def median_interval(values: Array, confidence: float = CONFIDENCE) -> tuple[Interval, float]:
    """The median, and the order statistics between which that of all seeds lies, whatever the distribution.

    The r-th smallest and the r-th largest of n values have it between them unless a binomial count of n seeds, each
    below it with probability 1/2, is less than r, or more than n - r. The largest r that is right with the confidence
    is taken; of few values the smallest and the largest, which for five are right with 93.75%.

    Args:
        values: (num_seeds,), at least one, without NaN.
        confidence: At least, where there are values enough.

    Returns:
        The median with its interval, which a single value has not, and with which probability that is right.
    """
    if len(values) == 1:
        return Interval(float(values[0]), math.nan, math.nan), 0.0
    ordered = np.sort(values)
    ranks = np.arange(1, len(ordered) // 2 + 1)
    right = 1 - 2 * special.bdtr(ranks - 1, len(ordered), 0.5)
    rank = max(1, int((right >= confidence).sum()))
    return Interval(float(np.median(ordered)), float(ordered[rank - 1]), float(ordered[-rank])), float(right[rank - 1])
