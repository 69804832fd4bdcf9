import json
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

from experiments.config.space import Point, parse_space
from experiments.contract import FAILED, FINISHED, PRUNED
from experiments.search.optuna_search import Suggested
from experiments.search.racing import Racing
from experiments.search.strategy import (
    CONFIRM,
    FIXED,
    SEARCH,
    Ask,
    Confirming,
    Listed,
    Outcome,
    Strategy,
    key_of,
    ranks,
)
from experiments.search.trial_queue import Limits, TrialQueue
from tests.support.search_runs import run, scores, solved

LR, BATCH = "algorithm.training.lr", "algorithm.training.train_batch_size_per_learner"
SPACE: dict[str, Any] = {LR: [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2], BATCH: [512, 1000, 2000, 4000]}
GRID = [dict(zip(SPACE, values, strict=True)) for values in product(*SPACE.values())]
BASE: Point = {LR: 1e-4, BATCH: 4000}
SEEDS, HELD_OUT = tuple(range(10)), (1000, 1001, 1002)
BUDGET = Limits(1000)


def mean(point: Point) -> float:
    """Best at a learning rate of 3e-3 and a batch of 1000."""
    return 500.0 - 60 * (SPACE[LR].index(point[LR]) - 3) ** 2 - 30 * (SPACE[BATCH].index(point[BATCH]) - 1) ** 2


def racing(max_trials: int | None = None) -> Strategy:
    return Racing(Listed(GRID, [0], ["score"]), SEEDS, max_trials)


def suggested(num_samples: int = 36, storage: Path | None = None, **more: Any) -> Strategy:
    return Suggested(parse_space(SPACE), num_samples, SEEDS, ["score"], storage=storage, **more)


SEARCHES: dict[str, Callable[[], Strategy]] = {
    "grid": lambda: Listed(GRID, [0, 1], ["score"]),
    "racing": racing,
    "optuna": suggested,
    "racing over optuna's": lambda: Racing(suggested(24), SEEDS, None),
}
each_search = pytest.mark.parametrize("name", SEARCHES)


def confirming(search: Strategy) -> Confirming:
    return Confirming(search, BASE, 3, HELD_OUT)


def env_steps(point: Point) -> float:
    """Fewest at a learning rate of 3e-3 and a batch of 1000."""
    return 12_000.0 + 4_000 * abs(SPACE[LR].index(point[LR]) - 3) + 3_000 * abs(SPACE[BATCH].index(point[BATCH]) - 1)


def ends_of(queue: TrialQueue) -> Callable[[int, Ask], Outcome | None]:
    """What the trials' own logs say of an earlier execution."""
    return lambda index, ask: queue.outcomes.get(index)


@each_search
def test_a_search_ends_with_its_best_and_the_base_on_seeds_that_it_never_saw(name: str) -> None:
    strategy = confirming(SEARCHES[name]())
    asked = run(TrialQueue(strategy, 3, BUDGET), scores(mean, 20.0))
    phases = [ask.phase for ask in asked]
    assert phases == sorted(phases, reverse=True)  # first the search, then the confirmation
    confirmed = {key_of(ask.point) for ask in asked if ask.phase == CONFIRM}
    assert confirmed == {key_of(p) for p in (*strategy.search.ranking()[:3], BASE)}
    assert Counter(ask.seed for ask in asked if ask.phase == CONFIRM) == dict.fromkeys(HELD_OUT, len(confirmed))
    assert not {ask.seed for ask in asked if ask.phase == SEARCH} & set(HELD_OUT)
    assert len({(key_of(ask.point), ask.seed) for ask in asked}) == len(asked) <= strategy.most_trials
    num_confirming = sum(ask.phase == CONFIRM for ask in asked)
    assert strategy.least_learning <= len(asked) - num_confirming
    assert strategy.least_confirming <= num_confirming


@each_search
def test_the_order_in_which_trials_end_changes_nothing(name: str) -> None:
    asked = [
        run(TrialQueue(confirming(SEARCHES[name]()), 3, BUDGET), scores(mean, 50.0), ends=ends) for ends in range(3)
    ]
    assert asked[0] == asked[1] == asked[2]


OUTCOMES = {"scores differ": scores(mean, 50.0), "scores saturate": solved(env_steps, 3_000.0)}


