"""How much of the variance between the cells of a full grid each of its axes makes up, the noise of seeds left out.

The functional analysis of variance by which the importance of hyperparameters is told (Hutter, Hoos and Leyton-Brown
2014, "An efficient approach for assessing hyperparameter importance"). They marginalise over a random forest, since
their configurations are no grid. Of a grid all cells are known: marginals are means, and no model is fitted.

The noise is that of seeds within cells, but for what a seed does to all cells alike. Cells need not vary alike: degrees
of freedom are Box's (1954, Annals of Mathematical Statistics 25:290). A bootstrap over seeds cannot show that nothing
is there: means of seeds that are drawn anew vary more than the means themselves, and so does each part of them.
"""

from collections.abc import Callable

import numpy as np

from analysis.stats.distributions import chi2_quantile, noncentral_chi2_cdf
from analysis.stats.interval import CONFIDENCE, Array, Interval
from analysis.stats.roots import root

_CERTAIN = 1e5
"""Times the noise, from which on squares are exact to the percent."""
_PROBABILITIES = (np.arange(50) + 0.5) / 50
"""At which the noise is taken: evenly spread over all that it may be."""


def main_effect(values: Array, axis: int) -> Interval:
    """The share of an axis by itself: of its means over all other axes; Sobol's first-order index.

    Args:
        values: (num_values of the first axis, ..., of the last, num_seeds), finite, two seeds or more.
        axis: Which of the axes.

    Returns:
        From 0 to 1, with its interval; NaN where all cells are the same on every seed.
    """
    others = tuple(other for other in range(values.ndim - 1) if other != axis)
    return _share(values, lambda cells: cells.mean(axis=others, keepdims=True))


def total_effect(values: Array, axis: int) -> Interval:
    """The share that vanishes where an axis is averaged over: by itself and by all its interactions; Sobol's total
    index (Homma and Saltelli 1996). The shares of several axes add up to more than 1 where they interact.

    Args:
        values: As `main_effect` takes them.
        axis: Which of the axes.

    Returns:
        As `main_effect`.
    """
    return _share(values, lambda cells: cells - cells.mean(axis=axis, keepdims=True))


def _share(values: Array, part: Callable[[Array], Array]) -> Interval:
    """The share of a part in the variance of cells.

    Its interval is put together of those of the part and of the rest, which are independent (Donner and Zou 2012,
    Statistical Methods in Medical Research 21:347).

    Args:
        values: (..., num_seeds) of cells.
        part: From cells, whose mean is 0, to their part: linear, and a part of a part is itself.
    """
    cells = _centred(values)
    shape, num_seeds = cells.shape[:-1], cells.shape[-1]
    size = int(np.prod(shape))
    whole = _centred(np.eye(size).reshape(*shape, size))
    own = np.broadcast_to(part(whole), whole.shape).reshape(size, size)
    mean = cells.mean(axis=-1).ravel()
    variance = cells.var(axis=-1, ddof=1).ravel() * size / (size - 1)
    first, others = (_squares(p, mean, variance, num_seeds) for p in (own, whole.reshape(size, size) - own))
    if not (first.high or others.high):
        return Interval(np.nan, np.nan, np.nan)
    together = first.estimate + others.estimate
    low, high = _least_share(first, others), 1 - _least_share(others, first)
    estimate = first.estimate / together if together else low
    return Interval(min(max(estimate, low), high), low, high)


def _centred(values: Array) -> Array:
    """Cells less their mean, seed by seed: what a seed does to all alike is no difference between them."""
    return np.asarray(values - values.mean(axis=tuple(range(values.ndim - 1))))


def _least_share(of: Interval, others: Interval) -> float:
    """The lower end of the share of one of two."""
    product = of.estimate * others.estimate
    above, below = of.low * (2 * of.estimate - of.low), others.high * (2 * others.estimate - others.high)
    divisor = product + np.sqrt(max(0.0, product**2 - above * below))
    return float(above / (above + divisor)) if above > 0 else 0.0


def _squares(part: Array, mean: Array, variance: Array, num_seeds: int) -> Interval:
    """Sum of the squares that a part of cells would have without noise, 0 or more. The estimate is free of bias: the
    square of the means less what their noise adds.

    Args:
        part: (num_cells, num_cells), of the identity.
        mean: (num_cells,) over seeds.
        variance: (num_cells,) of a seed.
        num_seeds: Of each cell.
    """
    square, of_each = max(0.0, float(mean @ part @ mean)), np.diag(part) * variance
    noise = float(of_each.sum()) / num_seeds
    if square >= _CERTAIN * noise:
        return Interval(square, square, square)
    products = np.outer(variance, variance)
    np.fill_diagonal(products, variance**2 * (num_seeds - 1) / (num_seeds + 1))  # free of bias, as the others are
    df = np.clip(of_each.sum() ** 2 / (part**2 * products).sum(), 1.0, np.trace(part))
    df_noise = min(of_each.sum() ** 2 / (of_each**2 / (num_seeds + 1)).sum(), len(mean) * (num_seeds - 1.0))
    tail = (1 - CONFIDENCE) / 2
    low, high = (_size(square, noise, float(df), float(df_noise), share) for share in (1 - tail, tail))
    return Interval(max(0.0, square - noise), low, high)


def _size(square: float, noise: float, df: float, df_noise: float, share: float) -> float:
    """An end of the generalized confidence interval (Weerahandi 1993, Journal of the American Statistical Association
    88:899) of the squares without noise: by the distribution function of the noncentral chi-squared, over all that the
    noise may be. It begins above 0 where an F test is significant.

    Args:
        square: Sum of the squares of the means.
        noise: What their noise adds to it, estimated.
        df: Degrees of freedom of both.
        df_noise: Of the estimate.
        share: Probability of smaller squares than these, at the end.
    """
    of_noise = noise / df * df_noise / chi2_quantile(_PROBABILITIES, df_noise)

    def excess(size: float) -> float:
        return float(noncentral_chi2_cdf(square / of_noise, df, size / of_noise).mean()) - share

    if excess(0.0) <= 0:
        return 0.0
    high = square + noise
    while excess(high) > 0:
        high *= 2
    return root(excess, 0.0, high)
