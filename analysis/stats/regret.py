"""What it costs an environment to use the configuration that others chose, judged by seeds that chose nothing."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.stats.aggregates import known_means
from analysis.stats.halves import halves
from analysis.stats.interval import Array, Interval, mean_interval


@dataclass(frozen=True)
class Regret:
    """How much worse than its own best an environment fares, in the unit of the scores.

    Attributes:
        whole: With the configuration that the others choose.
        by_axis: With its value on each axis alone; what else there is, the environment chooses.
        at_random: With one that is picked at random of those that were run everywhere.
    """

    whole: Interval
    by_axis: tuple[Interval, ...]
    at_random: Interval


def regret(scores: Array, place: int, levels: npt.NDArray[np.int64], rng: np.random.Generator) -> Regret:
    """The regret of an environment that is left out while the others choose, by their mean score.

    The best of several means over the seeds that chose it flatters. Half of the environment's seeds therefore choose
    its own best, and the other half judges it beside what the others choose; then the other way round, over many
    splits. The others choose by all their seeds, but for those that judge: trials of two studies with a seed in common
    may be the same. An environment's own best may be one that was not run in the others.

    The interval is Student's, over seeds: each has the mean of the differences in which it judged. It is of this choice
    of the others, against what half of the environment's seeds find: less than against its true best, most where seeds
    vary much (docs/benchmarks/calibration.md). A negative regret says that the others choose better than that half.

    Args:
        scores: (num_environments, num_configurations, num_seeds), NaN where one was not run. A seed has the same place
            in two environments only if its trials may be the same there.
        place: Of the environment.
        levels: (num_configurations, num_axes): configurations with the same value on an axis have the same number.
        rng: For the splits.

    Returns:
        NaN where nothing can be judged, as with a single seed.
    """
    own = np.isfinite(scores[place]).any(axis=0)
    seeds, sums = np.flatnonzero(own), np.zeros((levels.shape[1] + 2, len(own)))
    counts = np.zeros_like(sums)
    for some in halves(len(seeds), rng):
        half = np.isin(np.arange(len(own)), seeds[some])
        for judging in (half, own & ~half):
            found = _judged(scores, place, levels, judging)
            sums[:, judging] += np.nan_to_num(found)
            counts[:, judging] += np.isfinite(found)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    whole, *by_axis, at_random = (_over_seeds(of_one) for of_one in means)
    return Regret(whole, tuple(by_axis), at_random)


def _judged(scores: Array, place: int, levels: npt.NDArray[np.int64], judging: npt.NDArray[np.bool_]) -> Array:
    """The parts of a regret by each seed that judges, (num_axes + 2, num_judging): whole, by axis, at random."""
    seen, means = scores[place][:, judging], known_means(scores[..., ~judging])
    common = np.isfinite(means).all(axis=0)
    if not common.any():
        return np.full((levels.shape[1] + 2, seen.shape[1]), np.nan)
    best = int(np.nanargmax(means[place]))
    by_others = int(np.nanargmax(np.where(common, np.delete(means, place, axis=0).mean(axis=0), np.nan)))
    alike = (levels == levels[by_others]).T
    taken = [int(np.nanargmax(np.where(of_axis, means[place], np.nan))) for of_axis in alike]
    return np.asarray(seen[best] - np.vstack([seen[[by_others, *taken]], known_means(seen[common].T)]))


def _over_seeds(values: Array) -> Interval:
    known = values[np.isfinite(values)]
    return mean_interval(known) if len(known) else Interval(np.nan, np.nan, np.nan)
