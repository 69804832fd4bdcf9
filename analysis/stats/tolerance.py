"""The least that most seeds reach: lower tolerance bounds, of any distribution."""

import math

import numpy as np
from scipy import special

from analysis.stats.interval import CONFIDENCE, Array

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
