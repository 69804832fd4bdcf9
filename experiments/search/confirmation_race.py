"""Confirmation as a race: fresh seeds for what may still be the best, one at a time. Pure."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from analysis.stats.comparisons import leaders
from analysis.stats.distributions import t_tail
from analysis.stats.interval import CONFIDENCE, Array
from analysis.stats.moderated import moderated_intervals
from experiments.config.space import Point
from experiments.contract import CONFIRM, FINISHED
from experiments.search.strategy import (
    TO_TARGET,
    Ask,
    Confirming,
    Outcome,
    Signal,
    Strategy,
    key_of,
    mean_worth,
    ranks,
    solvers,
)

FEWEST = 2
"""Seeds before any configuration is left; and of the base, unless it leads or the search has it among the best."""
HARDLY = 0.2
"""Probability to be better than what leads, below which a configuration gets no more seeds."""
RISK = 1 - CONFIDENCE
"""Of the tests by which the final decision calls a configuration worse."""
INTERIM = 0.001
"""Of the same tests before the last seed (Haybittle 1971, British Journal of Radiology 44:793; Peto et al. 1976,
British Journal of Cancer 34:585): so small that the last test need not know of the earlier ones."""


class ConfirmationRace(Strategy):
    """Fresh seeds for the best points of a search, as many as they need, and a few for the base.

    The best points and the base get `FEWEST` seeds: that one fails on a seed in ten, few seeds of a search
    do not show. Then what leads by the fresh seeds gets another one, and so does each of the best points that may still
    be better, by all that is known of it, until what leads has all seeds and nothing else is open. All take the seeds
    in the same order, so that they can be paired.

    The conclusions take the fresh seeds as if their numbers had been fixed before. They may:

    - What leads in the end has all seeds, whatever they came to. What is left lags behind when it is: that its seeds
      are fewer makes it look worse, if anything, and never better than it is.
    - To be left because it will hardly lead is a stop for futility, no proof of being worse: it is left only while the
      tests of the final decision, at `RISK`, do not call it worse by the seeds that it has. Where they do, it goes on
      to the last seed, or until it is worse at `INTERIM`. So a look before the last adds no more than that to the risk
      of calling equal ones different.

    What is asked depends on the outcomes of all trials before, so not on the order in which they end.
    """

    in_order = False

    def __init__(
        self,
        best: Sequence[Point],
        base: Point,
        known: Mapping[str, Sequence[Outcome]],
        seeds: Sequence[int],
        objectives: Sequence[str],
    ) -> None:
        """Race what a search found.

        Args:
            best: Its best points, best first; where there are none, nothing is run.
            base: The point that the study starts from.
            known: Point, as `key_of` writes it, to what its trials came to in the search.
            seeds: Seeds that a point may have, none of them seen by the search.
            objectives: The aim of the search, one.
        """
        super().__init__(objectives)
        self._seeds = tuple(seeds)
        self._known = {key: [o for o in of_one if o.status == FINISHED] for key, of_one in known.items()}
        self._best = {key_of(point) for point in best}
        self._points = {key_of(point): point for point in (*best, base)} if best else {}
        self._batch: list[Ask] = []

    @property
    @override
    def most_trials(self) -> int:
        return len(self._points) * len(self._seeds)

    @override
    def ask(self) -> Ask | Signal:
        if not self._batch:
            if len(self.outcomes) < len(self.asked):
                return Signal.WAIT
            self._batch = self._next()
        return self._batch[0] if self._batch else Signal.DONE

    @override
    def start(self, ask: Ask) -> None:
        if not self._batch and len(self.outcomes) == len(self.asked):  # after a restart
            self._batch = self._next()
        self._batch = [other for other in self._batch if other != ask]
        self._points.setdefault(key_of(ask.point), ask.point)
        super().start(ask)

    def _next(self) -> list[Ask]:
        """The trials that come next, once all before have ended; none if that was all."""
        had, num = Counter(key_of(ask.point) for ask in self.asked), len(self._seeds)
        if first := [self._ask(key, i) for i in range(min(FEWEST, num)) for key in self._points if had[key] <= i]:
            return first
        outcomes = self.outcomes_by_point()
        if not outcomes:
            return []
        by = dict(zip(outcomes, ranks(list(outcomes.values()), self.objectives), strict=True))
        leader = max(outcomes, key=lambda key: by[key])
        wanted = [key for key in (leader, *self._open(outcomes, leader)) if had[key] < num]
        if wanted == [leader]:
            return [self._ask(leader, i) for i in range(had[leader], num)]
        return [self._ask(key, had[key]) for key in wanted]

    def _ask(self, key: str, place: int) -> Ask:
        return Ask(self._points[key], self._seeds[place], CONFIRM)

    def _open(self, outcomes: Mapping[str, Sequence[Outcome]], leader: str) -> list[str]:
        """The best points of the search that may be better than what leads, or have to be shown to be worse."""
        keys, fresh = list(outcomes), list(outcomes.values())
        both = [[*self._known.get(key, ()), *of_one] for key, of_one in outcomes.items()]
        likely = chances(both, keys.index(leader), self.objectives)
        worse, surely = (called_worse(fresh, self.objectives, alpha) for alpha in (RISK, INTERIM))
        return [
            key
            for i, key in enumerate(keys)
            if key in self._best and key != leader and not surely[i] and (likely[i] >= HARDLY or worse[i])
        ]


class RacedConfirmation(Confirming):
    """As `Confirming`, with as many of the seeds as each point needs (`ConfirmationRace`)."""

    @override
    def _confirmation(self, best: Sequence[Point]) -> Strategy:
        known = self.search.outcomes_by_point()
        return ConfirmationRace(best, self._base, known, self._seeds, self.objectives)


def chances(outcomes: Sequence[Sequence[Outcome]], leader: int, objectives: Sequence[str]) -> list[float]:
    """Probability of each configuration to be better than the one that leads, by the mean of what decides.

    The tail of Student's t on moderated standard errors (Smyth 2004), with a flat prior. A configuration with a single
    seed has the largest spread that any other one shows. Where configurations solve their environment, env steps to
    target decide.

    Args:
        outcomes: The outcomes of each configuration's trials, one at least.
        leader: Index of the one that leads.
        objectives: The aim of the search, one.

    Returns:
        One half for the one that leads; 0 for others that have a failed trial; 1 where no configuration shows a spread.
    """
    measure = TO_TARGET if any(solvers(outcomes, objectives)) else objectives[0]
    means = [mean_worth(of_one, measure) for of_one in outcomes]
    found = moderated_intervals(_worths(outcomes, measure))
    known = np.isfinite(found.se)
    variances, df = found.se**2 * found.num_seeds, found.df
    if known.any():
        variances = np.where(known, variances, variances[known].max())
        df = np.where(known, df, df[known].min())
    squares = variances / np.maximum(found.num_seeds, 1)
    chance = []
    for i, mean in enumerate(means):
        square = squares[i] + squares[leader]
        if i == leader:
            chance.append(0.5)
        elif not math.isfinite(mean):
            chance.append(0.0)
        elif not math.isfinite(means[leader]) or not square > 0:
            chance.append(1.0)
        else:
            chance.append(float(t_tail((means[leader] - mean) / math.sqrt(square), min(df[i], df[leader]))))
    return chance


def called_worse(
    outcomes: Sequence[Sequence[Outcome]], objectives: Sequence[str], alpha: float
) -> npt.NDArray[np.bool_]:
    """Which configurations the tests of the final decision call worse than the best one, by the seeds that both have.

    By the aim, and among those that solve their environment by env steps to target (`analysis/questions/decision.py`).

    Args:
        outcomes: The outcomes of each configuration's trials, one at least, in the same order of seeds.
        objectives: The aim of the search, one.
        alpha: Risk of the tests.

    Returns:
        (num_configurations,).
    """
    worse = ~leaders(_worths(outcomes, objectives[0]), larger_is_better=True, alpha=alpha)
    solve = np.asarray(solvers(outcomes, objectives)) & ~worse
    if solve.sum() > 1:
        worse[solve] = ~leaders(_worths(outcomes, TO_TARGET)[solve], larger_is_better=True, alpha=alpha)
    return worse


def _worths(outcomes: Sequence[Sequence[Outcome]], measure: str) -> Array:
    """(num_configurations, most seeds): NaN where a trial has no value."""
    worths = np.full((len(outcomes), max(len(of_one) for of_one in outcomes)), np.nan)
    for row, of_one in zip(worths, outcomes, strict=True):
        values = np.array([outcome.worth(measure) for outcome in of_one])
        row[: len(values)] = np.where(np.isfinite(values), values, np.nan)
    return worths
