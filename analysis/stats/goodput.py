"""How soon a target is reached: env steps to target and seconds an env step, estimated apart and multiplied.

The time that a training takes is T = start + E / X. E, the env steps that it needs, depends on the learning rate, the
batch and the number of environments; X, the env steps/s, on the batch and the layout: runners, and environments of
each. What a machine does to X it does to all seeds alike, while E varies by half from seed to seed. Measuring whole
trainings in every layout spends most of its time on that again and again; apart, E is learned from trials packed side
by side, each for all layouts of as many environments, and X in seconds. Pollux (Qiao et al., OSDI 2021) has the same
product for supervised training, as goodput: efficiency times throughput.

`benchmarks/calibration/goodput.py` measures what a choice by the product costs against the best there is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import nnls

from analysis.stats.interval import Array
from analysis.stats.moderated import moderate

NUM_DRAWS = 2000
INTERVAL = 0.9
"""Of the minutes: what is predicted has no test to pass."""
NEAR = 0.1
"""Within this share of the soonest, configurations are called about as soon."""

_LENGTHS = (0.4, 0.8, 1.6)
"""Decades of learning rate, batch and environments over which log E bends; averaged by how well each describes it."""
_OF_ENVS = 0.3
"""Standard deviation of the exponent of E in the number of environments, before any other number was tried."""
_PRIOR_SEEDS = 4
"""Seeds that the spread of the other cells counts as."""
_LEAST_NOISE = 0.02
"""Relative standard deviation of a measured throughput, at least: rounds of one study agree better than machines do."""


@dataclass(frozen=True)
class Learned:
    """What was learned of env steps to target, a cell a (learning rate, batch, environments).

    Attributes:
        place: (num_cells, 3) decimal logarithms of the three.
        log_steps: (num_cells,) natural logarithm of the mean env steps over seeds, restricted to the budget.
        noise: (num_cells,) its variance.
    """

    place: Array
    log_steps: Array
    noise: Array

    @classmethod
    def of(cls, trials: pd.DataFrame) -> "Learned":
        """From trials.

        Means of env steps and not of their logarithms: a seed in five that takes ten times as long has to be paid for.

        Args:
            trials: A row a trial: `lr`, `batch`, `envs`, `env_steps` to target, the budget where it was never held.
        """
        cells = trials.groupby(["lr", "batch", "envs"])["env_steps"].agg(["mean", "var", "count"]).reset_index()
        relative = cells["var"].to_numpy(float) / cells["mean"].to_numpy(float) ** 2
        free = cells["count"].to_numpy(float) - 1
        known = free > 0
        pooled = (relative[known] * free[known]).sum() / free.sum() if known.any() else 0.25
        spread, _ = moderate(relative, np.where(known, free, 0.0), pooled, min(_PRIOR_SEEDS, max(1.0, free.sum())))
        noise = np.asarray(spread) / cells["count"].to_numpy(float)
        place = np.log10(cells[["lr", "batch", "envs"]].to_numpy(float))
        return cls(place, np.log(cells["mean"].to_numpy(float)), np.maximum(noise, 1e-4))

    def draws(self, at: Array, rng: np.random.Generator, num_draws: int = NUM_DRAWS) -> Array:
        """Draws of log E.

        A Gaussian process over the logarithms of learning rate and batch, plus a power of the number of environments
        that is common to all, plus what is left of any of the three.

        Args:
            at: (num_points, 3) decimal logarithms of learning rate, batch and environments.
            rng: For the draws.
            num_draws: How many.

        Returns:
            (num_draws, num_points).
        """
        centre, envs = self.log_steps.mean(), self.place[:, 2].mean()
        values, scale = self.log_steps - centre, max(0.1, float(self.log_steps.std()))
        fits = [self._fit(at, values, scale, length, envs) for length in _LENGTHS]
        weights = np.exp(np.array([fit[2] for fit in fits]) - max(fit[2] for fit in fits))
        which = rng.choice(len(fits), size=num_draws, p=weights / weights.sum())
        found = np.empty((num_draws, len(at)))
        for i, (mean, covariance, _) in enumerate(fits):
            mine = which == i
            found[mine] = rng.multivariate_normal(mean, covariance, size=int(mine.sum()), method="cholesky")
        return np.asarray(centre + found)

    def _fit(self, at: Array, values: Array, scale: float, length: float, envs: float) -> tuple[Array, Array, float]:
        def kernel(a: Array, b: Array) -> Array:
            apart = (a[:, None] - b[None]) / length
            of_both = np.exp(-0.5 * (apart[..., :2] ** 2).sum(axis=-1))
            of_all = np.exp(-0.5 * (apart**2).sum(axis=-1))
            power = (np.log(10) * _OF_ENVS) ** 2 * np.outer(a[:, 2] - envs, b[:, 2] - envs)
            return np.asarray(scale**2 * (of_both + 0.1 * of_all + 1.0) + power)

        noisy = kernel(self.place, self.place) + np.diag(self.noise)
        factor = np.linalg.cholesky(noisy)
        half = np.linalg.solve(factor, values)
        across = np.linalg.solve(factor, kernel(self.place, at))
        covariance = kernel(at, at) - across.T @ across + 1e-9 * np.eye(len(at))
        likelihood = float(-0.5 * half @ half - np.log(np.diag(factor)).sum())
        return across.T @ half, covariance, likelihood


@dataclass(frozen=True)
class Measured:
    """What was measured of throughput: seconds an env step are those of the layout, plus what an iteration takes
    whatever its size, shared by its batch: 1 / X = t(layout) + h / B.

    Attributes:
        layouts: Names, sorted.
        layout: (num_rounds,) index of each round's.
        batch: (num_rounds,) env steps.
        log_seconds: (num_rounds,) natural logarithm of seconds an env step.
        noise: Relative standard deviation of a round.
    """

    layouts: tuple[str, ...]
    layout: npt.NDArray[np.int64]
    batch: Array
    log_seconds: Array
    noise: float

    @classmethod
    def of(cls, rounds: pd.DataFrame) -> "Measured":
        """From rounds.

        Args:
            rounds: A row a round: `layout`, `batch`, `env_steps_per_s`.
        """
        layouts = tuple(sorted(rounds["layout"].unique()))
        log_seconds = -np.log(rounds["env_steps_per_s"].to_numpy(float))
        within = rounds.assign(log_s=log_seconds).groupby(["layout", "batch"])["log_s"]
        free = int((within.count() - 1).sum())
        spread = float(np.sqrt((within.var().fillna(0.0) * (within.count() - 1)).sum() / free)) if free else 0.05
        index = np.array([layouts.index(name) for name in rounds["layout"]])
        return cls(layouts, index, rounds["batch"].to_numpy(float), log_seconds, max(_LEAST_NOISE, spread))

    def draws(
        self, layouts: Sequence[str], batches: Array, rng: np.random.Generator, num_draws: int = NUM_DRAWS
    ) -> Array:
        """Draws of log X: the rounds drawn anew with their noise, and the law fitted to each (parametric bootstrap).

        Args:
            layouts: (num_points,) measured ones.
            batches: (num_points,) env steps.
            rng: For the draws.
            num_draws: How many.

        Returns:
            (num_draws, num_points).
        """
        design = np.zeros((len(self.layout), len(self.layouts) + 1))
        design[np.arange(len(self.layout)), self.layout] = 1.0
        design[:, -1] = 1.0 / self.batch
        wanted = np.array([self.layouts.index(name) for name in layouts])
        found = np.empty((num_draws, len(wanted)))
        for i in range(num_draws):
            seconds = np.exp(self.log_seconds + rng.normal(0.0, self.noise, len(self.log_seconds)))
            fitted, _ = nnls(design / seconds[:, None], np.ones(len(seconds)))  # relative errors
            found[i] = -np.log(np.maximum(fitted[wanted] + fitted[-1] / batches, 1e-12))
        return found


def soonest(
    candidates: pd.DataFrame, trials: pd.DataFrame, rounds: pd.DataFrame, rng: np.random.Generator
) -> pd.DataFrame:
    """Minutes to target of each candidate, by the product, and how sure it is to be the soonest.

    Args:
        candidates: A row a configuration: `lr`, `batch`, `envs`, `layout`.
        trials: As of `Learned.of`.
        rounds: As of `Measured.of`; with `start_s`, where it is known.
        rng: For the draws.

    Returns:
        The candidates, the soonest first, with `minutes`, median, `minutes_low` and `minutes_high`, a 90% interval;
        `p_best`, the probability to be the soonest; `regret`, by what share it is expected to take longer than the
        soonest one; `is_near`, whether that is at most 10%.
    """
    at = np.log10(candidates[["lr", "batch", "envs"]].to_numpy(float))
    cells, which = np.unique(at, axis=0, return_inverse=True)
    log_steps = Learned.of(trials).draws(cells, rng)[:, which.ravel()]
    pairs, of_pair = np.unique(candidates[["layout", "batch"]].astype(str).agg("|".join, axis=1), return_inverse=True)
    first = [int(np.flatnonzero(of_pair == i)[0]) for i in range(len(pairs))]
    layouts, batches = candidates["layout"].iloc[first].tolist(), candidates["batch"].to_numpy(float)[first]
    log_speed = Measured.of(rounds).draws(layouts, batches, rng)[:, of_pair]
    start = rounds.groupby("layout")["start_s"].mean() if "start_s" in rounds else pd.Series(dtype=float)
    start_s = candidates["layout"].map(start).fillna(0.0).to_numpy(float)
    minutes = (start_s + np.exp(log_steps - log_speed)) / 60
    best = minutes.min(axis=1, keepdims=True)
    low, median, high = np.quantile(minutes, [(1 - INTERVAL) / 2, 0.5, (1 + INTERVAL) / 2], axis=0)
    regret = (minutes / best - 1).mean(axis=0)
    found = candidates.assign(
        minutes=median,
        minutes_low=low,
        minutes_high=high,
        p_best=(minutes == best).mean(axis=0),
        regret=regret,
        is_near=regret <= max(NEAR, float(regret.min())),
    )
    return found.sort_values("regret", kind="stable", ignore_index=True)
