"""Whether configurations that are good in one environment are good in another: rank correlation, with its interval."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import rankdata

from analysis.stats.aggregates import known_means
from analysis.stats.bootstrap import redrawn_means
from analysis.stats.halves import halves
from analysis.stats.interval import CONFIDENCE, Array, Interval

DRAWS = 2000
"""Of the bootstrap."""


@dataclass(frozen=True)
class RankCorrelations:
    """Rank correlations of the same configurations in several environments.

    Attributes:
        pairs: Of two environments, by their places; NaN where all configurations of one tie.
        mean: Over the pairs.
        halves: Of each environment with itself: the means of one half of the seeds with those of the other, mean over
            splits. It says how far chance alone disturbs the order.
    """

    pairs: Mapping[tuple[int, int], Interval]
    mean: Interval
    halves: tuple[float, ...]


def rank_correlation(first: Array, second: Array) -> Array:
    """Spearman's rank correlation (1904), ties at their mean rank.

    Args:
        first: (..., num_configurations); where one is NaN, so is the correlation.
        second: Of the same shape.

    Returns:
        (...,); NaN where all values of one side tie.
    """
    a, b = (rankdata(values, axis=-1) - (values.shape[-1] + 1) / 2 for values in (first, second))
    with np.errstate(invalid="ignore"):
        return np.asarray((a * b).sum(axis=-1) / np.sqrt((a * a).sum(axis=-1) * (b * b).sum(axis=-1)))


def rank_correlations(scores: Array, rng: np.random.Generator) -> RankCorrelations:
    """Rank correlations of means over seeds, of every pair of environments.

    Intervals are the percentiles of a bootstrap over seeds, drawn out to the estimate. Noise pulls a rank correlation
    towards 0, and that of a bootstrap's draws once more: the intervals reach rather too low than too high, and one of
    environments that have nothing in common is hardly ever above 0.

    Args:
        scores: (num_environments, num_configurations, most seeds), NaN behind the last seed of each, which has two or
            more.
        rng: For draws and splits.
    """
    pairs = list(combinations(range(len(scores)), 2))
    first, second = np.array(pairs).T
    means, drawn = known_means(scores), np.stack([*redrawn_means(scores, rng, DRAWS)])
    estimates = rank_correlation(means[first], means[second])
    draws = rank_correlation(drawn[:, first], drawn[:, second])
    found = {pair: _interval(estimates[i], draws[:, i]) for i, pair in enumerate(pairs)}
    mean = _interval(known_means(estimates), known_means(draws))
    return RankCorrelations(found, mean, tuple(_of_halves(of_env, rng) for of_env in scores))


def _interval(estimate: Array, draws: Array) -> Interval:
    if not np.isfinite(estimate):
        return Interval(np.nan, np.nan, np.nan)
    low, high = np.nanquantile(draws, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(estimate), float(min(low, estimate)), float(max(high, estimate)))


def _of_halves(scores: Array, rng: np.random.Generator) -> float:
    """Mean rank correlation of the means of one half of the seeds with those of the other."""
    scores, found = scores[:, np.isfinite(scores).any(axis=0)], []
    for half in halves(scores.shape[1], rng):
        parts = scores[:, half], np.delete(scores, half, axis=1)
        found.append(rank_correlation(*map(known_means, parts)))
    return float(known_means(np.array(found)))
