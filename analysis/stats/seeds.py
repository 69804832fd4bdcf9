"""Statistics over seeds. Every random draw comes from a generator that the caller passes.

A study has few seeds and many configurations, and scores that saturate: a configuration whose three seeds all end at the maximum shows no
spread, and a bootstrap over them gives an interval of no width. The intervals here therefore borrow strength: each configuration's
variance is averaged with that of the study's other configurations, as in Smyth (2004), "Linear models and empirical Bayes methods". What
they cover in simulation is in docs/benchmarks/calibration.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.optimize import brentq
from statsmodels.stats.proportion import proportion_confint

Array = npt.NDArray[np.float64]
Statistic = Literal["mean", "iqm"]

CONFIDENCE = 0.95
PRIOR_DF = 8.0
"""Degrees of freedom that the spread of the other configurations may weigh. Smyth estimates them from how the variances differ, which
fails where some are zero; 8 covers best among 2 to 20 in the simulations of docs/benchmarks/calibration.md."""
UNBOUNDED = (-np.inf, np.inf)
TRIM = 0.25
"""Share that the interquartile mean leaves out at either end."""


@dataclass(frozen=True)
class Estimates:
    """Estimates with intervals, arrays of one shape; NaN where there is no value or no interval.

    Attributes:
        estimate: Point estimates.
        low: Lower ends.
        high: Upper ends.
        se: Standard errors, moderated.
        df: Their degrees of freedom.
        num_seeds: How many values each rests on.
    """

    estimate: Array
    low: Array
    high: Array
    se: Array
    df: Array
    num_seeds: npt.NDArray[np.int64]


def iqm(values: npt.ArrayLike) -> float:
    """Interquartile mean: the mean of the middle half (Agarwal et al. 2021, arXiv 2108.13264).

    Args:
        values: Any shape, pooled; a quarter of them, rounded down, is left out at either end.
    """
    return float(stats.trim_mean(np.ravel(values), TRIM))


def optimality_gap(values: npt.ArrayLike, target: float) -> float:
    """How far the values fall short of the target on average; what lies above it does not make up for the rest (Agarwal et al. 2021).

    Args:
        values: Any shape, pooled.
        target: In the values' unit.
    """
    return target - float(np.minimum(np.ravel(values), target).mean())


def moderated_intervals(
    values: Array,
    statistic: Statistic = "mean",
    bounds: tuple[float, float] = UNBOUNDED,
    confidence: float = CONFIDENCE,
) -> Estimates:
    """Mean or interquartile mean of each configuration over its seeds, with Student t intervals on moderated variances.

    The variance of a mean is the sample's; of an interquartile mean it is that of Tukey and McLaughlin (1963), from the winsorised sample.
    It is averaged with the mean variance of the other configurations (`PRIOR_DF`), which also brings its degrees of freedom.

    Args:
        values: (num_configurations, num_seeds) or (num_configurations, num_seeds, num_points); NaN where a seed has no value. Points don't
            borrow from each other.
        statistic: What is estimated.
        bounds: The lowest and the highest possible value; intervals end there.
        confidence: Of the intervals.

    Returns:
        Arrays (num_configurations,) or (num_configurations, num_points); no interval for a configuration with a single value, nor where no
        configuration shows any spread.
    """
    flat = values[..., np.newaxis] if values.ndim == 2 else values
    estimate, variance, df, num = _spread(np.moveaxis(flat, 1, -1), statistic)
    found = _moderated(estimate, variance, df, num, bounds, confidence, independent=flat.shape[0])
    return found if values.ndim == 3 else _without_points(found)


def paired_differences(values: Array, confidence: float = CONFIDENCE) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Estimates]:
    """Mean differences of every pair of configurations over their common seeds, with moderated t intervals (not corrected).

    The mean, not the interquartile mean: a configuration that collapses on one seed in five has to pay for it.

    Args:
        values: (num_configurations, num_seeds) or (num_configurations, num_seeds, num_points), a column a seed; NaN where a seed has no
            value. Points don't borrow from each other.
        confidence: Of the intervals.

    Returns:
        First and second configuration of each pair, and the estimates of first minus second: arrays (num_pairs,) or
        (num_pairs, num_points).
    """
    flat = values[..., np.newaxis] if values.ndim == 2 else values
    first, second = np.triu_indices(len(values), 1)
    estimate, variance, df, num = _spread(np.moveaxis(flat[first] - flat[second], 1, -1), "mean")
    found = _moderated(estimate, variance, df, num, UNBOUNDED, confidence, independent=len(values))
    return first, second, found if values.ndim == 3 else _without_points(found)


def p_values(differences: Estimates) -> Array:
    """Two-sided p values of differences from 0; 1 where nothing differs, NaN where there is no standard error."""
    return np.asarray(2 * stats.t.sf(np.abs(_t(differences)), differences.df))


def holm(p: Array) -> Array:
    """Correct p values for many comparisons (Holm 1979): under 0.05 they are wrong about any of them in at most 5% of studies.

    Args:
        p: Any number of p values; NaN is no comparison and stays.
    """
    corrected = np.full(len(p), np.nan)
    known = np.isfinite(p)
    order = np.flatnonzero(known)[np.argsort(p[known], kind="stable")]
    # Not statsmodels' multipletests, which collects Python's garbage at each call: 60 ms.
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(np.arange(len(order), 0, -1) * p[order]))
    return corrected


def leaders(values: Array, larger_is_better: bool, alpha: float = 1 - CONFIDENCE) -> npt.NDArray[np.bool_]:
    """Which configurations cannot be told apart from the best one, by mean.

    Each is compared with the sample's best, paired by seed, one-sided, at `alpha` over the number of comparisons: the truly best one is
    left out in at most `alpha` of studies (multiple comparisons with the best, Hsu 1984, with Bonferroni's bound).

    Args:
        values: (num_configurations, num_seeds); NaN where a seed has no value.
        larger_is_better: False for times.
        alpha: Risk that the truly best one is not among them.

    Returns:
        (num_configurations,); a configuration without any value is none, one that shares fewer than two seeds with the best one is.
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
    p = stats.t.sf(sign * _t(pairs), pairs.df)
    with_best = (first == best) | (second == best)
    among = known.copy()
    comparisons = max(1, int(known.sum()) - 1)
    for pair in np.flatnonzero(with_best & (p <= alpha / comparisons)):
        among[second[pair] if first[pair] == best else first[pair]] = False
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
        return power - float(stats.nct.sf(stats.t.isf(alpha / 2, df), df, effect * np.sqrt(num_seeds)))

    if missing(2.0) <= 0:
        return 2.0
    many = ((stats.norm.isf(alpha / 2) + stats.norm.isf(1 - power)) / effect) ** 2
    return float(brentq(missing, 2.0, 2 * many + 100))


def probability_of_improvement(a: Array, b: Array, confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Chance that a run of A scores higher than a run of B, ties counting half (Agarwal et al. 2021), with Newcombe's interval.

    A bootstrap gives [1, 1] as soon as two small samples do not overlap; the score interval of Newcombe (2006), Statistics in Medicine
    25:559, method 5, does not.

    Args:
        a: (num_seeds_a,) without NaN.
        b: (num_seeds_b,) without NaN.
        confidence: Of the interval.

    Returns:
        Estimate, low, high.
    """
    m, n = len(a), len(b)
    estimate = float(np.mean((a[:, None] > b) + 0.5 * (a[:, None] == b)))
    z = float(stats.norm.ppf((1 + confidence) / 2))
    mean_size = (m + n) / 2 - 1

    def excess(theta: float) -> float:
        variance = theta * (1 - theta) * (1 + mean_size * ((1 - theta) / (2 - theta) + theta / (1 + theta))) / (m * n)
        return abs(estimate - theta) - z * float(np.sqrt(variance))

    inside = min(max(estimate, 1e-9), 1 - 1e-9)  # at 0 and 1 themselves the variance vanishes
    low = brentq(excess, 0.0, inside) if estimate > 0 else 0.0
    high = brentq(excess, inside, 1.0) if estimate < 1 else 1.0
    return estimate, float(low), float(high)


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


def stratified_bootstrap(
    scores: Sequence[Array],
    statistic: Callable[[Array], Array],
    rng: np.random.Generator,
    reps: int = 2000,
    confidence: float = CONFIDENCE,
) -> tuple[float, float, float]:
    """Percentile interval of an aggregate over strata, seeds redrawn within each (Agarwal et al. 2021).

    For many strata; over one or two with few seeds it is too narrow (docs/benchmarks/calibration.md).

    Args:
        scores: A stratum each, (num_seeds,): an environment, say, or a configuration.
        statistic: (reps, num_values) to (reps,).
        rng: Where the draws come from.
        reps: Number of draws.
        confidence: Of the interval.

    Returns:
        Estimate, low, high.
    """
    draws = np.concatenate([s[rng.integers(0, len(s), (reps, len(s)))] for s in scores], axis=1)
    low, high = np.quantile(statistic(draws), [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(statistic(np.concatenate(scores)[None])[0]), float(low), float(high)


def bootstrap_intervals(
    values: Array, statistic: Statistic, rng: np.random.Generator, reps: int = 2000, confidence: float = CONFIDENCE
) -> tuple[Array, Array, Array]:
    """Percentile bootstrap of many samples of one size at once.

    Mean and interquartile mean are weighted sums of the sorted sample, and a redraw only changes the weights: one matrix product serves
    all samples.

    Args:
        values: (..., num_seeds) without NaN.
        statistic: What is estimated.
        rng: Where the draws come from.
        reps: Number of draws, the same for all samples.
        confidence: Of the intervals.

    Returns:
        Estimates, lows, highs: (...).
    """
    size = values.shape[-1]
    cut = int(TRIM * size) if statistic == "iqm" else 0
    ranks = np.sort(rng.integers(0, size, (reps, size)), axis=1)[:, cut : size - cut]
    weights = np.stack([(ranks == rank).mean(axis=1) for rank in range(size)], axis=1)
    ordered = np.sort(values, axis=-1).reshape(-1, size)
    low, high = np.empty(len(ordered)), np.empty(len(ordered))
    for start in range(0, len(ordered), 2000):  # in pieces: all draws of a million samples would not fit in memory
        piece = ordered[start : start + 2000] @ weights.T
        low[start : start + 2000], high[start : start + 2000] = np.quantile(
            piece, [(1 - confidence) / 2, (1 + confidence) / 2], axis=1, overwrite_input=True
        )
    estimate = ordered[:, cut : size - cut].mean(axis=1)
    return tuple(array.reshape(values.shape[:-1]) for array in (estimate, low, high))  # type: ignore[return-value]


def _without_points(found: Estimates) -> Estimates:
    return Estimates(found.estimate[:, 0], found.low[:, 0], found.high[:, 0], found.se[:, 0], found.df[:, 0], found.num_seeds[:, 0])


def _t(differences: Estimates) -> Array:
    """Student's t; 0 for a difference of exactly 0, also where nothing varies."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = differences.estimate / differences.se
    return np.where((differences.estimate == 0) & np.isfinite(differences.se), 0.0, t)


def _spread(values: Array, statistic: Statistic) -> tuple[Array, Array, Array, npt.NDArray[np.int64]]:
    """Of samples along the last axis, NaN left out: estimate, variance per seed, its degrees of freedom, number of values.

    The variance is that of the estimate times the number of seeds, which makes samples of different sizes comparable.
    """
    ordered = np.sort(values, axis=-1)  # NaN comes last
    num = np.isfinite(ordered).sum(axis=-1)
    cut = np.floor(TRIM * num).astype(np.int64) if statistic == "iqm" else np.zeros_like(num)
    rank = np.arange(values.shape[-1])
    known = rank < num[..., None]
    kept = (rank >= cut[..., None]) & (rank < (num - cut)[..., None])
    middle = num - 2 * cut
    with np.errstate(invalid="ignore", divide="ignore"):
        at = np.clip(np.stack([cut, num - cut - 1], axis=-1), 0, values.shape[-1] - 1)
        ends = np.take_along_axis(ordered, at, axis=-1)
        # Counted from the lowest: of equal values the mean is their value and the variance exactly 0, not a rounding error.
        estimate = ends[..., 0] + np.where(kept, ordered - ends[..., :1], 0.0).sum(axis=-1) / middle
        winsorised = np.where(known, np.clip(ordered, ends[..., :1], ends[..., 1:]) - ends[..., :1], 0.0)
        centre = winsorised.sum(axis=-1) / num
        squares = np.where(known, (winsorised - centre[..., None]) ** 2, 0.0).sum(axis=-1)
        variance = squares * num / (middle * (middle - 1))
    single = middle < 2
    return estimate, np.where(single, np.nan, variance), np.where(single, 0.0, middle - 1.0), num


def _moderated(
    estimate: Array,
    variance: Array,
    df: Array,
    num: npt.NDArray[np.int64],
    bounds: tuple[float, float],
    confidence: float,
    independent: int,
) -> Estimates:
    """Intervals from variances that are averaged along the first axis, each with all others.

    Args:
        estimate: (num_samples, num_points), as the other arrays.
        variance: Per seed; NaN where unknown.
        df: Of each variance.
        num: Values in each sample.
        bounds: Where intervals end.
        confidence: Of the intervals.
        independent: How many of the samples are independent of each other: pairs share configurations.
    """
    known = np.isfinite(variance)
    weight = np.where(known, df, 0.0)
    part = np.where(known, weight * variance, 0.0)
    square = np.where(known, part * variance, 0.0)
    others_weight, others_part, others_square = (_sum_of_others(a) for a in (weight, part, square))
    with np.errstate(invalid="ignore", divide="ignore"):
        prior = np.where(others_weight > 0, others_part / others_weight, 0.0)
        # Satterthwaite's degrees of freedom of an average of unequal variances.
        prior_df = np.where(others_square > 0, others_part**2 / others_square, 0.0)
        if len(estimate) > 1:
            prior_df = prior_df * min(1.0, (independent - 1) / (len(estimate) - 1))
        prior_df = np.minimum(PRIOR_DF, prior_df)
        total_df = prior_df + df
        se = np.sqrt((prior_df * prior + np.where(known, df * variance, 0.0)) / total_df / num)
    se, total_df = np.where(known, se, np.nan), np.where(known, total_df, np.nan)
    half = np.where(se > 0, stats.t.ppf((1 + confidence) / 2, total_df) * se, np.nan)  # no spread anywhere is no certainty
    inside = np.where(np.isfinite(half), estimate, np.nan)  # bounds never cut the estimate itself off
    return Estimates(
        estimate,
        np.minimum(np.maximum(estimate - half, bounds[0]), inside),
        np.maximum(np.minimum(estimate + half, bounds[1]), inside),
        se,
        total_df,
        num,
    )


def _sum_of_others(values: Array) -> Array:
    """Sums over all others along the first axis. Not the total less one's own, whose rounding would swallow much smaller others."""
    before = np.cumsum(values, axis=0)
    after = np.cumsum(values[::-1], axis=0)[::-1]
    sums = np.zeros_like(values)
    sums[1:] += before[:-1]
    sums[:-1] += after[1:]
    return sums
