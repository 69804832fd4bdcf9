"""The law by which the env steps to a target fall with updates per env step and width, and whether it holds.

D(sigma, N) = D_min + (a / sigma)^alpha + (b / N)^beta, of Fu et al. (2508.14881), where N is the width of hidden layers
in place of the number of weights; with one width D_min + (a / sigma)^alpha, of Rybkin et al. (2502.04327). It is fitted
on a logarithmic scale, on which seeds vary alike. A seed that did not reach the target is known to take more than its
budget, no more (Tobin 1958, "Estimation of relationships for limited dependent variables"). Pure functions of numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from analysis.stats.distributions import t_quantile
from analysis.stats.interval import Array, Interval

INTERVAL = 0.9
"""Of a prediction, which has no test to pass."""
ALPHA = 0.01
"""Risk of each of the two tests that a law has to pass."""
FEWEST_UPDATES, FEWEST_WIDTHS = 3, 3
"""Values that tell an exponent and where it ends."""
MOST_MISSED = 0.5
"""Share of trials without the target beyond which too little is known."""
DRAWS = 100
"""Of the bootstrap."""

_LARGEST_POWER = 3.0
_BELOW, _ABOVE = 8.0, 1.0
"""How far a term's logarithm may be below the least and above the largest of the data."""
_STARTS = ((1.0, 0.5), (0.03, 1.0))
"""Where fits begin: D_min as a multiple of the other terms, and the exponents."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The trials that a law is fitted to, a cell a configuration.

    Attributes:
        updates: (num_cells,) updates per env step.
        width: (num_cells,) units of a hidden layer.
        env_steps: (num_cells, most seeds) to the target, the budget of a seed that did not reach it; NaN behind the
            last seed of each.
        reached: (num_cells, most seeds) whether the target was reached; False behind the last seed.
    """

    updates: Array
    width: Array
    env_steps: Array
    reached: npt.NDArray[np.bool_]

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """(num_cells,) seeds."""
        return np.asarray(np.isfinite(self.env_steps).sum(axis=1))

    @cached_property
    def whole(self) -> npt.NDArray[np.bool_]:
        """(num_cells,) whether all seeds reached the target."""
        return np.asarray(self.reached.sum(axis=1) == self.counts)

    @property
    def num_seeds(self) -> int:
        """Of most cells."""
        return int(np.median(self.counts))

    @property
    def has_widths(self) -> bool:
        """True if there are enough widths for a term of their own."""
        return len(np.unique(self.width)) >= FEWEST_WIDTHS

    @property
    def num_parameters(self) -> int:
        """Of the law."""
        return 5 if self.has_widths else 3

    def take(self, kept: npt.NDArray[np.bool_]) -> "Cells":
        """Some of the cells."""
        return Cells(self.updates[kept], self.width[kept], self.env_steps[kept], self.reached[kept])


@dataclass(frozen=True, eq=False)
class Law:
    """A law that was fitted.

    Attributes:
        parameters: (num_parameters,) log D_min; the logarithm of the term of the updates at their centre, and alpha;
            the same of the width, and beta, where there are enough widths.
        draws: (DRAWS, num_parameters) likewise, of seeds redrawn within each cell.
        centre: Updates and width in the middle of those that were run.
        spread: Standard deviation of log env steps over seeds, pooled over cells.
        df: Its degrees of freedom.
    """

    parameters: Array
    draws: Array
    centre: tuple[float, float]
    spread: float
    df: int

    @property
    def least(self) -> Interval:
        """D_min: env steps to the target that are left whatever is spent."""
        return _interval(math.exp(self.parameters[0]), np.exp(self.draws[:, 0]))

    @property
    def powers(self) -> list[Interval]:
        """Exponents alpha and, where there are enough widths, beta."""
        return [_interval(self.parameters[i], self.draws[:, i]) for i in range(2, len(self.parameters), 2)]

    def env_steps(self, updates: Array, width: Array) -> Array:
        """(num_points,) to the target, of the middle seed."""
        return np.asarray(np.exp(_log_env_steps(self.parameters, *_scaled(updates, width, self.centre))))

    def drawn(self, updates: Array, width: Array, num_seeds: int, rng: np.random.Generator) -> Array:
        """(DRAWS, num_points) geometric means over so many new seeds: what the law leaves open, and what seeds do."""
        expected = _log_env_steps(self.draws, *_scaled(updates, width, self.centre))
        by_chance = rng.standard_t(self.df, expected.shape) * self.spread / math.sqrt(num_seeds)
        return np.asarray(np.exp(expected + by_chance))


