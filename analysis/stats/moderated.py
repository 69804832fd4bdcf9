"""Intervals of means over seeds, whose spread borrows strength from the study's other configurations.

A study has few seeds and many configurations, and scores that saturate: a configuration whose three seeds all end at
the maximum shows no spread, and a bootstrap over them gives an interval of no width. The intervals here therefore
borrow strength: each configuration's spread is averaged with that of the study's other configurations, as in Smyth
(2004), "Linear models and empirical Bayes methods". What they cover in simulation is in docs/benchmarks/intervals.md.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from analysis.stats.bounded import certain_interval, dispersion, score_interval
from analysis.stats.distributions import t_quantile
from analysis.stats.interval import CONFIDENCE, Array

PRIOR_DF = 8.0
"""Degrees of freedom that the spread of the other configurations may weigh. Smyth estimates them from
how the variances differ, which fails where some are zero; 8 covers best among 2 to 20 in the
simulations of docs/benchmarks/intervals.md."""
_STEPS, _FAR = 1.2, 0.02
"""Of the weights with which neighbours count: their standard deviation in steps of a grid, and the least of any."""
UNBOUNDED = (-np.inf, np.inf)
POSITIVE = (0.0, np.inf)


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
    bounds: tuple[float, float] = UNBOUNDED,
    neighbours: Array | None = None,
    confidence: float = CONFIDENCE,
) -> Estimates:
    """Mean of each configuration over its seeds, with an interval whose spread borrows strength from the others.

    Where both bounds are finite, and hold, what is borrowed is the dispersion, and the interval is a score interval
    (`analysis.stats.bounded`), cut where the bounds alone say more. Of values that are positive, without an upper
    bound, it is the variance relative to the squared mean, and the interval Student's t on a logarithmic scale. Else it
    is the variance, and the interval Student's t, cut at a bound that there is. It is averaged with the others'
    (`PRIOR_DF`), which also bring their degrees of freedom.

    Args:
        values: (num_configurations, num_seeds) or (num_configurations, num_seeds, num_points); NaN where a seed has no
            value. Points don't borrow from each other.
        bounds: The lowest and the highest possible value.
        neighbours: (num_configurations, num_configurations) how much each borrows from each other one, relative to the
            rest; None: from all alike.
        confidence: Of the intervals.

    Returns:
        Arrays (num_configurations,) or (num_configurations, num_points); no interval for a configuration with a single
        value, nor where no configuration shows any spread.
    """
    flat = np.moveaxis(values[..., np.newaxis] if values.ndim == 2 else values, 1, -1)
    sample = _spread(flat)
    within = not ((flat < bounds[0]) | (flat > bounds[1])).any()
    if within and np.isfinite(bounds).all():
        found = _bounded(flat, sample, bounds, neighbours, confidence)
    elif within and bounds == POSITIVE:
        found = _positive(sample, neighbours, confidence)
    else:
        found = _moderated(sample, bounds, confidence, len(flat), neighbours)
    return found if values.ndim == 3 else _without_points(found)


def paired_differences(
    values: Array, confidence: float = CONFIDENCE
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Estimates]:
    """Mean differences of every pair of configurations over their common seeds,
    with moderated t intervals (not corrected).

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
    sample = _spread(np.moveaxis(flat[first] - flat[second], 1, -1))
    found = _moderated(sample, UNBOUNDED, confidence, independent=len(values))
    return first, second, found if values.ndim == 3 else _without_points(found)


def neighbour_weights(places: Array, ordered: npt.NDArray[np.bool_]) -> Array:
    """How much each configuration borrows of each other one: a normal density of the steps that are between them.

    Args:
        places: (num_configurations, num_axes) on a grid.
        ordered: (num_axes,) whether numbers further apart are more different; else any two places are a step apart.

    Returns:
        (num_configurations, num_configurations).
    """
    apart = np.abs(places[:, None] - places[None])
    steps = np.where(ordered, apart, np.minimum(apart, 1.0))
    return np.asarray(np.exp(-0.5 * (steps**2).sum(axis=-1) / _STEPS**2) + _FAR)


def _without_points(found: Estimates) -> Estimates:
    return Estimates(
        found.estimate[:, 0], found.low[:, 0], found.high[:, 0], found.se[:, 0], found.df[:, 0], found.num_seeds[:, 0]
    )


class _Sample(NamedTuple):
    """Samples, arrays (num_samples, num_points); of one value the variance is NaN, and its degrees of freedom 0."""

    mean: Array
    variance: Array
    df: Array
    num: npt.NDArray[np.int64]


