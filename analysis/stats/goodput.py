"""How soon a target is reached: env steps to target and seconds an env step, estimated apart and multiplied.

The time that a training takes is T = start + E / X. E, the env steps that it needs, depends on the learning rate, the
batch and the number of environments; X, the env steps/s, on the batch and the layout: runners, and environments of
each. What a machine does to X it does to all seeds alike, while E varies by half from seed to seed. Measuring whole
trainings in every layout spends most of its time on that again and again; apart, E is learned from trials packed side
by side, each for all layouts of as many environments, and X in seconds. Pollux (Qiao et al., OSDI 2021) has the same
product for supervised training, as goodput: efficiency times throughput.

Of an algorithm that samples while it learns, E depends on the staleness of its samples as well: the updates between the
policy that sampled and the one that learns (policy lag in Espeholt et al. 2018, arXiv 1802.01561). A layout and its
machine set it, so it is measured with X, and E is learned at more than one.

`benchmarks/search/goodput.py` measures what a choice by the product costs against the best there is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from analysis.stats.interval import Array
from analysis.stats.moderated import moderate

NUM_DRAWS = 2000
INTERVAL = 0.9
"""Of the minutes: what is predicted has no test to pass."""
NEAR = 0.1
"""Within this share of the soonest, configurations are called about as soon."""

_LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Decades of learning rate, batch and environments over which log E bends; averaged by how well each describes it."""
_EXPONENTS = (0.3, 0.3)
"""Standard deviations of the exponents of E in the number of environments and in 1 + staleness, before any other of
either was tried."""
_PRIOR_SEEDS = 20
"""Seeds that the spread of the other cells counts as. With 4 a cell that was lucky looks sure: what is chosen takes 5%
longer than the soonest on Acrobot, with 20 it takes 2% (60 replays of `benchmarks/search/goodput.py`)."""
_UNKNOWN_SPREAD = 0.25
"""Relative variance of env steps over seeds, where no cell has two."""
_UNKNOWN_NOISE = 0.05
"""Relative standard deviation of a throughput that was measured once."""
_START_NOISE = 0.1
"""Relative standard deviation of the seconds before training, from a measurement to a training, for all alike."""
_LEAST_NOISE = 0.02
"""Relative standard deviation of a measured throughput, at least: rounds of one study agree better than machines do."""


@dataclass(frozen=True)
class Learned:
    """What was learned of env steps to target, a cell a (learning rate, batch, ..., environments), and where it is
    known, of a staleness.

    Attributes:
        place: (num_cells, num_axes) decimal logarithms of these, the number of environments last; with staleness, that
            of 1 + updates after it.
        log_steps: (num_cells,) natural logarithm of the mean env steps over seeds, restricted to the budget.
        noise: (num_cells,) its variance.
        num_common: How many of the last axes change E by a power that is common to all: 1, or with staleness 2.
    """

    place: Array
    log_steps: Array
    noise: Array
    num_common: int = 1

    @classmethod
    def of(cls, place: Array, env_steps: Array, staleness: Array | None = None) -> "Learned":
        """From trials.

        Means of env steps and not of their logarithms: a seed in five that takes ten times as long has to be paid for.

        Args:
            place: (num_trials, num_axes) decimal logarithms, as `place`, without staleness.
            env_steps: (num_trials,) until the target; the budget where it was never held.
            staleness: (num_trials,) as `log_staleness` has it; None: unknown, or the same wherever samples come from.
        """
        places = np.asarray(place) if staleness is None else np.column_stack([place, staleness])
        cells, which, count = np.unique(places, axis=0, return_inverse=True, return_counts=True)
        which, free = which.ravel(), count - 1.0
        mean = np.bincount(which, env_steps) / count
        squares = np.bincount(which, (env_steps - mean[which]) ** 2) / mean**2
        relative = np.divide(squares, free, out=np.full(len(free), np.nan), where=free > 0)
        pooled = squares.sum() / free.sum() if free.any() else _UNKNOWN_SPREAD
        spread, _ = moderate(relative, free, pooled, min(_PRIOR_SEEDS, max(1.0, free.sum())))
        num_common = 1 if staleness is None else 2
        return cls(cells, np.log(mean), np.maximum(spread / count, 1e-4), num_common)

    def draws(self, at: Array, rng: np.random.Generator, num_draws: int = NUM_DRAWS) -> Array:
        """Draws of log E.

        A Gaussian process over the logarithms of learning rate, batch and what else learning depends on, plus powers
        of the number of environments and of 1 + staleness that are common to all, plus what is left of any of these.

        Args:
            at: (num_points, num_axes) as `place`.
            rng: For the draws.
            num_draws: How many.

        Returns:
            (num_draws, num_points).
        """
        centre = self.log_steps.mean()
        values, scale = self.log_steps - centre, max(0.1, float(self.log_steps.std()))
        fits = [self._fit(at, values, scale, length) for length in _LENGTHS]
        weights = np.exp(np.array([fit[2] for fit in fits]) - max(fit[2] for fit in fits))
        which = rng.choice(len(fits), size=num_draws, p=weights / weights.sum())
        found = np.empty((num_draws, len(at)))
        for i, (mean, covariance, _) in enumerate(fits):
            mine = which == i
            found[mine] = rng.multivariate_normal(mean, covariance, size=int(mine.sum()), method="cholesky")
        return np.asarray(centre + found)

    def _fit(self, at: Array, values: Array, scale: float, length: float) -> tuple[Array, Array, float]:
        num_axes = self.place.shape[1]
        common = range(num_axes - self.num_common, num_axes)
        centres = [self.place[:, axis].mean() for axis in common]

        def kernel(a: Array, b: Array) -> Array:
            apart = (a[:, None] - b[None]) / length
            of_others = np.exp(-0.5 * (apart[..., : common.start] ** 2).sum(axis=-1))
            of_all = np.exp(-0.5 * (apart**2).sum(axis=-1))
            found = np.asarray(scale**2 * (of_others + 0.1 * of_all + 1.0))
            for axis, centre, exponent in zip(common, centres, _EXPONENTS, strict=False):
                found = found + (np.log(10) * exponent) ** 2 * np.outer(a[:, axis] - centre, b[:, axis] - centre)
            return found

        noisy = kernel(self.place, self.place) + np.diag(self.noise)
        factor = np.linalg.cholesky(noisy)
        half = np.linalg.solve(factor, values)
        across = np.linalg.solve(factor, kernel(self.place, at))
        covariance = kernel(at, at) - across.T @ across + 1e-9 * np.eye(len(at))
        likelihood = float(-0.5 * half @ half - np.log(np.diag(factor)).sum())
        return across.T @ half, covariance, likelihood


