"""Intervals of means of what has a lowest and a highest possible value, such as most scores.

The variance of a score depends on its mean: it vanishes at both bounds, and is largest in between. What configurations
that learn alike have in common is therefore the dispersion, the share of the largest variance that a mean allows, and
an interval is found by asking which means the sample does not contradict, as Wilson (1927) did for proportions.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from analysis.stats.distributions import t_quantile
from analysis.stats.interval import Array

_DRAWS = 10_000
"""Of the distribution of a mean that agrees with a sample. Their error is a tenth of a percent of coverage."""
_CHUNK = 100
"""Samples whose means are drawn at once: what fits into the processor's cache."""


def dispersion(mean: Array, variance: Array, bounds: tuple[float, float]) -> Array:
    """A variance as the share of the largest one that a mean between two bounds allows; NaN at a bound, and where it
    is unknown.

    Args:
        mean: Of samples, between the bounds.
        variance: Of the same samples.
        bounds: The lowest and the highest possible value.
    """
    largest = (mean - bounds[0]) * (bounds[1] - mean)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(largest > 1e-12 * (bounds[1] - bounds[0]) ** 2, variance / largest, np.nan)
    return np.minimum(share, 1.0)


def score_interval(
    mean: Array, num: Array, spread: Array, df: Array, bounds: tuple[float, float], confidence: float
) -> tuple[Array, Array]:
    """The means whose t test does not reject the sample's: (mean - m)^2 = t^2 spread (m - low)(high - m) / num.

    With a spread of 1 it is Wilson's interval of a proportion.

    Args:
        mean: Of samples, between the bounds.
        num: Values in each sample.
        spread: Dispersions.
        df: Degrees of freedom of the dispersions.
        bounds: The lowest and the highest possible value.
        confidence: Of the interval.

    Returns:
        Lower and upper ends, of the shape of the means.
    """
    low, high = bounds
    share = (mean - low) / (high - low)
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = t_quantile((1 + confidence) / 2, df) ** 2 * spread / num
    centre = (share + weight / 2) / (1 + weight)
    half = np.sqrt(weight * np.maximum(0.0, share * (1 - share) + weight / 4)) / (1 + weight)
    return low + (high - low) * (centre - half), low + (high - low) * (centre + half)


def certain_interval(values: Array, bounds: tuple[float, float], confidence: float) -> tuple[Array, Array]:
    """What a mean can be at most and at least, for all that is known of the distribution is its bounds (Gaffke 2005;
    Learned-Miller and Thomas 2019, arXiv 1905.06208): nothing is borrowed.

    The chances between the sorted values of a sample are those between sorted uniform draws; where in between a value
    lies is unknown, so each counts at the end that is worst for the bound.

    Args:
        values: (num_samples, num_values); NaN is no value.
        bounds: The lowest and the highest possible value.
        confidence: Of the interval, half of the rest on either side.

    Returns:
        Lower and upper ends, (num_samples,); the bounds themselves for a sample without values.
    """
    low, high = (np.full(len(values), bound, dtype=np.float64) for bound in bounds)
    ordered, num = np.sort(values, axis=1), np.isfinite(values).sum(axis=1)
    for size in np.unique(num[num > 0]):
        chances = _chances(int(size))
        rows = np.flatnonzero(num == size)
        for some in np.array_split(rows, -(-len(rows) // _CHUNK)):
            sample = ordered[some, :size]
            lowest, highest = (np.full((len(some), 1), bound) for bound in bounds)
            means = chances @ np.concatenate([lowest, sample], axis=1).T
            low[some] = np.quantile(means, (1 - confidence) / 2, axis=0)
            means = chances @ np.concatenate([sample, highest], axis=1).T
            high[some] = np.quantile(means, (1 + confidence) / 2, axis=0)
    return low, high


@lru_cache(maxsize=64)
def _chances(num_values: int) -> npt.NDArray[np.float64]:
    """Draws of the chances that lie between sorted values, (draws, num_values + 1); the same ones every time.

    By a Latin hypercube: the draws of each value are evenly spaced.
    """
    places = np.tile(np.arange(_DRAWS)[:, None], (1, num_values))
    uniform = (np.random.default_rng(0).permuted(places, axis=0) + 0.5) / _DRAWS
    return np.diff(np.sort(uniform, axis=1), axis=1, prepend=0.0, append=1.0)
