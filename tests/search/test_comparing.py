"""Seeds for a sequential comparison."""

import json
from collections import Counter
from typing import Any

import pytest

from analysis.stats.sequential import Design
from experiments.config.space import Point
from experiments.contract import FAILED, FIXED
from experiments.search.comparing import Comparing
from experiments.search.strategy import Ask, Outcome, key_of
from experiments.search.trial_queue import Limits, TrialQueue
from tests.support.search_runs import OutcomeOf, run, scores

LR = "algorithm.training.lr"
POINTS: list[Point] = [{LR: rate} for rate in (1e-4, 1e-3, 1e-2)]
BUDGET = Limits(1000)
DESIGN = Design(seeds_per_look=5, looks=4)


def comparing(design: Design = DESIGN) -> Comparing:
    return Comparing(POINTS, range(10, 10 + design.most_seeds), design)


def mean(point: Point) -> float:
    """The middle one is far better; the others are the same."""
    return 400.0 if point[LR] == 1e-3 else 100.0


APART = scores(mean, 10.0)
ALIKE = scores(lambda point: 100.0, 10.0)


def counts(asked: list[Ask]) -> dict[float, int]:
    return dict(Counter(ask.point[LR] for ask in asked))


def test_only_configurations_of_undecided_pairs_get_more_seeds() -> None:
    asked = run(TrialQueue(comparing(), 3, BUDGET), APART)
    assert counts(asked) == {1e-4: 20, 1e-3: 5, 1e-2: 20}
    assert all(ask.phase == FIXED for ask in asked)
    for rate in (1e-4, 1e-2):
        assert [ask.seed for ask in asked if ask.point[LR] == rate] == list(range(10, 30))


def test_a_comparison_ends_when_all_pairs_differ() -> None:
    asked = run(TrialQueue(comparing(), 3, BUDGET), scores(lambda point: 1e5 * point[LR], 1.0))
    assert counts(asked) == dict.fromkeys((1e-4, 1e-3, 1e-2), 5)


def test_where_none_differs_all_seeds_are_spent() -> None:
    strategy = comparing()
    asked = run(TrialQueue(strategy, 3, BUDGET), ALIKE)
    assert len(asked) == strategy.most_trials == 60


@pytest.mark.parametrize("outcome", [APART, ALIKE])
def test_the_order_in_which_trials_end_changes_nothing(outcome: OutcomeOf) -> None:
    asked = [run(TrialQueue(comparing(), 3, BUDGET), outcome, side_by_side=4, ends=ends) for ends in range(3)]
    assert asked[0] == asked[1] == asked[2]


@pytest.mark.parametrize("killed_after", [1, 14, 15, 16, 31])
def test_a_comparison_that_is_killed_goes_on_as_if_it_had_not_been(killed_after: int) -> None:
    noted: list[str] = []
    before = TrialQueue(comparing(), 3, BUDGET, lambda event: noted.append(json.dumps(event)))
    run(before, APART, side_by_side=4, most=killed_after)
    journal = [json.loads(line) for line in noted]
    after = TrialQueue(
        comparing(), 3, BUDGET, journal=journal, outcome_of=lambda index, ask: before.outcomes.get(index)
    )
    assert run(after, APART, ends=1) == run(TrialQueue(comparing(), 3, BUDGET), APART)


def failing(ask: Ask) -> Outcome:
    """The first configuration crashes on its second seed."""
    return Outcome(FAILED) if ask.point == POINTS[0] and ask.seed == 11 else APART(ask)


def test_a_configuration_with_a_failed_seed_takes_no_further_part() -> None:
    asked = run(TrialQueue(comparing(), 3, BUDGET), failing)
    assert counts(asked) == dict.fromkeys((1e-4, 1e-3, 1e-2), 5)  # the other two differ at once


def test_a_failed_seed_that_is_run_again_brings_its_configuration_back() -> None:
    noted: list[Any] = []
    before = TrialQueue(comparing(), 3, BUDGET, noted.append)
    run(before, failing)
    again = {i: o for i, o in before.outcomes.items() if o.status != FAILED}
    after = TrialQueue(comparing(), 3, BUDGET, journal=noted, outcome_of=lambda index, ask: again.get(index))
    asked = run(after, APART)
    assert counts(asked) == {1e-4: 20, 1e-3: 5, 1e-2: 20}
    assert len({(key_of(ask.point), ask.seed) for ask in asked}) == len(asked)


def test_a_limit_ends_it_before_all_looks() -> None:
    asked = run(TrialQueue(comparing(), 3, Limits(1000, max_env_steps=22_000)), ALIKE)
    assert len(asked) == 22
