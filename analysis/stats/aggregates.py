"""One number for many scores: the mean of those that are known, the interquartile mean, the optimality gap."""

import numpy as np
import numpy.typing as npt

TRIM = 0.25
"""Share that the interquartile mean leaves out at either end."""


def known_means(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Means of the values that are known.

    Args:
        values: (..., n), NaN where one is missing, such as that of a seed.

    Returns:
        (...,); NaN where none is known.
    """
    counts = np.isfinite(values).sum(axis=-1)
    return np.where(counts, np.nansum(values, axis=-1) / np.maximum(counts, 1), np.nan)


def iqms(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Interquartile means, the means of the middle half (Agarwal et al. 2021, arXiv 2108.13264).

    Args:
        values: (..., n); a quarter of the last axis, rounded down, is left out at either end.

    Returns:
        (...,).
    """
    count = values.shape[-1]
    cut = int(TRIM * count)
    return np.asarray(np.partition(values, (cut, count - cut - 1), axis=-1)[..., cut : count - cut].mean(axis=-1))


def optimality_gap(values: npt.ArrayLike, target: float) -> float:
    """How far the values fall short of the target on average; what lies above it does not make up for the rest
    (Agarwal et al. 2021).

    Args:
        values: Any shape, pooled.
        target: In the values' unit.
    """
    return target - float(np.minimum(np.ravel(values), target).mean())
