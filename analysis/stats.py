"""Statistics over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval.

    Attributes:
        estimate: The point estimate.
        low: Lower end; NaN where there is no interval.
        high: Upper end; NaN where there is no interval.
        num_seeds: How many values it rests on.
    """

    estimate: float
    low: float
    high: float
    num_seeds: int


def mean_interval(values: Sequence[float] | npt.NDArray[np.float64], confidence: float = 0.95) -> Interval:
    """Mean with Student's t interval.

    Args:
        values: (num_seeds,) one value per independent seed.
        confidence: Of the interval.

    Returns:
        The mean; without an interval for a single seed.

    Raises:
        ValueError: There is no value.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        raise ValueError("no values to take the mean of")
    mean = float(data.mean())
    if data.size == 1:
        return Interval(mean, float("nan"), float("nan"), 1)
    error = float(stats.sem(data))
    half = error * float(stats.t.ppf((1 + confidence) / 2, data.size - 1))
    return Interval(mean, mean - half, mean + half, int(data.size))
