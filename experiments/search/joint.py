"""Learning rate, batch and layout together: what learns is run side by side, what is fast is measured alone."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from analysis.stats.goodput import Candidates, Learned, Measured, Predicted, log_staleness, longest_start, predicted
from analysis.stats.interval import Array
from experiments.config.space import Point
from experiments.contract import FINISHED, THROUGHPUT
from experiments.search.strategy import TO_TARGET, Ask, Outcome, Signal, Strategy, key_of

HARDLY = 0.01
"""Probability to be the soonest below which, in all of its layouts, a learning setting gets no more seeds."""
SURE = 0.03
"""Expected regret of the soonest, a share of its time, at which no more seeds are needed; see `benchmarks goodput`."""
ELSEWHERE = 2
"""Learning settings, the best, that are trained with another number of environments as well, and on older samples."""
OTHER_BATCHES = 4
"""One of so many layouts is measured at the smallest and the largest batch, the others at the base's."""
STALENESS = "staleness"
"""Of a trial's note: training batches for which its samples wait, beside those of its configuration."""
_UPDATES = "staleness_updates"
"""Of an outcome: updates between the policy that sampled and the one that learned, mean over the trial."""


@dataclass(frozen=True)
class Candidate:
    """A configuration that may be the soonest.

    Attributes:
        point: Point of the space.
        learning: Decimal logarithms of what learning depends on: learning rate, batch, ...
        num_envs: Environments in all.
        batch: Env steps, or rows, of a training batch.
        work: What its learner does with an env step: the settings of learning that may change its seconds beside the
            batch, such as updates for each, by name.
        layout: Its name.
        num_env_runners: Of the layout.
        budget_env_steps: Env steps of a trial.
    """

    point: Point
    learning: tuple[float, ...]
    num_envs: int
    batch: float
    work: str
    layout: str
    num_env_runners: int
    budget_env_steps: int

    @property
    def place(self) -> tuple[float, ...]:
        """As `Learned.place` has it."""
        return (*self.learning, float(np.log10(self.num_envs)))


