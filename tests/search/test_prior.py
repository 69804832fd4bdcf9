"""What a search takes from earlier studies: an order of points, which its first trials put to the test."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from experiments.config.space import Point, parse_space
from experiments.contract import FAILED, FINISHED
from experiments.search.informed import Informed
from experiments.search.optuna_search import BEST_FIRST, Suggested
from experiments.search.prior import OTHERS, EarlierStudy, Prior, places_of
from experiments.search.racing import Racing
from experiments.search.strategy import Ask, Confirming, Listed, Outcome, Strategy, key_of
from experiments.search.trial_queue import Limits, TrialQueue
from tests.support.search_runs import run, scores

LR, BATCH = "algorithm.training.lr", "algorithm.training.train_batch_size_per_learner"
SPACE: dict[str, Any] = {LR: [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2], BATCH: [512, 1000, 2000, 4000]}
GRID = [dict(zip(SPACE, values, strict=True)) for values in product(*SPACE.values())]
SEEDS, HELD_OUT = tuple(range(10)), (1000, 1001)
BUDGET = Limits(1000)


def mean(point: Point) -> float:
    """Best at a learning rate of 3e-3 and a batch of 1000."""
    return 500.0 - 60 * (SPACE[LR].index(point[LR]) - 3) ** 2 - 30 * (SPACE[BATCH].index(point[BATCH]) - 1) ** 2


def worst_first(point: Point) -> float:
    return -mean(point)


def unrelated(point: Point) -> float:
    return float(GRID.index(point) * 7 % 24)


def scored(*values: float) -> list[list[Outcome]]:
    return [[Outcome(FINISHED, {"score": value, "auc": 0.0})] for value in values]


def study(score: Callable[[Point], float], points: Sequence[Point] = GRID) -> EarlierStudy:
    return EarlierStudy("grid/ppo-cartpole", "abc", tuple(places_of(scored(*map(score, points)), ["score"])))


def prior(score: Callable[[Point], float], points: Sequence[Point] = GRID) -> Prior:
    return Prior(tuple(points), (study(score, points),))


def searched(strategy: Strategy, spread: float = 5.0) -> list[Ask]:
    return run(TrialQueue(strategy, 3, BUDGET), scores(mean, spread))


def test_places_go_from_the_best_to_the_worst_and_ties_share_theirs() -> None:
    assert places_of(scored(10, 30, 20), ["score"]) == [0.0, 1.0, 0.5]
    assert places_of(scored(10, 30, 30, 20, 20), ["score"]) == [0.0, 0.875, 0.875, 0.375, 0.375]
    failed = [Outcome(FAILED)]
    assert places_of([*scored(10, 20), failed], ["score"]) == [0.5, 1.0, 0.0]


def test_the_first_points_are_the_best_and_a_few_from_there_to_the_worst() -> None:
    found = prior(lambda point: float(GRID.index(point)), GRID[:12])
    assert found.first(4) == [11, 0, 10, 2, 9, 4, 8, 6]
    assert found.first(6) == [11, 0, 10, 1, 9, 3, 8, 4, 7, 6]
    assert found.first(11) == [11, 0, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert found.first(12) == found.order()


def test_an_order_counts_by_how_alike_it_proves_and_not_at_all_where_that_may_be_chance() -> None:
    found = Prior(tuple(GRID), (study(mean), study(worst_first)))
    tried = found.order([1.0, 0.0])[::3]
    seen = [outcome for (outcome,) in scored(*(mean(GRID[i]) for i in tried))]
    same, other = found.weights(tried, seen, ["score"])
    assert same == pytest.approx(1.0)
    assert other == 0.0
    assert found.order([same, other]) == prior(mean).order()
    nobody = [outcome for (outcome,) in scored(*[7.0] * len(tried))]
    assert found.weights(tried, nobody, ["score"]) == [0.0, 0.0]  # all tie
    assert found.weights(tried[:4], seen[:4], ["score"]) == [0.0, 0.0]  # which four would do by chance as well


def test_a_correlation_is_held_against_the_number_of_studies() -> None:
    order = [3, 2, 1, 6, 5, 4, 8, 7]  # squares of differences add up to 18: 1 - 6 x 18 / 504 = 0.786, p = 0.010
    ranked = EarlierStudy("a/ppo-cartpole", "a", tuple(i / 7 for i in range(8)))
    seen = [outcome for (outcome,) in scored(*map(float, order))]
    (weight,) = Prior(tuple(GRID[:8]), (ranked,)).weights(range(8), seen, ["score"])
    assert weight == pytest.approx(0.7857, abs=1e-4)
    assert Prior(tuple(GRID[:8]), (ranked,) * 10).weights(range(8), seen, ["score"]) == [0.0] * 10


def test_studies_that_ran_other_points_are_put_together_by_their_weights() -> None:
    first = EarlierStudy("a/ppo-cartpole", "a", (1.0, 0.0, None))
    second = EarlierStudy("b/ppo-acrobot", "b", (None, 1.0, 0.0))
    found = Prior(tuple(GRID[:3]), (first, second))
    assert found.places().tolist() == [1.0, 0.5, 0.0]
    assert found.places([0.6, 0.2]).tolist() == pytest.approx([1.0, 0.25, 0.0])
    assert found.order([0.0, 0.5]) == [1, 2]  # of the first point nothing is known then


def test_a_record_gives_the_same_prior() -> None:
    found = Prior(tuple(GRID[:3]), (EarlierStudy("a/ppo-cartpole", "a", (1.0, 1 / 3, None), (0, 1)),))
    assert Prior.of(json.loads(json.dumps(asdict(found)))) == found


def racing(start: Prior | None, points: Sequence[Point] = GRID) -> Strategy:
    proposals = Listed(points, [0], ["score"]) if start is None else Informed(points, 0, ["score"], start)
    return Racing(proposals, SEEDS, None)


def test_a_race_that_starts_from_a_study_that_proves_right_leaves_out_what_was_worse_there() -> None:
    strategy = racing(prior(mean))
    assert strategy.belief is None
    asked = searched(strategy)
    assert strategy.belief == pytest.approx([1.0], abs=0.05)
    found = prior(mean)
    assert [ask.point for ask in asked[: 8 + OTHERS]] == [GRID[i] for i in found.first(8)]  # the best third, and others
    assert len({key_of(ask.point) for ask in asked}) == 8 + OTHERS
    assert len(asked) <= 18  # half as many again
    assert strategy.ranking()[0] == max(GRID, key=mean)


@pytest.mark.parametrize("earlier", [worst_first, unrelated])
def test_a_race_that_starts_from_a_study_that_misleads_runs_what_it_would_have_run(
    earlier: Callable[[Point], float],
) -> None:
    strategy, plain = racing(prior(earlier)), racing(None)
    asked, _ = searched(strategy), searched(plain)
    assert strategy.belief == [0.0] and plain.belief is None
    assert len(asked) <= 36 and strategy.most_trials == plain.most_trials == 36
    assert {key_of(ask.point) for ask in asked} == {key_of(point) for point in GRID}
    assert strategy.ranking()[0] == plain.ranking()[0]


def test_points_that_no_earlier_study_ran_are_run_in_any_case() -> None:
    known = [point for point in GRID if point[BATCH] > 512]
    asked = searched(racing(prior(mean, known)))
    points = {key_of(ask.point) for ask in asked}
    assert {key_of(point) for point in GRID if point[BATCH] == 512} <= points
    assert len(points) == 6 + 6 + OTHERS


def suggested(start: Prior | None, storage: Path | None = None, space: Any = None, num: int = 30) -> Suggested:
    return Suggested(parse_space(space or SPACE), num, SEEDS, ["score"], storage=storage, prior=start)


def of_earlier(strategy: Suggested) -> list[tuple[Any, float]]:
    trials = strategy._study.get_trials(deepcopy=False)
    return [(t.user_attrs["point"], t.value) for t in trials if any("earlier" in name for name in t.user_attrs)]


def test_optuna_is_told_what_an_earlier_study_ran_if_that_proves_right() -> None:
    strategy = suggested(prior(mean))
    asked = searched(strategy)
    first = [GRID[i] for i in prior(mean).first(BEST_FIRST)]
    assert [ask.point for ask in asked[: len(first)]] == first
    told = of_earlier(strategy)
    assert [point for point, _ in told] == [GRID[i] for i in prior(mean).order()]
    seen = [scores(mean, 5.0)(ask).values["score"] for ask in asked[: len(first)]]
    values = [value for _, value in told]
    assert (values[0], values[-1]) == (max(seen), min(seen))  # on the scale of this study
    assert values == sorted(values, reverse=True)
    assert Counter(key_of(ask.point) for ask in asked[len(first) :]).most_common(1)[0][1] > 1  # it knows where to look


def test_optuna_is_told_nothing_of_a_study_that_misleads() -> None:
    strategy = suggested(prior(worst_first))
    asked = searched(strategy)
    assert of_earlier(strategy) == []
    assert len(asked) == 30


def test_points_of_ranges_and_of_axes_that_depend_on_others_are_suggested_as_they_were() -> None:
    space = {
        "algorithm": ["ppo", "appo"],
        "lr": {"distribution": "loguniform", "low": 1e-5, "high": 1e-1},
        "epochs": {"distribution": "integers", "low": 2, "high": 20, "step": 2, "when": {"algorithm": "ppo"}},
        "size": {"distribution": "uniform", "low": 1, "high": 9, "integer": True},
        "layers": [[64, 64], [256]],
    }
    lrs = (2e-5, 2e-3, 6e-5, 4e-3, 1e-4, 6e-3, 1.4e-4, 8e-3)
    points: list[Point] = [
        {"algorithm": "ppo", "lr": lr, "epochs": 2 * i + 2, "size": i + 1, "layers": [256]}
        if i % 2
        else {"algorithm": "appo", "lr": lr, "size": i + 1, "layers": [64, 64]}
        for i, lr in enumerate(lrs)
    ]
    start = prior(lambda point: point["lr"], points)
    strategy = suggested(start, space=space, num=14)
    asked = run(TrialQueue(strategy, 3, BUDGET), scores(lambda point: 1e4 * point["lr"], 0.1))
    assert [ask.point for ask in asked[:8]] == [points[i] for i in start.first(BEST_FIRST)]
    assert [point for point, _ in of_earlier(strategy)] == [points[i] for i in start.order()]


@pytest.mark.parametrize("start", [mean, worst_first], ids=["right", "misleads"])
@pytest.mark.parametrize("name", ["racing", "optuna", "racing over optuna's"])
@pytest.mark.parametrize("killed_after", [9, 14])  # before and after the prior was put to the test
def test_a_search_with_a_prior_that_is_killed_goes_on_as_if_it_had_not_been(
    start: Callable[[Point], float], name: str, killed_after: int, tmp_path: Path
) -> None:
    recorded = json.dumps(asdict(prior(start)))

    def make(file: str) -> Confirming:
        again = Prior.of(json.loads(recorded))
        search: Strategy
        if name == "racing":
            search = racing(again)
        else:
            search = suggested(again, tmp_path / file, num=18)
            search = search if name == "optuna" else Racing(search, SEEDS, None)
        return Confirming(search, GRID[0], 2, HELD_OUT)

    noted: list[str] = []
    before = TrialQueue(make("killed.db"), 3, BUDGET, lambda event: noted.append(json.dumps(event)))
    run(before, scores(mean, 20.0), most=killed_after)
    journal = [json.loads(line) for line in noted]
    after = TrialQueue(
        make("killed.db"), 3, BUDGET, journal=journal, outcome_of=lambda index, ask: before.outcomes.get(index)
    )
    unbroken = TrialQueue(make("whole.db"), 3, BUDGET)
    whole = run(unbroken, scores(mean, 20.0))
    assert [(a.point, a.seed, a.phase) for a in run(after, scores(mean, 20.0), ends=1)] == [
        (a.point, a.seed, a.phase) for a in whole
    ]
    assert after.strategy.belief is not None and after.strategy.belief == unbroken.strategy.belief
