"""The gradient noise scale of several seeds, S / |G|^2, from each one's averages of both (`gradient_noise`):
intervals by bootstrap.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis.stats.distributions import t_quantile
from analysis.stats.interval import CONFIDENCE, Array, Interval

LEAST_SEEDS = 5
"""Of an interval: a bootstrap's lies between the lowest and the highest seed, which hold the mean of a symmetric
distribution in all but 2^(1 - n) of cases."""

_NUM_DRAWS = 4000


def ratio(square: Array, noise: Array, rng: np.random.Generator) -> Interval:
    """The noise scale of several seeds, with an interval by bootstrap over them.

    Args:
        square: (num_seeds,) average of |G|^2 of each.
        noise: (num_seeds,) average of S.
        rng: Draws the seeds.

    Returns:
        mean S / mean |G|^2, rows. Infinite where the mean of |G|^2 is not positive: the gradient does not stand out
        from its noise. Ends are NaN below `LEAST_SEEDS`.
    """
    estimate = float(_divided(noise.mean(), square.mean()))
    if len(square) < LEAST_SEEDS:
        return Interval(estimate, math.nan, math.nan)
    drawn = _draws(len(square), rng)
    return _interval(estimate, _divided(noise[drawn].mean(axis=1), square[drawn].mean(axis=1)), len(square))


def growth(first: tuple[Array, Array], last: tuple[Array, Array], rng: np.random.Generator) -> Interval:
    """How many times as large the noise scale is in a later window of the same seeds as in an earlier one.

    Args:
        first: `square` and `noise` of the earlier window, as `ratio` takes them.
        last: Of the later one.
        rng: Draws the seeds, the same in both windows.

    Returns:
        The factor, as `ratio`; NaN where |G|^2 is not positive in both windows.
    """
    estimate = float(_factor(*(_divided(noise.mean(), square.mean()) for square, noise in (first, last))))
    if len(first[0]) < LEAST_SEEDS:
        return Interval(estimate, math.nan, math.nan)
    drawn = _draws(len(first[0]), rng)
    scales = [_divided(noise[drawn].mean(axis=1), square[drawn].mean(axis=1)) for square, noise in (first, last)]
    return _interval(estimate, _factor(*scales), len(first[0]))


def apart(one: Interval, other: Interval) -> Interval:
    """How many times as large a positive quantity is as another, from independent estimates whose intervals
    are symmetric in the logarithm.

    Args:
        one: The numerator.
        other: The denominator.
    """
    log = [np.log([i.estimate, i.low, i.high]) for i in (one, other)]
    (estimate, low, high), (of, of_low, of_high) = (values.tolist() for values in log)
    below, above = math.hypot(estimate - low, of_high - of), math.hypot(high - estimate, of - of_low)
    return Interval(math.exp(estimate - of), math.exp(estimate - of - below), math.exp(estimate - of + above))


def _draws(num_seeds: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    return rng.integers(0, num_seeds, (_NUM_DRAWS, num_seeds))


def _interval(estimate: float, draws: Array, num_seeds: int) -> Interval:
    """Percentiles of bootstrap draws, further out for few seeds, as Student's t is (expanded percentiles:
    Hesterberg, arXiv 1411.5279).

    A draw that is NaN counts as the lowest at the lower end, and as the highest at the upper one.
    """
    tail = float(
        special.ndtr(-math.sqrt(num_seeds / (num_seeds - 1)) * t_quantile((1 + CONFIDENCE) / 2, num_seeds - 1))
    )
    unknown = np.isnan(draws)
    # No interpolation: it would be between infinities.
    low = float(np.quantile(np.where(unknown, 0.0, draws), tail, method="inverted_cdf"))
    high = float(np.quantile(np.where(unknown, math.inf, draws), 1 - tail, method="inverted_cdf"))
    return Interval(estimate, low, high)


def _divided(noise: npt.ArrayLike, square: npt.ArrayLike) -> Array:
    noise, square = np.asarray(noise, dtype=np.float64), np.asarray(square, dtype=np.float64)
    scale: Array = np.divide(noise, square, out=np.full(square.shape, np.inf), where=square > 0)
    return scale


def _factor(first: Array, last: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.asarray(last / first)
