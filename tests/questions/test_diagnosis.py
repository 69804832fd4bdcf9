"""What a run is bound by, and its health: cases worked by hand, injected faults, and false alarms counted in healthy noise."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.questions import diagnosis
from analysis.questions.diagnosis import (
    BALANCED,
    ENV,
    INFERENCE,
    LEARNER,
    STARVED,
    TRANSFER,
    UNKNOWN,
    Bottleneck,
    Facts,
    bottleneck,
    bottleneck_sentences,
    by_configuration,
    health,
    health_sentences,
    limits_sentence,
    of_study,
    tags,
)
from experiments.metrics import METRICS, TIME_PARTS
from tests.support.study_frames import make_curves, make_runs

Curves = dict[str, list[tuple[float, float]]]

LAPTOP = Facts(num_env_runners=2, num_envs_per_env_runner=4, vectorize_mode="sync", num_cpus=8, max_entropy=math.log(2), target=475.0)
IDLE = {"system/machine_cpu_percent": 30.0, "system/runner_cpu_share": 0.98, "throughput/env_steps_per_s": 1000.0}
FULL = {"system/machine_cpu_percent": 99.0, "system/other_cpu_percent": 1.0, "system/runner_cpu_share": 0.4}


def facts(**changes: Any) -> Facts:
    return Facts(**{**vars(LAPTOP), **changes})


def of(measured: dict[str, float] | None = None, of_trial: Facts = LAPTOP, **shares: float) -> Bottleneck:
    return bottleneck(shares, of_trial, IDLE if measured is None else measured)


def test_its_parts_are_metrics() -> None:
    assert {f"time/{part}_share" for part in TIME_PARTS} <= set(METRICS)


# ------------------------------------------------------------------------------------------------------------- the bottleneck


@pytest.mark.parametrize(
    ("shares", "name", "share"),
    [
        ({"env_step": 0.6, "inference": 0.2, "learn": 0.2}, ENV, 0.6),
        ({"env_step": 0.3, "inference": 0.2, "connectors": 0.3, "learn": 0.2}, INFERENCE, 0.5),
        ({"env_step": 0.2, "transfer": 0.3, "sync": 0.3, "learn": 0.2}, TRANSFER, 0.6),
        ({"env_step": 0.2, "inference": 0.1, "learn": 0.7}, LEARNER, 0.7),
    ],
)
def test_the_largest_group_names_it(shares: dict[str, float], name: str, share: float) -> None:
    found = of(**shares)
    assert (found.name, found.share) == (name, pytest.approx(share))
    assert f"{100 * share:.0f}% of training time" in found.evidence
    assert found.advice


def test_evaluations_and_reports_are_no_training_time() -> None:
    found = of(env_step=0.2, learn=0.1, evaluation=0.5, logging=0.2)
    assert (found.name, found.share) == (ENV, pytest.approx(2 / 3))
    assert "evaluations and reports take 70% of the wall-clock (evaluation.episodes, " in found.evidence
    assert "evaluations" not in of(env_step=0.6, learn=0.2, evaluation=0.2).evidence


def test_waiting_for_the_slowest_runner_goes_to_what_runners_do() -> None:
    found = of(env_step=0.3, inference=0.1, waiting=0.2, learn=0.3, unexplained=0.1)
    assert (found.name, found.share) == (ENV, pytest.approx(0.3 + 0.75 * 0.2))
    assert "20% is waiting for the slowest runner" in found.evidence
    assert "algorithm=appo" in found.advice
    assert "slowest" not in of(env_step=0.6, waiting=0.05, learn=0.35).evidence


def test_two_about_equal_are_both_named() -> None:
    found = of(env_step=0.42, learn=0.40, inference=0.18)
    assert found.name == BALANCED
    assert "env-bound: More env runners" in found.advice
    assert "learner-bound: Larger minibatches" in found.advice
    assert of(env_step=0.46, learn=0.40, inference=0.14).name == ENV


def test_without_shares_or_with_most_unexplained_it_is_unknown() -> None:
    assert of().name == of(env_step=math.nan).name == of(evaluation=0.5).name == UNKNOWN
    found = of(env_step=0.3, learn=0.2, unexplained=0.5)
    assert (found.name, found.advice) == (UNKNOWN, "")
    assert "50% of training time is unexplained" in found.evidence


def test_processes_that_wait_for_a_core_are_starved() -> None:
    many = facts(num_env_runners=16, num_envs_per_env_runner=1)
    found = of(FULL, many, env_step=0.9, learn=0.1)
    assert (found.name, found.share) == (STARVED, pytest.approx(0.6))
    assert "17 processes share 8 cores, which are busy 100% while runners sample; runners have one in 40%" in found.evidence
    assert "num_env_runners=8 algorithm.env_runners.num_envs_per_env_runner=2." in found.advice
    impala = of(FULL, facts(asynchronous=True, num_env_runners=16, num_envs_per_env_runner=1), env_step=0.9)
    assert "num_env_runners=7 algorithm.env_runners.num_envs_per_env_runner=3." in impala.advice  # a core for the learner


def test_cores_that_idle_while_one_process_learns_do_not_hide_starved_runners() -> None:
    crowd = facts(num_env_runners=8, num_cpus=2)
    half = {**FULL, "system/machine_cpu_percent": 73.0}
    found = of(half, crowd, env_step=0.45, learn=0.45, evaluation=0.05, logging=0.05)
    assert found.name == STARVED
    assert "2 cores, which are busy 100% while runners sample" in found.evidence  # (73 - 55 / 2) / 0.45 = 101
    assert of(half, crowd, env_step=0.9, learn=0.1).name == ENV  # (73 - 5) / 0.9 = 76: they wait for something else
    assert of({**half, "system/machine_cpu_percent": 50.0}, crowd, env_step=0.03, learn=0.97).name == LEARNER


@pytest.mark.parametrize(
    ("measured", "changes"),
    [
        ({**FULL, "system/machine_cpu_percent": 40.0}, {"num_env_runners": 16}),  # its environment sleeps
        ({**FULL, "system/runner_cpu_share": 0.95}, {"num_env_runners": 16}),  # the others idle: nobody waits
        (FULL, {"num_env_runners": 6}),  # a core for each of 7
        (FULL, {"num_env_runners": 16, "num_cpus": None}),
        ({"system/machine_cpu_percent": 99.0}, {"num_env_runners": 16}),
        (FULL, {"num_env_runners": 1, "num_envs_per_env_runner": 8, "vectorize_mode": "async"}),  # the runner sleeps while they step
    ],
)
def test_nothing_else_is_starved(measured: dict[str, float], changes: dict[str, Any]) -> None:
    assert of(measured, facts(**changes), env_step=0.9, learn=0.1).name == ENV


def test_other_programs_and_other_trials_starve_a_trial_too() -> None:
    found = of({**FULL, "system/other_cpu_percent": 600.0}, env_step=0.9)
    assert found.name == STARVED
    assert "other programs take 6.0 cores" in found.evidence
    assert "Stop the other programs" in found.advice
    assert "Fewer runners" not in found.advice
    packed = of(FULL, facts(exclusive=False), env_step=0.9)
    assert (packed.name, "hardware.max_concurrent_trials=1" in packed.advice) == (STARVED, True)


def test_where_others_fill_the_machine_nothing_else_is_advised() -> None:
    many = facts(num_env_runners=16)
    assert of({**FULL, "system/other_cpu_percent": 300.0}, many, env_step=0.9).advice == "Stop the other programs, and measure again."
    assert "num_env_runners=8 " in of({**FULL, "system/other_cpu_percent": 100.0}, many, env_step=0.9).advice
    alone = of({**FULL, "system/other_cpu_percent": 120.0}, facts(num_env_runners=0, num_cpus=2), env_step=0.9)
    assert alone.evidence.startswith(
        "One process shares 2 cores, which are busy 99% of the time; its runner has one in 40% of the sampling"
    )
    # Two runners fit two cores, but for the other program.
    two = of({**FULL, "system/other_cpu_percent": 40.0}, facts(num_env_runners=2, num_cpus=2), env_step=0.9)
    assert two.advice == "Stop the other programs."


def test_runners_that_lack_a_core_while_they_hardly_sample_are_not_what_holds_it_up() -> None:
    # As measured: PPO with rounds of 16 steps, beside a program that takes a core.
    busy = {"system/machine_cpu_percent": 99.4, "system/other_cpu_percent": 79.0, "system/runner_cpu_share": 0.72}
    shares = {"env_step": 0.02, "inference": 0.05, "connectors": 0.04, "transfer": 0.2, "learn": 0.19, "sync": 0.29, "unexplained": 0.14}
    found = of(busy, facts(num_cpus=2), **shares)
    assert found.name == TRANSFER
    assert "; other programs take 0.8 cores." in found.evidence
    impala = of(busy, facts(asynchronous=True, num_cpus=2), **shares)  # its runners sample all the time
    assert impala.name == STARVED


def test_a_process_per_environment_can_be_too_many() -> None:
    found = of(FULL, facts(num_env_runners=4, vectorize_mode="async"), env_step=0.9)
    assert found.name == STARVED
    assert "env.vectorize_mode=sync" in found.advice
    # As measured: environments that wait, on two cores that another program fills.
    other = {"system/machine_cpu_percent": 100.0, "system/other_cpu_percent": 100.7, "system/runner_cpu_share": 0.24}
    assert of(other, facts(num_cpus=2, vectorize_mode="async"), env_step=0.64, inference=0.12, learn=0.09).name == ENV


def test_more_runners_are_advised_only_where_cores_are_free() -> None:
    assert "num_env_runners=4." in of(env_step=0.9).advice
    full = of({**IDLE, "system/machine_cpu_percent": 97.0}, env_step=0.9).advice
    assert "num_env_runners" not in full
    assert "No core is free" in full
    assert "it takes a faster simulator, or more cores." in full
    other = of({**IDLE, "system/machine_cpu_percent": 97.0, "system/other_cpu_percent": 120.0}, env_step=0.9).advice
    assert other == "No core is free for more runners while other programs run."
    assert "if the machine has cores to spare" in of({}, facts(num_cpus=None), env_step=0.9).advice


def test_an_environment_that_waits_leaves_cores_for_more_runners_than_cores() -> None:
    waits = {"system/machine_cpu_percent": 20.0, "system/runner_cpu_share": 0.05, "throughput/env_steps_per_s": 800.0}
    found = of(waits, facts(num_env_runners=4, num_envs_per_env_runner=1, num_cpus=2), env_step=0.95)
    assert "num_env_runners=8." in found.advice
    assert "num_envs_per_env_runner=4 env.vectorize_mode=async" in found.advice
    assert "runners compute in 5% of their sampling time" in found.evidence
    # As measured: 8 runners that wait use three quarters of 2 cores. More of them would not fit, but environments side by side would.
    eight = {**waits, "system/machine_cpu_percent": 74.0, "system/runner_cpu_share": 0.17}
    advice = of(eight, facts(num_env_runners=8, num_envs_per_env_runner=1, num_cpus=2), env_step=0.55, transfer=0.2).advice
    assert advice.startswith("No core is free for more runners. Environments that wait can do so side by side in one runner: ")


def test_async_vectorisation_is_advised_only_for_slow_steps_of_several_environments_in_turn() -> None:
    slow, fast = {**IDLE, "throughput/env_steps_per_s": 1000.0}, {**IDLE, "throughput/env_steps_per_s": 20_000.0}
    found = of(slow, env_step=0.9, learn=0.1)
    assert "a step takes 1.8 ms" in found.evidence  # 0.9 s of each of 2 runners for 1000 steps
    assert "env.vectorize_mode=async" in found.advice
    for measured, changes in (
        (fast, {}),
        (slow, {"num_envs_per_env_runner": 1}),
        (slow, {"vectorize_mode": "async"}),
        ({**slow, "system/machine_cpu_percent": 97.0}, {}),
    ):
        assert "vectorize_mode=async" not in of(measured, facts(**changes), env_step=0.9, learn=0.1).advice
    assert "env.vectorize_mode=vector_entry_point" in of(env_step=0.9, learn=0.1, of_trial=facts(has_vector_entry_point=True)).advice


def test_advice_for_inference_grows_the_vector_until_it_is_large() -> None:
    assert "num_envs_per_env_runner=8." in of(inference=0.9).advice
    large = of(of_trial=facts(num_envs_per_env_runner=64), inference=0.9).advice
    assert "num_envs_per_env_runner" not in large
    assert "smaller network" in large


def test_advice_for_transfer_depends_on_the_algorithm() -> None:
    assert "num_env_runners=1 algorithm.env_runners.num_envs_per_env_runner=8" in of(transfer=0.9).advice
    assert "num_env_runners=0." in of(transfer=0.9).advice
    impala = of(of_trial=facts(asynchronous=True), transfer=0.2, sync=0.7).advice
    assert "broadcast_interval" in impala
    assert "num_env_runners=0." not in impala


def test_advice_for_the_learner_depends_on_the_hardware_and_the_algorithm() -> None:
    assert "num_gpus_per_learner" not in of(learn=0.9).advice
    assert "minibatch_size" in of(learn=0.9).advice
    assert "num_gpus_per_learner=1" in of(of_trial=facts(num_gpus=1), learn=0.9).advice
    on_gpu = facts(num_gpus=1, num_gpus_per_learner=1)
    idle_gpu = of({**IDLE, "system/gpu_percent": 30.0}, on_gpu, learn=0.9)
    assert "the GPU is busy 30% of the time" in idle_gpu.evidence
    assert "Larger minibatches fill it" in idle_gpu.advice
    assert "fill it" not in of({**IDLE, "system/gpu_percent": 95.0}, on_gpu, learn=0.9).advice
    assert "training_intensity" in of(of_trial=facts(replays=True), learn=0.9).advice
    assert "num_learners=2" in of(learn=0.9).advice
    full = of({**IDLE, "system/machine_cpu_percent": 97.0}, learn=0.9).advice
    assert "num_learners" not in full
    assert "num_env_runners=1." in full


# ----------------------------------------------------------------------------------------------------------------- the health


def noise(rng: np.random.Generator, count: int, correlation: float) -> np.ndarray:
    """A stationary series of unit variance, each value correlated with the one before."""
    draws = rng.normal(size=count)
    for i in range(1, count):
        draws[i] = correlation * draws[i - 1] + math.sqrt(1 - correlation**2) * draws[i]
    return draws


def healthy(rng: np.random.Generator, count: int = 30, correlation: float = 0.5, spread: float = 0.1) -> dict[str, np.ndarray]:
    """A run that learns, as PPO on CartPole does: losses that fall and now and then jump back, memory that fills up at first."""
    done = np.arange(1, count + 1) / count

    def jumps(height: float) -> np.ndarray:
        return np.where(rng.random(count) < 0.05, height, 1.0)

    return {
        "throughput/env_steps_per_s": 7000 * np.exp(spread * noise(rng, count, correlation)) * np.where(np.arange(count) == 0, 0.3, 1),
        "system/memory_mib": 500 + 60 * (1 - np.exp(-20 * done)) + 5 * noise(rng, count, correlation),
        "learner/entropy": math.log(2) * (1 - 0.4 * done) + 0.03 * noise(rng, count, correlation),
        "learner/kl": 0.01 * np.exp(0.5 * noise(rng, count, correlation)),
        "learner/value_loss": 50 * np.exp(-8 * done + 1.5 * noise(rng, count, correlation)) * jumps(1000),
        "learner/grad_norm": 30 * np.exp(-4 * done + noise(rng, count, correlation)) * jumps(30),
        "learner/staleness_updates": np.maximum(1, 1.3 + 0.4 * noise(rng, count, correlation)),
        "eval/return_mean": 480 * done,
        "train/return_max": 500 * done,
    }


def logged(values: dict[str, np.ndarray]) -> Curves:
    return {name: [(4000.0 * (i + 1), float(v)) for i, v in enumerate(series)] for name, series in values.items()}


def found_in(values: dict[str, np.ndarray], of_trial: Facts = LAPTOP) -> list[str]:
    return [signal.key for signal in health(logged(values), of_trial)]


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
    values = {"learner/value_loss": np.array([0.01] * 10 + [50.0] * 10), "train/return_max": np.array([0.0] * 10 + [100.0] * 10)}
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


# ----------------------------------------------------------------------------------------------------------- runs and studies


def reports(count: int = 12, **shares: float) -> Curves:
    """Reports with the shares given; the first is warm-up, in which everything is learning."""
    warm_up = {"learn": 1.0}
    series = {
        f"time/{part}_share": np.array([warm_up.get(part, 0.0), *[shares.get(part, 0.0)] * (count - 1)])
        for part in TIME_PARTS  # as they are logged: all of them
    }
    return logged({**series, "progress/wall_s": 10.0 * np.arange(1, count + 1)})


def test_a_runs_tags_leave_the_warm_up_out() -> None:
    assert tags(reports(env_step=0.6, learn=0.4), LAPTOP) == {"bottleneck": "env-bound", "health": "ok"}
    leaking = {**reports(40, learn=1.0), **logged({"system/memory_mib": 500.0 + 10 * np.arange(40)})}
    assert tags(leaking, LAPTOP) == {"bottleneck": "learner-bound", "health": "memory_growth"}


def test_reports_count_by_their_seconds() -> None:
    curves = logged(
        {
            "time/env_step_share": np.array([0, 0.9, 0.9, 0.1]),
            "time/learn_share": np.array([1, 0.1, 0.1, 0.9]),
            "progress/wall_s": np.array([1.0, 2.0, 3.0, 13.0]),
        }
    )
    found, _ = diagnosis.diagnose(curves, LAPTOP)
    assert (found.name, found.share) == (LEARNER, pytest.approx((0.1 + 0.1 + 9) / 12))


@pytest.fixture
def study() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two configurations of three seeds: `one` is env-bound in all, `two` learner-bound in two and never logged a thing in the last."""
    counts = {"num_env_runners": {"one": 1, "two": 2}, "num_envs_per_env_runner": {"one": 4, "two": 4}}
    runs = make_runs({"one": [480, 490, 500], "two": [480, 490, 100]}, params=counts)
    trials = {("one", seed): reports(env_step=0.7 + 0.05 * seed, learn=0.2) for seed in range(3)}
    trials |= {("two", seed): reports(env_step=0.3, learn=0.6) for seed in range(2)}
    trials["two", 1] |= logged({"learner/staleness_updates": np.full(12, 5.0)})
    points = {key: {m: [(int(x), x / 1000, v) for x, v in p] for m, p in series.items()} for key, series in trials.items()}
    return runs, make_curves(runs, points)


