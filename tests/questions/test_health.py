"""Signals of health: injected faults are found, and false alarms counted in healthy noise."""

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from analysis.questions.diagnosis import tags
from analysis.questions.facts import Facts
from analysis.questions.health import health
from experiments.contract import METRICS
from tests.support.diagnosed import LAPTOP, facts, logged


def noise(rng: np.random.Generator, count: int, correlation: float) -> np.ndarray:
    """A stationary series of unit variance, each value correlated with the one before."""
    draws = rng.normal(size=count)
    for i in range(1, count):
        draws[i] = correlation * draws[i - 1] + math.sqrt(1 - correlation**2) * draws[i]
    return draws


def healthy(
    rng: np.random.Generator, count: int = 30, correlation: float = 0.5, spread: float = 0.1
) -> dict[str, np.ndarray]:
    """A run that learns, as PPO on CartPole does: losses that fall and now and then jump back,
    memory that fills up at first.
    """
    done = np.arange(1, count + 1) / count

    def jumps(height: float) -> np.ndarray:
        return np.where(rng.random(count) < 0.05, height, 1.0)

    return {
        "throughput/env_steps_per_s": 7000
        * np.exp(spread * noise(rng, count, correlation))
        * np.where(np.arange(count) == 0, 0.3, 1),
        "system/memory_mib": 500 + 60 * (1 - np.exp(-20 * done)) + 5 * noise(rng, count, correlation),
        "learner/entropy": math.log(2) * (1 - 0.4 * done) + 0.03 * noise(rng, count, correlation),
        "learner/kl": 0.01 * np.exp(0.5 * noise(rng, count, correlation)),
        "learner/value_loss": 50 * np.exp(-8 * done + 1.5 * noise(rng, count, correlation)) * jumps(1000),
        "learner/grad_norm": 30 * np.exp(-4 * done + noise(rng, count, correlation)) * jumps(30),
        "learner/staleness_updates": np.maximum(1, 1.3 + 0.4 * noise(rng, count, correlation)),
        "eval/return_mean": 480 * done,
        "train/return_max": 500 * done,
    }


def found_in(values: dict[str, np.ndarray], of_trial: Facts = LAPTOP) -> list[str]:
    return [signal.key for signal in health(logged(values), of_trial)]


@pytest.mark.slow
@pytest.mark.parametrize(("correlation", "most"), [(0.0, 0.02), (0.5, 0.05)])
@pytest.mark.parametrize("count", [15, 40])
@pytest.mark.parametrize("spread", [0.05, 0.3])
def test_healthy_runs_seldom_raise_an_alarm(correlation: float, most: float, count: int, spread: float) -> None:
    rng = np.random.default_rng(0)
    runs = 200
    alarms = Counter(key for _ in range(runs) for key in found_in(healthy(rng, count, correlation, spread)))
    assert alarms.total() <= most * runs, alarms
    assert not alarms.keys() & {"memory_growth", "exploding_value_loss", "exploding_grad_norm", "entropy_collapse"}


def collapse(values: dict[str, np.ndarray]) -> None:
    values["learner/entropy"][-10:] = 0.01
    values["eval/return_mean"] *= 0.2


def stray(values: dict[str, np.ndarray]) -> None:
    values["learner/kl"] *= 4


def freeze(values: dict[str, np.ndarray]) -> None:
    values["learner/kl"] *= 0.001
    values["eval/return_mean"] *= 0.2


def explode(metric: str) -> Callable[[dict[str, np.ndarray]], None]:
    def change(values: dict[str, np.ndarray]) -> None:
        values[metric][-4:] = [1e5, 1e6, 1e8, 1e9]

    return change


def lag(values: dict[str, np.ndarray]) -> None:
    values["learner/staleness_updates"] += 2


def leak(values: dict[str, np.ndarray]) -> None:
    values["system/memory_mib"] += 5.0 * np.arange(len(values["system/memory_mib"]))


def slow_down(values: dict[str, np.ndarray]) -> None:
    values["throughput/env_steps_per_s"] *= np.linspace(1, 0.5, len(values["throughput/env_steps_per_s"]))


def steal(values: dict[str, np.ndarray]) -> None:
    values["system/stolen_cpu_percent"] = np.full(len(values["learner/entropy"]), 30.0)


@pytest.mark.parametrize(
    ("fault", "key"),
    [
        (collapse, "entropy_collapse"),
        (stray, "kl_out_of_range"),
        (freeze, "kl_out_of_range"),
        (explode("learner/value_loss"), "exploding_value_loss"),
        (explode("learner/grad_norm"), "exploding_grad_norm"),
        (lag, "staleness"),
        (leak, "memory_growth"),
        (slow_down, "throughput_decay"),
        (steal, "stolen_cpu"),
    ],
)
def test_an_injected_fault_is_found_and_nothing_else(fault: Callable[[dict[str, np.ndarray]], None], key: str) -> None:
    rng = np.random.default_rng(1)
    hits = Counter[str]()
    for _ in range(50):
        values = healthy(rng)
        fault(values)
        hits.update(found_in(values))
    assert hits[key] >= 45
    assert hits.total() - hits[key] <= 2, hits


