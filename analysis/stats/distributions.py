"""Distributions by scipy.special: what scipy.stats gives, to the bit but for the noncentral t,
and takes most of a second to import.
"""

import numpy as np
import numpy.typing as npt
from scipy import special

_Array = npt.NDArray[np.float64]


def t_quantile(p: npt.ArrayLike, df: npt.ArrayLike) -> _Array:
    """Where the distribution function of Student's t with `df` degrees of freedom, infinitely many included, is `p`."""
    return np.asarray(special.stdtrit(df, p))


def t_tail(x: npt.ArrayLike, df: npt.ArrayLike) -> _Array:
    """Probability that Student's t with `df` degrees of freedom is above `x`."""
    return np.asarray(special.stdtr(df, np.negative(x)))


def noncentral_t_tail(x: npt.ArrayLike, df: npt.ArrayLike, noncentrality: npt.ArrayLike) -> _Array:
    """Probability that the noncentral t with `df` degrees of freedom is above `x`, to an absolute error of rounding."""
    return np.asarray(1 - np.nan_to_num(special.nctdtr(df, noncentrality, x)))  # NaN is where it underflows


def chi2_quantile(p: npt.ArrayLike, df: npt.ArrayLike) -> _Array:
    """Where the distribution function of chi-squared with `df` degrees of freedom is `p`."""
    return np.asarray(2 * special.gammaincinv(np.divide(df, 2), p))


def normal_quantile(p: npt.ArrayLike) -> _Array:
    """Where the distribution function of the normal distribution is `p`."""
    return np.asarray(special.ndtri(p))


def noncentral_chi2_cdf(x: npt.ArrayLike, df: npt.ArrayLike, noncentrality: npt.ArrayLike) -> _Array:
    """Distribution function of the noncentral chi-squared with `df` degrees of freedom at `x`."""
    return np.asarray(special.chndtr(x, df, noncentrality))
