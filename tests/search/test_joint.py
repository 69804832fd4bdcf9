"""Learning settings and layouts apart, and the soonest of their products confirmed one at a time."""

import json
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
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


def joint(
    points: list[Point] = POINTS,
    more_seeds: Sequence[int] = (),
    base: Point = BASE,
    updates_of_batch: int | None = None,
) -> Joint:
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
    return Joint(candidates, base, SEEDS, rounds=2, more_seeds=more_seeds, updates_of_batch=updates_of_batch)


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
    assert queue().strategy.least_learning <= sum(ask.phase == SEARCH for ask in asked)
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


@pytest.mark.parametrize("further", [0, 1, 3])
def test_a_search_that_is_killed_among_its_further_seeds_goes_on_as_if_it_had_not_been(further: int) -> None:
    whole = run(queue(joint(more_seeds=range(5, 12))), outcome)
    killed_after = next(i for i, ask in enumerate(whole) if ask.phase == SEARCH and ask.seed not in SEEDS) + further
    noted: list[str] = []
    before = queue(joint(more_seeds=range(5, 12)), write=lambda line: noted.append(json.dumps(line)))
    run(before, outcome, most=killed_after)
    after = queue(
        joint(more_seeds=range(5, 12)),
        journal=[json.loads(line) for line in noted],
        outcome_of=lambda index, ask: before.outcomes.get(index),
    )
    asked = run(after, outcome, ends=1)
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


def test_further_seeds_go_to_whatever_number_of_environments_may_be_the_soonest() -> None:
    def outcome_of(ask: Ask) -> Outcome:
        found = outcome(ask)
        if ask.phase == THROUGHPUT and ask.point["envs"] == 4:  # so that both are about as soon
            return replace(found, values=found.values | {"env_steps_per_s": 1.8 * found.values["env_steps_per_s"]})
        return found

    search = joint([point for point in POINTS if point["runners"] == 0], range(5, 15))
    asked = run(queue(search), outcome_of)
    more = Counter(total(ask.point) for ask in asked if ask.phase == SEARCH and ask.seed not in SEEDS)
    assert set(more) == {4, 16}
    of_a_seed = Counter(ask.seed for ask in asked if ask.phase == SEARCH and ask.seed not in SEEDS)
    assert max(of_a_seed.values()) <= len(RATES) * len(BATCHES)


def test_with_a_single_number_of_environments_nothing_is_trained_elsewhere() -> None:
    search = joint([point for point in POINTS if point["envs"] == 16 and point["runners"] == 0])
    asked = run(queue(search), outcome)
    assert {total(ask.point) for ask in asked} == {16}
    assert search.num_layouts == 1


# An algorithm that samples while it learns: with more runners, its samples are older.

OLD_SPEEDS = {(1, 4): 6e-5, (1, 16): 2.4e-5, (4, 4): 1.2e-5, (4, 16): 1.1e-5}
"""Runners and environments of each to the seconds of an env step."""
OLD_POINTS: list[Point] = [
    {"lr": lr, "batch": batch, "runners": runners, "envs": envs}
    for lr, batch, (runners, envs) in product((1e-3, 3e-3), BATCHES, OLD_SPEEDS)
]
OLD_BASE: Point = {"lr": 1e-3, "batch": 2048, "runners": 1, "envs": 16}
EXPONENT = 0.8
"""Of env steps to target, in 1 + staleness."""
BUSY = 1.4
"""Times as old as alone samples are of trials side by side."""


def staleness(point: Point) -> float:
    """Of samples on a machine that does nothing else."""
    return float(0.2 + {1: 200, 4: 8_000}[point["runners"]] / point["batch"])


def old_env_steps(point: Point, updates: float) -> float:
    return float(0.25 * env_steps(point) * (1 + updates) ** EXPONENT)


def old_seconds(point: Point) -> float:
    each = OLD_SPEEDS[point["runners"], point["envs"]] + 5e-3 / point["batch"]
    return float(0.5 + old_env_steps(point, staleness(point)) * each)


def of_old(ask: Ask, says_staleness: bool = True) -> Outcome:
    rng = np.random.default_rng([ask.seed, zlib.crc32(f"{key_of(ask.point)}{ask.phase}{ask.note}".encode())])
    updates = (1.0 if ask.alone else BUSY) * staleness(ask.point) + ask.note.get("staleness", 0)
    said = {"staleness_updates": float(updates * rng.lognormal(0, 0.05))} if says_staleness else {}
    if ask.phase == THROUGHPUT:
        each = OLD_SPEEDS[ask.point["runners"], ask.point["envs"]] + 5e-3 / ask.point["batch"]
        return Outcome(FINISHED, {"env_steps_per_s": rng.lognormal(0, 0.02) / each, "start_s": 0.5} | said, 10_000, 3.0)
    taken = old_env_steps(ask.point, updates) * rng.lognormal(-0.02, 0.2)
    values = {"env_steps_to_target": min(taken, BUDGET)} | said
    return Outcome(FINISHED, values, int(taken), 5.0, target=475.0, reached=taken < BUDGET)


