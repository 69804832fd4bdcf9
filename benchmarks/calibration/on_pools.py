"""Do failures, tolerance bounds, equivalence, the leader set and sequential comparisons keep their promises
on scores of real runs?

Studies are drawn with replacement from the seeds of `pools.py`: what these come to is the truth.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.questions.equivalence import practically_best
from analysis.stats.comparisons import leaders
from analysis.stats.interval import Array
from analysis.stats.sequential import Design, compare
from analysis.stats.shares import jeffreys_interval
from benchmarks.calibration.pools import NUM_SEEDS, pools, sampler
from benchmarks.calibration.robustness import bound_coverage, failure_coverage, leader_set, wrongly_equivalent
from benchmarks.support.harness import Table

DESIGN = Design(seeds_per_look=5, looks=5)
FAILS_BELOW: Mapping[str, float] = {"cartpole": 400.0, "acrobot": -250.0}
"""So that some seeds of each configuration fail, and some don't."""


def called_different(first: Array, second: Array, reps: int, rng: np.random.Generator) -> tuple[float, float]:
    """How often a sequential comparison calls two configurations different,
    and the seeds of each that it takes on average.
    """
    verdicts = [
        compare(np.stack([sampler(scores)(rng, (DESIGN.most_seeds,)) for scores in (first, second)]), DESIGN)
        for _ in range(reps)
    ]
    return float(np.mean([v.higher.any() for v in verdicts])), DESIGN.seeds_per_look * float(
        np.mean([v.looks for v in verdicts])
    )


def better_left_out(better: Array, worse: Array, num_seeds: int, reps: int, rng: np.random.Generator) -> float:
    """How often the leader set misses the better of two configurations."""
    drawn = (np.stack([sampler(scores)(rng, (num_seeds,)) for scores in (better, worse)]) for _ in range(reps))
    return float(np.mean([not leaders(scores, larger_is_better=True)[0] for scores in drawn]))


def practically_the_same(better: Array, worse: Array, num_seeds: int, reps: int, rng: np.random.Generator) -> float:
    """How often two configurations are called practically the same where delta is what they differ by:
    at most 5% are promised.
    """
    delta = float(better.mean() - worse.mean())
    drawn = (np.stack([sampler(scores)(rng, (num_seeds,)) for scores in (better, worse)]) for _ in range(reps))
    return float(np.mean([len(practically_best(pd.DataFrame(scores), delta)) > 0 for scores in drawn]))


def tables(reps: int, rng: np.random.Generator) -> list[Table]:
    """The tables of the page on calibration; none where nothing was measured.

    Args:
        reps: Studies per cell.
        rng: Where the draws come from.
    """
    found = pools()
    rows, of_pairs = [], []
    for env, of_env in found.items():
        for config, scores in of_env.items():
            fails = float((scores < FAILS_BELOW[env]).mean())
            numbers = [
                *(failure_coverage(fails, n, jeffreys_interval) for n in (5, 10, 30)),
                *(bound_coverage(sampler(scores), n, reps, rng) for n in (29, 60)),
                *wrongly_equivalent(sampler(scores), 2, 10, reps, rng),
                *leader_set(sampler(scores), 5, reps, rng),
                called_different(scores, scores, reps, rng)[0],
            ]
            rows.append(
                (
                    f"{env}, {config} ({len(scores)})",
                    f"{100 * fails:.0f}",
                    *(f"{100 * number:.1f}" for number in numbers),
                )
            )
        if len(of_env) == 2:
            of_pairs.append(_pair(env, of_env, reps, rng))
    if not rows:
        return []
    each = Table(
        "On the scores of real runs, percent",
        (
            "configuration (seeds)", "fail", *(f"failures, {n} seeds" for n in (5, 10, 30)),
            *(f"bound, {n} seeds" for n in (29, 60)), "wrongly the same", "rightly the same",
            "leaders miss a given one", "leaders miss any", "called different",
        ),
        tuple(rows),
        f"Studies are drawn with replacement from the scores of {NUM_SEEDS} seeds "
        "(`python -m benchmarks.calibration.pools`), which are the truth. "
        f"fail: seeds below {', '.join(f'{below:g} ({env})' for env, below in FAILS_BELOW.items())}. "
        "failures: coverage of Jeffreys' interval, exact. bound: tolerance bounds that hold. "
        "wrongly, rightly the same: two configurations, 10 seeds, as in the table on simulated scores. "
        "leaders: six equal configurations, 5 seeds. called different: two equal configurations in a sequential "
        f"comparison of {DESIGN.looks} looks of {DESIGN.seeds_per_look} seeds. Promised: 95 of failures and bounds; "
        "at most 5 of wrongly the same, leaders that miss a given one and called different.",
    )  # fmt: skip
    both = Table(
        "Two real configurations, percent of studies",
        (
            "better, worse", "means", "leaders miss the better, 5 seeds", "10 seeds", "wrongly the same, 5 seeds",
            "10 seeds", "called different", "seeds of each",
        ),
        tuple(of_pairs),
        "wrongly the same: delta is the difference of their means, at most 5 are promised. called different: "
        f"in the sequential comparison, which takes as many seeds of each on average, and {DESIGN.most_seeds} at most.",
    )  # fmt: skip
    return [each, both] if of_pairs else [each]


def _pair(env: str, of_env: Mapping[str, Array], reps: int, rng: np.random.Generator) -> tuple[str, ...]:
    (better, first), (worse, second) = sorted(of_env.items(), key=lambda one: -one[1].mean())
    shares = [miss(first, second, n, reps, rng) for miss in (better_left_out, practically_the_same) for n in (5, 10)]
    power, seeds = called_different(first, second, reps, rng)
    means = f"{first.mean():.0f}, {second.mean():.0f}"
    return (
        f"{env}: {better}, {worse}",
        means,
        *(f"{100 * share:.1f}" for share in shares),
        f"{100 * power:.0f}",
        f"{seeds:.1f}",
    )