class Joint(Strategy):
    """The soonest configuration by the product of env steps to target and seconds an env step.

    First every layout is measured, alone, in rounds of random order. Then learning settings are trained side by side in
    the layout of fewest processes, with all of the study's seeds. The best are trained with another number of
    environments too, since layouts differ in these; and of an algorithm that samples while it learns on older samples,
    as old as in the layout where they are oldest. Then what may still be the soonest gets more seeds, one by one, until
    the expected regret of the best is small.
    `analysis/stats/goodput.py` has the product.

    Attributes:
        num_rounds: Measurements of each layout.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        base: Point,
        seeds: Sequence[int],
        rounds: int,
        more_seeds: Sequence[int] = (),
        objectives: Sequence[str] = ("minutes_to_target",),
        updates_of_batch: int | None = None,
    ) -> None:
        """Look for the soonest.

        Args:
            candidates: The configurations to choose from.
            base: The point that the study starts from, with whose number of environments learning is measured.
            seeds: Seeds that learning is measured with.
            rounds: Measurements of each layout.
            more_seeds: Seeds for what is not decided by then.
            objectives: The study's: minutes, or their cost, which is the same for all on one machine.
            updates_of_batch: Updates from a training batch, of an algorithm whose batches can be made to wait; None of
                others.
        """
        super().__init__(objectives)
        self._candidates, self._seeds, self._more = tuple(candidates), tuple(seeds), tuple(more_seeds)
        self._updates_of_batch = updates_of_batch
        self._of = {key_of(c.point): c for c in candidates}
        fewest = min(c.num_env_runners for c in candidates)
        simplest = [c for c in candidates if c.num_env_runners == fewest]
        listed = self._of.get(key_of(base))
        wanted = listed.num_envs if listed else max(c.num_envs for c in simplest)
        self._base = listed or simplest[len(simplest) // 2]

        def far(num_envs: int) -> float:
            return float(abs(np.log(num_envs / wanted)))

        by_cell: dict[tuple[float, ...], list[Candidate]] = {}
        for candidate in sorted(simplest, key=lambda c: far(c.num_envs)):
            by_cell.setdefault(candidate.learning, []).append(candidate)
        self._by_cell = by_cell
        self._cells = {cell: own[0].point for cell, own in by_cell.items()}
        self._other_cells = {
            cell: own[-1].point for cell, own in by_cell.items() if own[-1].num_envs != own[0].num_envs
        }
        self.num_rounds, self._rounds = rounds, self._planned_rounds(rounds)
        self._planned: list[Ask] = []
        self._left = list(self._more)
        self._stages = 0

    @property
    @override
    def most_trials(self) -> int:
        older = 0 if self._updates_of_batch is None else min(ELSEWHERE, len(self._cells)) * len(self._seeds)
        return len(self._rounds) + self.least_learning + older + len(self._cells) * len(self._more)

    @property
    @override
    def least_learning(self) -> int:
        return (len(self._cells) + min(ELSEWHERE, len(self._other_cells))) * len(self._seeds)

    @property
    def num_learning(self) -> int:
        """Trials that learn, at most."""
        return self.most_trials - len(self._rounds)

    @property
    def num_layouts(self) -> int:
        """Layouts that are measured."""
        return len({c.layout for c in self._candidates})

    def _planned_rounds(self, rounds: int) -> list[Ask]:
        """Each layout at the batch nearest to the base's, or some at the smallest and the largest; and what else the
        learner does with an env step, at both in the first layout.
        """
        by_layout: dict[str, list[Candidate]] = {}
        for candidate in self._candidates:
            by_layout.setdefault(candidate.layout, []).append(candidate)
        points = []
        for i, own in enumerate(by_layout.values()):
            batches = sorted({c.batch for c in own}, key=lambda b: abs(np.log(b / self._base.batch)))
            points += self._nearest(own, (min(batches), max(batches)) if i % OTHER_BATCHES == 0 else batches[:1])
        by_work: dict[str, list[Candidate]] = {}
        for candidate in next(iter(by_layout.values())):
            by_work.setdefault(candidate.work, []).append(candidate)
        by_work.pop(self._base.work, None)
        for own in by_work.values():
            points += self._nearest(own, (min(c.batch for c in own), max(c.batch for c in own)))
        return [
            Ask(points[i], repeat, THROUGHPUT, {"env_steps": 0}, alone=True)
            for repeat in range(rounds)
            for i in np.random.default_rng(repeat).permutation(len(points))
        ]

    def _nearest(self, candidates: Sequence[Candidate], batches: Sequence[float]) -> list[Point]:
        """Of each of some batches the point that is nearest to the base."""
        of_batch = ([c for c in candidates if c.batch == batch] for batch in dict.fromkeys(batches))
        return [min(own, key=self._apart).point for own in of_batch]

    def _apart(self, candidate: Candidate) -> float:
        """How far a candidate's learning settings are from the base's."""
        return float(np.abs(np.subtract(candidate.learning, self._base.learning)).sum())

    @override
    def ask(self) -> Ask | Signal:
        if len(self.asked) == len(self._planned):
            if len(self.outcomes) < len(self.asked):
                return Signal.WAIT
            self._plan()
        return self._planned[len(self.asked)] if len(self.asked) < len(self._planned) else Signal.DONE

    @override
    def start(self, ask: Ask) -> None:
        if len(self.asked) == len(self._planned):  # after a restart
            self._plan()
        at = len(self.asked)
        self._planned[at:] = [ask, *(other for other in self._planned[at:] if other != ask)]  # what began comes first
        super().start(ask)

    def _plan(self) -> None:
        """The trials that come next, once all before have ended; none if that was all."""
        stage, self._stages = self._stages, self._stages + 1
        if stage == 0:
            self._planned += self._rounds
        elif stage == 1:
            self._planned += [Ask(point, seed) for seed in self._seeds for point in self._cells.values()]
        elif stage == 2 and (asks := self._of_the_best()):
            self._planned += asks
        elif self._left and (found := self.predicted()) is not None and found.regret.min() > SURE:
            seed = self._left.pop(0)
            self._planned += [Ask(point, seed) for point in self._hopeful(found)]

    def _of_the_best(self) -> list[Ask]:
        """The best learning settings with another number of environments, and on older samples."""
        best = list(self._soonest())
        elsewhere = [cell for cell in best if cell in self._other_cells][:ELSEWHERE]
        older = {cell: batches for cell in best[:ELSEWHERE] if (batches := self._batches_to_wait(cell))}
        return [
            *(Ask(self._other_cells[cell], seed) for seed in self._seeds for cell in elsewhere),
            *(
                Ask(self._cells[cell], seed, note={STALENESS: batches})
                for seed in self._seeds
                for cell, batches in older.items()
            ),
        ]

    def _batches_to_wait(self, cell: tuple[float, ...]) -> int:
        """Training batches for which the samples of learning settings have to wait until they are as old as in the
        layout where they are oldest, one at least; 0 where they cannot wait, or nothing is known of how old they are.
        """
        throughput, trained = self._throughput(), [o for _, c, o in self._trained() if c.learning == cell]
        now = [o.values[_UPDATES] for o in trained if _UPDATES in o.values]
        if self._updates_of_batch is None or throughput.staleness is None or not now:
            return 0
        own = [c for c in self._measurable if c.learning == cell]
        layouts, batches, works = [c.layout for c in own], _array([c.batch for c in own]), [c.work for c in own]
        oldest = 10 ** float(throughput.log_staleness_at(layouts, batches, works).max()) - 1
        return max(1, math.ceil((oldest - float(np.mean(now))) / self._updates_of_batch))

    def _hopeful(self, found: Predicted) -> list[Point]:
        """What may still be the soonest: learning settings, each in the layouts of fewest processes whose numbers of
        environments are nearest to those of its candidates; no more points than there are learning settings.
        """
        p_best: dict[str, float] = defaultdict(float)
        of_setting: dict[tuple[float, ...], float] = defaultdict(float)
        for candidate, p in zip(self._measurable, found.p_best, strict=True):
            if candidate.learning in self._by_cell:  # else it has no layout of fewest processes
                p_best[key_of(self._simplest(candidate).point)] += float(p)
                of_setting[candidate.learning] += float(p)
        likely = {*sorted(p_best, key=lambda key: -p_best[key])[: len(self._cells)]}
        hopeful = [self._of[key] for key in p_best if key in likely]
        return [one.point for one in hopeful if of_setting[one.learning] >= HARDLY]

    def _simplest(self, candidate: Candidate) -> Candidate:
        """The same learning settings in the layout of fewest processes, with the nearest number of environments."""
        own = self._by_cell[candidate.learning]
        return min(own, key=lambda c: abs(np.log(c.num_envs / candidate.num_envs)))

    def _soonest(self) -> dict[tuple[float, ...], Point]:
        """Learning settings, the soonest first, each in its best layout."""
        best: dict[tuple[float, ...], Point] = {}
        if (found := self.predicted()) is not None:
            measurable = self._measurable
            for candidate in (measurable[i] for i in found.order):
                best.setdefault(candidate.learning, candidate.point)
        return best

    @override
    def found(self) -> list[Point]:
        """Every learning setting in its best layout, the soonest first: fresh seeds tell them apart,
        where layouts of the same were measured.
        """
        return list(self._soonest().values())

    @property
    def _measurable(self) -> list[Candidate]:
        """The candidates whose layout was measured, and what their learner does."""
        measured = [candidate for candidate, _ in self._measured()]
        layouts, works = {c.layout for c in measured}, {c.work for c in measured}
        return [c for c in self._candidates if c.layout in layouts and c.work in works]

    def _told(self) -> list[tuple[Ask, Candidate, Outcome]]:
        return [(ask := self.asked[i], self._of[key_of(ask.point)], o) for i, o in sorted(self.outcomes.items())]

    def _measured(self) -> list[tuple[Candidate, Outcome]]:
        return [(c, o) for ask, c, o in self._told() if ask.phase == THROUGHPUT and o.status == FINISHED]

    def _trained(self) -> list[tuple[Ask, Candidate, Outcome]]:
        return [(ask, c, o) for ask, c, o in self._told() if ask.phase != THROUGHPUT]

    def _throughput(self) -> Measured:
        measured = self._measured()
        return Measured.of(
            [c.layout for c, _ in measured],
            _array([c.batch for c, _ in measured]),
            _array([o.values["env_steps_per_s"] for _, o in measured]),
            [c.work for c, _ in measured],
            _array([o.values.get(_UPDATES, math.nan) for _, o in measured]),
        )

    def _env_steps(self, with_staleness: bool) -> Learned:
        trained = self._trained()
        steps = [
            o.values[TO_TARGET] if o.status == FINISHED and o.reached else float(c.budget_env_steps)
            for _, c, o in trained
        ]
        updates = _array([o.values.get(_UPDATES, math.nan) for _, _, o in trained])
        alike = [f"{ask.phase} {ask.note.get(STALENESS, 0)} {key_of(ask.point)}" for ask, _, _ in trained]
        staleness = log_staleness(updates, alike) if with_staleness else None
        return Learned.of(_array([c.place for _, c, _ in trained]), _array(steps), staleness)

    def predicted(self) -> Predicted | None:
        """Minutes to target of the candidates whose layout was measured, as far as is known; None if nothing is."""
        measured, asked = self._measured(), self._measurable
        if not self._trained() or not measured:
            return None
        throughput = self._throughput()
        starts = [(c.num_env_runners, o.values.get("start_s", 0.0)) for c, o in measured]
        return predicted(
            Candidates(
                _array([c.place for c in asked]),
                _array([c.batch for c in asked]),
                [c.layout for c in asked],
                longest_start([c.num_env_runners for c in asked], starts),
                [c.work for c in asked],
            ),
            self._env_steps(with_staleness=throughput.staleness is not None),
            throughput,
            np.random.default_rng(0),
        )


def _array(values: Sequence[object]) -> Array:
    return np.asarray(values, dtype=float)