@dataclass(frozen=True)
class HeldOut:
    """The largest cell, foretold from the others.

    Attributes:
        updates: Its updates per env step.
        width: Its width.
        predicted: Geometric mean over its seeds of the env steps to the target, with its 90% interval.
        measured: What it came to; too little where a seed did not reach the target.
        whole: Whether all of its seeds reached it.
    """

    updates: float
    width: float
    predicted: Interval
    measured: float
    whole: bool

    @property
    def holds(self) -> bool:
        """True if it came out as it was foretold."""
        return self.measured <= self.predicted.high and (self.predicted.low <= self.measured or not self.whole)


@dataclass(frozen=True)
class Trend:
    """How env steps to the target go over all that was run, where no law holds.

    Attributes:
        powers: Exponents of the updates per env step and, where there are several, of the width: linear regression of
            logarithms, 90% intervals.
        num_trials: So many it rests on.
        factor: By which seeds of a configuration vary: one standard deviation.
    """

    powers: tuple[Interval, ...]
    num_trials: int
    factor: float


def trend_of(cells: Cells) -> Trend | None:
    """The trend of some cells; None where a seed did not reach the target, since a regression would take its budget
    for what it took, and where there are too few.

    Args:
        cells: Of which `why_not` has nothing to say.
    """
    if not cells.whole.all():
        return None
    _, data, (spread, _) = _about(cells)
    settings = [setting for setting in (data.updates, data.width) if np.ptp(setting)]
    design = np.stack([np.ones_like(data.updates), *settings], axis=1)
    num_trials, num_parameters = design.shape
    inverse = np.linalg.pinv(design.T @ design)
    found = inverse @ design.T @ data.log_env_steps
    away = data.log_env_steps - design @ found
    df = num_trials - num_parameters
    half = t_quantile((1 + INTERVAL) / 2, df) * np.sqrt(away @ away / df * np.diag(inverse))
    powers = (Interval(float(p), float(p - h), float(p + h)) for p, h in zip(found[1:], half[1:], strict=True))
    return Trend(tuple(powers), num_trials, math.exp(spread))


def why_not(cells: Cells) -> str:
    """What is missing for a law, as a clause; "" if nothing is."""
    num_trials, num_reached = int(cells.counts.sum()), int(cells.reached.sum())
    if (found := len(np.unique(cells.updates))) < FEWEST_UPDATES:
        return f"it takes {FEWEST_UPDATES} values of the updates per env step, and there {_is(found)}"
    if len(cells.updates) <= cells.num_parameters:
        return (
            f"it takes more configurations than the {cells.num_parameters} parameters of the law, "
            f"and there {_is(len(cells.updates))}"
        )
    if num_reached < (1 - MOST_MISSED) * num_trials:
        return f"{num_reached} of {num_trials} trials reached the target: it takes a larger budget"
    spread, df = _spread(cells)
    if not df:
        return "one seed gives no interval: it takes two that reach the target with the same configuration"
    if not spread:
        return "the seeds of each configuration take as many env steps: it takes a smaller report_every_env_steps"
    return ""


def why_rejected(cells: Cells) -> str:
    """Which test the law of some cells does not pass, as a clause; "" if it passes both.

    It has to explain more than a constant does (F test), and to miss the cells by no more than seeds vary (F test for
    lack of fit, Draper and Smith 1998, "Applied regression analysis", section 2.1).

    Args:
        cells: Of which `why_not` has nothing to say.
    """
    centre, data, (spread, df) = _about(cells)
    parameters = _fitted(data, spread, _starts(data, cells.num_parameters))
    constant = optimize.least_squares(
        lambda level: _residuals(np.full(len(data.log_env_steps), level[0]), data, spread),
        [data.log_env_steps.mean()],
    )
    of_law = _residuals(_log_env_steps(parameters, data.updates, data.width), data, spread)
    gained = max(2 * float(constant.cost) - float(of_law @ of_law), 0.0) / (cells.num_parameters - 1)
    p = float(special.fdtrc(cells.num_parameters - 1, df, gained))
    if p > ALPHA:
        which = "updates per env step and width" if cells.has_widths else "updates per env step"
        return f"{which} make no significant difference to the env steps to the target (F test, p = {p:.2g})"
    known = cells.take(cells.whole)
    lacking = len(known.updates) - cells.num_parameters
    if lacking < 1:
        return "too few configurations reach the target with all seeds to see whether the law holds"
    means = np.nanmean(np.log(known.env_steps), axis=1)
    away = means - _log_env_steps(parameters, *_scaled(known.updates, known.width, centre))
    p = float(special.fdtrc(lacking, df, float(known.counts @ away**2) / spread**2 / lacking))
    if p < ALPHA:
        return f"the law misses the configurations by more than seeds vary (F test for lack of fit, p = {p:.2g})"
    return ""


