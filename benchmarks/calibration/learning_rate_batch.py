"""How often the 95% intervals of `analysis.questions.learning_rate_batch` cover the truth, on simulated studies.

The simulated curves are shaped like PPO's on CartPole: a slow rise with the learning rate, a top, and a fall that
levels off; the noise grows towards high learning rates, where single seeds collapse. Batches differ in level, height
and width, as measured ones do.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.questions.batch_tradeoff import batch_tradeoff
from analysis.questions.learning_rate_batch import best_learning_rates, exponent
from analysis.stats.interval import Array

GRIDS: dict[str, tuple[tuple[float, ...], tuple[int, ...]]] = {
    "3 x 3": ((3e-4, 3e-3, 3e-2), (512, 2000, 4000)),
    "5 x 3": ((3e-4, 1e-3, 3e-3, 1e-2, 3e-2), (512, 2000, 4000)),
    "6 x 4": ((1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2), (512, 1024, 2000, 4000)),
}
"""The default study's grid, and larger ones: learning rates, batches."""

BUDGET_ENV_STEPS = 60_000


@dataclass(frozen=True)
class Curves:
    """Where simulated curves come from; the measure's unit is that of a return between 9 and `ceiling`.

    Attributes:
        peak: Value at the best learning rate, before the ceiling.
        drop: Fall at a distance of one width.
        width_below: Decades.
        width_above: Decades.
        noise: Standard deviation of seeds at the best learning rate.
        noise_below: What a decade below adds to it.
        noise_above: What a decade above adds to it.
        collapse: Share of seeds that collapse far above the best learning rate.
        ceiling: No seed comes above it.
        variation: Log standard deviation with which drop and widths differ between batches.
        level: Standard deviation with which batches differ in level.
    """

    peak: float = 440.0
    drop: float = 110.0
    width_below: float = 1.2
    width_above: float = 0.8
    noise: float = 20.0
    noise_below: float = 10.0
    noise_above: float = 50.0
    collapse: float = 0.0
    ceiling: float = 500.0
    variation: float = 0.1
    level: float = 15.0


UNSEEN = "a cliff above the best"
"""Curves that were thought of after the method was chosen: nothing in it was tuned on these."""

CURVES: dict[str, Curves] = {
    "area under the curve": Curves(),
    "area, one shape": Curves(variation=0.0),
    "saturated score": Curves(
        peak=520, drop=150, width_below=1.0, width_above=0.7, noise=15, noise_below=25, noise_above=60, level=0
    ),
    "collapsing seeds": Curves(width_above=0.9, noise=25, noise_above=20, collapse=0.6),
    "very different shapes": Curves(variation=0.2),
    UNSEEN: Curves(width_below=1.5, width_above=0.4, noise=30, noise_above=80, variation=0.15),
}


@dataclass(frozen=True)
class Coverage:
    """What was found.

    Attributes:
        share: Of studies whose interval holds the truth.
        width: Median width of the interval; of a learning rate or a batch, the median ratio of its ends.
        num_studies: Simulated.
    """

    share: float
    width: float
    num_studies: int


def simulate(
    curves: Curves, p: float, grid: str, num_seeds: int, rng: np.random.Generator
) -> tuple[pd.DataFrame, dict[int, float]]:
    """A study's runs with the measure `auc`, and each batch's true best learning rate, which goes as batch^p.

    Args:
        curves: Where they come from.
        p: The true exponent.
        grid: A key of `GRIDS`.
        num_seeds: Of each configuration.
        rng: Draws everything, the best learning rate at batch 2000 between 2e-3 and 5e-3 too.
    """
    lrs, batches = GRIDS[grid]
    x, size = np.log10(lrs), np.array(batches, dtype=float)
    best = np.log10(3e-3) + rng.uniform(-0.2, 0.2) + p * np.log10(size / 2000)

    def varied() -> Array:
        return np.asarray(np.exp(curves.variation * rng.standard_normal((len(size), 1))))

    away = x - best[:, None]
    bend = (away / np.where(away < 0, curves.width_below * varied(), curves.width_above * varied())) ** 2
    mean = (
        curves.peak
        + curves.level * rng.standard_normal((len(size), 1))
        - curves.drop * varied() * bend / (1 + bend / 5)
    )
    noise = curves.noise + curves.noise_below * np.clip(-away, 0, 1.5) + curves.noise_above * np.maximum(away, 0)
    value = mean[..., None] + noise[..., None] * rng.standard_normal((*mean.shape, num_seeds))
    collapses = rng.random(value.shape) < (curves.collapse / (1 + np.exp(-(away - 0.9) / 0.15)))[..., None]
    value = np.where(collapses, rng.uniform(100, 300, value.shape), value)
    value = np.clip(value, 9, curves.ceiling)
    return frame(lrs, batches, value), {b: float(10**z) for b, z in zip(batches, best, strict=True)}


