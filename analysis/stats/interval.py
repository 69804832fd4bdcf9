"""An estimate with its interval, and how sure all intervals of the suite are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