def law_of(cells: Cells, rng: np.random.Generator) -> Law:
    """The law, fitted to all seeds and to each of `DRAWS` redraws of them.

    Seeds are redrawn within each cell. Where all of them reached the target, they are spread by sqrt(n / (n - 1)),
    which a bootstrap of n seeds lacks.

    Args:
        cells: Of which `why_not` has nothing to say, or these without one.
        rng: For the draws.
    """
    centre, data, (spread, df) = _about(cells)
    found = _fitted(data, spread, _starts(data, cells.num_parameters))
    drawn = [_fitted(_Data.of(_redrawn(cells, rng), centre), spread, [found]) for _ in range(DRAWS)]
    return Law(found, np.array(drawn), centre, spread, df)


def held_out(cells: Cells, rng: np.random.Generator) -> HeldOut | None:
    """The largest cell foretold from the others; None if these are too few.

    Args:
        cells: Of which `why_not` has nothing to say.
        rng: For the draws.
    """
    largest = int(np.argmax(cells.updates * cells.width**2))  # weights between hidden layers go with width^2
    is_largest = np.arange(len(cells.updates)) == largest
    rest = cells.take(~is_largest)
    if rest.has_widths != cells.has_widths or len(np.unique(rest.updates)) < FEWEST_UPDATES or not _spread(rest)[0] > 0:
        return None
    own = cells.take(is_largest)
    law = law_of(rest, rng)
    draws = law.drawn(own.updates, own.width, int(own.counts[0]), rng)[:, 0]
    return HeldOut(
        float(own.updates[0]),
        float(own.width[0]),
        _interval(float(law.env_steps(own.updates, own.width)[0]), draws),
        float(np.exp(np.nanmean(np.log(own.env_steps)))),
        bool(own.whole[0]),
    )


def _interval(estimate: float, draws: Array) -> Interval:
    low, high = np.quantile(draws, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2])
    return Interval(float(estimate), min(float(low), float(estimate)), max(float(high), float(estimate)))


def _is(number: int) -> str:
    return f"{'is' if number == 1 else 'are'} {number}"


def _middle(values: Array) -> float:
    return float(np.exp(np.log(np.unique(values)).mean()))


def _scaled(updates: Array, width: Array, centre: tuple[float, float]) -> tuple[Array, Array]:
    return np.log(updates / centre[0]), np.log(width / centre[1])


def _spread(cells: Cells) -> tuple[float, int]:
    """Standard deviation of log env steps over seeds, pooled over the cells whose seeds all reached the target,
    and its degrees of freedom; 0 where none has two.
    """
    several = cells.take(cells.whole & (cells.counts > 1))
    df = int((several.counts - 1).sum())
    if not df:
        return 0.0, 0
    logs = np.log(several.env_steps)
    return math.sqrt(float(np.nansum((logs - np.nanmean(logs, axis=1, keepdims=True)) ** 2)) / df), df


@dataclass(frozen=True, eq=False)
class _Data:
    """All seeds, (num_trials,) each: logarithms of updates and width about their centre, and of env steps."""

    updates: Array
    width: Array
    log_env_steps: Array
    reached: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, cells: Cells, centre: tuple[float, float]) -> "_Data":
        there = np.isfinite(cells.env_steps)
        cell = np.nonzero(there)[0]
        updates, width = _scaled(cells.updates[cell], cells.width[cell], centre)
        return cls(updates, width, np.log(cells.env_steps[there]), cells.reached[there])