def log_staleness(updates: Array, alike: Sequence[str]) -> Array | None:
    """The staleness of trials as an axis of `Learned.place`. It differs a little from seed to seed: trials that are
    alike have their mean, so that they are one cell, and where it is not known of any of them, that of all trials.

    Args:
        updates: (num_trials,) between the policy that sampled and the one that learns, mean over a trial; NaN where it
            is not known.
        alike: (num_trials,) the same name for trials of the same settings on a machine that is as busy.

    Returns:
        (num_trials,) decimal logarithms of 1 + updates; None if it is not known of any.
    """
    logs = np.log10(1.0 + np.asarray(updates, dtype=float))
    known = np.isfinite(logs)
    if not known.any():
        return None
    _, which = np.unique(alike, return_inverse=True)
    number, total = np.bincount(which, known), np.bincount(which, np.where(known, logs, 0.0))
    means = np.divide(total, number, out=np.full(len(number), logs[known].mean()), where=number > 0)
    return np.asarray(means[which])


@dataclass(frozen=True)
class Measured:
    """What was measured of throughput: seconds an env step are those of the layout, plus what an iteration takes
    whatever its size, shared by its batch, 1 / X = t(layout) + h / B; or, where each env step is learned from in as
    many batches whatever their size, what their rows take, 1 / X = t(layout) + c B: whichever describes it better.
    What the learner does with an env step, such as updates for each, adds its own seconds, t(layout) + u(work), and has
    its own h or c. The staleness of samples, updates between the policy that sampled and the one that learns, is
    q(work) + d(layout) / B: what is on its way in a layout, in batches.

    Attributes:
        layouts: Names, sorted.
        layout: (num_rounds,) index of each round's.
        works: Names of what the learner does with an env step, sorted.
        work: (num_rounds,) index of each round's.
        batch: (num_rounds,) env steps.
        log_seconds: (num_rounds,) natural logarithm of seconds an env step.
        noise: Relative standard deviation of a round.
        staleness: (num_rounds,) NaN where it is not known; None if nowhere.
    """

    layouts: tuple[str, ...]
    layout: npt.NDArray[np.int64]
    works: tuple[str, ...]
    work: npt.NDArray[np.int64]
    batch: Array
    log_seconds: Array
    noise: float
    staleness: Array | None = None

    @classmethod
    def of(
        cls,
        layouts: Sequence[str],
        batch: Array,
        env_steps_per_s: Array,
        works: Sequence[str] | None = None,
        staleness: Array | None = None,
    ) -> "Measured":
        """From rounds.

        Args:
            layouts: (num_rounds,) names.
            batch: (num_rounds,) env steps.
            env_steps_per_s: (num_rounds,)
            works: (num_rounds,) names; None: all do the same.
            staleness: (num_rounds,) updates between the policy that sampled and the one that learns; NaN where unknown.
        """
        works = [""] * len(layouts) if works is None else works
        names, kinds = tuple(sorted({*layouts})), tuple(sorted({*works}))
        index = np.array([names.index(name) for name in layouts])
        kind = np.array([kinds.index(name) for name in works])
        log_seconds = -np.log(env_steps_per_s)
        same = np.column_stack([index, kind, batch])
        _, which, count = np.unique(same, axis=0, return_inverse=True, return_counts=True)
        which, free = which.ravel(), int((count - 1).sum())
        apart = log_seconds - (np.bincount(which, log_seconds) / count)[which]
        spread = float(np.sqrt((apart**2).sum() / free)) if free else _UNKNOWN_NOISE
        noise = max(_LEAST_NOISE, spread)
        known = None if staleness is None or np.isnan(staleness).all() else np.asarray(staleness, dtype=float)
        return cls(names, index, kinds, kind, np.asarray(batch, dtype=float), log_seconds, noise, known)

    def draws(
        self,
        layouts: Sequence[str],
        batches: Array,
        rng: np.random.Generator,
        num_draws: int = NUM_DRAWS,
        works: Sequence[str] | None = None,
    ) -> Array:
        """Draws of log X: the rounds drawn anew with their noise, and the law fitted to each (parametric bootstrap).

        Args:
            layouts: (num_points,) measured ones.
            batches: (num_points,) env steps.
            rng: For the draws.
            num_draws: How many.
            works: (num_points,) measured ones; None where all do the same.

        Returns:
            (num_draws, num_points).
        """
        wanted, asked = self._indices(layouts, works)
        designs = [
            (self._design(self.layout, self.work, self.batch, power), self._design(wanted, asked, batches, power))
            for power in (-1, 1)
        ]
        errors = [nnls(d / np.exp(self.log_seconds)[:, None], np.ones(len(d)))[1] for d, _ in designs]
        design, at = designs[int(errors[1] < errors[0])]
        found = np.empty((num_draws, len(wanted)))
        for i in range(num_draws):
            seconds = np.exp(self.log_seconds + rng.normal(0.0, self.noise, len(self.log_seconds)))
            fitted, _ = nnls(design / seconds[:, None], np.ones(len(seconds)))  # relative errors
            found[i] = -np.log(np.maximum(at @ fitted, 1e-12))
        return found

    def log_staleness_at(self, layouts: Sequence[str], batches: Array, works: Sequence[str] | None = None) -> Array:
        """The staleness of samples by its law, as `Learned.place` has it.

        Args:
            layouts: (num_points,) measured ones.
            batches: (num_points,) env steps.
            works: (num_points,) measured ones; None where all do the same.

        Returns:
            (num_points,) decimal logarithms of 1 + updates.
        """
        assert self.staleness is not None, "there is nothing to go by"
        design, at = self._on_its_way(self.layout, self.work, self.batch), self._indices(layouts, works)
        return np.log10(1.0 + law_of_staleness(design, self.staleness, self._on_its_way(*at, batches)))

    def _indices(
        self, layouts: Sequence[str], works: Sequence[str] | None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Of points: indices of their layouts and works."""
        wanted = np.array([self.layouts.index(name) for name in layouts], np.int64)
        asked = [self.works.index(name) for name in works or [self.works[0]] * len(wanted)]
        return wanted, np.array(asked, np.int64)

    def _design(self, layout: npt.NDArray[np.int64], work: npt.NDArray[np.int64], batch: Array, power: int) -> Array:
        """(num_points, num_terms): a term for each layout, for each work if there are several, and for the batch of
        each.
        """
        of_layout, of_work = np.eye(len(self.layouts))[layout], np.eye(len(self.works))[work]
        of_batch = of_work * ((np.asarray(batch) / float(self.batch.mean())) ** power)[:, None]
        return np.hstack([of_layout, *([of_work] if len(self.works) > 1 else []), of_batch])

    def _on_its_way(self, layout: npt.NDArray[np.int64], work: npt.NDArray[np.int64], batch: Array) -> Array:
        """(num_points, num_terms): a term for each work, and for the layout, in batches."""
        in_batches = np.eye(len(self.layouts))[layout] * (float(self.batch.mean()) / np.asarray(batch))[:, None]
        return np.hstack([np.eye(len(self.works))[work], in_batches])


def law_of_staleness(design: Array, staleness: Array, at: Array) -> Array:
    """How old samples are where that was not measured: terms that are at least 0, with the least relative errors of
    1 + staleness.

    Args:
        design: (num_rounds, num_terms)
        staleness: (num_rounds,) updates; NaN where it is not known.
        at: (num_points, num_terms)

    Returns:
        (num_points,) updates.
    """
    known = np.isfinite(staleness)
    scale = 1.0 + staleness[known]
    fitted, _ = nnls(design[known] / scale[:, None], staleness[known] / scale)
    return np.asarray(at @ fitted)


def longest_start(runners: Sequence[int], measured: Sequence[tuple[int, float]]) -> Array:
    """Seconds before training, by the number of runners: the longest of as many or more, since some measurements find
    the processes of those before them. More runners than were measured start side by side, as long as the most of
    these.

    Args:
        runners: (num_candidates,) 0: none is started.
        measured: Runners and seconds of each measurement.

    Returns:
        (num_candidates,)
    """
    most = max(count for count, _ in measured)

    def longest(count: int) -> float:
        alike = [s for other, s in measured if (other == 0 if count == 0 else other >= min(count, most))]
        return max(alike, default=0.0)

    return np.array([longest(count) for count in runners], dtype=float)


@dataclass(frozen=True)
class Candidates:
    """Configurations to choose from, arrays (num_candidates,) but for their place.

    Attributes:
        place: (num_candidates, num_axes) as `Learned.place`, without staleness.
        batch: Env steps, or rows, of a training batch.
        layouts: Names.
        start_s: Seconds until training begins.
        works: Names of what the learner does with an env step; None where all do the same.
    """

    place: Array
    batch: Array
    layouts: Sequence[str]
    start_s: Array
    works: Sequence[str] | None = None

    def places(self, learned: Learned, measured: Measured) -> Array:
        """As `Learned.place`: with the staleness that was measured in their layouts, where it is known of what was
        learned.
        """
        stale = learned.num_common > 1
        own = [measured.log_staleness_at(self.layouts, self.batch, self.works)] if stale else []
        return np.column_stack([self.place, *own])


@dataclass(frozen=True)
class Spread:
    """What draws come to, arrays (num_candidates,).

    Attributes:
        median: Medians.
        low: Lower ends of 90% intervals.
        high: Upper ends.
    """

    median: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, draws: Array) -> "Spread":
        """Of draws, (num_draws, num_candidates)."""
        low, median, high = np.quantile(draws, [(1 - INTERVAL) / 2, 0.5, (1 + INTERVAL) / 2], axis=0)
        return cls(median, low, high)


@dataclass(frozen=True)
class Predicted:
    """Minutes to target of candidates, arrays (num_candidates,).

    Attributes:
        minutes: Of training and its start, until the target is held.
        env_steps: Until then.
        env_steps_per_s: Of training.
        p_best: Probability to be the soonest.
        regret: By what share each is expected to take longer than the soonest one.
    """

    minutes: Spread
    env_steps: Spread
    env_steps_per_s: Spread
    p_best: Array
    regret: Array

    @property
    def order(self) -> npt.NDArray[np.int64]:
        """Indices, the least regret first."""
        return np.argsort(self.regret, kind="stable")

    @property
    def is_near(self) -> npt.NDArray[np.bool_]:
        """Which are about as soon as the soonest one, within 10% of it; that one at least."""
        return np.asarray(self.regret <= max(NEAR, float(self.regret.min())))


def predicted(candidates: Candidates, learned: Learned, measured: Measured, rng: np.random.Generator) -> Predicted:
    """Minutes to target by the product, and how sure each candidate is to be the soonest.

    Args:
        candidates: Of measured layouts.
        learned: Env steps to target.
        measured: Throughput, and staleness where `learned` has it.
        rng: For the draws.
    """
    batch = np.asarray(candidates.batch, dtype=float)
    cells, of_cell = np.unique(candidates.places(learned, measured), axis=0, return_inverse=True)
    log_steps = learned.draws(cells, rng)[:, of_cell.ravel()]
    works = candidates.works or [measured.works[0]] * len(batch)
    every = list(zip(candidates.layouts, works, batch, strict=True))
    alike = sorted({*every})
    layouts, kinds, batches = ([one[i] for one in alike] for i in range(3))
    log_speed = measured.draws(layouts, np.array(batches), rng, works=kinds)[:, [alike.index(one) for one in every]]
    start_s = np.asarray(candidates.start_s) * np.exp(rng.normal(0.0, _START_NOISE, (NUM_DRAWS, 1)))
    minutes = (start_s + np.exp(log_steps - log_speed)) / 60
    best = minutes.min(axis=1, keepdims=True)
    return Predicted(
        Spread.of(minutes),
        Spread.of(np.exp(log_steps)),
        Spread.of(np.exp(log_speed)),
        (minutes == best).mean(axis=0),
        (minutes / best - 1).mean(axis=0),
    )
