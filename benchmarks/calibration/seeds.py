"""Do the tests keep their promise?

Studies whose truth is known, simulated and drawn from real runs.
"""

from collections.abc import Callable, Mapping

import numpy as np

from analysis.stats.comparisons import leaders, p_values, probability_of_improvement
from analysis.stats.interval import Array
from analysis.stats.moderated import paired_differences
from benchmarks.calibration import batch_size, on_pools, robustness, transfer
from benchmarks.calibration.learning_rate_batch import (
    CURVES,
    GRIDS,
    UNSEEN,
    best_lr_coverage,
    critical_batch_coverage,
    exponent_coverage,
)
from benchmarks.calibration.statistic import Statistic, table
from benchmarks.support.harness import Report

Sampler = Callable[[np.random.Generator, tuple[int, ...]], Array]
TRUTH_DRAWS = 1_000_000
CHUNK = 500
"""Studies simulated at once."""
NOTES = (
    "k x n: configurations x seeds; of curves, learning rates x batches.",
    "Identical ones: called different after Holm's correction; leaders miss a given one, the best one say.",
    "Exponent and best learning rate: the method was chosen for its coverage on tuned curves, with other draws. In "
    "unseen ones the measure falls off a cliff right above the best learning rate: a grid this coarse does not locate "
    "it, and its interval covers too rarely.",
    "Critical batch: 6 learning rates x 4 batches; of the studies, those with three batches at the target count. The "
    "ratio of an interval's ends is a median.",
)