def _about(cells: Cells) -> tuple[tuple[float, float], _Data, tuple[float, int]]:
    """The middle of the settings, the data about it, and their spread with its degrees of freedom."""
    centre = (_middle(cells.updates), _middle(cells.width))
    return centre, _Data.of(cells, centre), _spread(cells)


def _redrawn(cells: Cells, rng: np.random.Generator) -> Cells:
    picks = (rng.random(cells.env_steps.shape) * cells.counts[:, None]).astype(np.int64)
    logs = np.take_along_axis(np.log(cells.env_steps), picks, axis=1)
    reached = np.take_along_axis(cells.reached, picks, axis=1)
    wider = np.sqrt(cells.counts / np.maximum(cells.counts - 1, 1))
    means = np.nanmean(np.log(cells.env_steps), axis=1)
    logs = np.where(cells.whole[:, None], means[:, None] + (logs - means[:, None]) * wider[:, None], logs)
    there = np.isfinite(cells.env_steps)
    return Cells(cells.updates, cells.width, np.where(there, np.exp(logs), np.nan), reached & there)


def _terms(parameters: Array, updates: Array, width: Array) -> Array:
    """(..., num_parameters) and (num_points,) logarithms about the centre to the logarithm of each term,
    (num_terms, ..., num_points).
    """
    powers = [
        parameters[..., i : i + 1] - parameters[..., i + 1 : i + 2] * setting
        for i, setting in ((1, updates), (3, width))
        if i < parameters.shape[-1]
    ]
    return np.stack([parameters[..., 0:1] + 0 * updates, *powers])


def _log_env_steps(parameters: Array, updates: Array, width: Array) -> Array:
    """As `_terms` takes them, to (..., num_points)."""
    return np.asarray(np.logaddexp.reduce(_terms(parameters, updates, width), axis=0))


def _residuals(log_env_steps: Array, data: _Data, spread: float) -> Array:
    """(num_trials,) whose squares add up to -2 log of the likelihood, but for a constant."""
    above = (log_env_steps - data.log_env_steps) / spread
    return np.where(data.reached, -above, np.sqrt(-2 * special.log_ndtr(above)))


def _jacobian(parameters: Array, data: _Data, spread: float) -> Array:
    """(num_trials, num_parameters) derivatives of the residuals."""
    terms = _terms(parameters, data.updates, data.width)
    above = (np.logaddexp.reduce(terms, axis=0) - data.log_env_steps) / spread
    log_chance = special.log_ndtr(above)
    hazard = np.exp(-(above**2) / 2 - math.log(2 * math.pi) / 2 - log_chance)
    missed = -hazard / np.maximum(np.sqrt(-2 * log_chance), np.finfo(float).tiny)
    of_level = np.where(data.reached, -1.0, missed) / spread
    shares = special.softmax(terms, axis=0)
    columns = [shares[0]]
    for share, setting in zip(shares[1:], (data.updates, data.width), strict=False):
        columns += [share, -share * setting]
    return np.stack(columns, axis=1) * of_level[:, None]


def _bounds(data: _Data, num_powers: int) -> tuple[Array, Array]:
    """(num_parameters,) the least and the largest ones."""
    low, high = float(data.log_env_steps.min()) - _BELOW, float(data.log_env_steps.max()) + _ABOVE
    return np.array([low, *(low, 0.0) * num_powers]), np.array([high, *(high, _LARGEST_POWER) * num_powers])


def _starts(data: _Data, num_parameters: int) -> list[Array]:
    found, num_powers = [], (num_parameters - 1) // 2
    for share, power in _STARTS:
        level = float(data.log_env_steps.mean()) - math.log(share + num_powers)
        found.append(np.array([level + math.log(share), *(level, power) * num_powers]))
    return found


def _fitted(data: _Data, spread: float, starts: Sequence[Array]) -> Array:
    """(num_parameters,) the most likely ones.

    Args:
        data: All seeds.
        spread: As in `Law`.
        starts: Where to begin; the best end is taken.
    """
    low, high = _bounds(data, (len(starts[0]) - 1) // 2)
    found = [
        optimize.least_squares(
            lambda parameters: _residuals(_log_env_steps(parameters, data.updates, data.width), data, spread),
            np.clip(start, low, high),
            lambda parameters: _jacobian(parameters, data, spread),
            bounds=(low, high),
        )
        for start in starts
    ]
    return np.asarray(min(found, key=lambda fit: float(fit.cost)).x)
