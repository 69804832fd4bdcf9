"""The bootstrap over seeds: intervals of aggregates of many strata, and means of configurations.

Every random draw comes from a generator that the caller passes.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from analysis.stats.aggregates import known_means
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


def redrawn_means(scores: Array, rng: np.random.Generator, reps: int) -> Iterator[Array]:
    """Means over seeds, the seeds of each configuration redrawn by themselves.

    Means are spread by sqrt(n / (n - 1)), which a bootstrap of n seeds lacks.

    Args:
        scores: (..., most seeds), NaN behind the last seed of each.
        rng: Where the draws come from.
        reps: Number of draws.

    Yields:
        (...,), NaN for what has no seed.
    """
    counts = np.isfinite(scores).sum(axis=-1, keepdims=True)
    known, means = np.arange(scores.shape[-1]) < counts, known_means(scores)
    spread = np.sqrt(counts / np.maximum(counts - 1, 1))[..., 0]
    for _ in range(reps):
        picked = np.take_along_axis(scores, (rng.random(scores.shape) * counts).astype(np.int64), axis=-1)
        drawn = np.where(known, picked, 0.0).sum(axis=-1) / np.maximum(counts[..., 0], 1)
        yield means + (drawn - means) * spread
