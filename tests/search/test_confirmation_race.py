"""Fresh seeds as a race: who gets how many, whatever ends first or is killed, and what may be concluded of it."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from experiments.config.space import Point
from experiments.contract import CONFIRM, FAILED, FINISHED
from experiments.search.confirmation_race import (
    FEWEST,
    INTERIM,
    RISK,
    ConfirmationRace,
    RacedConfirmation,
    called_worse,
    chances,
)
from experiments.search.racing import Racing
from experiments.search.strategy import SCORE, TO_TARGET, Ask, Listed, Outcome, key_of, ranks
from experiments.search.trial_queue import Limits, TrialQueue
from tests.support.search_runs import OutcomeOf, run, scores, solved

POINTS: list[Point] = [{"lr": lr} for lr in range(8)]
BASE = POINTS[-1]
HELD_OUT = (1000, 1001, 1002, 1003, 1004)
BUDGET = Limits(1000)


def ended(score: float) -> Outcome:
    return Outcome(FINISHED, {SCORE: score, "auc": 0.0}, 1000)


def ends_of(outcomes: Mapping[int, Outcome]) -> Callable[[int, Ask], Outcome | None]:
    """What the trials' own logs say of an earlier execution."""
    return lambda index, ask: outcomes.get(index)


def falling(step: float) -> Callable[[Point], float]:
    """Mean scores, each configuration's by so much below that of the one before."""
    return lambda point: 500.0 - step * float(point["lr"])


def searched() -> RacedConfirmation:
    return RacedConfirmation(Racing(Listed(POINTS, [0], [SCORE]), range(10), None), BASE, 3, HELD_OUT)


def seeds_of(asked: list[Ask]) -> Mapping[int, int]:
    """Learning rate to the number of its fresh seeds."""
    return Counter(ask.point["lr"] for ask in asked if ask.phase == CONFIRM)


def race(known: Mapping[int, list[float]], top: int = 3, seeds: tuple[int, ...] = HELD_OUT) -> ConfirmationRace:
    """Of the best by what a search saw."""
    told = {key_of(POINTS[lr]): [ended(score) for score in found] for lr, found in known.items()}
    best = sorted(known, key=lambda lr: -float(np.mean(known[lr])))[:top]
    return ConfirmationRace([POINTS[lr] for lr in best], BASE, told, seeds, [SCORE])


CLOSE = {0: [400.0, 500.0], 1: [410.0, 480.0], 2: [390.0, 490.0], 3: [100.0, 120.0]}
"""Scores of a search that cannot tell three configurations apart."""


def test_the_one_that_a_search_has_left_is_confirmed_beside_the_base() -> None:
    asked = run(TrialQueue(searched(), 3, BUDGET), scores(falling(60.0), 1.0))
    assert seeds_of(asked) == {0: len(HELD_OUT), BASE["lr"]: FEWEST}


def test_what_may_still_be_the_best_gets_more_seeds_until_the_best_has_all() -> None:
    asked = run(TrialQueue(race(CLOSE), 3, BUDGET), scores(falling(1.0), 40.0))
    had = seeds_of(asked)
    assert set(had) == {0, 1, 2, BASE["lr"]} and max(had.values()) == len(HELD_OUT)
    assert had[BASE["lr"]] >= FEWEST and min(had.values()) >= FEWEST
    assert len({(key_of(ask.point), ask.seed) for ask in asked}) == len(asked)
    by_config: dict[int, list[int]] = {}
    for ask in asked:
        by_config.setdefault(ask.point["lr"], []).append(ask.seed)
    assert all(tuple(seeds) == HELD_OUT[: len(seeds)] for seeds in by_config.values())  # so that they can be paired


def test_what_lags_far_behind_on_fresh_seeds_gets_no_more_of_them() -> None:
    asked = run(TrialQueue(race(CLOSE), 3, BUDGET), scores(lambda p: {0: 500.0, 1: 499.0}.get(p["lr"], 100.0), 1e-3))
    had = seeds_of(asked)
    assert had[0] == len(HELD_OUT) and had[2] == FEWEST


def test_a_base_that_leads_gets_all_seeds() -> None:
    asked = run(TrialQueue(race(CLOSE), 3, BUDGET), scores(lambda p: 900.0 if p == BASE else 400.0, 5.0))
    assert seeds_of(asked)[BASE["lr"]] == len(HELD_OUT)


def test_a_base_among_the_best_contends() -> None:
    known = {BASE["lr"]: [400.0, 500.0], 0: [410.0, 480.0]}
    asked = run(TrialQueue(race(known), 3, BUDGET), scores(lambda p: 450.0, 40.0))
    assert set(seeds_of(asked)) == {0, BASE["lr"]}


@pytest.mark.parametrize("num", [1, 2])
def test_with_few_seeds_all_have_them(num: int) -> None:
    asked = run(TrialQueue(race(CLOSE, seeds=HELD_OUT[:num]), 3, BUDGET), scores(falling(1.0), 40.0))
    assert set(seeds_of(asked).values()) == {num} and len(asked) == 4 * num