def frame(lrs: tuple[float, ...], batches: tuple[int, ...], value: Array, measure: str = "auc") -> pd.DataFrame:
    """Runs in the shape that `analysis.load` gives, with one measure.

    Args:
        lrs: (num_lrs,)
        batches: (num_batches,)
        value: (num_batches, num_lrs, num_seeds)
        measure: Its name.
    """
    b, x, seed = (a.ravel() for a in np.meshgrid(batches, lrs, range(value.shape[2]), indexing="ij"))
    return pd.DataFrame(
        {
            "config": pd.Categorical.from_codes(
                np.repeat(np.arange(value[..., 0].size), value.shape[2]), [str(k) for k in range(value[..., 0].size)]
            ),
            "seed": seed,
            "repeat": 0,
            "status": "finished",
            "failure": "",
            "diverged": False,
            "exploratory": False,
            "algorithm": "ppo",
            "budget_env_steps": BUDGET_ENV_STEPS,
            "target": 475.0,
            "train_batch_size_total": b,
            "lr": x,
            measure: value.ravel(),
        }
    )


def exponent_coverage(
    curves: Curves, p: float, grid: str, num_seeds: int, num_studies: int, rng: np.random.Generator
) -> Coverage:
    """How often the exponent's interval holds the true one."""
    found = [exponent(simulate(curves, p, grid, num_seeds, rng)[0]) for _ in range(num_studies)]
    return _coverage([e.low <= p <= e.high for e in found], [e.high - e.low for e in found])


def best_lr_coverage(
    curves: Curves, grid: str, num_seeds: int, num_studies: int, rng: np.random.Generator, p: float = 0.5
) -> Coverage:
    """How often a batch's best learning rate lies in its interval, all batches together."""
    hits: list[bool] = []
    widths: list[float] = []
    for _ in range(num_studies):
        runs, truth = simulate(curves, p, grid, num_seeds, rng)
        for row in best_learning_rates(runs, rng).itertuples():
            lr = truth[int(row.train_batch_size_total)]
            hits.append((row.best_lr_low <= lr or row.low_open) and (lr <= row.best_lr_high or row.high_open))
            widths.append(row.best_lr_high / row.best_lr_low)
    return _coverage(hits, widths)


def critical_batch_coverage(
    critical: float,
    num_seeds: int,
    num_studies: int,
    rng: np.random.Generator,
    emin: float = 12_000,
    scatter: float = 0.25,
    grid: str = "6 x 4",
) -> Coverage:
    """How often the critical batch lies in its interval, runs over the budget censored
    and the best learning rate searched for.

    Args:
        critical: The true one, env steps.
        num_seeds: Of each configuration.
        num_studies: Simulated.
        rng: Draws everything.
        emin: Env steps to target as the batch goes to zero.
        scatter: Log standard deviation of env steps to target over seeds.
        grid: A key of `GRIDS`.
    """
    lrs, batches = GRIDS[grid]
    size, x = np.array(batches, dtype=float), np.log10(lrs)
    hits, widths = [], []
    for _ in range(num_studies):
        away = x - (np.log10(4e-3) + 0.3 * np.log10(size / 2000))[:, None]
        log_steps = np.log(emin * (1 + size / critical))[:, None] + 1.2 * away**2
        steps = np.exp(log_steps[..., None] + scatter * rng.standard_normal((*away.shape, num_seeds)))
        found = batch_tradeoff(
            frame(lrs, batches, np.where(steps > BUDGET_ENV_STEPS, np.nan, steps), "env_steps_to_target"), rng
        )
        low, high = found.critical_batch.low, found.critical_batch.high
        if low == low:  # fewer than three batches may reach the target: no fit
            hits.append(low <= critical <= high)
            widths.append(high / low)
    return _coverage(hits, widths)


def _coverage(hits: list[bool], widths: list[float]) -> Coverage:
    return Coverage(float(np.mean(hits)), float(np.median(widths)), len(hits))
