"""Learning rate, batch and layout together: what learns is run side by side, what is fast is measured alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from analysis.stats.goodput import Candidates, Learned, Measured, Predicted, longest_start, predicted
from analysis.stats.interval import Array
from experiments.config.space import Point
from experiments.contract import FINISHED, THROUGHPUT
from experiments.search.strategy import TO_TARGET, Ask, Outcome, Signal, Strategy, key_of

HARDLY = 0.01
"""Probability to be the soonest below which, in all of its layouts, a learning setting gets no more seeds."""
SURE = 0.03
"""Expected regret of the soonest, a share of its time, at which no more seeds are needed; see `benchmarks goodput`."""
ELSEWHERE = 2
"""Learning settings, the best, that are trained with another number of environments as well."""
OTHER_BATCHES = 4
"""One of so many layouts is measured at the smallest and the largest batch, the others at the base's."""


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
    environments too, since layouts differ in these. Then what may still be the soonest gets more seeds, one by one,
    until the expected regret of the best is small.
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
    ) -> None:
        """Look for the soonest.

        Args:
            candidates: The configurations to choose from.
            base: The point that the study starts from, with whose number of environments learning is measured.
            seeds: Seeds that learning is measured with.
            rounds: Measurements of each layout.
            more_seeds: Seeds for what is not decided by then.
            objectives: The study's: minutes, or their cost, which is the same for all on one machine.
        """
        super().__init__(objectives)
        self._candidates, self._seeds, self._more = tuple(candidates), tuple(seeds), tuple(more_seeds)
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
        num_seeds, elsewhere = len(self._seeds), min(ELSEWHERE, len(self._other_cells))
        return len(self._rounds) + len(self._cells) * (num_seeds + len(self._more)) + elsewhere * num_seeds

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
        super().start(ask)

    def _plan(self) -> None:
        """The trials that come next, once all before have ended; none if that was all."""
        stage, self._stages = self._stages, self._stages + 1
        if stage == 0:
            self._planned += self._rounds
        elif stage == 1:
            self._planned += [Ask(point, seed) for seed in self._seeds for point in self._cells.values()]
        elif stage == 2 and (best := [c for c in self._soonest() if c in self._other_cells][:ELSEWHERE]):
            self._planned += [Ask(self._other_cells[cell], seed) for seed in self._seeds for cell in best]
        elif self._left and (found := self.predicted()) is not None and found.regret.min() > SURE:
            seed = self._left.pop(0)
            self._planned += [Ask(self._cells[cell], seed) for cell in self._hopeful(found)]

    def _hopeful(self, found: Predicted) -> list[tuple[float, ...]]:
        """The learning settings that may still be the soonest."""
        p_best: dict[tuple[float, ...], float] = {}
        for candidate, p in zip(self._measurable, found.p_best, strict=True):
            p_best[candidate.learning] = p_best.get(candidate.learning, 0.0) + float(p)
        return [cell for cell in self._cells if p_best.get(cell, 0.0) >= HARDLY]

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

    def predicted(self) -> Predicted | None:
        """Minutes to target of the candidates whose layout was measured, as far as is known; None if nothing is."""
        learned = [(c, o) for ask, c, o in self._told() if ask.phase != THROUGHPUT]
        measured, asked = self._measured(), self._measurable
        if not learned or not measured:
            return None
        steps = [
            o.values[TO_TARGET] if o.status == FINISHED and o.reached else float(c.budget_env_steps) for c, o in learned
        ]
        starts = [(c.num_env_runners, o.values.get("start_s", 0.0)) for c, o in measured]
        return predicted(
            Candidates(
                _array([c.place for c in asked]),
                _array([c.batch for c in asked]),
                [c.layout for c in asked],
                longest_start([c.num_env_runners for c in asked], starts),
                [c.work for c in asked],
            ),
            Learned.of(_array([c.place for c, _ in learned]), _array(steps)),
            Measured.of(
                [c.layout for c, _ in measured],
                _array([c.batch for c, _ in measured]),
                _array([o.values["env_steps_per_s"] for _, o in measured]),
                [c.work for c, _ in measured],
            ),
            np.random.default_rng(0),
        )


def _array(values: Sequence[object]) -> Array:
    return np.asarray(values, dtype=float)
