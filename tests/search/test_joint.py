"""Learning settings and layouts apart, and the soonest of their products confirmed one at a time."""

import json
import zlib
from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from experiments.config.space import Point
from experiments.contract import CONFIRM, FAILED, FINISHED, SEARCH, THROUGHPUT
from experiments.search.joint import HARDLY, SURE, Candidate, Joint
from experiments.search.strategy import Ask, Confirming, Outcome, key_of
from experiments.search.trial_queue import Limits, TrialQueue
from tests.support.search_runs import OutcomeOf, run

RATES, BATCHES = (3e-4, 1e-3, 3e-3, 3e-2), (512, 2048)
SPEEDS = {(0, 4): 4e-5, (0, 16): 2e-5, (2, 8): 8e-6, (2, 16): 7e-6}
"""Runners and environments of each to the seconds of an env step."""
POINTS: list[Point] = [
    {"lr": lr, "batch": batch, "runners": runners, "envs": envs}
    for lr, batch, (runners, envs) in product(RATES, BATCHES, SPEEDS)
]
BASE: Point = {"lr": 3e-4, "batch": 2048, "runners": 0, "envs": 16}
SEEDS, FRESH = range(5), (1000, 1001)
BUDGET = 1_000_000


def total(point: Point) -> int:
    return int(max(1, point["runners"]) * point["envs"])


def env_steps(point: Point) -> float:
    """Fewest at 1e-3 and the small batch; a fifth more for twice the environments."""
    steps = 200_000 * 4 ** abs(np.log10(point["lr"] / 1e-3)) * (point["batch"] / 512) ** 0.3
    return float(steps * (total(point) / 16) ** 0.26)


def speed(point: Point) -> float:
    return float(1 / (SPEEDS[point["runners"], point["envs"]] + 5e-3 / point["batch"]))


def start_s(point: Point) -> float:
    return 2.0 if point["runners"] else 0.1


def seconds(point: Point) -> float:
    return start_s(point) + env_steps(point) / speed(point)


def outcome(ask: Ask) -> Outcome:
    rng = np.random.default_rng([ask.seed, zlib.crc32(f"{key_of(ask.point)}{ask.phase}".encode())])
    if ask.phase == THROUGHPUT:
        values = {"env_steps_per_s": speed(ask.point) * rng.lognormal(0, 0.02), "start_s": start_s(ask.point)}
        return Outcome(FINISHED, values, 10_000, 3.0)
    taken = env_steps(ask.point) * rng.lognormal(-0.02, 0.2)
    values = {"env_steps_to_target": min(taken, BUDGET), "minutes_to_target": seconds(ask.point) / 60}
    return Outcome(FINISHED, values, int(taken), 5.0, target=475.0, reached=taken < BUDGET)


def joint(points: list[Point] = POINTS, more_seeds: Sequence[int] = (), base: Point = BASE) -> Joint:
    candidates = [
        Candidate(
            point,
            tuple(float(np.log10(point[name])) for name in ("lr", "batch", "updates") if name in point),
            total(point),
            point["batch"],
            f"updates={point.get('updates', 1)}",
            f"{point['runners']} x {point['envs']}",
            point["runners"],
            BUDGET,
        )
        for point in points
    ]
    return Joint(candidates, base, SEEDS, rounds=2, more_seeds=more_seeds)


def queue(search: Joint | None = None, **more: Any) -> TrialQueue:
    return TrialQueue(Confirming(search or joint(), BASE, 3, FRESH, alone=True), 3, Limits(BUDGET), **more)


def test_layouts_are_measured_then_learning_settings_trained_then_the_soonest_confirmed() -> None:
    asked = run(queue(), outcome)
    phases = [ask.phase for ask in asked]
    assert list(dict.fromkeys(phases)) == [THROUGHPUT, SEARCH, CONFIRM]
    assert [ask.alone for ask in asked] == [phase != SEARCH for phase in phases]
    rounds = Counter((ask.point["runners"], ask.point["envs"]) for ask in asked if ask.phase == THROUGHPUT)
    assert rounds == {(0, 4): 4, (0, 16): 2, (2, 8): 2, (2, 16): 2}  # one of four at both ends of the batch
    assert {total(ask.point) for ask in asked if ask.phase == SEARCH} == {4, 16}
    assert {ask.point["runners"] for ask in asked if ask.phase == SEARCH} == {0}
    assert len(asked) <= queue().strategy.most_trials


def test_what_is_confirmed_is_the_soonest_of_each_learning_setting_and_the_base() -> None:
    asked = run(queue(), outcome)
    confirmed = list({key_of(ask.point): ask.point for ask in asked if ask.phase == CONFIRM}.values())
    soonest = min(POINTS, key=seconds)
    assert soonest == {"lr": 1e-3, "batch": 2048, "runners": 2, "envs": 8}  # not the fewest env steps, nor the fastest
    assert min(map(seconds, confirmed)) < 1.1 * seconds(soonest)
    assert BASE in confirmed
    others = [(point["lr"], point["batch"]) for point in confirmed if point != BASE]
    assert len(set(others)) == len(others) == 3


