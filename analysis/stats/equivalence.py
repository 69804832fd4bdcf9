"""Tests that differences are practically none: two one-sided tests, and how many seeds they take."""

import numpy as np

from analysis.stats.distributions import noncentral_t_tail, normal_quantile, t_quantile, t_tail
from analysis.stats.interval import CONFIDENCE, Array
from analysis.stats.moderated import Estimates
from analysis.stats.roots import root


def equivalence_p(differences: Estimates, delta: float) -> Array:
    """P values of two one-sided t tests (Schuirmann 1987): a small one says that a difference lies within +- delta.

    It is the larger of the p values of "not above -delta" and "not below delta".

    Args:
        differences: Their means and standard errors.
        delta: In the unit of the differences, above 0.

    Returns:
        Of the shape of the differences; NaN without a standard error, and where nothing varies, which is no certainty.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (delta - np.abs(differences.estimate)) / differences.se
    return np.where(differences.se > 0, t_tail(t, differences.df), np.nan)


def seeds_for_equivalence(
    difference: float, spread: float, delta: float, alpha: float = 1 - CONFIDENCE, power: float = 0.8
) -> float:
    """Common seeds that show two configurations to be equivalent, in two paired one-sided t tests.

    The power is bounded from below by that of either test (Bonferroni), which is exact but for few seeds and a delta
    within the spread.

    Args:
        difference: Of the means, as it is taken to be.
        spread: Standard deviation of the paired differences.
        delta: The largest difference that is practically none.
        alpha: Risk of calling configurations that differ by delta equivalent; divide it by the number of comparisons.
        power: Chance of showing it.

    Returns:
        A number of seeds, not rounded; infinite for a difference of delta or more, at least 2.
    """
    if not (np.isfinite(difference) and np.isfinite(spread)) or abs(difference) >= delta:
        return np.inf
    spread = max(spread, 1e-12)

    def missing(num_seeds: float) -> float:
        df, scale = num_seeds - 1, np.sqrt(num_seeds) / spread
        quantile = t_quantile(1 - alpha, df)
        either = [
            float(noncentral_t_tail(quantile, df, distance * scale))
            for distance in (delta - difference, delta + difference)
        ]
        return power - (sum(either) - 1)

    closest = (delta - abs(difference)) / spread
    if closest > 1e3:
        return 2.0
    if closest < 1e-3:
        return np.inf
    if missing(2.0) <= 0:
        return 2.0
    many = ((normal_quantile(1 - alpha) + normal_quantile((1 + power) / 2)) / closest) ** 2
    return float(root(missing, 2.0, float(2 * many + 100)))