def test_every_trial_of_a_study_has_a_row(study: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    runs, curves = study
    table = of_study(runs, curves, num_cpus=8)
    assert table["run_id"].tolist() == runs["run_id"].tolist()
    assert table["bottleneck"].tolist() == [ENV, ENV, ENV, LEARNER, LEARNER, UNKNOWN]
    assert table["health"].tolist() == ["ok"] * 4 + ["staleness", "too short to tell"]
    assert "num_env_runners=2." in table["advice"][0]
    assert of_study(runs.assign(run_id=pd.NA), curves.iloc[:0]).empty


def test_an_algorithm_of_any_name_is_what_its_study_recorded(study: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    runs, curves = study
    mine = runs.assign(algorithm="my_impala")
    crowd = {**FULL, "system/machine_cpu_percent": 92.0}  # of which a synchronous algorithm's learner would have a part
    full = {m: [(1000 * i, i, v) for i in range(1, 13)] for m, v in crowd.items()}
    curves = pd.concat([curves, make_curves(mine, {("two", 0): full})], ignore_index=True).astype({"run_id": curves["run_id"].dtype})
    facts = {"num_cpus": 2, "num_env_runners": 8}
    recorded = {"two": {**facts, "asynchronous": True, "replays": False}}
    assert of_study(mine, curves, recorded)["bottleneck"][3] == STARVED
    assert of_study(mine, curves, {"two": {**facts, "replays": True, "replay_capacity": 1000}})["advice"][4].startswith(
        "Fewer updates per env step"
    )


def test_seeds_are_counted_and_the_middle_one_speaks(study: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    table = by_configuration(of_study(*study, num_cpus=8)).set_index("config")
    assert table["bottleneck"].tolist() == [ENV, LEARNER]
    assert table[["num_agree", "num_trials"]].to_numpy().tolist() == [[3, 3], [2, 3]]
    assert table.loc["one", "share"] == pytest.approx(0.75 / 0.95)
    assert "79% of training time" in table.loc["one", "evidence"]


def test_a_count_that_grows_is_told_by_what_holds_it_up(study: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    table = of_study(*study, num_cpus=8)
    sentence = limits_sentence(table, {8: "two", 1: "one", 2: "one", 4: "two", 3: "one"}, "env runners")
    assert sentence == "What holds it up as env runners are added: env-bound with 1, 2 and 3, learner-bound with 4 and 8."
    assert limits_sentence(table, {1: "one"}, "learners") == "What holds it up as learners are added: env-bound with 1."
    assert limits_sentence(table.iloc[:0], {1: "one", 2: "two"}, "env runners") == ""


def test_a_study_says_it_in_sentences(study: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    table = of_study(*study, num_cpus=8)
    env, learner = bottleneck_sentences(table)
    assert env.startswith("**env-bound** in 3 of 3 trials: `one`. Stepping the environments takes 79% of training time")
    assert learner.startswith("**learner-bound** in 2 of 3 trials: `two`.")
    [stale] = health_sentences(table)
    assert stale.startswith("**Staleness** in 1 of 6 trials (two s=1). Samples are 5 updates old")
    assert bottleneck_sentences(table.iloc[:0]) == health_sentences(table.iloc[:0]) == []
