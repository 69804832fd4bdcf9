"""Do the tests keep their promise?

Studies whose truth is known, simulated and drawn from real runs.
"""

from collections.abc import Callable, Mapping

import numpy as np

from analysis.stats.comparisons import leaders, p_values, probability_of_improvement
from analysis.stats.interval import Array
from analysis.stats.moderated import paired_differences
from benchmarks.calibration.batch_size import tables as batch_size_tables
from benchmarks.calibration.learning_rate_batch import (
    CURVES,
    GRIDS,
    best_lr_coverage,
    critical_batch_coverage,
    exponent_coverage,
)
from benchmarks.calibration.on_pools import tables as pool_tables
from benchmarks.calibration.robustness import tables as robustness_tables
from benchmarks.support.harness import Report, Table

Sampler = Callable[[np.random.Generator, tuple[int, ...]], Array]
TRUTH_DRAWS = 1_000_000
CHUNK = 500
"""Studies simulated at once."""


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
    tables: list[Table] = []
    rows, worst_alarm = [], 0.0
    for name, shape in SHAPES.items():
        cells = [
            100 * risk
            for k, n in ((15, 3), (15, 5), (15, 10), (4, 5), (2, 5))
            for risk in false_alarms(shape, k, n, few, rng)
        ]
        worst_alarm = max(worst_alarm, *cells)
        rows.append((name, *(f"{c:.1f}" for c in cells)))
    columns = tuple(
        f"{k} x {n}, {risk}" for k, n in ((15, 3), (15, 5), (15, 10), (4, 5), (2, 5)) for risk in ("any", "left out")
    )
    tables.append(
        Table(
            "Identical configurations called different, percent of studies",
            ("scores over seeds", *columns),
            tuple(rows),
            "any: some pair is called different after Holm's correction; left out: a given configuration, "
            "the best one say, is not among the leaders. Both are promised to be at most 5.",
        )
    )
    rows = [
        (
            f"{shift:g} standard deviations",
            *(f"{100 * improvement_coverage(n, shift, few, rng):.1f}" for n in (3, 5, 10)),
        )
        for shift in (0.0, 0.5, 1.0, 2.0)
    ]
    tables.append(
        Table(
            "Coverage of the probability of improvement, percent",
            ("two normal samples apart by", "3 seeds", "5 seeds", "10 seeds"),
            tuple(rows),
        )
    )
    tables += _scaling_tables(12 if quick else 120, rng)
    tables += robustness_tables(SHAPES, few, np.random.default_rng(1))
    tables += pool_tables(few, np.random.default_rng(3))
    tables += batch_size_tables(SHAPES, few, np.random.default_rng(4))
    return Report(
        name="calibration",
        title="Calibration of the statistics",
        compared=(
            f"Simulated studies with a fixed generator, {few:,} per cell. Scores lie between 0 and 500, as CartPole's "
            "do. Intervals have [a page of their own](intervals.md)."
        ),
        verdict=_verdict(worst_alarm, few),
        tables=tuple(tables),
    )


def _verdict(worst_alarm: float, num_studies: int) -> str:
    error = float(np.sqrt(worst_alarm * (100 - worst_alarm) / num_studies))
    return (
        f"Identical configurations are called different in at most {worst_alarm:.1f}% of studies (standard error "
        f"{error:.1f}), the target is 5."
    )


def _scaling_tables(num_studies: int, rng: np.random.Generator) -> list[Table]:
    rows = []
    for name, curves in CURVES.items():
        for grid in GRIDS:
            exponents = [
                exponent_coverage(curves, p, grid, n, num_studies, rng) for n in (3, 5, 10) for p in (0.0, 0.5, 1.0)
            ]
            best = [best_lr_coverage(curves, grid, n, num_studies // 3, rng) for n in (3, 5, 10)]
            rows.append((f"{name}, {grid}", *(f"{100 * c.share:.0f}" for c in (*exponents, *best))))
    columns = [f"{n} seeds, p = {p:g}" for n in (3, 5, 10) for p in (0.0, 0.5, 1.0)]
    exponent_table = Table(
        "Coverage of the exponent and of the best learning rate, percent",
        ("curves, learning rates x batches", *columns, *(f"best lr, {n} seeds" for n in (3, 5, 10))),
        tuple(rows),
        f"{num_studies} simulated studies per cell of the exponent, {num_studies // 3} of the best learning rate, "
        "all their batches. The method was chosen for its coverage on these families of curves, with other draws, "
        "all but the last: where the measure falls off a cliff right above the best learning rate, "
        "a grid this coarse does not locate it, and its interval covers too rarely.",
    )
    rows = []
    for critical in (1000.0, 3000.0, 10_000.0):
        found = [critical_batch_coverage(critical, n, num_studies // 2, rng) for n in (3, 5, 10)]
        rows.append((f"{critical:,.0f}", *(f"{100 * c.share:.0f} ({c.width:.0f}x)" for c in found)))
    batch_table = Table(
        "Coverage of the critical batch, percent (median ratio of the interval's ends)",
        ("critical batch, env steps", "3 seeds", "5 seeds", "10 seeds"),
        tuple(rows),
        f"6 learning rates x 4 batches, {num_studies // 2} studies per cell, of which those with three "
        "batches at the target count.",
    )
    return [exponent_table, batch_table]
