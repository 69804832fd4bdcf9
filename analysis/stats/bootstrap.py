"""The bootstrap over seeds, for aggregates of many strata.

Every random draw comes from a generator that the caller passes.
"""

from collections.abc import Callable, Sequence

import numpy as np

from analysis.stats.interval import CONFIDENCE, Array, Interval


def stratified_bootstrap(
    scores: Sequence[Array],
    statistic: Callable[[Array], Array],
    rng: np.random.Generator,
    reps: int = 2000,
    confidence: float = CONFIDENCE,
) -> Interval:
    """Percentile interval of an aggregate over strata, seeds redrawn within each (Agarwal et al. 2021).

    For many strata; over one or two with few seeds it is too narrow (docs/benchmarks/intervals.md).

    Args:
        scores: A stratum each, (num_seeds,): an environment, say, or a configuration.
        statistic: (reps, num_values) to (reps,).
        rng: Where the draws come from.
        reps: Number of draws.
        confidence: Of the interval.
    """
    draws = np.concatenate([s[rng.integers(0, len(s), (reps, len(s)))] for s in scores], axis=1)
    low, high = np.quantile(statistic(draws), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(statistic(np.concatenate(scores)[None])[0]), float(low), float(high))