@pytest.mark.parametrize("number", range(30))
def test_who_has_fewer_seeds_is_not_called_worse_unless_far_beyond_doubt(number: int) -> None:
    """Conclusions that take the numbers of seeds as fixed are then those of a fixed number, up to `INTERIM`."""
    rng = np.random.default_rng(number)
    known = {lr: list(rng.normal(400, 40, 3)) for lr in range(3)}
    strategy, apart = race(known), float(rng.choice([0.0, 20.0, 60.0]))
    asked = run(TrialQueue(strategy, 3, BUDGET), lambda ask: ended(rng.normal(400 - apart * ask.point["lr"], 40)))
    found = strategy.outcomes_by_point()
    outcomes, by = list(found.values()), ranks(list(found.values()), [SCORE])
    assert len(outcomes[max(range(len(by)), key=by.__getitem__)]) == len(HELD_OUT)
    worse, surely = (called_worse(outcomes, [SCORE], alpha) for alpha in (RISK, INTERIM))
    for i, (key, of_one) in enumerate(found.items()):
        assert len(of_one) == len(HELD_OUT) or key == key_of(BASE) or not worse[i] or surely[i]
    assert len(asked) <= strategy.most_trials


def test_what_is_asked_does_not_depend_on_who_ends_first() -> None:
    outcome = scores(falling(5.0), 40.0)
    asked = [run(TrialQueue(searched(), 3, BUDGET), outcome, 3, ends=ends) for ends in range(4)]
    assert all(other == asked[0] for other in asked)


def test_it_goes_on_after_a_kill_to_the_same_trials() -> None:
    outcome = scores(falling(5.0), 40.0)
    whole = run(TrialQueue(searched(), 3, BUDGET), outcome)
    first = sum(ask.phase != CONFIRM for ask in whole)
    for killed_after in range(first - 1, len(whole)):
        noted: list[Any] = []
        before = TrialQueue(searched(), 3, BUDGET, noted.append)
        run(before, outcome, most=killed_after)
        after = TrialQueue(searched(), 3, BUDGET, journal=noted, outcome_of=ends_of(before.outcomes))
        assert run(after, outcome, ends=1) == whole


def test_a_failed_trial_that_is_tried_again_leaves_the_race_whole() -> None:
    def breaks(ask: Ask) -> Outcome:
        return Outcome(FAILED) if (ask.point["lr"], ask.seed) == (1, 1000) else scores(falling(1.0), 40.0)(ask)

    noted: list[Any] = []
    before = TrialQueue(race(CLOSE), 3, BUDGET, noted.append)
    first = run(before, breaks)
    assert seeds_of(first)[1] < len(HELD_OUT)  # what fails leads nothing
    done = {index: outcome for index, outcome in before.outcomes.items() if outcome.status != FAILED}
    after = TrialQueue(race(CLOSE), 3, BUDGET, journal=noted, outcome_of=ends_of(done))
    asked = run(after, scores(falling(1.0), 40.0))
    assert asked[: len(first)] == first and max(seeds_of(asked).values()) == len(HELD_OUT)
    assert len({(key_of(ask.point), ask.seed) for ask in asked}) == len(asked)


def test_where_nothing_was_found_nothing_is_confirmed() -> None:
    asked = run(TrialQueue(searched(), 3, BUDGET), lambda ask: Outcome(FAILED))
    assert len(asked) == len(POINTS)


def test_where_scores_saturate_env_steps_decide() -> None:
    """All end at the highest score."""
    outcome: OutcomeOf = solved(lambda point: 10_000.0 + 8_000 * point["lr"], 500.0)
    had = seeds_of(run(TrialQueue(searched(), 3, BUDGET), outcome))
    assert had == {0: len(HELD_OUT), BASE["lr"]: FEWEST}


def test_chances_are_those_of_a_t_test_on_moderated_variances() -> None:
    """Both variances are 2, with 2 degrees of freedom together: t is 1 / sqrt(2)."""
    told = [[ended(1.0), ended(3.0)], [ended(0.0), ended(2.0)]]
    assert chances(told, 0, [SCORE]) == pytest.approx([0.5, 0.5 - 0.5**0.5 / (2 * 2.5**0.5)])


def test_chances_where_spreads_are_unknown_or_trials_failed() -> None:
    assert chances([[ended(5.0)], [ended(1.0)]], 0, [SCORE]) == [0.5, 1.0]
    assert chances([[ended(5.0), ended(5.0)], [ended(1.0), ended(1.0)]], 0, [SCORE]) == [0.5, 1.0]
    single, failed = [ended(5.0), ended(6.0)], [ended(9.0), Outcome(FAILED)]
    found = chances([single, [ended(5.5)], failed], 0, [SCORE])
    assert found == pytest.approx([0.5, 0.5, 0.0])


def test_chances_go_by_env_steps_where_several_solve_the_environment() -> None:
    def held(steps: float) -> Outcome:
        return Outcome(FINISHED, {SCORE: 500.0, TO_TARGET: steps, "auc": 0.0}, 60_000, target=475.0, reached=True)

    told = [[held(10e3), held(12e3)], [held(30e3), held(32e3)], [held(10e3), held(12e3)]]
    found = chances(told, 0, [SCORE])
    assert found[1] < 0.05 and found[2] == pytest.approx(0.5)
