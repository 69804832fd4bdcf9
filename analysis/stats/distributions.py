"""Student's t and the normal distribution by scipy.special: to the bit what scipy.stats gives, which takes most of a second to import."""

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


def normal_quantile(p: npt.ArrayLike) -> _Array:
    """Where the distribution function of the normal distribution is `p`."""
    return np.asarray(special.ndtri(p))
