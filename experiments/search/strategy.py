"""The strategy of a search, by ask and tell: pure, so that it can be replayed over a table of results.

A strategy is a function of what it was told, in the order in which it was told. Whoever drives it
(`trial_queue.py`) tells outcomes in the order of the trials' start, not of their end, so that the same search
tomorrow runs the same trials.
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from typing_extensions import override

from analysis.stats.saturation import saturates, solving
from experiments.config.space import Point
from experiments.contract import CONFIRM, FAILED, FIXED, SEARCH

OBJECTIVES: Mapping[str, bool] = {
    "score": True,
    "auc": True,
    "env_steps_to_target": False,
    "minutes_to_target": False,
    "cost_to_target": False,
    "score_in_minutes": True,
    "seconds_to_target": False,
    "train_s": False,
    "env_steps_per_s": True,
}
"""The objectives of a search, and whether more is better."""
SCORE, TO_TARGET = "score", "env_steps_to_target"
"""A search that aims at the score goes on to env steps to target where scores saturate, as the final decision does."""
TIE_BREAK = "auc"
"""The metric that ranks configurations whose objective is the same: many end at an environment's highest score."""


class Signal(Enum):
    """The answer of a strategy that does not ask."""

    WAIT = "it must be told an outcome first"
    DONE = "it asks nothing more"


@dataclass(frozen=True)
class Ask:
    """A trial that a strategy wants.

    Attributes:
        point: Point of the space: its configuration.
        seed: Its seed.
        phase: `SEARCH` or `CONFIRM`; `THROUGHPUT` of one whose throughput is measured in place of training.
        note: Plain values that the strategy needs again after a restart, among them how it differs from other trials of
            its point: the generation of a population, batches for which samples wait.
        alone: Whether nothing may run beside it.
    """

    point: Point
    seed: int
    phase: str = SEARCH
    note: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = False


@dataclass(frozen=True)
class Outcome:
    """The outcome of a trial.

    Attributes:
        status: `FINISHED`, `PRUNED` or `FAILED`.
        values: Name of an objective to its value, as far as it is known. Of a target that was never held, all that the
            trial was given.
        env_steps: Env steps that it was trained.
        seconds: Seconds that it took.
        reason: Why it failed.
        target: Target of its environment; NaN where there is none.
        reached: Whether it held the target.
    """

    status: str
    values: Mapping[str, float] = field(default_factory=dict)
    env_steps: int = 0
    seconds: float = 0.0
    reason: str = ""
    target: float = math.nan
    reached: bool = False

    def worth(self, objective: str) -> float:
        """The objective's value, with its sign such that more is better; minus infinity where there is none."""
        value = self.values.get(objective, math.nan)
        if self.status == FAILED or not math.isfinite(value):
            return -math.inf
        return value if OBJECTIVES[objective] else -value


def key_of(point: Point) -> str:
    """The same text for the same point."""
    return json.dumps(point, sort_keys=True, default=str)


class Strategy(ABC):
    """Chooses which trial to run next.

    Attributes:
        objectives: The aims, of `OBJECTIVES`; one, or two for a Pareto front.
        asked: The trials that began, in order.
        outcomes: Index into `asked` to the outcome that it was told.
    """

    in_order = True
    """True if the next ask depends on outcomes, so that they must be told in a fixed order."""

    def __init__(self, objectives: Sequence[str]) -> None:
        self.objectives = tuple(objectives)
        self.asked: list[Ask] = []
        self.outcomes: dict[int, Outcome] = {}

    @property
    @abstractmethod
    def most_trials(self) -> int:
        """Trials that it will ask for at most."""

    @property
    def least_learning(self) -> int:
        """Trials that learn, not those whose throughput is measured, for which it will ask at least if none fails; 0
        where that is not known before they begin.
        """
        return 0

    @abstractmethod
    def ask(self) -> Ask | Signal:
        """The next trial. Changes nothing that `began` does not change again."""

    @property
    def belief(self) -> Sequence[float] | None:
        """How much each earlier study counts that it starts from (`experiments/search/prior.py`); None where it starts
        from none, or that is not known yet.
        """
        return None

    def start(self, ask: Ask) -> None:
        """A trial that was chosen, now or before a restart, began."""
        self.asked.append(ask)

    def tell(self, index: int, outcome: Outcome) -> None:
        """A trial ended.

        Args:
            index: Index into `asked`.
            outcome: The outcome of the trial.
        """
        self.outcomes[index] = outcome

    def resume(self) -> None:  # noqa: B027  # most have nothing to do
        """All that happened before a restart has been told."""

    def outcomes_by_point(self) -> dict[str, list[Outcome]]:
        """Point, as `key_of` writes it, to what its trials came to."""
        found: dict[str, list[Outcome]] = {}
        for index, outcome in sorted(self.outcomes.items()):
            found.setdefault(key_of(self.asked[index].point), []).append(outcome)
        return found

    def found(self) -> list[Point]:
        """The points that are worth confirming, best first: those of which something is known."""
        objective, outcomes = self.objectives[0], self.outcomes_by_point()
        known = {k for k, of_one in outcomes.items() if any(math.isfinite(o.worth(objective)) for o in of_one)}
        return [point for point in self.ranking() if key_of(point) in known]

    def ranking(self) -> list[Point]:
        """The points that have an outcome, best first, as `ranks` has them. Those that failed on any seed come last.

        With two objectives, points that no other one beats in both come first,
        and in each such front those of the best first objective.
        """
        points, outcomes = {key_of(ask.point): ask.point for ask in self.asked}, self.outcomes_by_point()
        means = dict(zip(outcomes, ranks(list(outcomes.values()), self.objectives), strict=True))
        if len(self.objectives) == 1:
            return [points[key] for key in sorted(means, key=lambda k: means[k], reverse=True)]
        ranked: list[str] = []
        left = dict(means)
        while left:
            front = [k for k, m in left.items() if not any(_beats(other, m) for other in left.values())]
            ranked += sorted(front, key=lambda k: means[k], reverse=True)
            left = {k: m for k, m in left.items() if k not in front}
        return [points[key] for key in ranked]