def _two_modes(share: float, high: float, low: float) -> Sampler:
    def draw(rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        upper = rng.random(size) < share
        return np.clip(np.where(upper, rng.normal(high, 25, size), rng.normal(low, 40, size)), 0, 500)

    return draw


SHAPES: Mapping[str, Sampler] = {
    "normal, 300 +- 40": lambda rng, size: rng.normal(300, 40, size),
    "skewed low, 500 Beta(5, 1)": lambda rng, size: 500 * rng.beta(5, 1, size),
    "skewed high, 500 Beta(1, 4)": lambda rng, size: 500 * rng.beta(1, 4, size),
    "log-normal, sigma 0.6": lambda rng, size: 100 * np.exp(0.6 * rng.standard_normal(size)),
    "80% near 460, 20% near 150": _two_modes(0.8, 460, 150),
    "60% near 460, 40% near 150": _two_modes(0.6, 460, 150),
    "70% at 500, 30% near 250": lambda rng, size: np.where(rng.random(size) < 0.7, 500.0, rng.normal(250, 60, size)),
    "480 +- 60, cut off at 500": lambda rng, size: np.minimum(500, rng.normal(480, 60, size)),
}
"""Distributions of a score over seeds, as CartPole gives them: returns from 0 to 500, skewed,
of two modes, saturated."""


def false_alarms(
    shape: Sampler, num_configurations: int, num_seeds: int, reps: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Risks in studies whose configurations are all identical.

    Returns:
        How often any two are called different after correction; how often a given one is called worse than the best.
    """
    different = left_out = 0.0
    for _ in range(reps):
        values = shape(rng, (num_configurations, num_seeds))
        p = p_values(paired_differences(values)[2])
        different += bool(p.min() * len(p) <= 0.05)  # the first step of Holm's correction
        left_out += 1 - float(leaders(values, larger_is_better=True).mean())
    return different / reps, left_out / reps


def improvement_coverage(num_seeds: int, shift: float, reps: int, rng: np.random.Generator) -> float:
    """How often the interval of the probability of improvement holds the truth,
    for two normal samples a shift apart.
    """
    truth = float((rng.normal(shift, 1, TRUTH_DRAWS) > rng.normal(0, 1, TRUTH_DRAWS)).mean())
    held = 0
    for _ in range(reps):
        found = probability_of_improvement(rng.normal(shift, 1, num_seeds), rng.normal(0, 1, num_seeds))
        held += found.low <= truth <= found.high
    return held / reps


def measure(quick: bool) -> Report:
    """Simulate it all; the same numbers every time."""
    rng = np.random.default_rng(0)
    few = 500 if quick else 2000
    alarms = {
        f"{name}; {k} x {n}": false_alarms(shape, k, n, few, rng)
        for name, shape in SHAPES.items()
        for k, n in ((15, 3), (15, 5), (15, 10), (4, 5), (2, 5))
    }
    different, left_out = ({kind: shares[i] for kind, shares in alarms.items()} for i in (0, 1))
    improvement = {
        f"{shift:g} standard deviations apart; {n} seeds": improvement_coverage(n, shift, few, rng)
        for shift in (0.0, 0.5, 1.0, 2.0)
        for n in (3, 5, 10)
    }
    found = [
        Statistic("Some pair of identical ones called different", "at most 5", different, few, risk=True),
        Statistic("Leaders miss a given one of identical ones", "at most 5", left_out, few, risk=True),
        Statistic("Probability of improvement", "95", improvement, few),
        *_rates_and_batches(12 if quick else 120, rng),
        *robustness.statistics(SHAPES, few, np.random.default_rng(1)),
        *on_pools.statistics(few, np.random.default_rng(3)),
        *batch_size.statistics(SHAPES, few, np.random.default_rng(4)),
        *transfer.statistics(few // 20, np.random.default_rng(5)),
    ]
    notes = (*NOTES, *robustness.NOTES, *on_pools.NOTES, *batch_size.NOTES, *transfer.NOTES)
    return Report(
        name="calibration",
        title="Calibration of the statistics",
        compared=(
            "Simulated studies with a fixed generator. Scores lie between 0 and 500, as CartPole's do. Intervals have "
            "[a page of their own](intervals.md)."
        ),
        verdict=_verdict(100 * max(*different.values(), *left_out.values()), few),
        tables=(table(found),),
        notes="\n".join(f"- {note}" for note in notes),
    )


def _verdict(worst_alarm: float, num_studies: int) -> str:
    error = float(np.sqrt(worst_alarm * (100 - worst_alarm) / num_studies))
    return (
        f"Identical configurations are called different in at most {worst_alarm:.1f}% of studies (standard error "
        f"{error:.1f}), the target is 5."
    )


def _rates_and_batches(num_studies: int, rng: np.random.Generator) -> list[Statistic]:
    exponents: dict[str, float] = {}
    rates: dict[str, float] = {}
    for name, curves in CURVES.items():
        for grid in GRIDS:
            exponents |= {
                f"{name}, {grid}; {n} seeds, p = {p:g}": exponent_coverage(curves, p, grid, n, num_studies, rng).share
                for n in (3, 5, 10)
                for p in (0.0, 0.5, 1.0)
            }
            rates |= {
                f"{name}, {grid}; {n} seeds": best_lr_coverage(curves, grid, n, num_studies // 3, rng).share
                for n in (3, 5, 10)
            }
    batches = {
        f"{critical:,.0f} env steps; {n} seeds": critical_batch_coverage(critical, n, num_studies // 2, rng)
        for critical in (1000.0, 3000.0, 10_000.0)
        for n in (3, 5, 10)
    }
    ratios = [coverage.width for coverage in batches.values()]
    return [
        *(
            Statistic(
                f"{what}, {'unseen' if unseen else 'tuned'} curves",
                "95",
                {kind: share for kind, share in shares.items() if kind.startswith(UNSEEN) == unseen},
                num,
                digits=0,
            )
            for what, shares, num in (
                ("Exponent of the best learning rate", exponents, num_studies),
                ("Best learning rate", rates, num_studies // 3),
            )
            for unseen in (False, True)
        ),
        Statistic(
            f"Critical batch, ends {min(ratios):.0f} to {max(ratios):.0f} times apart",
            "95",
            {kind: coverage.share for kind, coverage in batches.items()},
            num_studies // 2,
            digits=0,
        ),
    ]
