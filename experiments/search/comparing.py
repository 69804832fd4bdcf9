"""A sequential comparison: seeds in looks, for those configurations alone of which it is not yet known
how they compare. Pure.
"""

from collections.abc import Sequence

import numpy as np
from typing_extensions import override

from analysis.stats.interval import Array
from analysis.stats.sequential import Design, compare
from experiments.config.space import Point
from experiments.contract import FIXED
from experiments.search.strategy import SCORE, Ask, Signal, Strategy, key_of

_LOOK = "look"
"""Note of a trial: the look before which it is run."""


class Comparing(Strategy):
    """All pairs of configurations, with a risk of any false difference over all looks (`analysis/stats/sequential.py`).

    Before each look, every configuration of a pair that is undecided gets as many more seeds, the next ones of a list
    that all share. It ends when all pairs are shown to differ, or all looks were made. A configuration of which a seed
    fails takes no further part.

    What is asked depends on the outcomes of whole looks, so not on the order in which trials end.

    Attributes:
        design: How often is looked.
    """

    in_order = False

    def __init__(self, points: Sequence[Point], seeds: Sequence[int], design: Design) -> None:
        """Compare configurations by their scores.

        Args:
            points: The configurations.
            seeds: The most seeds of each: `design.most_seeds`.
            design: How often is looked.
        """
        super().__init__((SCORE,))
        self._points, self._seeds, self.design = tuple(points), tuple(seeds), design
        self._place = {key_of(point): i for i, point in enumerate(points)}
        self._begun: set[tuple[int, int]] = set()  # configuration and seed, by their places
        self._next: tuple[tuple[int, int], tuple[int, list[int]]] | None = None  # what `_open` gave last, and for what

    @property
    @override
    def most_trials(self) -> int:
        return len(self._points) * self.design.most_seeds

    @property
    @override
    def least_learning(self) -> int:
        return len(self._points) * self.design.seeds_per_look

    @override
    def ask(self) -> Ask | Signal:
        look = max((ask.note[_LOOK] for ask in self.asked), default=1)
        waits = len(self.outcomes) < len(self.asked)
        for before in (look,) if waits else (look, look + 1):
            at, undecided = self._open(before)
            size = self.design.seeds_per_look
            for seed in range((at - 1) * size, at * size):
                for config in undecided:
                    if (config, seed) not in self._begun:
                        return Ask(self._points[config], self._seeds[seed], FIXED, {_LOOK: at})
        return Signal.WAIT if waits else Signal.DONE

    def _open(self, look: int) -> tuple[int, list[int]]:
        """The next look by what came before one, and the configurations that get seeds for it."""
        known = (look, len(self.outcomes))
        if self._next is None or self._next[0] != known:
            verdict = compare(self._scores(look), self.design)
            self._next = known, (verdict.looks + 1, np.flatnonzero(verdict.undecided).tolist())
        return self._next[1]

    def _scores(self, look: int) -> Array:
        """(num_configurations, most seeds): of the trials that were run before earlier looks."""
        scores = np.full((len(self._points), self.design.most_seeds), np.nan)
        for index, outcome in self.outcomes.items():
            if self.asked[index].note[_LOOK] < look:
                scores[self._at(self.asked[index])] = outcome.worth(SCORE)
        return scores

    def _at(self, ask: Ask) -> tuple[int, int]:
        return self._place[key_of(ask.point)], self._seeds.index(ask.seed)

    @override
    def start(self, ask: Ask) -> None:
        super().start(ask)
        self._begun.add(self._at(ask))