def mean_worth(outcomes: Sequence[Outcome], objective: str) -> float:
    """Mean over a configuration's seeds, with its sign such that more is better;
    minus infinity where one of them has none.

    Args:
        outcomes: Outcomes of its trials, one at least.
        objective: One of `OBJECTIVES`.
    """
    return sum(outcome.worth(objective) for outcome in outcomes) / len(outcomes)


def solvers(outcomes: Sequence[Sequence[Outcome]], objectives: Sequence[str]) -> list[bool]:
    """Which configurations solve their environment, where the score is aimed at and saturates; none where it does not.

    Args:
        outcomes: The outcomes of each configuration's trials.
        objectives: The aims of the search.
    """
    if tuple(objectives) != (SCORE,):
        return [False] * len(outcomes)
    targets, reached = (
        [of_one[0].target for of_one in outcomes],
        [sum(o.reached for o in of_one) for of_one in outcomes],
    )
    solve = solving([mean_worth(of_one, SCORE) for of_one in outcomes], targets, reached)
    return [bool(s) for s in solve] if saturates(solve) else [False] * len(outcomes)


def ranks(outcomes: Sequence[Sequence[Outcome]], objectives: Sequence[str]) -> list[tuple[float, ...]]:
    """Keys that rank configurations as the final decision does (`analysis/questions/decision.py`): more is better.

    By the means over seeds of each objective, and then of `TIE_BREAK`. Where scores saturate, those that solve the
    environment come first, by their restricted mean of env steps to target.

    Args:
        outcomes: The outcomes of each configuration's trials, one at least.
        objectives: The aims of the search.
    """
    means = [tuple(mean_worth(of_one, o) for o in (*objectives, TIE_BREAK)) for of_one in outcomes]
    solve = solvers(outcomes, objectives)
    if not any(solve):
        return means
    steps = [
        mean_worth(of_one, TO_TARGET) if solves else -math.inf for of_one, solves in zip(outcomes, solve, strict=True)
    ]
    return [(by_steps, *mean) for by_steps, mean in zip(steps, means, strict=True)]


