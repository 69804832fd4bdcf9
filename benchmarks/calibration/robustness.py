"""Do failures, tolerance bounds, equivalence, the leader set and sensitivity keep their promises?

Simulated studies, the truth known.
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from analysis.questions.equivalence import practically_best
from analysis.stats.comparisons import leaders
from analysis.stats.interval import Array
from analysis.stats.shares import jeffreys_interval, share_interval
from analysis.stats.tolerance import CONTENT, lower_bound
from benchmarks.calibration.statistic import Statistic
from science.sensitivity.question import intervals, parts

Sampler = Callable[[np.random.Generator, tuple[int, ...]], Array]
SEEDS = (3, 5, 10, 30)
COLLAPSE, LOST = 0.08, 300.0
"""Share of seeds that collapse where collapses make the whole difference, and what such a seed loses."""
NOTES = (
    "Probability of failure: a count of a few seeds takes few values, so coverage jumps with p; its mean over p is "
    "what an interval can promise.",
    "Practically the same: all but the best lie a standard deviation below it. Wrongly: delta is as much; rightly: "
    "three times as much.",
    f"Rare collapses: two configurations near 460; one of them collapses by {LOST:g} on {100 * COLLAPSE:g}% of seeds, "
    f"which alone makes their means differ by {COLLAPSE * LOST:g}, and delta is as much. Where no seed has collapsed "
    "yet, no test of means can know: hence the probability of failure beside each score.",
    "The leader set makes no promise for all that are equally good at once.",
    "Sensitivity: maxima of many means that are exactly equal are the worst case of any bootstrap.",
)


def failure_coverage(
    probability: float, num_seeds: int, interval: Callable[[npt.ArrayLike, npt.ArrayLike], tuple[Array, Array]]
) -> float:
    """How often an interval of a probability of failure holds it: summed over all counts, nothing drawn."""
    counts = np.arange(num_seeds + 1)
    low, high = interval(counts, num_seeds)
    chances = np.diff(special.bdtr(counts, num_seeds, probability), prepend=0)
    return float(chances[(low <= probability) & (probability <= high)].sum())


def bound_coverage(shape: Sampler, num_seeds: int, reps: int, rng: np.random.Generator) -> float:
    """How often at least nine seeds in ten reach the lower tolerance bound."""
    truth = np.quantile(shape(rng, (1_000_000,)), 1 - CONTENT)
    scores = shape(rng, (reps, num_seeds))
    return float(np.mean([lower_bound(of_seeds) <= truth + 1e-9 for of_seeds in scores]))


def wrongly_equivalent(
    shape: Sampler, num_configurations: int, num_seeds: int, reps: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Studies in which the others are a standard deviation below the best, and delta is as much.

    Returns:
        How often any is called practically the same; how often with a delta three times as large, where that is right.
    """
    delta = float(shape(rng, (100_000,)).std())
    found = np.zeros(2)
    for _ in range(reps):
        scores = shape(rng, (num_configurations, num_seeds))
        scores[1:] -= delta
        found += [len(practically_best(pd.DataFrame(scores), times * delta)) > 0 for times in (1, 3)]
    return float(found[0] / reps), float(found[1] / reps)


def collapses_overlooked(num_seeds: int, reps: int, rng: np.random.Generator) -> float:
    """How often one that collapses on a seed in twelve is called practically the same as one that never does,
    delta apart by that alone.
    """
    wrong = 0
    for _ in range(reps):
        scores = rng.normal(460, 10, (2, num_seeds))
        scores[1] -= LOST * (rng.random(num_seeds) < COLLAPSE)
        wrong += len(practically_best(pd.DataFrame(scores), COLLAPSE * LOST)) > 0
    return wrong / reps


def leader_set(shape: Sampler, num_seeds: int, reps: int, rng: np.random.Generator) -> tuple[float, float]:
    """Six configurations that are exactly equal.

    Returns:
        How often the leader set misses a given one; how often it misses any of them.
    """
    among = np.array([leaders(shape(rng, (6, num_seeds)), larger_is_better=True) for _ in range(reps)])
    return float(1 - among.mean()), float(1 - among.all(axis=1).mean())


