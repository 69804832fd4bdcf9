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
from benchmarks.support.harness import Table
from science.sensitivity.question import intervals, parts

Sampler = Callable[[np.random.Generator, tuple[int, ...]], Array]
SEEDS = (3, 5, 10, 30)
COLLAPSE, LOST = 0.08, 300.0
"""Share of seeds that collapse where collapses make the whole difference, and what such a seed loses."""


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


def tables(shapes: Mapping[str, Sampler], reps: int, rng: np.random.Generator) -> list[Table]:
    """The tables of the page on calibration.

    Args:
        shapes: Distributions of a score over seeds.
        reps: Studies per cell.
        rng: Where the draws come from.
    """
    of_shares = {"Jeffreys": jeffreys_interval, "Wilson": share_interval}
    probabilities = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
    failure = Table(
        "Coverage of 95% intervals of the probability of failure, percent",
        ("interval, seeds", *(f"p = {p:g}" for p in probabilities), "mean over p up to 0.5"),
        tuple(
            (
                f"{name}, {n}",
                *(f"{100 * failure_coverage(p, n, interval):.0f}" for p in probabilities),
                f"{np.mean([100 * failure_coverage(p, n, interval) for p in np.linspace(0.0025, 0.5, 200)]):.1f}",
            )
            for n in SEEDS
            for name, interval in of_shares.items()
        ),
        "Exact. A count of a few seeds takes few values, so coverage jumps with p; "
        "its mean over p is what an interval can promise.",
    )
    bounds = Table(
        "Lower tolerance bounds (90% of seeds, 95% confidence) that hold, percent",
        ("scores over seeds", *(f"{n} seeds" for n in (29, 46, 60))),
        tuple(
            (name, *(f"{100 * bound_coverage(shape, n, reps, rng):.1f}" for n in (29, 46, 60)))
            for name, shape in shapes.items()
        ),
        "Distribution-free: at least 95, more where order statistics are far apart.",
    )
    sizes = ((2, 5), (2, 10), (6, 5), (6, 10))
    rows = []
    for name, shape in shapes.items():
        cells = [100 * share for k, n in sizes for share in wrongly_equivalent(shape, k, n, reps // 2, rng)]
        rows.append((name, *(f"{cell:.1f}" for cell in cells)))
    equivalence = Table(
        "Called practically the same, percent of studies",
        ("scores over seeds", *(f"{k} x {n}, {what}" for k, n in sizes for what in ("wrongly", "rightly"))),
        tuple(rows),
        "Configurations x seeds; all but the best lie a standard deviation below it. wrongly: delta is as much, "
        "at most 5 are promised. rightly: delta is three times as much.",
    )
    overlooked = Table(
        "Rare collapses that equivalence overlooks, percent of studies",
        ("", *(f"{n} seeds" for n in (*SEEDS, 60))),
        (("called practically the same", *(f"{100 * collapses_overlooked(n, reps, rng):.0f}" for n in (*SEEDS, 60))),),
        f"Two configurations near 460; one of them collapses by {LOST:g} on {100 * COLLAPSE:g}% of seeds, "
        f"which alone makes their means differ by {COLLAPSE * LOST:g}, and delta is as much: at most 5 are promised. "
        "Where no seed has collapsed yet, no test of means can know: hence the probability of failure beside "
        "each score, whose interval says how often it may still be.",
    )
    promised = Table(
        "What the leader set misses of six configurations that are exactly equal, percent",
        ("scores over seeds", *(f"{n} seeds, {what}" for n in (3, 5, 10) for what in ("a given one", "any of them"))),
        tuple(
            (name, *(f"{100 * share:.1f}" for n in (3, 5, 10) for share in leader_set(shape, n, reps, rng)))
            for name, shape in shapes.items()
        ),
        "The set promises to miss the best one in at most 5% of studies. It makes no promise "
        "for all that are equally good at once.",
    )
    return [failure, bounds, equivalence, overlooked, promised, _sensitivity_table(reps // 5, rng)]


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


def _sensitivity_table(reps: int, rng: np.random.Generator) -> Table:
    numbers = (3, 5, 10)
    names = ("tuned", "common", "sensitivity")
    rows = []
    for name, means in tunable().items():
        cells = [share for n in numbers for share in sensitivity_coverage(means, n, reps, rng)]
        rows.append((name, *(f"{100 * cell:.0f}" for cell in cells)))
    return Table(
        "Coverage of sensitivity to hyperparameters, percent",
        ("mean scores", *(f"{n} seeds, {name}" for n in numbers for name in names)),
        tuple(rows),
        f"{reps} simulated tables per cell. Maxima of many means that are exactly equal are the "
        "worst case of any bootstrap.",
    )