@each_search
@pytest.mark.parametrize(
    ("killed_after", "outcomes"), [(1, "scores differ"), (30, "scores differ"), (30, "scores saturate")]
)
def test_a_search_that_is_killed_goes_on_as_if_it_had_not_been(
    name: str, killed_after: int, outcomes: str, tmp_path: Path
) -> None:
    outcome = OUTCOMES[outcomes]

    def make(storage: Path) -> Confirming:
        stored = {
            "optuna": lambda: suggested(storage=storage),
            "racing over optuna's": lambda: Racing(suggested(24, storage), SEEDS, None),
        }
        return confirming(stored.get(name, SEARCHES[name])())

    noted: list[str] = []
    before = TrialQueue(make(tmp_path / "killed.db"), 3, BUDGET, lambda event: noted.append(json.dumps(event)))
    run(before, outcome, most=killed_after)
    after = TrialQueue(
        make(tmp_path / "killed.db"),
        3,
        BUDGET,
        journal=[json.loads(line) for line in noted],
        outcome_of=ends_of(before),
    )
    whole = run(TrialQueue(make(tmp_path / "whole.db"), 3, BUDGET), outcome)
    assert [(a.point, a.seed, a.phase) for a in run(after, outcome, ends=1)] == [
        (a.point, a.seed, a.phase) for a in whole
    ]


def test_what_was_under_way_at_a_kill_comes_first_and_what_had_ended_does_not_come_again() -> None:
    noted: list[Any] = []
    before = TrialQueue(confirming(racing()), 3, BUDGET, noted.append)
    first, second = before.ask(), before.ask()
    before.tell(0, scores(mean, 1.0)(before.asked[0]))
    after = TrialQueue(confirming(racing()), 3, BUDGET, journal=noted, outcome_of=ends_of(before))
    after.tell(0, scores(mean, 1.0)(after.asked[0]))  # heard again
    assert (first, second) == (0, 1)
    assert after.ask() == 1
    assert after.ask() == 2


def test_what_failed_is_tried_again_after_a_resume_unless_the_search_has_gone_on_from_there() -> None:
    noted: list[Any] = []
    fails = [True]

    def outcome(ask: Ask) -> Outcome:
        return (
            Outcome(FAILED)
            if fails[0] and ask.seed in (0, HELD_OUT[1]) and ask.point[BATCH] == 1000
            else scores(mean, 1.0)(ask)
        )

    before = TrialQueue(confirming(Listed(GRID, [0, 1], ["score"])), 3, BUDGET, noted.append)
    first = run(before, outcome)
    fails[0] = False

    def outcome_of(index: int, ask: Ask) -> Outcome | None:
        found = before.outcomes[index]
        return None if found.status == FAILED and ask.phase != SEARCH else found

    after = TrialQueue(confirming(Listed(GRID, [0, 1], ["score"])), 3, BUDGET, journal=noted, outcome_of=outcome_of)
    again = []
    while isinstance(index := after.ask(), int):
        again.append(after.asked[index])
        after.tell(index, outcome(after.asked[index]))
    assert again == [
        ask for ask in first if ask.phase == CONFIRM and ask.seed == HELD_OUT[1] and ask.point[BATCH] == 1000
    ]


def test_racing_spends_its_seeds_on_those_that_lead() -> None:
    asked = run(TrialQueue(racing(), 3, BUDGET), scores(mean, 30.0))
    seeds = Counter(key_of(ask.point) for ask in asked)
    assert len(seeds) == len(GRID) and len(asked) == 36
    best = sorted(GRID, key=mean, reverse=True)
    assert sum(seeds[key_of(p)] for p in best[:4]) >= 8
    assert all(seeds[key_of(p)] == 1 for p in best[-12:])


def test_a_race_that_is_decided_ends() -> None:
    """Two of three are clearly worse: a few seeds tell."""
    points = [{LR: lr, BATCH: 1000} for lr in (3e-4, 3e-3, 3e-2)]
    strategy = Racing(Listed(points, [0], ["score"]), SEEDS, 30)
    asked = run(TrialQueue(strategy, 3, BUDGET), scores(mean, 2.0))
    assert strategy.in_race == [{LR: 3e-3, BATCH: 1000}]
    assert len(asked) < 15


