"""Which configurations differ over their seeds, and how many seeds it takes to see a difference."""

import numpy as np
import numpy.typing as npt

from analysis.stats.distributions import noncentral_t_tail, normal_quantile, t_quantile, t_tail
from analysis.stats.interval import CONFIDENCE, Array, Interval
from analysis.stats.moderated import Estimates, moderated_intervals, paired_differences
from analysis.stats.roots import root


def p_values(differences: Estimates) -> Array:
    """Two-sided p values of differences from 0; 1 where nothing differs, NaN where there is no standard error."""
    return np.asarray(2 * t_tail(np.abs(_t(differences)), differences.df))


def beyond_p(differences: Estimates, delta: float) -> Array:
    """P values of one-sided t tests: a small one says that a difference is larger than delta, either way.

    Args:
        differences: Their means and standard errors.
        delta: In the unit of the differences, 0 or more.

    Returns:
        Of the shape of the differences, twice the tail for the two ways; NaN without a standard error,
        and where nothing varies.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (np.abs(differences.estimate) - delta) / differences.se
    return np.where(differences.se > 0, np.minimum(1.0, 2 * t_tail(t, differences.df)), np.nan)


def unpaired(means: Estimates, first: int, second: int) -> Estimates:
    """The difference of two means over seeds that have nothing to do with each other, first minus second,
    with its interval.

    Welch's t on the moderated standard errors, degrees of freedom by Satterthwaite.

    Args:
        means: As `moderated_intervals` gives them, of means.
        first: Index of one.
        second: Index of the other.

    Returns:
        Arrays (1,); `num_seeds` is that of the mean with fewer.
    """
    both = [first, second]
    squares, df = means.se[both] ** 2, means.df[both]
    se, weights = np.sqrt(squares.sum()), squares**2 / df
    total_df = squares.sum() ** 2 / weights.sum() if weights.sum() > 0 else df.sum()
    estimate = means.estimate[first] - means.estimate[second]
    half = t_quantile((1 + CONFIDENCE) / 2, total_df) * se if se > 0 else np.nan
    estimate, low, high, se, total_df = np.array([[estimate], [estimate - half], [estimate + half], [se], [total_df]])
    return Estimates(estimate, low, high, se, total_df, means.num_seeds[both].min(keepdims=True))


def holm(p: Array) -> Array:
    """Correct p values for many comparisons (Holm 1979): under 0.05 they are wrong about any of them
    in at most 5% of studies.

    Args:
        p: Any number of p values; NaN is no comparison and stays.
    """
    corrected = np.full(len(p), np.nan)
    known = np.isfinite(p)
    order = np.flatnonzero(known)[np.argsort(p[known], kind="stable")]
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(np.arange(len(order), 0, -1) * p[order]))
    return corrected


def leaders(values: Array, larger_is_better: bool, alpha: float = 1 - CONFIDENCE) -> npt.NDArray[np.bool_]:
    """Which configurations are not significantly worse than the best one, by mean.

    Each is compared with the sample's best, paired by seed, one-sided, at `alpha` over the number of comparisons:
    the truly best one is left out in at most `alpha` of studies (multiple comparisons with the best, Hsu 1984,
    with Bonferroni's bound). Two configurations are compared at half of it, since the data say which is the best: that
    one of two equal ones is called better happens in `alpha` of studies, as in a two-sided test. Of three and more,
    that one is better than all others is said of equal ones more rarely by itself.

    Where two have no two seeds in common, their means are compared (`unpaired`).

    Args:
        values: (num_configurations, num_seeds); NaN where a seed has no value.
        larger_is_better: False for times.
        alpha: Risk that the truly best one is not among them.

    Returns:
        (num_configurations,); a configuration without any value is none, one with a single value is.
    """
    values = values if larger_is_better else -values
    num = np.isfinite(values).sum(axis=1)
    known = num > 0
    if not known.any():
        return np.asarray(known)
    means = np.where(known, np.nansum(values, axis=1) / np.maximum(num, 1), -np.inf)
    best = int(means.argmax())
    first, second, pairs = paired_differences(values)
    sign = np.where(first == best, 1.0, -1.0)
    p = t_tail(sign * _t(pairs), pairs.df)
    with_best = (first == best) | (second == best)
    among = known.copy()
    comparisons = max(2, int(known.sum()) - 1)
    for pair in np.flatnonzero(with_best & (pairs.num_seeds < 2) & (np.minimum(num[first], num[second]) > 1)):
        apart = unpaired(moderated_intervals(values), best, int(first[pair] + second[pair] - best))
        p[pair] = t_tail(_t(apart), apart.df)[0]
    for pair in np.flatnonzero(with_best & (p <= alpha / comparisons)):
        among[first[pair] + second[pair] - best] = False
    return np.asarray(among)


def seeds_needed(difference: float, spread: float, alpha: float = 1 - CONFIDENCE, power: float = 0.8) -> float:
    """Common seeds that tell a difference apart, in a paired two-sided t test.

    Args:
        difference: Of the means.
        spread: Standard deviation of the paired differences, in the same unit.
        alpha: Risk of calling equal ones different; divide it by the number of comparisons.
        power: Chance of seeing the difference.

    Returns:
        A number of seeds, not rounded; infinite for no difference, at least 2.
    """
    if difference == 0 or not np.isfinite(difference) or not np.isfinite(spread):
        return np.inf
    effect = abs(difference) / max(spread, 1e-12)
    if not 1e-3 <= effect <= 1e3:
        return 2.0 if effect > 1 else np.inf

    def missing(num_seeds: float) -> float:
        # Not statsmodels' solver: with few seeds and a large effect it finds no solution.
        df = num_seeds - 1
        return power - float(noncentral_t_tail(t_quantile(1 - alpha / 2, df), df, effect * np.sqrt(num_seeds)))

    if missing(2.0) <= 0:
        return 2.0
    many = ((normal_quantile(1 - alpha / 2) + normal_quantile(power)) / effect) ** 2
    return float(root(missing, 2.0, float(2 * many + 100)))


def probability_of_improvement(a: Array, b: Array, confidence: float = CONFIDENCE) -> Interval:
    """Chance that a run of A scores higher than a run of B, ties counting half (Agarwal et al. 2021),
    with Newcombe's interval.

    A bootstrap gives [1, 1] as soon as two small samples do not overlap; the score interval of Newcombe (2006),
    Statistics in Medicine 25:559, method 5, does not.

    Args:
        a: (num_seeds_a,) without NaN.
        b: (num_seeds_b,) without NaN.
        confidence: Of the interval.
    """
    m, n = len(a), len(b)
    estimate = float(np.mean((a[:, None] > b) + 0.5 * (a[:, None] == b)))
    z = float(normal_quantile((1 + confidence) / 2))
    mean_size = (m + n) / 2 - 1

    def excess(theta: float) -> float:
        variance = theta * (1 - theta) * (1 + mean_size * ((1 - theta) / (2 - theta) + theta / (1 + theta))) / (m * n)
        return abs(estimate - theta) - z * float(np.sqrt(variance))

    inside = min(max(estimate, 1e-9), 1 - 1e-9)  # at 0 and 1 themselves the variance vanishes
    low = root(excess, 0.0, inside) if estimate > 0 else 0.0
    high = root(excess, inside, 1.0) if estimate < 1 else 1.0
    return Interval(estimate, float(low), float(high))


def _t(differences: Estimates) -> Array:
    """Student's t; 0 for a difference of exactly 0, also where nothing varies."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = differences.estimate / differences.se
    return np.where((differences.estimate == 0) & np.isfinite(differences.se), 0.0, t)