def statistics(shapes: Mapping[str, Sampler], reps: int, rng: np.random.Generator) -> list[Statistic]:
    """What the page on calibration says of them.

    Args:
        shapes: Distributions of a score over seeds.
        reps: Studies of each kind.
        rng: Where the draws come from.
    """
    of_shares = {"Jeffreys": jeffreys_interval, "Wilson": share_interval}
    probabilities = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
    failures = [
        Statistic(
            f"Probability of failure, {name}",
            "",
            {f"p = {p:g}; {n} seeds": failure_coverage(p, n, interval) for n in SEEDS for p in probabilities},
            0,
            digits=0,
        )
        for name, interval in of_shares.items()
    ]
    over_p = [
        Statistic(
            f"Probability of failure, {name}, mean over p up to 0.5",
            "95",
            {
                f"{n} seeds": float(np.mean([failure_coverage(p, n, interval) for p in np.linspace(0.0025, 0.5, 200)]))
                for n in SEEDS
            },
            0,
        )
        for name, interval in of_shares.items()
    ]
    bounds = {
        f"{name}; {n} seeds": bound_coverage(shape, n, reps, rng)
        for name, shape in shapes.items()
        for n in (29, 46, 60)
    }
    same = {
        f"{name}; {k} x {n}": wrongly_equivalent(shape, k, n, reps // 2, rng)
        for name, shape in shapes.items()
        for k, n in ((2, 5), (2, 10), (6, 5), (6, 10))
    }
    overlooked = {f"{n} seeds": collapses_overlooked(n, reps, rng) for n in (*SEEDS, 60)}
    missed = {
        f"{name}; {n} seeds": leader_set(shape, n, reps, rng) for name, shape in shapes.items() for n in (3, 5, 10)
    }
    wrongly, rightly = ({kind: shares[i] for kind, shares in same.items()} for i in (0, 1))
    given, any_of_them = ({kind: shares[i] for kind, shares in missed.items()} for i in (0, 1))
    return [
        *over_p,
        *failures,
        Statistic("Lower tolerance bound (90% of seeds, 95% confidence)", "at least 95", bounds, reps),
        Statistic("Wrongly called practically the same", "at most 5", wrongly, reps // 2, risk=True),
        Statistic("Rightly called practically the same", "", rightly, reps // 2),
        Statistic("Rare collapses that equivalence overlooks", "at most 5", overlooked, reps, risk=True, digits=0),
        Statistic("Leaders miss a given one of six equal", "at most 5", given, reps, risk=True),
        Statistic("Leaders miss any of six equal", "", any_of_them, reps, risk=True),
        *_sensitivity(reps // 5, rng),
    ]


def tunable() -> dict[str, Array]:
    """Mean scores (num_envs, num_settings) that need tuning more or less."""
    at, even = np.linspace(-1, 1, 9), np.linspace(0, 1, 21)
    return {
        "the same peak in 4 environments, 9 settings": np.stack([1 - (at - 0.1) ** 2] * 4),
        "4 different peaks, 9 settings": np.stack([1 - (at - peak) ** 2 for peak in (-0.5, -0.25, 0.0, 0.6)]),
        "opposite in 2 environments, all 21 tie as common ones": np.stack([even, even[::-1]]),
        "12 settings that are all equal in 4 environments": np.zeros((4, 12)),
    }


def sensitivity_coverage(means: Array, num_seeds: int, reps: int, rng: np.random.Generator) -> Array:
    """How often the intervals of the tuned score, the common one and the sensitivity hold the truth (3,);
    seeds vary by 0.2.
    """
    truth, held = parts(means), np.zeros(3)
    for _ in range(reps):
        found = intervals(means[..., None] + rng.normal(0, 0.2, (*means.shape, num_seeds)), rng)
        held += [one.low - 1e-9 <= true <= one.high + 1e-9 for one, true in zip(found, truth, strict=True)]
    return held / reps


def _sensitivity(reps: int, rng: np.random.Generator) -> list[Statistic]:
    apart: dict[str, float] = {}
    tied: dict[str, float] = {}
    for name, means in tunable().items():
        shares = tied if np.allclose(np.ptp(means.mean(axis=0)), 0) else apart
        for n in (3, 5, 10):
            held = sensitivity_coverage(means, n, reps, rng)
            for what, share in zip(("tuned", "common", "sensitivity"), held, strict=True):
                shares[f"{name}; {n} seeds, {what}"] = float(share)
    return [
        Statistic("Sensitivity to hyperparameters", "95", apart, reps, digits=0),
        Statistic("Sensitivity where all settings tie as common ones", "95", tied, reps, digits=0),
    ]
