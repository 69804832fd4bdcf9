"""The points of a grid: those first that earlier studies found good, the others if that does not hold here. Pure."""

import math
from collections.abc import Sequence

from typing_extensions import override

from experiments.config.space import Point
from experiments.search.prior import Prior
from experiments.search.strategy import Ask, Outcome, Signal, Strategy, key_of

BEST_SHARE = 1 / 3
"""Of the points that earlier studies ran, the best, which are run in any case."""


class Informed(Strategy):
    """Points with one seed each, unless earlier studies prove right: then the best of those that they ran alone.

    First come the points by which earlier studies are put to the test (`Prior.first`), the best third of what they ran
    among them. Those whose order holds here say which points need not run: all that they ran but their best third. If
    none holds, every point is run, as without earlier studies, in another order.
    """

    def __init__(self, points: Sequence[Point], seed: int, objectives: Sequence[str], prior: Prior) -> None:
        """Propose points.

        Args:
            points: All of them.
            seed: The seed that each gets.
            objectives: The aims of the search.
            prior: What earlier studies found of some of these points.
        """
        super().__init__(objectives)
        self._points, self._seed, self._prior = list(points), seed, prior
        self._tried = prior.first(num_best(len(prior.points)))
        self._first = [prior.points[i] for i in self._tried]
        self._others: list[Point] | None = None  # not known before the first were told

    @property
    @override
    def most_trials(self) -> int:
        return len(self._points) if self._others is None else len(self._first) + len(self._others)

    @property
    @override
    def least_learning(self) -> int:
        return len(self._first)

    @override
    def ask(self) -> Ask | Signal:
        known = [*self._first, *(self._others or ())]
        if len(self.asked) < len(known):
            return Ask(known[len(self.asked)], self._seed)
        return Signal.WAIT if self._others is None else Signal.DONE

    @override
    def tell(self, index: int, outcome: Outcome) -> None:
        super().tell(index, outcome)
        if self._others is None and (weights := self.belief) is not None:
            self._others = self._to_follow(weights)

    @property
    @override
    def belief(self) -> list[float] | None:
        return self._prior.belief(self._tried, self.outcomes, self.objectives)

    def _to_follow(self, weights: Sequence[float]) -> list[Point]:
        order = self._prior.order(weights)
        worse = [self._prior.points[i] for i in order[num_best(len(order)) :]]
        done = {key_of(point) for point in (*self._first, *worse)}
        return [point for point in self._points if key_of(point) not in done]


def num_best(number: int) -> int:
    """How many of so many points count as the best."""
    return math.ceil(BEST_SHARE * number)
