"""Racing over seeds: every configuration gets one, those that lead get more until their difference is significant. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from typing_extensions import override

from analysis.stats.moderated import moderate
from experiments.config.space import Point
from experiments.search.strategy import TIE_BREAK, Ask, Outcome, Signal, Strategy, key_of, next_seed

RISK = 0.05
"""That the configuration which is best on average is dropped, in all looks together."""
LEAST_SPREADS = 3
"""Configurations with two seeds and more, before any is dropped: the spread of one says little of that of others."""
SECOND_SEEDS = 0.25
"""Share of the configurations, the best by their first seed, that get a second one before spreads are known."""
_RACE = "race"
"""Note of a trial that was not proposed, but raced."""
WIDTH = 2.0
"""Standard errors above its mean up to which a configuration may turn out to be better."""


@dataclass
class _Arm:
    """A configuration in the race."""

    point: Point
    seeds: list[int]  # asked for
    worths: list[tuple[float, ...]]  # told: by the objective, and by what breaks ties
    dropped: bool = False
    mean: float = math.nan
    rank: tuple[float, ...] = ()
    variance: float = math.nan  # of two and more

    def add(self, worth: tuple[float, ...]) -> None:
        """Take in what a seed is worth; every look at the race compares all configurations."""
        self.worths.append(worth)
        self.rank = tuple(sum(column) / len(column) for column in zip(*self.worths, strict=True))
        self.mean = self.rank[0]
        if len(self.worths) > 1 and math.isfinite(self.mean):
            self.variance = float(np.var([w[0] for w in self.worths], ddof=1))


class Racing(Strategy):
    """Seeds where they matter.

    What another strategy proposes is run with one seed each. Then the leader and whoever may most likely be better than it get another one,
    whichever of the two has fewer (LUCB: Kalyanakrishnan et al. 2012, "PAC subset selection in stochastic multi-armed bandits"). After each
    outcome, those that are worse than the leader are dropped: by a one-sided t test on variances that are averaged with those of the others
    (Smyth 2004); a configuration with a single seed is given the largest variance that any other one shows. The tests of all
    configurations and looks share the risk `RISK`: the j-th look has the share 1 / (j (j + 1)).

    The race ends when one is left, or all that are left have `max_seeds`, or `max_trials` were run.
    """

    def __init__(self, proposals: Strategy, seeds: Sequence[int], max_trials: int | None, risk: float = RISK) -> None:
        """Race what a strategy proposes.

        Args:
            proposals: Asks for each configuration once, or several times; has one objective.
            seeds: That a configuration may have.
            max_trials: Of the race and the proposals together; None: half as many again as there are proposals.
            risk: As `RISK`.
        """
        super().__init__(proposals.objectives)
        self._proposals, self._seeds, self._risk = proposals, tuple(seeds), risk
        proposed = proposals.most_trials
        self._max_trials = math.ceil(1.5 * proposed) if max_trials is None else max_trials
        self._arms: dict[str, _Arm] = {}
        self._looks = 0
        self._of_proposals: dict[int, int] = {}  # index of a proposed trial to its index there

    @property
    @override
    def most_trials(self) -> int:
        most = max(self._max_trials, self._proposals.most_trials)
        return min(most, self._proposals.most_trials * len(self._seeds))

    @property
    def in_race(self) -> list[Point]:
        """The configurations that were not dropped."""
        return [arm.point for arm in self._arms.values() if not arm.dropped]

    @override
    def ranking(self) -> list[Point]:
        """Those that were not dropped, best first."""
        left = {key_of(point) for point in self.in_race}
        return [point for point in super().ranking() if key_of(point) in left]

    @override
    def ask(self) -> Ask | Signal:
        proposed = self._proposals.ask()
        if proposed is not Signal.DONE:
            return proposed
        known = [arm for arm in self._arms.values() if arm.worths]
        if len(known) < len(self._arms):
            return Signal.WAIT
        alive = [arm for arm in known if not arm.dropped and math.isfinite(arm.mean)]
        if len(self.asked) >= self._max_trials or len(alive) < 2:
            return Signal.DONE
        arm = self._second(alive) or self._next(alive)
        if arm is None:
            return Signal.DONE
        seed = next_seed(arm.seeds, self._seeds, self._seeds.index(arm.seeds[0]))
        assert seed is not None
        return Ask(arm.point, seed, note={_RACE: True})

    def _second(self, alive: list[_Arm]) -> _Arm | None:
        """The best of those that shall have a second seed and don't yet."""
        wanted = max(LEAST_SPREADS, math.ceil(SECOND_SEEDS * len(self._arms)))
        by_first = sorted(alive, key=lambda arm: arm.worths[0], reverse=True)[:wanted]
        return next((arm for arm in by_first if len(arm.seeds) == 1 and len(self._seeds) > 1), None)

    def _next(self, alive: list[_Arm]) -> _Arm | None:
        """The leader, or whoever may be better."""
        leader = max(alive, key=lambda arm: arm.rank)
        spread = math.sqrt(self._pooled()[0])
        others = sorted(
            (arm for arm in alive if arm is not leader),
            key=lambda arm: (arm.mean + WIDTH * spread / math.sqrt(len(arm.seeds)), arm.rank),
            reverse=True,
        )
        open_others = [arm for arm in others if len(arm.seeds) < len(self._seeds)]
        is_open = len(leader.seeds) < len(self._seeds)
        if is_open and (not open_others or len(leader.seeds) < len(open_others[0].seeds)):
            return leader
        return open_others[0] if open_others else None

    def _pooled(self) -> tuple[float, float]:
        """Mean variance of the configurations with two seeds and more, and its degrees of freedom."""
        several = [arm for arm in self._arms.values() if len(arm.worths) > 1 and math.isfinite(arm.mean)]
        df = sum(len(arm.worths) - 1 for arm in several)
        return (sum((len(arm.worths) - 1) * arm.variance for arm in several) / df, float(df)) if df else (0.0, 0.0)

    @override
    def start(self, ask: Ask) -> None:
        if not ask.note.get(_RACE):
            self._of_proposals[len(self.asked)] = len(self._proposals.asked)
            self._proposals.start(ask)
        arm = self._arms.setdefault(key_of(ask.point), _Arm(ask.point, [], []))
        arm.seeds.append(ask.seed)
        super().start(ask)

    @override
    def tell(self, index: int, outcome: Outcome) -> None:
        super().tell(index, outcome)
        if index in self._of_proposals:
            self._proposals.tell(self._of_proposals[index], outcome)
        arm = self._arms[key_of(self.asked[index].point)]
        arm.add((outcome.worth(self.objectives[0]), outcome.worth(TIE_BREAK)))
        self._drop()

    @override
    def resume(self) -> None:
        self._proposals.resume()

    def _drop(self) -> None:
        """Take out whatever is significantly worse than the leader, and whatever failed."""
        racing = [arm for arm in self._arms.values() if arm.worths and not arm.dropped]
        for arm in racing:
            arm.dropped = not math.isfinite(arm.mean)
        racing = [arm for arm in racing if not arm.dropped]
        several = [arm for arm in racing if len(arm.worths) > 1]
        if len(several) < LEAST_SPREADS or len(racing) < 2:
            return
        self._looks += 1
        alpha = self._risk / (self._looks * (self._looks + 1)) / (len(self._arms) - 1)
        leader = max(several, key=lambda arm: arm.rank)
        for arm in racing:
            if arm is not leader and arm.mean < leader.mean and self._p_as_good(arm, leader, several) < alpha:
                arm.dropped = True

    def _p_as_good(self, arm: _Arm, leader: _Arm, several: Sequence[_Arm]) -> float:
        """One-sided p value of the hypothesis that a configuration is no worse than the leader."""
        squares, df = 0.0, 0.0
        for one in (arm, leader):
            others = [other for other in several if other is not one]
            prior = max(o.variance for o in others) if len(one.worths) == 1 else float(np.mean([o.variance for o in others]))
            own_df = len(one.worths) - 1
            own = one.variance if own_df else math.nan
            variance, own_and_prior_df = moderate(own, own_df, prior, sum(len(o.worths) - 1 for o in others))
            squares += float(variance) / len(one.worths)
            df = min(df or math.inf, float(own_and_prior_df))
        if squares == 0:  # no spread anywhere is no certainty
            return 1.0
        return float(stats.t.sf((leader.mean - arm.mean) / math.sqrt(squares), df))
