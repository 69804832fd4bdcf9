"""Do failures, tolerance bounds, equivalence, the leader set and sequential comparisons keep their promises
on scores of real runs?

Studies are drawn with replacement from the seeds of `pools.py`: what these come to is the truth.
"""

from collections import defaultdict
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
from benchmarks.calibration.statistic import Statistic

DESIGN = Design(seeds_per_look=5, looks=5)
FAILS_BELOW: Mapping[str, float] = {"cartpole": 400.0, "acrobot": -250.0}
"""So that some seeds of each configuration fail, and some don't."""
NOTES = (
    f"Real scores: studies are drawn with replacement from {NUM_SEEDS} seeds of each of two configurations "
    "(`python -m benchmarks.calibration.pools`), which are the truth. Failures: seeds below "
    f"{', '.join(f'{below:g} ({env})' for env, below in FAILS_BELOW.items())}. Practically the same: 2 x 10; of two "
    "real ones, delta is what their means differ by. Leaders: 5 seeds. Called different: in a sequential comparison of "
    f"{DESIGN.looks} looks of {DESIGN.seeds_per_look} seeds.",
)


def called_different(first: Array, second: Array, reps: int, rng: np.random.Generator) -> float:
    """How often a sequential comparison calls two configurations different."""
    verdicts = [
        compare(np.stack([sampler(scores)(rng, (DESIGN.most_seeds,)) for scores in (first, second)]), DESIGN)
        for _ in range(reps)
    ]
    return float(np.mean([v.higher.any() for v in verdicts]))


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


def statistics(reps: int, rng: np.random.Generator) -> list[Statistic]:
    """What the page on calibration says of them; nothing where nothing was measured.

    Args:
        reps: Studies of each kind.
        rng: Where the draws come from.
    """
    cells: dict[str, dict[str, float]] = defaultdict(dict)
    for env, of_env in pools().items():
        for config, scores in of_env.items():
            name = f"{env}, {config}"
            fails = float((scores < FAILS_BELOW[env]).mean())
            cells["fail"] |= {f"{name}; {n} seeds": failure_coverage(fails, n, jeffreys_interval) for n in (5, 10, 30)}
            cells["bound"] |= {f"{name}; {n} seeds": bound_coverage(sampler(scores), n, reps, rng) for n in (29, 60)}
            cells["wrongly"][name] = wrongly_equivalent(sampler(scores), 2, 10, reps, rng)[0]
            cells["given"][name] = leader_set(sampler(scores), 5, reps, rng)[0]
            cells["equal"][name] = called_different(scores, scores, reps, rng)
        if len(of_env) == 2:
            worse, better = sorted(of_env.values(), key=lambda scores: scores.mean())
            cells["better"] |= {f"{env}; {n} seeds": better_left_out(better, worse, n, reps, rng) for n in (5, 10)}
            cells["same"] |= {f"{env}; {n} seeds": practically_the_same(better, worse, n, reps, rng) for n in (5, 10)}
            cells["different"][env] = called_different(better, worse, reps, rng)
    found = [
        Statistic("Real scores: probability of failure, Jeffreys", "95", cells["fail"], 0),
        Statistic("Real scores: lower tolerance bound", "at least 95", cells["bound"], reps),
        Statistic("Real scores: wrongly called practically the same", "at most 5", cells["wrongly"], reps, risk=True),
        Statistic("Real scores: leaders miss a given one of six equal", "at most 5", cells["given"], reps, risk=True),
        Statistic("Real scores: two equal ones called different", "at most 5", cells["equal"], reps, risk=True),
        Statistic("Two real ones: leaders miss the better", "at most 5", cells["better"], reps, risk=True),
        Statistic("Two real ones: wrongly called practically the same", "at most 5", cells["same"], reps, risk=True),
        Statistic("Two real ones: called different", "", cells["different"], reps, digits=0),
    ]
    return [statistic for statistic in found if statistic.shares]