@pytest.mark.nightly
def test_the_best_is_seldom_dropped() -> None:
    """Of configurations whose spreads differ tenfold, two of them equally good."""
    points = [{LR: lr, BATCH: 512} for lr in range(8)]
    means, spreads = (
        [400.0, 400.0, 390.0, 350.0, 300.0, 100.0, 20.0, 10.0],
        [5.0, 50.0, 50.0, 80.0, 100.0, 50.0, 5.0, 1.0],
    )
    rng, dropped = np.random.default_rng(0), 0

    def outcome(ask: Ask) -> Outcome:
        i = ask.point[LR]
        return Outcome(FINISHED, {"score": float(rng.normal(means[i], spreads[i])), "auc": 0.0}, 1000)

    for _ in range(100):
        race = Racing(Listed(points, [0], ["score"]), range(20), 60)
        run(TrialQueue(race, 3, BUDGET), outcome)
        dropped += any(p not in race.in_race for p in points[:2])
    assert dropped <= 5 + 3 * 2  # 5% of 100, and three standard deviations


def test_equal_ones_are_not_told_apart_and_the_cap_ends_the_race() -> None:
    points = [{LR: lr, BATCH: 512} for lr in (1e-4, 1e-3, 1e-2)]
    strategy = Racing(Listed(points, [0], ["score"]), SEEDS[:4], 100)
    asked = run(TrialQueue(strategy, 3, BUDGET), lambda ask: Outcome(FINISHED, {"score": 500.0, "auc": 400.0}, 1000))
    assert len(asked) == 12
    assert len(strategy.in_race) == 3


def test_where_all_scores_are_at_the_top_a_race_goes_by_env_steps_to_target() -> None:
    """By their scores and areas under the curve all are equal."""
    points = [{LR: lr, BATCH: 1000} for lr in SPACE[LR]]
    race = Racing(Listed(points, [0], ["score"]), SEEDS, 40)
    asked = run(TrialQueue(race, 3, BUDGET), solved(env_steps, 1_000.0))
    assert race.in_race == [{LR: 3e-3, BATCH: 1000}] == race.ranking()
    assert len(asked) < 30
    blind = Racing(Listed(points, [0], ["score"]), SEEDS, 40)
    run(TrialQueue(blind, 3, BUDGET), solved(env_steps, 1_000.0, target=float("nan")))
    assert len(blind.in_race) == len(points)


def test_a_race_that_aims_at_something_else_does_not_go_by_env_steps() -> None:
    points = [{LR: lr, BATCH: 1000} for lr in SPACE[LR]]
    race = Racing(Listed(points, [0], ["auc"]), SEEDS, 40)
    run(TrialQueue(race, 3, BUDGET), solved(env_steps, 1_000.0))
    assert len(race.in_race) == len(points)


def ended(score: float, steps: float | None, auc: float = 400.0) -> Outcome:
    """A trial of 60,000 env steps on an environment whose target is 475; it never held that if steps is None."""
    values = {"score": score, "auc": auc, "env_steps_to_target": 60_000.0 if steps is None else steps}
    return Outcome(FINISHED, values, 60_000, target=475.0, reached=steps is not None)


def by_rank(told: dict[str, list[Outcome]], objective: str = "score") -> list[str]:
    rank = dict(zip(told, ranks(list(told.values()), [objective]), strict=True))
    return sorted(told, key=lambda name: rank[name], reverse=True)


def test_among_those_that_solve_it_a_seed_that_never_holds_the_target_counts_with_the_budget() -> None:
    told = {"fast once": [ended(500, 8_000), ended(490, None)], "sure": [ended(490, 30_000), ended(480, 34_000)]}
    assert by_rank(told) == ["sure", "fast once"]  # 32,000 against 34,000


def test_those_that_solve_it_come_before_the_faster_that_do_not() -> None:
    told = {
        "lost it": [ended(474, 4_000)],
        "slow": [ended(500, 50_000)],
        "fast": [ended(476, 20_000)],
        "poor": [ended(100, None)],
    }
    assert by_rank(told) == ["fast", "slow", "lost it", "poor"]


def test_where_one_alone_solves_it_scores_decide() -> None:
    told = {
        "at the target": [ended(476, 30_000)],
        "higher, held by no seed": [ended(490, None)],
        "below": [ended(470, 10_000)],
    }
    assert by_rank(told) == ["higher, held by no seed", "at the target", "below"]


def test_with_another_objective_that_decides() -> None:
    told = {"fast": [ended(500, 10_000, auc=300.0)], "high": [ended(500, 20_000, auc=400.0)]}
    assert (by_rank(told), by_rank(told, "auc")) == (["fast", "high"], ["high", "fast"])


