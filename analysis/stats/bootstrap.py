"""Bootstraps over seeds. Every random draw comes from a generator that the caller passes."""

from collections.abc import Callable, Sequence

import numpy as np

from analysis.stats.aggregates import TRIM, Statistic
from analysis.stats.interval import CONFIDENCE, Array, Interval


def stratified_bootstrap(
    scores: Sequence[Array],
    statistic: Callable[[Array], Array],
    rng: np.random.Generator,
    reps: int = 2000,
    confidence: float = CONFIDENCE,
) -> Interval:
    """Percentile interval of an aggregate over strata, seeds redrawn within each (Agarwal et al. 2021).

    For many strata; over one or two with few seeds it is too narrow (docs/benchmarks/calibration.md).

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


def bootstrap_intervals(
    values: Array, statistic: Statistic, rng: np.random.Generator, reps: int = 2000, confidence: float = CONFIDENCE
) -> tuple[Array, Array, Array]:
    """Percentile bootstrap of many samples of one size at once.

    Mean and interquartile mean are weighted sums of the sorted sample, and a redraw only changes the weights: one matrix product serves
    all samples.

    Args:
        values: (..., num_seeds) without NaN.
        statistic: What is estimated.
        rng: Where the draws come from.
        reps: Number of draws, the same for all samples.
        confidence: Of the intervals.

    Returns:
        Estimates, lows, highs: (...).
    """
    size = values.shape[-1]
    cut = int(TRIM * size) if statistic == "iqm" else 0
    ranks = np.sort(rng.integers(0, size, (reps, size)), axis=1)[:, cut : size - cut]
    weights = np.stack([(ranks == rank).mean(axis=1) for rank in range(size)], axis=1)
    ordered = np.sort(values, axis=-1).reshape(-1, size)
    low, high = np.empty(len(ordered)), np.empty(len(ordered))
    for start in range(0, len(ordered), 2000):  # in pieces: all draws of a million samples would not fit in memory
        piece = ordered[start : start + 2000] @ weights.T
        low[start : start + 2000], high[start : start + 2000] = np.quantile(
            piece, [(1 - confidence) / 2, (1 + confidence) / 2], axis=1, overwrite_input=True
        )
    estimate = ordered[:, cut : size - cut].mean(axis=1)
    return tuple(array.reshape(values.shape[:-1]) for array in (estimate, low, high))  # type: ignore[return-value]
