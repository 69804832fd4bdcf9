"""Population-based training, generation by generation (Jaderberg et al. 2017, arXiv 1711.09846). Pure.

Each generation of a member is a trial of its own, with one configuration: it starts from the checkpoint of a parent,
the same member or one that it copies, and trains to the next comparison. So every curve is one of one configuration,
the whole is known from the trials' lineage, and a member that is interrupted goes on like any other trial.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from experiments.config.space import Axis, Choice, IntegerSteps, Point, Uniform, is_there
from experiments.search.strategy import TIE_BREAK, Ask, Outcome, Signal, Strategy

FACTORS = (0.8, 1.2)
"""By which a setting from a range is moved (Jaderberg et al. 2017, section 4.1)."""


class Population(Strategy):
    """Members that train in step; at each comparison the worst take over the weights and settings of the best,
    and vary the settings.

    A member keeps its seed. One that fails takes over as well.
    """

    def __init__(
        self,
        axes: Mapping[str, Axis],
        first: Sequence[Point],
        seeds: Sequence[int],
        ends: Sequence[int],
        quantile: float,
        resample_probability: float,
        seed: int,
    ) -> None:
        """Make the first generation.

        Args:
            axes: The space, whose settings may change between two iterations of training.
            first: A point for each member.
            seeds: A seed for each member.
            ends: Env steps at which each generation ends.
            quantile: Share of the members that is replaced, and share that is copied.
            resample_probability: Probability that a setting is drawn anew instead of moved.
            seed: Random seed of the draws.
        """
        super().__init__(("score",))
        self._axes, self._first, self._seeds, self._ends = axes, tuple(first), tuple(seeds), tuple(ends)
        self._num_replaced = max(1, math.floor(quantile * len(first)))
        self._resample_probability, self._seed = resample_probability, seed

    @property
    @override
    def most_trials(self) -> int:
        return len(self._first) * len(self._ends)

    @override
    def ask(self) -> Ask | Signal:
        generation, member = divmod(len(self.asked), len(self._first))
        if generation == len(self._ends):
            return Signal.DONE
        end = self._ends[generation]
        if generation == 0:
            return Ask(self._first[member], self._seeds[member], note={"generation": 0, "until": end, "env_steps": end})
        before = range(len(self.asked) - member - len(self._first), len(self.asked) - member)
        if any(index not in self.outcomes for index in before):
            return Signal.WAIT
        parent, point = self._descent(generation, list(before))[member]
        if not math.isfinite(self.outcomes[parent].worth("score")):  # all have failed
            return Signal.DONE
        start = self._ends[generation - 1]
        lineage = {"parent": parent, "from": start, "copied": parent != before[member]}
        return Ask(
            point,
            self._seeds[member],
            note={"generation": generation, "until": end, "env_steps": end - start, **lineage},
        )

    def _descent(self, generation: int, before: Sequence[int]) -> list[tuple[int, Point]]:
        """Of each member its parent and its point in a generation, from the indices of the generation before."""
        rng = np.random.default_rng([self._seed, generation])
        best_first = sorted(
            before, key=lambda i: (self.outcomes[i].worth("score"), self.outcomes[i].worth(TIE_BREAK)), reverse=True
        )
        best = best_first[: self._num_replaced]
        worst = {i for i in best_first[-self._num_replaced :] if i not in best}
        worst |= {i for i in before if not math.isfinite(self.outcomes[i].worth("score"))}
        found = []
        for index in before:
            parent = int(rng.choice(best)) if index in worst else index
            point = self.asked[parent].point
            found.append((parent, self._varied(point, rng) if index in worst else point))
        return found

    def _varied(self, point: Point, rng: np.random.Generator) -> Point:
        varied: Point = {}
        for path, axis in self._axes.items():
            anew, drawn, up = rng.random() < self._resample_probability, axis.draw(rng), bool(rng.integers(2))
            if is_there(axis, varied):
                varied[path] = drawn if anew or path not in point else _moved(axis, point[path], up)
        return varied

    @override
    def ranking(self) -> list[Point]:
        """The points of the last generation that was told of as a whole, best first."""
        size = len(self._first)
        whole = [g for g in range(len(self._ends)) if all(i in self.outcomes for i in range(g * size, (g + 1) * size))]
        if not whole:
            return super().ranking()
        last = range(whole[-1] * size, (whole[-1] + 1) * size)

        def worth(index: int) -> tuple[float, float]:
            outcome: Outcome = self.outcomes[index]
            return outcome.worth("score"), outcome.worth(TIE_BREAK)

        ranked = [self.asked[i].point for i in sorted(last, key=worth, reverse=True)]
        return list({repr(sorted(point.items())): point for point in ranked}.values())


def _moved(axis: Axis, value: Any, up: bool) -> Any:
    """A neighbouring value: the next one of a list, or a fifth more or less, within the bounds."""
    if isinstance(axis, Choice):
        values = list(axis.values)
        at = values.index(value) + (1 if up else -1)
        return values[min(max(at, 0), len(values) - 1)]
    if isinstance(axis, IntegerSteps):
        low, high = axis.corners()
        return min(max(value + (axis.step if up else -axis.step), low), high)
    assert isinstance(axis, Uniform)
    moved = min(max(value * FACTORS[up], axis.low), axis.high)
    return round(moved) if axis.integer else moved
