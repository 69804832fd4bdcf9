"""Intervals of means over seeds, on variances that borrow strength from the study's other configurations.

A study has few seeds and many configurations, and scores that saturate: a configuration whose three seeds all end at
the maximum shows no spread, and a bootstrap over them gives an interval of no width. The intervals here therefore
borrow strength: each configuration's variance is averaged with that of the study's other configurations, as in Smyth
(2004), "Linear models and empirical Bayes methods". What they cover in simulation is in docs/benchmarks/calibration.md.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.stats.aggregates import TRIM, Statistic
from analysis.stats.distributions import t_quantile
from analysis.stats.interval import CONFIDENCE, Array

PRIOR_DF = 8.0
"""Degrees of freedom that the spread of the other configurations may weigh. Smyth estimates them from
how the variances differ, which fails where some are zero; 8 covers best among 2 to 20 in the
simulations of docs/benchmarks/calibration.md."""
UNBOUNDED = (-np.inf, np.inf)


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

    def columns(self, name: str) -> dict[str, Array]:
        """As a frame has them: `name`, `name_low`, `name_high`."""
        return {name: self.estimate, f"{name}_low": self.low, f"{name}_high": self.high}


def moderate(
    variance: npt.ArrayLike, df: npt.ArrayLike, prior: npt.ArrayLike, prior_df: npt.ArrayLike
) -> tuple[Array, Array]:
    """Average variances with what is known of them beforehand, weighted by degrees of freedom (Smyth 2004).

    Args:
        variance: Of the samples; NaN where unknown.
        df: Degrees of freedom of each; 0 where unknown.
        prior: The variances that others let expect.
        prior_df: Degrees of freedom of those; of more than `PRIOR_DF` only so many count.

    Returns:
        Moderated variances and their degrees of freedom; NaN and 0 where nothing is known.
    """
    variance, df, weight = np.asarray(variance), np.asarray(df), np.minimum(PRIOR_DF, prior_df)
    total = weight + df
    with np.errstate(invalid="ignore", divide="ignore"):
        return (weight * prior + np.where(np.isfinite(variance), df * variance, 0.0)) / total, total


def moderated_intervals(
    values: Array,
    statistic: Statistic = "mean",
    bounds: tuple[float, float] = UNBOUNDED,
    confidence: float = CONFIDENCE,
) -> Estimates:
    """Mean or interquartile mean of each configuration over its seeds, with Student t intervals on moderated variances.

    The variance of a mean is the sample's; of an interquartile mean it is that of Tukey and McLaughlin (1963), from the
    winsorised sample. It is averaged with the mean variance of the other configurations (`PRIOR_DF`), which also brings
    its degrees of freedom.

    Args:
        values: (num_configurations, num_seeds) or (num_configurations, num_seeds, num_points); NaN where a seed has no
            value. Points don't borrow from each other.
        statistic: What is estimated.
        bounds: The lowest and the highest possible value; intervals end there.
        confidence: Of the intervals.

    Returns:
        Arrays (num_configurations,) or (num_configurations, num_points); no interval for a configuration with a single
        value, nor where no configuration shows any spread.
    """
    flat = values[..., np.newaxis] if values.ndim == 2 else values
    estimate, variance, df, num = _spread(np.moveaxis(flat, 1, -1), statistic)
    found = _moderated(estimate, variance, df, num, bounds, confidence, independent=flat.shape[0])
    return found if values.ndim == 3 else _without_points(found)


def paired_differences(
    values: Array, confidence: float = CONFIDENCE
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Estimates]:
    """Mean differences of every pair of configurations over their common seeds,
    with moderated t intervals (not corrected).

    The mean, not the interquartile mean: a configuration that collapses on one seed in five has to pay for it.

    Args:
        values: (num_configurations, num_seeds) or (num_configurations, num_seeds, num_points), a column a seed; NaN
            where a seed has no value. Points don't borrow from each other.
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


def _without_points(found: Estimates) -> Estimates:
    return Estimates(
        found.estimate[:, 0], found.low[:, 0], found.high[:, 0], found.se[:, 0], found.df[:, 0], found.num_seeds[:, 0]
    )


def _spread(values: Array, statistic: Statistic) -> tuple[Array, Array, Array, npt.NDArray[np.int64]]:
    """Of samples along the last axis, NaN left out: estimate, variance per seed, its degrees of freedom,
    number of values.

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
        # Counted from the lowest: of equal values the mean is their value and the variance exactly 0,
        # not a rounding error.
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
        moderated, total_df = moderate(variance, df, prior, prior_df)
        se = np.sqrt(moderated / num)
    se, total_df = np.where(known, se, np.nan), np.where(known, total_df, np.nan)
    # no spread anywhere is no certainty
    half = np.where(se > 0, t_quantile((1 + confidence) / 2, total_df) * se, np.nan)
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
    """Sums over all others along the first axis.

    Not the total less one's own, whose rounding would swallow much smaller others.
    """
    before = np.cumsum(values, axis=0)
    after = np.cumsum(values[::-1], axis=0)[::-1]
    sums = np.zeros_like(values)
    sums[1:] += before[:-1]
    sums[:-1] += after[1:]
    return sums
