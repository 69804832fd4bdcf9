import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from experiments.search.contest import FEWEST_ROUNDS, Bounds, Setting, contest, neighbours, ratio, rounds

BOUNDS = Bounds(least_runners=0, most_runners=8, most_envs=64, modes=("sync", "async"))
START = Setting(2, 8, "sync")


def machine(rng: np.random.Generator, noise: float, drift: float = 0.0) -> Callable[[float], Callable[[], float]]:
    """Settings of given speeds on a machine that gets slower with every measurement."""
    clock = {"now": 0}

    def setting(speed: float) -> Callable[[], float]:
        def measure() -> float:
            clock["now"] += 1
            return speed * math.exp(rng.normal(0, noise) - drift * clock["now"])

        return measure

    return setting


def test_a_clear_loser_is_stopped_early() -> None:
    measured = machine(np.random.default_rng(0), noise=0.02)
    found = contest(measured(1000), measured(500), most_rounds=20)
    assert found.num_rounds == FEWEST_ROUNDS
    assert found.high < 1


def test_a_clear_winner_is_found_on_a_machine_that_slows_down() -> None:
    measured = machine(np.random.default_rng(1), noise=0.02, drift=0.01)
    found = contest(measured(1000), measured(1200), most_rounds=20)
    assert found.low > 1
    assert found.estimate == pytest.approx(1.2, rel=0.05)


def test_equals_seldom_win_however_often_one_looks() -> None:
    rng, wins = np.random.default_rng(2), 0
    for _ in range(1000):
        measured = machine(rng, noise=0.05)
        wins += contest(measured(1000), measured(1000), most_rounds=8).low > 1
    assert wins <= 35  # 2.5% of 1000, and three standard deviations


def test_the_interval_of_a_fixed_number_of_rounds_covers_in_95_of_100() -> None:
    rng, covered = np.random.default_rng(3), 0
    for _ in range(1000):
        measured = machine(rng, noise=0.05, drift=0.002)
        found = ratio(rounds(measured(1000), measured(1100), 10, lambda: True, lambda logs: False))
        covered += found.low <= 1.1 <= found.high
    assert 925 <= covered <= 975


def test_a_contest_without_time_still_has_its_fewest_rounds() -> None:
    measured = machine(np.random.default_rng(4), noise=0.0)
    assert contest(measured(1), measured(1), most_rounds=9, go_on=lambda: False).num_rounds == FEWEST_ROUNDS


def test_one_round_has_no_interval() -> None:
    found = ratio([0.1])
    assert (found.low, found.high) == (0.0, math.inf)


def test_neighbours_stay_within_bounds_and_are_new() -> None:
    found = neighbours(START, BOUNDS)
    assert START not in found
    assert len(set(found)) == len(found)
    assert all(setting in BOUNDS for setting in found)
    assert {
        Setting(2, 16, "sync"),
        Setting(4, 8, "sync"),
        Setting(4, 4, "sync"),
        Setting(1, 8, "sync"),
        Setting(2, 8, "async"),
    } <= set(found)


def test_algorithms_that_need_a_runner_are_not_left_without() -> None:
    found = neighbours(Setting(1, 16, "sync"), replace(BOUNDS, least_runners=1))
    assert all(setting.num_env_runners >= 1 for setting in found)


def test_a_single_environment_is_not_put_into_a_process_of_its_own() -> None:
    assert all(
        s.vectorize_mode == "sync" for s in neighbours(Setting(2, 1, "sync"), BOUNDS) if s.num_envs_per_env_runner == 1
    )


def test_from_everywhere_everything_can_be_reached() -> None:
    reached, left = {Setting(0, 1, "sync")}, [Setting(0, 1, "sync")]
    while left:
        for setting in neighbours(left.pop(), BOUNDS):
            if setting not in reached:
                reached.add(setting)
                left.append(setting)
    assert {(s.num_env_runners, s.vectorize_mode) for s in reached} >= {
        (r, m) for r in (0, 1, 2, 4, 8) for m in ("sync", "async")
    }
