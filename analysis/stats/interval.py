"""An estimate with its interval, and how sure all intervals of the suite are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.stats.distributions import t_quantile

Array = npt.NDArray[np.float64]

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval around it.

    Attributes:
        estimate: Point estimate.
        low: Lower end.
        high: Upper end.
    """

    estimate: float
    low: float
    high: float

    def columns(self, name: str) -> dict[str, float]:
        """As a frame has them: `name`, `name_low`, `name_high`."""
        return {name: self.estimate, f"{name}_low": self.low, f"{name}_high": self.high}


def antilog(values: npt.ArrayLike) -> Any:
    """Exponential of the values. The end of an interval from two unlike seeds may be beyond the largest number: it is
    infinite then, and no warning.
    """
    with np.errstate(over="ignore"):
        return np.exp(values)


def posterior_interval(grid: Array, weights: Array) -> Interval:
    """Median and 95% interval of a posterior.

    Args:
        grid: (n,) values, ascending.
        weights: (n,) their probabilities.
    """
    tail = (1 - CONFIDENCE) / 2
    low, median, high = np.interp([tail, 0.5, 1 - tail], np.cumsum(weights), grid)
    return Interval(float(median), float(low), float(high))


def mean_interval(values: npt.ArrayLike) -> Interval:
    """The mean with Student's t interval: mean +- t s / sqrt(n). Without an interval (NaN) for a single value.

    Args:
        values: (n,) independent draws, for example returns of episodes on different env seeds.
    """
    drawn = np.asarray(values, dtype=np.float64)
    n, mean = len(drawn), float(drawn.mean())
    half = float(t_quantile((1 + CONFIDENCE) / 2, n - 1) * drawn.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    return Interval(mean, mean - half, mean + half)


def prediction_interval(scores: Sequence[float]) -> Interval:
    """Where the score of one more seed lies with 95 % confidence, if scores are normal: mean +- t s sqrt(1 + 1/n).

    Args:
        scores: Of at least two seeds.
    """
    n = len(scores)
    half = float(t_quantile((1 + CONFIDENCE) / 2, n - 1) * np.std(scores, ddof=1) * math.sqrt(1 + 1 / n))
    mean = float(np.mean(scores))
    return Interval(mean, mean - half, mean + half)


def difference_of_intervals(
    first: Interval, num_first: int, second: Interval, num_second: int, relative: bool = False
) -> Interval:
    """The difference of two independent estimates, first minus second, from their intervals alone (Zou and Donner
    2008, "Construction of confidence limits about effect measures", who call it MOVER): it keeps what these know of
    bounds and skew, which a standard error does not.

    One without an interval, such as a single value, is taken to vary like the other; without any there is none.

    Args:
        first: An estimate and its interval.
        num_first: The number of values that it rests on.
        second: The other.
        num_second: Likewise.
        relative: Whether the ratio is meant, of positive numbers.
    """
    a, b = (
        np.log([of.estimate, of.low, of.high]) if relative else np.array([of.estimate, of.low, of.high])
        for of in (first, second)
    )
    below_a, above_a, below_b, above_b = a[0] - a[1], a[2] - a[0], b[0] - b[1], b[2] - b[0]
    if not np.isfinite([below_a, above_a]).all():
        below_a, above_a = (width * math.sqrt(num_second / max(1, num_first)) for width in (below_b, above_b))
    elif not np.isfinite([below_b, above_b]).all():
        below_b, above_b = (width * math.sqrt(num_first / max(1, num_second)) for width in (below_a, above_a))
    estimate = a[0] - b[0]
    ends = (estimate, estimate - math.hypot(below_a, above_b), estimate + math.hypot(above_a, below_b))
    return Interval(*(float(antilog(end) if relative else end) for end in ends))