@pytest.mark.nightly
def test_the_fastest_is_seldom_dropped_where_scores_saturate() -> None:
    """Of configurations whose spreads differ, two of them equally fast, others that often miss the target."""
    points = [{LR: lr, BATCH: 512} for lr in range(8)]
    means, spreads = [15e3, 15e3, 16e3, 20e3, 30e3, 40e3, 55e3, 70e3], [3e3, 8e3, 8e3, 5e3, 10e3, 20e3, 20e3, 10e3]
    rng, dropped = np.random.default_rng(0), 0

    def outcome(ask: Ask) -> Outcome:
        steps = float(max(1_000.0, rng.normal(means[ask.point[LR]], spreads[ask.point[LR]])))
        return ended(500.0, steps if steps < 60_000 else None)

    for _ in range(100):
        race = Racing(Listed(points, [0], ["score"]), range(20), 60)
        run(TrialQueue(race, 3, BUDGET), outcome)
        dropped += any(p not in race.in_race for p in points[:2])
    assert dropped <= 5 + 3 * 2  # 5% of 100, and three standard deviations


@each_search
def test_what_failed_or_is_not_finite_is_never_the_best(name: str) -> None:
    def outcome(ask: Ask) -> Outcome:
        if ask.point[BATCH] == 1000:  # where the best one is
            return Outcome(FAILED) if ask.point[LR] > 1e-3 else Outcome(FINISHED, {"score": float("nan")}, 1000)
        return scores(mean, 10.0)(ask)

    strategy = confirming(SEARCHES[name]())
    asked = run(TrialQueue(strategy, 3, BUDGET), outcome)
    assert {ask.point[BATCH] for ask in asked if ask.phase == CONFIRM} <= {512, 2000, 4000}


def test_where_all_fails_there_is_nothing_to_confirm() -> None:
    asked = run(TrialQueue(confirming(racing()), 3, BUDGET), lambda ask: Outcome(FAILED))
    assert len(asked) == len(GRID) and all(ask.phase == SEARCH for ask in asked)


def test_optuna_is_told_of_every_trial_and_nothing_is_left_running(tmp_path: Path) -> None:
    ends = {
        512: Outcome(FAILED),
        1000: Outcome(FINISHED, {"score": float("inf")}, 1000),
        2000: Outcome(PRUNED, {"score": 30.0}, 250),
    }
    strategy = suggested(30, tmp_path / "optuna.db")
    asked = run(TrialQueue(strategy, 3, BUDGET), lambda ask: ends.get(ask.point[BATCH], scores(mean, 1.0)(ask)))
    study = optuna.load_study(study_name="search", storage=f"sqlite:///{tmp_path / 'optuna.db'}")
    told = dict(zip([4000, 2000, 1000, 512], ("COMPLETE", "PRUNED", "FAIL", "FAIL"), strict=True))
    assert [t.state.name for t in study.trials] == [told[ask.point[BATCH]] for ask in asked]
    assert study.best_trial.user_attrs["point"][BATCH] == 4000
    assert [t.user_attrs["point"] for t in study.trials] == [ask.point for ask in asked]


def test_a_point_that_has_had_all_seeds_is_not_run_again() -> None:
    strategy = Suggested(parse_space({LR: [1e-4, 1e-3], BATCH: [512]}), 100, (0, 1, 2), ["score"])
    asked = run(TrialQueue(strategy, 3, BUDGET), scores(lambda point: point[LR], 0.0))
    assert len(asked) == len({(key_of(a.point), a.seed) for a in asked}) == 6


def test_optuna_suggests_from_every_kind_of_axis_within_its_bounds_and_by_its_conditions() -> None:
    space = {
        "algorithm.training.use_kl_loss": [True, False],
        "algorithm.training.kl_target": {
            "distribution": "loguniform",
            "low": 1e-3,
            "high": 1e-1,
            "when": {"algorithm.training.use_kl_loss": True},
        },
        "algorithm.training.num_epochs": {"distribution": "integers", "low": 2, "high": 9, "step": 3},
        BATCH: {"distribution": "uniform", "low": 500, "high": 600, "integer": True},
        "algorithm": ["ppo", "appo"],
    }
    strategy = Suggested(parse_space(space), 30, SEEDS, ["score"])
    asked = run(TrialQueue(strategy, 3, BUDGET), lambda ask: Outcome(FINISHED, {"score": 1.0, "auc": 1.0}, 1000))
    for point in (ask.point for ask in asked):
        assert ("algorithm.training.kl_target" in point) == point["algorithm.training.use_kl_loss"]
        assert 1e-3 <= point.get("algorithm.training.kl_target", 1e-2) <= 1e-1
        assert point["algorithm.training.num_epochs"] in (2, 5, 8)
        assert 500 <= point[BATCH] <= 600 and isinstance(point[BATCH], int)
        assert point["algorithm"] in ("ppo", "appo")
    assert {ask.point["algorithm.training.use_kl_loss"] for ask in asked} == {True, False}