def _spread(values: Array) -> _Sample:
    """Of samples along the last axis, NaN left out."""
    known = np.isfinite(values)
    num = known.sum(axis=-1)
    lowest = np.where(known, values, np.inf).min(axis=-1, initial=np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Counted from the lowest: of equal values the mean is their value and the variance exactly 0,
        # not a rounding error.
        above = np.where(known, values - lowest[..., None], 0.0)
        centre = above.sum(axis=-1) / num
        squares = np.where(known, (above - centre[..., None]) ** 2, 0.0).sum(axis=-1)
        variance = squares / (num - 1)
    single = num < 2
    mean = np.where(num > 0, lowest + centre, np.nan)
    return _Sample(mean, np.where(single, np.nan, variance), np.where(single, 0.0, num - 1.0), num)


def _bounded(
    values: Array, sample: _Sample, bounds: tuple[float, float], neighbours: Array | None, confidence: float
) -> Estimates:
    mean, num = sample.mean, sample.num
    # seeds that all end at a bound say nothing of it
    shared, df = _shared(dispersion(mean, sample.variance, bounds), sample, neighbours)
    low, high = score_interval(mean, num.astype(float), shared, df, bounds, confidence)
    least, most = certain_interval(values.reshape(mean.size, values.shape[-1]), bounds, confidence)
    low, high = np.maximum(low, least.reshape(low.shape)), np.minimum(high, most.reshape(high.shape))
    with np.errstate(invalid="ignore"):
        se = np.sqrt(shared * (mean - bounds[0]) * (bounds[1] - mean) / num)
    return Estimates(mean, np.minimum(low, mean), np.maximum(high, mean), se, df, num)


def _positive(sample: _Sample, neighbours: Array | None, confidence: float) -> Estimates:
    mean, num = sample.mean, sample.num
    with np.errstate(invalid="ignore", divide="ignore"):
        own = np.where(mean > 0, sample.variance / mean**2, np.nan)
    shared, df = _shared(own, sample, neighbours)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        relative = np.sqrt(shared / num)
        factor = np.exp(t_quantile((1 + confidence) / 2, df) * relative)
    return Estimates(mean, mean / factor, mean * factor, mean * relative, df, num)


def _shared(own: Array, sample: _Sample, neighbours: Array | None) -> tuple[Array, Array]:
    """Relative spreads averaged with the others', and their degrees of freedom; NaN for a single value, and where
    nobody shows any, which is no certainty.
    """
    shared, df = _borrowed(own, np.where(np.isfinite(own), sample.df, 0.0), len(own), neighbours)
    known = (sample.num > 1) & (shared > 0)
    return np.where(known, shared, np.nan), np.where(known, df, np.nan)


def _moderated(
    sample: _Sample,
    bounds: tuple[float, float],
    confidence: float,
    independent: int,
    neighbours: Array | None = None,
) -> Estimates:
    """Student t intervals on variances that are averaged along the first axis, each with the others.

    Args:
        sample: The samples.
        bounds: Where intervals end.
        confidence: Of the intervals.
        independent: How many of the samples are independent of each other: pairs share configurations.
        neighbours: As of `moderated_intervals`.
    """
    estimate, num = sample.mean, sample.num
    moderated, df = _borrowed(sample.variance, sample.df, independent, neighbours)
    known = np.isfinite(sample.variance)
    with np.errstate(invalid="ignore", divide="ignore"):
        se = np.where(known, np.sqrt(moderated / num), np.nan)
    df = np.where(known, df, np.nan)
    # no spread anywhere is no certainty
    half = np.where(se > 0, t_quantile((1 + confidence) / 2, df) * se, np.nan)
    inside = np.where(np.isfinite(half), estimate, np.nan)  # bounds never cut the estimate itself off
    low, high = np.maximum(estimate - half, bounds[0]), np.minimum(estimate + half, bounds[1])
    return Estimates(estimate, np.minimum(low, inside), np.maximum(high, inside), se, df, num)


def _borrowed(own: Array, df: Array, independent: int, neighbours: Array | None) -> tuple[Array, Array]:
    """Spreads averaged along the first axis, each with the others, and their degrees of freedom.

    Args:
        own: (num_samples, num_points) variances or dispersions; NaN where unknown.
        df: Of each; 0 where unknown.
        independent: How many of the samples are independent of each other.
        neighbours: As of `moderated_intervals`.
    """
    weight = np.where(np.isfinite(own), df, 0.0)
    part = np.where(weight > 0, weight * own, 0.0)
    square = np.where(weight > 0, part * own, 0.0)
    if neighbours is None:
        others_weight, others_part, others_square = (_sum_of_others(each) for each in (weight, part, square))
    else:
        near = neighbours * (1.0 - np.eye(len(neighbours)))
        others_weight, others_part, others_square = near @ weight, near @ part, near**2 @ square
    with np.errstate(invalid="ignore", divide="ignore"):
        prior = np.where(others_weight > 0, others_part / others_weight, 0.0)
        # Satterthwaite's degrees of freedom of an average of unequal variances.
        prior_df = np.where(others_square > 0, others_part**2 / others_square, 0.0)
        if len(own) > 1:
            prior_df = prior_df * min(1.0, (independent - 1) / (len(own) - 1))
    return moderate(own, weight, prior, prior_df)


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
