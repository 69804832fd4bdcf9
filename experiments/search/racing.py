"""Racing over seeds: every configuration gets one, those that lead get more until their difference
is significant. Pure.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from typing_extensions import override

from analysis.stats.distributions import t_tail
from analysis.stats.moderated import moderate
from experiments.config.space import Point
from experiments.search.strategy import (
    SCORE,
    TO_TARGET,
    Ask,
    Outcome,
    Signal,
    Strategy,
    key_of,
    mean_worth,
    next_seed,
    ranks,
    solvers,
)

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
    seeds: list[int] = field(default_factory=list)  # asked for
    outcomes: list[Outcome] = field(default_factory=list)
    dropped: bool = False
    means: dict[str, float] = field(default_factory=dict)  # measure to the mean worth
    variances: dict[str, float] = field(default_factory=dict)  # of two seeds and more

    def add(self, outcome: Outcome, measures: Sequence[str]) -> None:
        """Take in what a seed came to; every look at the race compares all configurations."""
        self.outcomes.append(outcome)
        for measure in measures:
            self.means[measure] = mean_worth(self.outcomes, measure)
            if len(self.outcomes) > 1 and math.isfinite(self.means[measure]):
                self.variances[measure] = float(np.var([o.worth(measure) for o in self.outcomes], ddof=1))


class Racing(Strategy):
    """Seeds where they matter.

    What another strategy proposes is run with one seed each. Then the leader and whoever may most likely be better than
    it get another one, whichever of the two has fewer (LUCB: Kalyanakrishnan et al. 2012, "PAC subset selection in
    stochastic multi-armed bandits"). After each outcome, those that are worse than the leader are dropped: by a
    one-sided t test on variances that are averaged with those of the others (Smyth 2004); a configuration with a single
    seed is given the largest variance that any other one shows. The tests of all configurations and looks share the
    risk `RISK`: the j-th look has the share 1 / (j (j + 1)).

    Where the score is the objective, the race goes by what the final decision goes by. As soon as two configurations in
    the race solve the environment (`solvers`), leader and challenger are those by env steps to target, and whatever is
    significantly slower than the leader is dropped as well as what scores significantly less; the two tests halve their
    share of the risk. The statistic is the restricted mean: a seed that never holds the target counts with its budget,
    which all seeds have alike (Royston and Parmar 2013).

    The race ends when one is left, or all that are left have `max_seeds`, or `max_trials` were run.
    """

    def __init__(self, proposals: Strategy, seeds: Sequence[int], max_trials: int | None, risk: float = RISK) -> None:
        """Race what a strategy proposes.

        Args:
            proposals: Asks for each configuration once, or several times; has one objective.
            seeds: Seeds that a configuration may have.
            max_trials: Most trials, with the proposals; None: half as many again as there are proposals.
            risk: As `RISK`.
        """
        super().__init__(proposals.objectives)
        self._proposals, self._seeds, self._risk = proposals, tuple(seeds), risk
        self._given = max_trials
        self._arms: dict[str, _Arm] = {}
        self._looks = 0
        self._objective = self.objectives[0]
        self._measures = (SCORE, TO_TARGET) if self._objective == SCORE else (self._objective,)
        self._of_proposals: dict[int, int] = {}  # index of a proposed trial to its index there

    @property
    def _max_trials(self) -> int:
        """Most trials, with the proposals, of which there may be fewer than it seemed before they began."""
        return math.ceil(1.5 * self._proposals.most_trials) if self._given is None else self._given

    @property
    @override
    def most_trials(self) -> int:
        most = max(self._max_trials, self._proposals.most_trials)
        return min(most, self._proposals.most_trials * len(self._seeds))

    @property
    @override
    def least_learning(self) -> int:
        return self._proposals.least_learning

    @property
    @override
    def belief(self) -> Sequence[float] | None:
        return self._proposals.belief

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
        known = [arm for arm in self._arms.values() if arm.outcomes]
        if len(known) < len(self._arms):
            return Signal.WAIT
        alive = [arm for arm in known if not arm.dropped and math.isfinite(arm.means[self._objective])]
        if len(self.asked) >= self._max_trials or len(alive) < 2:
            return Signal.DONE
        arm = self._second(alive) or self._next(alive)
        if arm is None:
            return Signal.DONE
        seed = next_seed(arm.seeds, self._seeds, self._seeds.index(arm.seeds[0]))
        assert seed is not None
        return Ask(arm.point, seed, note={_RACE: True})

    def _best_first(self, arms: Sequence[_Arm], outcomes: Sequence[Sequence[Outcome]]) -> list[_Arm]:
        by = ranks(outcomes, self.objectives)
        return [arms[i] for i in sorted(range(len(arms)), key=by.__getitem__, reverse=True)]

    def _second(self, alive: list[_Arm]) -> _Arm | None:
        """The best of those that shall have a second seed and don't yet."""
        wanted = max(LEAST_SPREADS, math.ceil(SECOND_SEEDS * len(self._arms)))
        by_first = self._best_first(alive, [arm.outcomes[:1] for arm in alive])[:wanted]
        return next((arm for arm in by_first if len(arm.seeds) == 1 and len(self._seeds) > 1), None)

    def _next(self, alive: list[_Arm]) -> _Arm | None:
        """The leader, or whoever may be better."""
        leader, *others = self._best_first(alive, [arm.outcomes for arm in alive])
        measure = TO_TARGET if any(solvers([arm.outcomes for arm in alive], self.objectives)) else self._objective
        spread = math.sqrt(self._pooled(measure))
        others.sort(key=lambda arm: arm.means[measure] + WIDTH * spread / math.sqrt(len(arm.seeds)), reverse=True)
        open_others = [arm for arm in others if len(arm.seeds) < len(self._seeds)]
        is_open = len(leader.seeds) < len(self._seeds)
        if is_open and (not open_others or len(leader.seeds) < len(open_others[0].seeds)):
            return leader
        return open_others[0] if open_others else None

    def _pooled(self, measure: str) -> float:
        """Mean variance of the configurations with two seeds and more."""
        several = [arm for arm in self._arms.values() if measure in arm.variances and math.isfinite(arm.means[measure])]
        df = sum(len(arm.outcomes) - 1 for arm in several)
        return sum((len(arm.outcomes) - 1) * arm.variances[measure] for arm in several) / df if df else 0.0

    @override
    def start(self, ask: Ask) -> None:
        if not ask.note.get(_RACE):
            self._of_proposals[len(self.asked)] = len(self._proposals.asked)
            self._proposals.start(ask)
        arm = self._arms.setdefault(key_of(ask.point), _Arm(ask.point))
        arm.seeds.append(ask.seed)
        super().start(ask)

    @override
    def tell(self, index: int, outcome: Outcome) -> None:
        super().tell(index, outcome)
        if index in self._of_proposals:
            self._proposals.tell(self._of_proposals[index], outcome)
        self._arms[key_of(self.asked[index].point)].add(outcome, self._measures)
        self._drop()

    @override
    def resume(self) -> None:
        self._proposals.resume()

    def _drop(self) -> None:
        """Take out whatever is significantly worse than the leader, and whatever failed."""
        racing = [arm for arm in self._arms.values() if arm.outcomes and not arm.dropped]
        for arm in racing:
            arm.dropped = not math.isfinite(arm.means[self._objective])
        racing = [arm for arm in racing if not arm.dropped]
        if len([arm for arm in racing if len(arm.outcomes) > 1]) < LEAST_SPREADS or len(racing) < 2:
            return
        self._looks += 1
        has_target = any(math.isfinite(arm.outcomes[0].target) for arm in racing)
        tests = len(self._measures) if has_target else 1
        alpha = self._risk / (self._looks * (self._looks + 1)) / (len(self._arms) - 1) / tests
        self._drop_by(self._objective, racing, [True] * len(racing), alpha)
        racing = [arm for arm in racing if not arm.dropped]
        self._drop_by(TO_TARGET, racing, solvers([arm.outcomes for arm in racing], self.objectives), alpha)

    def _drop_by(self, measure: str, racing: Sequence[_Arm], may_lead: Sequence[bool], alpha: float) -> None:
        """Take out whatever is significantly worse than the leader by a measure,
        if there is a leader with two seeds.
        """
        several = [arm for arm in racing if len(arm.outcomes) > 1]
        leading = [arm for arm, may in zip(racing, may_lead, strict=True) if may and arm in several]
        if not leading or len(several) < 2:
            return
        leader = self._best_first(leading, [arm.outcomes for arm in leading])[0]
        for arm in racing:
            if arm.means[measure] < leader.means[measure] and self._p_as_good(measure, arm, leader, several) < alpha:
                arm.dropped = True

    def _p_as_good(self, measure: str, arm: _Arm, leader: _Arm, several: Sequence[_Arm]) -> float:
        """One-sided p value of the hypothesis that a configuration is no worse than the leader."""
        squares, df = 0.0, 0.0
        for one in (arm, leader):
            others = [other for other in several if other is not one]
            variances = [o.variances[measure] for o in others]
            prior = max(variances) if len(one.outcomes) == 1 else float(np.mean(variances))
            own_df = len(one.outcomes) - 1
            own = one.variances[measure] if own_df else math.nan
            variance, own_and_prior_df = moderate(own, own_df, prior, sum(len(o.outcomes) - 1 for o in others))
            squares += float(variance) / len(one.outcomes)
            df = min(df or math.inf, float(own_and_prior_df))
        if squares == 0:  # no spread anywhere is no certainty
            return 1.0
        return float(t_tail((leader.means[measure] - arm.means[measure]) / math.sqrt(squares), df))
