"""The gradient noise scale: how many rows a gradient needs until its noise is as large as itself (McCandlish et al. 2018, arXiv 1812.06162).

The gradient of a mean over n rows is G plus noise of covariance Sigma / n, so E|g_n|^2 = |G|^2 + S / n with S = tr Sigma. Two sizes of batch
give both unknowns (their appendix A.1). The noise scale is S / |G|^2, in rows. Of each measurement both estimates are unbiased, and their
ratio is not: they are averaged separately, and divided at the end.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis.stats.distributions import t_quantile
from analysis.stats.interval import CONFIDENCE, Array, Interval

_NUM_DRAWS = 4000


def estimates(gradients: npt.NDArray[np.floating], rows: npt.NDArray[np.integer]) -> tuple[float, float]:
    """Unbiased estimates of |G|^2 and of S from the gradients of the parts of one batch.

    The whole batch's gradient is the mean of its parts', weighted by their rows. For k parts of N rows in all, the expectation of the weighted
    mean of |g_i|^2 is |G|^2 + k S / N, and that of the whole batch's |g|^2 is |G|^2 + S / N.

    Args:
        gradients: (num_parts, num_weights), each of the mean loss over the part's rows.
        rows: (num_parts,) of each part, drawn independently of the others'.

    Returns:
        |G|^2, which can come out negative, and S, which cannot.

    Raises:
        ValueError: There are fewer than two parts, or one without rows.
    """
    num_parts, total = len(rows), float(rows.sum())
    if num_parts < 2 or rows.min() < 1:
        raise ValueError(f"parts of {rows.tolist()} rows: it takes two parts, with a row each")
    weights = (rows / total)[:, None]
    whole = (weights * gradients).sum(axis=0, dtype=np.float64)
    noise = total / (num_parts - 1) * float((weights * (gradients - whole) ** 2).sum())
    return float(whole @ whole) - noise / total, noise


def ratio(square: Array, noise: Array, rng: np.random.Generator) -> Interval:
    """The noise scale of several seeds, with an interval by bootstrap over them.

    Args:
        square: (num_seeds,) average of |G|^2 of each.
        noise: (num_seeds,) average of S.
        rng: Draws the seeds.

    Returns:
        mean S / mean |G|^2, rows. Infinite where the mean of |G|^2 is not positive: the gradient does not stand out from its noise. NaN ends for
        a single seed.
    """
    estimate = float(_divided(noise.mean(), square.mean()))
    if len(square) < 2:
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
    if len(first[0]) < 2:
        return Interval(estimate, math.nan, math.nan)
    drawn = _draws(len(first[0]), rng)
    scales = [_divided(noise[drawn].mean(axis=1), square[drawn].mean(axis=1)) for square, noise in (first, last)]
    return _interval(estimate, _factor(*scales), len(first[0]))


def apart(one: Interval, other: Interval) -> Interval:
    """How many times as large a positive quantity is as another, from independent estimates whose intervals are symmetric in the logarithm.

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
    """Percentiles of bootstrap draws, further out for few seeds, as Student's t is (Hesterberg 2015, arXiv 1411.5279, expanded percentiles).

    A draw that is NaN counts as the lowest at the lower end, and as the highest at the upper one.
    """
    tail = float(special.ndtr(-math.sqrt(num_seeds / (num_seeds - 1)) * t_quantile((1 + CONFIDENCE) / 2, num_seeds - 1)))
    unknown = np.isnan(draws)
    # No interpolation: it would be between infinities.
    low = float(np.quantile(np.where(unknown, 0.0, draws), tail, method="inverted_cdf"))
    high = float(np.quantile(np.where(unknown, math.inf, draws), 1 - tail, method="inverted_cdf"))
    return Interval(estimate, low, high)


def _divided(noise: npt.ArrayLike, square: npt.ArrayLike) -> Array:
    noise, square = np.asarray(noise, dtype=np.float64), np.asarray(square, dtype=np.float64)
    return np.divide(noise, square, out=np.full(square.shape, np.inf), where=square > 0)


def _factor(first: Array, last: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.asarray(last / first)