def test_what_else_the_learner_does_with_an_env_step_is_measured_too_at_both_ends_of_the_batch() -> None:
    points = [{**point, "updates": updates} for point in POINTS for updates in (0.25, 1)]
    base = {**BASE, "updates": 1}

    def outcome_of(ask: Ask) -> Outcome:
        plain = {name: value for name, value in ask.point.items() if name != "updates"}
        found = outcome(Ask(plain, ask.seed, ask.phase))
        if ask.phase == THROUGHPUT:
            seconds_each = 1 / found.values["env_steps_per_s"] + 1e-4 * ask.point["updates"]
            return Outcome(FINISHED, found.values | {"env_steps_per_s": 1 / seconds_each}, 10_000, 3.0)
        return found

    search = joint(points, base=base)
    asked = run(TrialQueue(Confirming(search, base, 3, FRESH, alone=True), 3, Limits(BUDGET)), outcome_of)
    rounds = Counter((ask.point["updates"], ask.point["batch"]) for ask in asked if ask.phase == THROUGHPUT)
    assert rounds[0.25, 512] == rounds[0.25, 2048] == 2
    assert sum(ask.phase == THROUGHPUT for ask in asked) == 2 * (len(SPEEDS) + 1 + 2)
    found = search.predicted()
    assert found is not None
    speeds = dict(zip(map(key_of, points), found.env_steps_per_s.median, strict=True))
    for point in points:
        plain = {name: value for name, value in point.items() if name != "updates"}
        assert 1 / speeds[key_of(point)] == pytest.approx(1 / speed(plain) + 1e-4 * point["updates"], rel=0.1)


def test_nothing_runs_beside_a_measurement_or_a_confirmation() -> None:
    rng, running, here = np.random.default_rng(0), list[int](), queue()
    beside = False
    while True:
        found = here.ask()
        if isinstance(found, int):
            running.append(found)
        elif not running:
            break
        else:
            index = running.pop(int(rng.integers(len(running))))
            here.tell(index, outcome(here.asked[index]))
        assert len(running) <= 1 or not any(here.asked[index].alone for index in running)
        beside |= len(running) > 1
    assert beside, "what learns runs side by side"


def test_what_can_hardly_be_the_soonest_gets_no_more_seeds() -> None:
    asked = run(queue(joint(more_seeds=range(5, 12))), outcome)
    seeds = Counter(
        (ask.point["lr"], ask.point["batch"]) for ask in asked if ask.phase == SEARCH and total(ask.point) == 16
    )
    assert seeds[3e-2, 512] == len(SEEDS) < seeds[1e-3, 2048]
    assert 0 < HARDLY < 0.1


@pytest.mark.parametrize("killed_after", [1, 7, 11, 30, 45, 50])
def test_a_search_that_is_killed_goes_on_as_if_it_had_not_been(killed_after: int) -> None:
    noted: list[str] = []
    before = queue(write=lambda line: noted.append(json.dumps(line)))
    run(before, outcome, most=killed_after)
    after = queue(
        journal=[json.loads(line) for line in noted], outcome_of=lambda index, ask: before.outcomes.get(index)
    )
    asked, whole = run(after, outcome, ends=1), run(queue(), outcome)
    assert [(a.point, a.seed, a.phase) for a in asked] == [(a.point, a.seed, a.phase) for a in whole]


def test_confirmations_that_failed_run_alone_when_they_are_tried_again() -> None:
    noted: list[str] = []
    before = queue(write=lambda line: noted.append(json.dumps(line)))
    run(before, lambda ask: Outcome(FAILED) if ask.phase == CONFIRM else outcome(ask))
    after = queue(
        journal=[json.loads(line) for line in noted],
        outcome_of=lambda index, ask: None if ask.phase == CONFIRM else before.outcomes[index],
    )
    first = after.ask()
    assert isinstance(first, int)
    assert not isinstance(after.ask(), int)
    after.tell(first, outcome(after.asked[first]))
    assert isinstance(after.ask(), int)


@pytest.mark.parametrize("lost", ["2 x 16", "all"])
def test_a_layout_that_cannot_be_measured_is_not_chosen(lost: str) -> None:
    def fails(ask: Ask) -> Outcome:
        is_lost = lost == "all" or (ask.point["runners"], ask.point["envs"]) == (2, 16)
        return Outcome(FAILED) if ask.phase == THROUGHPUT and is_lost else outcome(ask)

    asked = run(queue(), fails)
    confirmed = [ask.point for ask in asked if ask.phase == CONFIRM]
    assert (2, 16) not in {(point["runners"], point["envs"]) for point in confirmed}
    assert bool(confirmed) == (lost != "all")


def crashing(lr: float) -> OutcomeOf:
    return lambda ask: Outcome(FAILED) if ask.phase != THROUGHPUT and ask.point["lr"] == lr else outcome(ask)


def test_a_learning_setting_that_crashes_counts_with_the_budget() -> None:
    search = joint()
    run(queue(search), crashing(1e-3))
    assert {point["lr"] for point in search.found()[:2]} == {3e-4, 3e-3}


def test_what_is_not_decided_gets_more_seeds_and_what_is_does_not() -> None:
    decided = [p for p in POINTS if p["lr"] != 3e-3 and p["batch"] == 512 and total(p) == 16]
    alike, apart = joint(more_seeds=range(5, 25)), joint(decided, range(5, 25))
    asked = [run(queue(search), outcome) for search in (alike, apart)]
    more = [{ask.seed for ask in of_one if ask.phase == SEARCH} - set(SEEDS) for of_one in asked]
    assert more[0] > more[1]
    found = alike.predicted()
    assert found is not None
    assert max(more[0]) == 24 or found.regret.min() <= SURE
    assert len(asked[0]) <= queue(alike).strategy.most_trials


def test_with_a_single_number_of_environments_nothing_is_trained_elsewhere() -> None:
    search = joint([point for point in POINTS if point["envs"] == 16 and point["runners"] == 0])
    asked = run(queue(search), outcome)
    assert {total(ask.point) for ask in asked} == {16}
    assert search.num_layouts == 1
