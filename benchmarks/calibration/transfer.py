"""Do the rank correlation between environments, and the regret of what others choose, keep their promises?

Simulated environments, the truth known.
"""

import numpy as np

from analysis.stats.interval import Array
from analysis.stats.rank_correlation import rank_correlation, rank_correlations
from analysis.stats.regret import regret
from benchmarks.calibration.statistic import Statistic

SIZES = ((4, 3), (4, 5), (4, 10), (9, 3), (9, 5), (9, 10), (24, 5))
"""Settings and seeds."""
ALIKE = (0.0, 0.8)
NOISE = (0.3, 1.0)
NOTES = (
    "Transfer: the means of settings in two environments are normal, correlated by r; seeds vary by so many times as "
    "much. The regret is of the setting that the other environment chooses, against the true best, which half of the "
    "seeds may not find: where intervals miss it, they lie too low.",
)


def drawn(
    num_settings: int, num_seeds: int, alike: float, noise: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """True means, (2, num_settings), and scores, (2, num_settings, 2 * num_seeds): each has seeds of its own."""
    own = rng.standard_normal((2, num_settings))
    means = np.stack([own[0], alike * own[0] + np.sqrt(1 - alike**2) * own[1]])
    scores = np.full((2, num_settings, 2 * num_seeds), np.nan)
    for i in (0, 1):
        scores[i, :, i * num_seeds : (i + 1) * num_seeds] = rng.normal(means[i], noise, (num_seeds, num_settings)).T
    return means, scores


def regret_coverage(
    num_settings: int, num_seeds: int, alike: float, noise: float, reps: int, rng: np.random.Generator
) -> tuple[float, float]:
    """How often the interval of a regret holds the truth; how often it lies above it."""
    held, above = [], []
    for _ in range(reps):
        means, scores = drawn(num_settings, num_seeds, alike, noise, rng)
        found = regret(scores, 0, np.arange(num_settings)[:, None], rng).whole
        truth = means[0].max() - means[0, np.nanmean(scores[1], axis=1).argmax()]
        held.append(found.low - 1e-9 <= truth <= found.high + 1e-9)
        above.append(found.low - 1e-9 > truth)
    return float(np.mean(held)), float(np.mean(above))


def correlation_coverage(
    num_settings: int, num_seeds: int, alike: float, noise: float, reps: int, rng: np.random.Generator
) -> float:
    """How often the interval of a rank correlation holds that of the true means."""
    held = []
    for _ in range(reps):
        means, scores = drawn(num_settings, num_seeds, alike, noise, rng)
        packed = np.stack([scores[0, :, :num_seeds], scores[1, :, num_seeds:]])
        found = rank_correlations(packed, rng).pairs[0, 1]
        held.append(bool(found.low - 1e-9 <= rank_correlation(*means) <= found.high + 1e-9))
    return float(np.mean(held))


def statistics(reps: int, rng: np.random.Generator) -> list[Statistic]:
    """What the page on calibration says of them.

    Args:
        reps: Pairs of environments of each kind.
        rng: Where the draws come from.
    """
    kinds = {
        f"{k} settings, {n} seeds, r = {r:g}, {noise:g} times": (k, n, r, noise)
        for k, n in SIZES
        for r in ALIKE
        for noise in NOISE
    }
    regrets = {kind: regret_coverage(*of_kind, reps, rng) for kind, of_kind in kinds.items()}
    correlations = {kind: correlation_coverage(*of_kind, reps, rng) for kind, of_kind in kinds.items()}
    held, above = ({kind: shares[i] for kind, shares in regrets.items()} for i in (0, 1))
    return [
        Statistic("Transfer: regret", "95", held, reps, digits=0),
        Statistic("Transfer: regret too high", "at most 5", above, reps, risk=True, digits=0),
        Statistic("Transfer: rank correlation", "at least 95", correlations, reps, digits=0),
    ]
