"""What earlier studies found, for a search that starts from it: an order of points that its first trials put to the
test. Pure.

What is taken is the order alone, and no score: returns of another environment, or at another budget, are others.
Whether the order holds here is not known before. So the first trials run what was best there beside a few points that
were not, and an earlier study counts by the rank correlation of these with what it had found, or not at all where that
is not significant. All of it is a function of the prior and of the outcomes of these trials: whoever has both comes to
the same search.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from analysis.stats.distributions import t_tail
from analysis.stats.interval import Array
from experiments.config.space import Point
from experiments.search.strategy import Outcome, ranks

RISK = 0.05
"""That any earlier study is believed whose order has nothing to do with that of this one."""
FEWEST = 5
"""Points that an earlier study and the first trials have in common, without which it is not believed."""
OTHERS = 4
"""Points among the first that were not the best earlier: without them no order shows."""


@dataclass(frozen=True)
class EarlierStudy:
    """An earlier study, as far as it ran points of this one's space.

    Attributes:
        name: Its experiment, `lr_batch/ppo-cartpole`.
        run: Run id of the study in MLflow.
        places: Of each point of the prior its place in the order of that study, by the objective of this one: 1 the
            best, 0 the worst; None where it did not run the point.
        seeds: That it ran in the environment of this one: with these, trials may come out the same.
    """

    name: str
    run: str
    places: tuple[float | None, ...]
    seeds: tuple[int, ...] = ()


@dataclass(frozen=True)
class Prior:
    """What earlier studies found.

    Attributes:
        points: Points of the space of the study that begins.
        studies: One or more.
    """

    points: tuple[Point, ...]
    studies: tuple[EarlierStudy, ...]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Prior":
        """A prior from its record, as `dataclasses.asdict` gives it and JSON keeps it."""
        studies = [{**one, "places": tuple(one["places"]), "seeds": tuple(one["seeds"])} for one in record["studies"]]
        return cls(tuple(record["points"]), tuple(EarlierStudy(**one) for one in studies))

    @property
    def _places(self) -> Array:
        """(num_studies, num_points), NaN where a study did not run a point."""
        return np.array([study.places for study in self.studies], dtype=np.float64)

    def places(self, weights: Sequence[float] | None = None) -> Array:
        """Place of each point in the order of the earlier studies, their mean: (num_points,), 1 the best.

        Args:
            weights: Of the studies; None: all count alike.

        Returns:
            NaN for a point that no study with a weight ran.
        """
        places = self._places
        by = np.ones(len(places)) if weights is None else np.asarray(weights, dtype=np.float64)
        counted = np.where(np.isfinite(places), by[:, None], 0.0)
        total = counted.sum(axis=0)
        weighed = (np.nan_to_num(places) * counted).sum(axis=0)
        return np.where(total > 0, weighed / np.where(total > 0, total, 1.0), np.nan)

    def order(self, weights: Sequence[float] | None = None) -> list[int]:
        """The points that studies with a weight ran, by their places in `points`, best first.

        Args:
            weights: As `places` takes them.
        """
        places = self.places(weights)
        return [i for i in np.argsort(-places, kind="stable").tolist() if np.isfinite(places[i])]

    def first(self, best: int) -> list[int]:
        """The points that a search runs first, by their places in `points`: the best of the earlier studies, best
        first, in turns with `OTHERS` of the rest, evenly spread, the worst first. Where the earlier studies are wrong,
        what is good here may be among these.

        Args:
            best: How many of the best.
        """
        order = self.order()
        rest = order[best:]
        number = min(OTHERS, len(rest))
        others = [rest[math.ceil((i + 1) * len(rest) / number) - 1] for i in range(number)]
        turns = zip_longest(order[:best], reversed(others))
        return [i for turn in turns for i in turn if i is not None]

    def weights(self, tried: Sequence[int], outcomes: Sequence[Outcome], objectives: Sequence[str]) -> list[float]:
        """How much each earlier study counts: the rank correlation of what it found with what came out here, 0 where
        that is not significantly above 0 (one-sided t test, the studies sharing the risk `RISK`).

        Args:
            tried: The points that were tried, by their places in `points`.
            outcomes: The outcome of each.
            objectives: The aims of the search.
        """
        seen = np.array(places_of([[outcome] for outcome in outcomes], objectives))
        return [_agreement(of_one[list(tried)], seen, RISK / len(self.studies)) for of_one in self._places]

    def belief(
        self, tried: Sequence[int], outcomes: Mapping[int, Outcome], objectives: Sequence[str]
    ) -> list[float] | None:
        """As `weights`, of a search whose first trials are those of these points; None until all of them have ended.

        Args:
            tried: The points that are tried first, by their places in `points`.
            outcomes: Of the search's trials, by their place in it.
            objectives: The aims of the search.
        """
        first = [outcomes[i] for i in range(len(tried)) if i in outcomes]
        return self.weights(tried, first, objectives) if len(first) == len(tried) else None


def places_of(outcomes: Sequence[Sequence[Outcome]], objectives: Sequence[str]) -> list[float]:
    """Places of configurations in the order in which a search ranks them: 1 the best, 0 the worst, ties share.

    Args:
        outcomes: The outcomes of each configuration's trials, one at least.
        objectives: The aims of the search.
    """
    keys = ranks(outcomes, objectives)
    worse = [sum(other < key for other in keys) for key in keys]
    alike = [keys.count(key) - 1 for key in keys]
    return [(w + a / 2) / max(1, len(keys) - 1) for w, a in zip(worse, alike, strict=True)]


def _agreement(earlier: Array, seen: Array, risk: float) -> float:
    """Rank correlation of places where both are known; 0 where it is not significantly above 0."""
    # with scipy.stats, which takes most of a second to import, for searches that have a prior
    from analysis.stats.rank_correlation import rank_correlation

    known = np.isfinite(earlier)
    number = int(known.sum())
    if number < FEWEST:
        return 0.0
    correlation = float(rank_correlation(earlier[known], seen[known]))
    if not correlation > 0:  # NaN where all tie
        return 0.0
    t = correlation * math.sqrt((number - 2) / max(1 - correlation**2, np.finfo(np.float64).eps))
    return correlation if float(t_tail(t, number - 2)) <= risk else 0.0
