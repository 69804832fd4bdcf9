from collections import Counter

import numpy as np
import pytest

from experiments.config.space import parse_space
from experiments.contract import FAILED, FINISHED
from experiments.search.population import Population
from experiments.search.strategy import Ask, Outcome
from experiments.search.trial_queue import Limits, TrialQueue
from tests.support.search_runs import run

LR, BATCH, CLIP = (f"algorithm.training.{name}" for name in ("lr", "train_batch_size_per_learner", "clip_param"))
SPACE = {
    LR: {"distribution": "loguniform", "low": 1e-5, "high": 1e-2},
    BATCH: [512, 1000, 2000],
    CLIP: {"distribution": "uniform", "low": 0.1, "high": 0.4},
}
ENDS = [1000, 2000, 3000, 4000]
MEMBERS = 8


def population(resample_probability: float = 0.0, quantile: float = 0.25) -> Population:
    first = [{LR: 10.0 ** (-4 + i / 4), BATCH: SPACE[BATCH][i % 3], CLIP: 0.2} for i in range(MEMBERS)]
    return Population(parse_space(SPACE), first, range(MEMBERS), ENDS, quantile, resample_probability, 0)


def by_lr(ask: Ask) -> Outcome:
    """The larger the learning rate, the better."""
    return Outcome(FINISHED, {"score": ask.point[LR], "auc": 0.0}, ask.note["env_steps"])


def test_every_generation_starts_where_its_parent_ended_and_the_worst_copy_the_best() -> None:
    asked = run(TrialQueue(population(), 3, Limits(4000)), by_lr)
    assert len(asked) == MEMBERS * len(ENDS)
    for g, end in enumerate(ENDS):
        members = asked[g * MEMBERS : (g + 1) * MEMBERS]
        assert [ask.seed for ask in members] == list(range(MEMBERS))
        assert {ask.note["until"] for ask in members} == {end}
        if not g:
            continue
        before = asked[(g - 1) * MEMBERS : g * MEMBERS]
        ranked = sorted(ask.point[LR] for ask in before)
        copying = [ask for ask in members if ask.note["copied"]]
        assert len(copying) == 2
        assert max(before[ask.seed].point[LR] for ask in copying) <= ranked[1]
        assert min(asked[ask.note["parent"]].point[LR] for ask in copying) >= ranked[-2]
        for ask in members:
            parent = asked[ask.note["parent"]]
            assert parent.note["until"] == ask.note["from"] == end - ask.note["env_steps"]
            assert ask.note["copied"] or (parent.seed == ask.seed and parent.point == ask.point)


def test_settings_move_to_a_neighbour_within_their_bounds() -> None:
    asked = run(TrialQueue(population(), 3, Limits(4000)), by_lr)
    moves = Counter()
    for ask in asked:
        if ask.note.get("copied"):
            parent = asked[ask.note["parent"]].point
            assert ask.point[LR] == pytest.approx(min(parent[LR] * 1.2, 1e-2)) or ask.point[LR] == pytest.approx(
                parent[LR] * 0.8
            )
            assert abs(SPACE[BATCH].index(ask.point[BATCH]) - SPACE[BATCH].index(parent[BATCH])) <= 1
            moves[ask.point[LR] > parent[LR]] += 1
    assert moves[True] and moves[False]


def test_settings_drawn_anew_are_anywhere() -> None:
    asked = run(TrialQueue(population(resample_probability=1.0), 3, Limits(4000)), by_lr)
    ratios = [ask.point[LR] / asked[ask.note["parent"]].point[LR] for ask in asked if ask.note.get("copied")]
    assert np.std(np.log10(ratios)) > 0.3


def test_a_population_finds_better_settings_than_it_began_with() -> None:
    strategy = population(resample_probability=0.25)
    run(
        TrialQueue(strategy, 3, Limits(4000)),
        lambda ask: Outcome(FINISHED, {"score": -abs(np.log10(ask.point[LR]) + 4.1), "auc": 0.0}, 1000),
    )
    assert abs(np.log10(strategy.ranking()[0][LR]) + 4.1) < 0.1


def test_a_member_that_fails_takes_over_from_another_one() -> None:
    def outcome(ask: Ask) -> Outcome:
        return Outcome(FAILED) if ask.seed in (3, 7) and ask.note["generation"] == 1 else by_lr(ask)

    asked = run(TrialQueue(population(), 3, Limits(4000)), outcome)
    third = asked[2 * MEMBERS : 3 * MEMBERS]
    assert third[3].note["copied"] and third[7].note["copied"]  # the best of all among them
    assert not {asked[ask.note["parent"]].seed for ask in third} & {3, 7}


def test_where_all_fail_the_population_ends() -> None:
    asked = run(TrialQueue(population(), 3, Limits(4000)), lambda ask: Outcome(FAILED))
    assert len(asked) == MEMBERS


def test_the_ranking_is_that_of_the_last_whole_generation() -> None:
    strategy = population()
    queue = TrialQueue(strategy, 3, Limits(4000))
    run(queue, by_lr, most=MEMBERS + 3)
    assert strategy.ranking()[0] == max((ask.point for ask in queue.asked[:MEMBERS]), key=lambda point: point[LR])