def test_two_objectives_rank_by_pareto_fronts() -> None:
    strategy = Listed([{"a": i} for i in range(4)], [0], ["score", "train_s"])
    values = [(10.0, 5.0), (8.0, 1.0), (7.0, 2.0), (12.0, 9.0)]
    run(
        TrialQueue(strategy, 3, BUDGET),
        lambda ask: Outcome(FINISHED, dict(zip(("score", "train_s"), values[ask.point["a"]], strict=True)), 1),
    )
    assert strategy.ranking() == [{"a": 3}, {"a": 0}, {"a": 1}, {"a": 2}]


def test_env_steps_are_kept_for_confirmation() -> None:
    queue = TrialQueue(confirming(racing()), 3, Limits(1000, max_env_steps=30_000))
    asked = run(queue, scores(mean, 30.0))
    assert queue.closed == "max_env_steps=30000"
    assert len(asked) <= 30
    assert sum(ask.phase == CONFIRM for ask in asked) == 12


def with_shared_seeds() -> Confirming:
    """A grid with five seeds, of which two confirm, and a third that it does not have."""
    return Confirming(Listed(GRID, [0, 1, 2], ["score"], FIXED), BASE, 3, [3, 4, 70], GRID, [3, 4])


def test_seeds_of_a_fixed_design_that_the_choice_leaves_out_confirm_without_being_run_again() -> None:
    def outcome(ask: Ask) -> Outcome:
        """By the seeds that confirm, the choice would be another one."""
        return scores(mean, 0.0)(ask) if ask.seed < 3 else ended(1000.0 if ask.point[BATCH] == 4000 else 0.0, None)

    strategy = with_shared_seeds()
    asked = run(TrialQueue(strategy, 3, BUDGET), outcome)
    chosen = [key_of(point) for point in (*sorted(GRID, key=mean, reverse=True)[:3], BASE)]
    assert Counter((key_of(ask.point), ask.seed) for ask in asked if ask.phase == CONFIRM) == {
        (c, s): 1 for c in chosen for s in (3, 4, 70)
    }
    pairs = [(key_of(ask.point), ask.seed) for ask in asked]
    assert len(pairs) == len(set(pairs)) == strategy.most_trials == len(GRID) * 5 + 4
    assert {(key_of(point), seed) for point in GRID for seed in range(5)} <= set(pairs)
    assert [ask.seed for ask in asked[: 3 * len(GRID)]] == [seed for seed in range(3) for _ in GRID]


def test_a_fixed_design_that_is_confirmed_by_its_own_seeds_goes_on_after_a_kill() -> None:
    whole = run(TrialQueue(with_shared_seeds(), 3, BUDGET), scores(mean, 50.0))
    for killed_after in (60, 80, 100):
        noted: list[Any] = []
        before = TrialQueue(with_shared_seeds(), 3, BUDGET, noted.append)
        run(before, scores(mean, 50.0), most=killed_after)
        after = TrialQueue(with_shared_seeds(), 3, BUDGET, journal=noted, outcome_of=ends_of(before))
        assert run(after, scores(mean, 50.0), ends=1) == whole


def test_a_limit_too_small_for_all_keeps_half_for_confirmation() -> None:
    asked = run(TrialQueue(confirming(racing()), 3, Limits(1000, max_env_steps=10_000)), scores(mean, 30.0))
    assert Counter(ask.phase for ask in asked) == {SEARCH: 5, CONFIRM: 5}


def test_minutes_are_counted_over_a_kill() -> None:
    now = [0.0]

    def outcome(ask: Ask) -> Outcome:
        now[0] += 30.0
        return Outcome(FINISHED, {"score": mean(ask.point), "auc": 0.0}, 1000, 60.0)  # two at once

    noted: list[Any] = []
    limits = Limits(1000, max_minutes=20)
    before = TrialQueue(confirming(racing()), 2, limits, noted.append, clock=lambda: now[0])
    run(before, outcome, most=15)
    after = TrialQueue(confirming(racing()), 2, limits, journal=noted, outcome_of=ends_of(before), clock=lambda: now[0])
    asked = run(after, outcome)
    assert now[0] / 60 <= 20.5
    assert after.closed == "max_minutes=20"
    assert Counter(ask.phase for ask in asked)[CONFIRM] == 12