def _beats(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    """True if a is better than b in one objective, and worse in none."""
    return a[:2] != b[:2] and a[0] >= b[0] and a[1] >= b[1]


def next_seed(used: Collection[int], seeds: Sequence[int], start: int = 0) -> int | None:
    """The first seed that was not used, from a place in the list on and around its end; None if all were."""
    around = [seeds[(start + i) % len(seeds)] for i in range(len(seeds))]
    return next((seed for seed in around if seed not in used), None)


class Listed(Strategy):
    """Every point with every seed, seed by seed: a grid, or random draws."""

    in_order = False

    def __init__(
        self,
        points: Sequence[Point],
        seeds: Sequence[int],
        objectives: Sequence[str],
        phase: str = SEARCH,
        alone: bool = False,
    ) -> None:
        super().__init__(objectives)
        self._asks = [Ask(point, seed, phase, alone=alone) for seed in seeds for point in points]

    @property
    @override
    def most_trials(self) -> int:
        return len(self._asks)

    @property
    @override
    def least_learning(self) -> int:
        return len(self._asks)

    @override
    def ask(self) -> Ask | Signal:
        return self._asks[len(self.asked)] if len(self.asked) < len(self._asks) else Signal.DONE


class Confirming(Strategy):
    """Another strategy's best points, and the base point, with seeds that it never saw.

    A trial that searched never confirms: what was looked at to choose a configuration flatters it. But a fixed design
    can leave some of its seeds out of the choice, and these count.

    Attributes:
        closed: Why the search was ended before it was done; empty if it was not.
    """

    def __init__(
        self,
        search: Strategy,
        base: Point,
        top: int,
        seeds: Sequence[int],
        design: Sequence[Point] = (),
        shared: Sequence[int] = (),
        alone: bool = False,
    ) -> None:
        """Confirm what a search finds.

        Args:
            search: The strategy that finds it.
            base: The point that the study starts from; confirmed as well.
            top: Number of the best points that are confirmed.
            seeds: Seeds that confirm; none that searches.
            design: The points of a fixed design.
            shared: Seeds that confirm, and that all points of the design are to have: what is confirmed has them by
                that and is not run again, the other points have them last.
            alone: Whether trials that confirm have the machine to themselves.
        """
        super().__init__(search.objectives)
        self.search, self._base, self.top, self._seeds, self._alone = search, base, top, tuple(seeds), alone
        self._design, self.shared = tuple(design), tuple(shared)
        self.closed = ""
        self._confirm: Strategy | None = None
        self._others = Listed((), (), self.objectives, FIXED)
        self._own: list[tuple[Strategy, int]] = []  # whose each trial is, and its index there

    @property
    @override
    def in_order(self) -> bool:  # type: ignore[override]  # an attribute of others, which don't change
        return self._confirm is None and self.search.in_order

    @property
    @override
    def most_trials(self) -> int:
        num_in_design = min(self.top + (self._base in self._design), len(self._design))  # of those that are confirmed
        return self.search.most_trials + self.num_confirming + (len(self._design) - num_in_design) * len(self.shared)

    @property
    @override
    def least_learning(self) -> int:
        return self.search.least_learning

    @property
    def least_confirming(self) -> int:
        """Trials that confirm, at least, if none fails: what leads has all seeds."""
        return len(self._seeds)

    @property
    @override
    def belief(self) -> Sequence[float] | None:
        return self.search.belief

    @property
    def num_confirming(self) -> int:
        """Trials that confirm, at most."""
        return (self.top + 1) * len(self._seeds)

    @property
    def is_confirming(self) -> bool:
        """True once the search is over."""
        return self._confirm is not None

    def close(self, why: str) -> None:
        """End the search now, and confirm what it found so far.

        Args:
            why: The reason, in words.
        """
        self.closed = self.closed or why

    @override
    def ask(self) -> Ask | Signal:
        if self._confirm is None:
            found = Signal.DONE if self.closed else self.search.ask()
            if found is not Signal.DONE:
                return found
            if len(self.outcomes) < len(self.asked):
                return Signal.WAIT
            self._begin_confirming()
        assert self._confirm is not None
        found = self._confirm.ask()
        return self._others.ask() if found is Signal.DONE else found

    def _begin_confirming(self) -> None:
        best = self.search.found()[: self.top]
        chosen = {key_of(point) for point in (*best, self._base)} if best else set()
        others = [point for point in self._design if key_of(point) not in chosen]
        self._confirm = self._confirmation(best)
        self._others = Listed(others, self.shared, self.objectives, FIXED)

    def _confirmation(self, best: Sequence[Point]) -> Strategy:
        """What confirms the best points, best first, and the base beside them; nothing, where there are none."""
        points = {key_of(point): point for point in (*best, self._base)} if best else {}
        return Listed(list(points.values()), self._seeds, self.objectives, CONFIRM, self._alone)

    @override
    def start(self, ask: Ask) -> None:
        if ask.phase == CONFIRM and self._confirm is None:  # after a restart, when all of the search has been told
            self._begin_confirming()
        whose = self.search if self._confirm is None else self._confirm if ask.phase == CONFIRM else self._others
        self._own.append((whose, len(whose.asked)))
        whose.start(ask)
        super().start(ask)

    @override
    def tell(self, index: int, outcome: Outcome) -> None:
        whose, its_index = self._own[index]
        whose.tell(its_index, outcome)
        super().tell(index, outcome)

    @override
    def resume(self) -> None:
        self.search.resume()