def old_queue(search: Joint | None = None, **more: Any) -> TrialQueue:
    search = search or joint(OLD_POINTS, base=OLD_BASE, updates_of_batch=1)
    return TrialQueue(Confirming(search, OLD_BASE, 3, FRESH, alone=True), 3, Limits(3 * BUDGET), **more)


def older(asked: Sequence[Ask]) -> Counter[tuple[float, int, int]]:
    """Learning rate, batch and batches to wait, of the trials whose samples wait."""
    waiting = [(ask.point, ask.note["staleness"]) for ask in asked if "staleness" in ask.note]
    return Counter((point["lr"], point["batch"], batches) for point, batches in waiting)


def test_what_is_chosen_is_the_soonest_with_samples_as_old_as_its_layout_makes_them() -> None:
    soonest = min(map(old_seconds, OLD_POINTS))
    with_it, without = joint(OLD_POINTS, base=OLD_BASE, updates_of_batch=1), joint(OLD_POINTS, base=OLD_BASE)
    run(old_queue(with_it), of_old)
    assert old_seconds(with_it.found()[0]) < 1.1 * soonest
    assert with_it.found()[0]["runners"] == 1
    run(old_queue(without), lambda ask: of_old(ask, says_staleness=False))
    assert old_seconds(without.found()[0]) > 1.4 * soonest
    assert without.found()[0]["runners"] == 4  # it samples twice as fast, and its samples take twice as many


def test_the_best_learn_on_samples_as_old_as_the_oldest_too() -> None:
    search = joint(OLD_POINTS, base=OLD_BASE, updates_of_batch=1)
    asked = run(old_queue(search), of_old)
    found = older(asked)
    assert len(found) == 2
    assert set(found.values()) == {len(SEEDS)}
    for lr, batch, batches in found:
        oldest = staleness({"lr": lr, "batch": batch, "runners": 4, "envs": 16})
        own = BUSY * staleness({"lr": lr, "batch": batch, "runners": 1, "envs": 16})
        assert batches + own == pytest.approx(oldest, rel=0.15, abs=1.0)
    assert all(ask.phase == SEARCH and ask.point["runners"] == 1 for ask in asked if "staleness" in ask.note)
    assert len(asked) <= old_queue(search).strategy.most_trials
    several = older(run(old_queue(joint(OLD_POINTS, base=OLD_BASE, updates_of_batch=4)), of_old))
    assert max(batches for *_, batches in several) <= max(batches for *_, batches in found) / 4 + 1


def test_env_steps_are_learned_at_every_staleness() -> None:
    search = joint(OLD_POINTS, base=OLD_BASE, updates_of_batch=1)
    run(old_queue(search), of_old)
    found = search.predicted()
    assert found is not None
    steps = dict(zip(map(key_of, OLD_POINTS), found.env_steps.median, strict=True))
    point = min(OLD_POINTS, key=old_seconds)
    for runners, envs in ((1, 16), (4, 4)):
        one = {**point, "runners": runners, "envs": envs}
        assert steps[key_of(one)] == pytest.approx(old_env_steps(one, staleness(one)), rel=0.25)


def test_where_nothing_says_how_old_samples_are_none_are_made_older() -> None:
    asks = [
        run(old_queue(joint(OLD_POINTS, base=OLD_BASE, updates_of_batch=updates)), lambda ask: of_old(ask, False))
        for updates in (1, None)
    ]
    assert asks[0] == asks[1]
    assert not older(asks[0])


@pytest.mark.parametrize("killed_after", [9, 31, 40, 50])
def test_a_search_with_older_samples_that_is_killed_goes_on_as_if_it_had_not_been(killed_after: int) -> None:
    noted: list[str] = []
    before = old_queue(write=lambda line: noted.append(json.dumps(line)))
    run(before, of_old, most=killed_after)
    after = old_queue(
        journal=[json.loads(line) for line in noted], outcome_of=lambda index, ask: before.outcomes.get(index)
    )
    assert run(after, of_old, ends=1) == run(old_queue(), of_old)


def test_a_trial_that_crashed_is_as_old_as_those_of_its_settings() -> None:
    search = joint(OLD_POINTS, base=OLD_BASE, updates_of_batch=1)
    run(old_queue(search), lambda ask: Outcome(FAILED) if ask.phase == SEARCH and ask.seed == 1 else of_old(ask))
    found = search.predicted()
    assert found is not None
    assert np.isfinite(found.minutes.median).all()