def test_a_policy_that_is_sure_because_it_solved_the_task_is_no_warning() -> None:
    values = healthy(np.random.default_rng(0))
    values["learner/entropy"][-10:] = 0.01
    [signal] = health(logged(values), facts(score=490.0))
    assert (signal.harmless, signal.since_env_steps) == (True, 21 * 4000)
    assert "The return is at its target (490)" in signal.sentence
    assert tags(logged(values), facts(score=490.0))["health"] == "ok"
    [signal] = health(logged(values), facts(score=100.0))
    assert not signal.harmless
    assert "0.01 nats (1% of the largest, 0.69)" in signal.sentence
    assert "a return of 100 below the target of 475" in signal.sentence
    assert [s.harmless for s in health(logged(values), facts(target=None))] == [True]


def test_entropy_of_unknown_actions_is_measured_against_its_start_and_of_a_box_against_its_width() -> None:
    values = {"learner/entropy": np.array([0.69] * 6 + [0.01] * 3)}
    unknown = facts(max_entropy=None, score=0.0)
    assert found_in(values, unknown) == ["entropy_collapse"]
    assert found_in({"learner/entropy": np.array([0.69] * 8 + [0.01] * 3)}, unknown) == []  # not for long enough
    box = {"learner/entropy": np.linspace(1.42, -2.0, 9)}
    assert found_in(box, unknown) == found_in(box, facts(max_entropy=None, action_dims=1, score=0.0)) == []
    narrow = {"learner/entropy": np.array([1.42] * 6 + [-4.0] * 3)}
    assert found_in(narrow, facts(max_entropy=None, action_dims=1, score=0.0)) == ["entropy_collapse"]
    assert found_in(narrow, facts(max_entropy=None, action_dims=2, score=0.0)) == []


def test_a_loss_that_jumps_back_to_its_first_level_has_not_exploded() -> None:
    # As measured: PPO on CartPole, lr=3e-3 b=512 seed 2.
    losses = [50.2, 19.2, 174, 39.9, 16.7, 102, 4.57, 0.774, 0.0941, 2.01, 0.014, 0.00322, 0.00035, 45, 0.0055]
    norms = [42, 34.8, 14.7, 42.8, 194, 5.9, 20.5, 4.74, 1.85, 70.3, 0.718, 0.337, 0.0893, 127, 0.439]
    assert found_in({"learner/value_loss": np.array(losses), "learner/grad_norm": np.array(norms)}) == []


def test_a_loss_that_grows_with_the_first_rewards_has_not_exploded() -> None:
    values = {
        "learner/value_loss": np.array([0.01] * 10 + [50.0] * 10),
        "train/return_max": np.array([0.0] * 10 + [100.0] * 10),
    }
    assert found_in(values) == []
    values["learner/value_loss"][10:] = 50_000
    [signal] = health(logged(values), LAPTOP)
    assert (signal.key, signal.since_env_steps) == ("exploding_value_loss", 44_000)
    assert "from about 0.01 to 5e+04" in signal.sentence


def test_memory_that_levels_off_or_jumps_once_is_no_leak() -> None:
    at = np.arange(40)
    assert found_in({"system/memory_mib": 500 + 300 * (1 - np.exp(-at / 12))}) == []
    assert found_in({"system/memory_mib": 500.0 + 300 * (at > 24)}) == []
    assert found_in({"system/memory_mib": 500.0 + 0.5 * at}) == []  # 15 MiB
    [signal] = health(logged({"system/memory_mib": 500.0 + 10 * at}), LAPTOP)
    assert "2,500 MiB per million env steps" in signal.sentence
    assert signal.since_env_steps == 11 * 4000


def test_a_replay_buffer_that_fills_is_no_leak() -> None:
    values = {"system/memory_mib": 500.0 + 10 * np.arange(40)}
    assert found_in(values, facts(replays=True)) == []
    assert found_in(values, facts(replays=True, replay_capacity=150_000)) == []
    assert found_in(values, facts(replays=True, replay_capacity=40_000)) == ["memory_growth"]


def test_throughput_before_learning_begins_does_not_count() -> None:
    rate = np.array([20_000.0] * 10 + [5000.0] * 20)
    values = logged({"throughput/env_steps_per_s": rate})
    assert [s.key for s in health(values, LAPTOP)] == ["throughput_decay"]
    values["learner/loss"] = [(4000.0 * (i + 1), 1.0) for i in range(10, 30)]
    assert health(values, LAPTOP) == []


def test_throughput_that_other_programs_took_says_so() -> None:
    rate, other = np.linspace(1000, 500, 30), np.linspace(0, 300, 30)
    [signal] = health(logged({"throughput/env_steps_per_s": rate, "system/other_cpu_percent": other}), LAPTOP)
    assert "; other programs went from 0.5 to 2.6 cores" in signal.sentence


def test_too_few_reports_say_nothing() -> None:
    values = {name: series[:2] for name, series in healthy(np.random.default_rng(0)).items()}
    lag(values)
    assert found_in(values) == []
    assert tags(logged(values), LAPTOP) == {"bottleneck": "unknown", "health": "too short to tell"}
    assert tags({}, LAPTOP)["health"] == "too short to tell"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 1e300, math.nan, math.inf])
def test_no_series_breaks_it(value: float) -> None:
    names = [name for name in METRICS if name.startswith(("learner/", "train/", "eval/")) or abs(value) != 1e300]
    for count in (1, 2, 3, 12, 40):
        tags(logged({name: np.full(count, value) for name in names}), LAPTOP)
