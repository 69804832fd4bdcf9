import math
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.contract import METRICS
from experiments.rllib.clocks import PhaseClock, training_shares
from experiments.rllib.results import EpisodeSums, NonFiniteError, check_finite, gradient_steps, learner_metrics
from experiments.trial.target import TargetWatch, area_under_curve


def test_train_return_is_the_mean_over_episodes_not_of_per_runner_means() -> None:
    sums = EpisodeSums()
    # Two runners with 9 episodes of 10 and 1 of 100: the mean of their means would be 55.
    sums.add({"count": 10, "return_sum": 9 * 10 + 100, "len_sum": 190, "return_min": 10, "return_max": 100})
    assert sums.metrics()["train/return_mean"] == 19
    assert sums.metrics()["train/return_min"] == 10
    assert sums.metrics()["train/return_max"] == 100


def test_iterations_without_an_episode_change_nothing() -> None:
    sums = EpisodeSums()
    sums.add({})
    sums.add(
        {"count": math.nan, "return_sum": math.nan, "len_sum": math.nan, "return_min": math.nan, "return_max": math.nan}
    )
    assert sums.metrics() == {"train/episodes": 0}


def test_a_nan_return_is_not_lost_in_the_minimum() -> None:
    sums = EpisodeSums()
    sums.add({"count": 1, "return_sum": math.nan, "len_sum": 5, "return_min": math.nan, "return_max": math.nan})
    sums.add({"count": 1, "return_sum": 5.0, "len_sum": 5, "return_min": 5.0, "return_max": 5.0})
    with pytest.raises(NonFiniteError, match="train/return_mean"):
        check_finite(sums.metrics(), 10)


def test_the_target_must_be_held_for_two_evaluations_running() -> None:
    watch = TargetWatch(475)
    assert [
        watch.on_evaluation(value, step, step / 10) for step, value in [(1, 480), (2, 470), (3, 476), (4, 490)]
    ] == [
        False,
        False,
        False,
        True,
    ]
    assert watch.metrics() == {"final/env_steps_to_target": 3, "final/seconds_to_target": 0.3}


def test_a_target_that_is_never_held_is_absent() -> None:
    watch = TargetWatch(475)
    watch.on_evaluation(480, 1, 1)
    assert watch.metrics() == {}
    assert not TargetWatch(None).on_evaluation(1e9, 1, 1)


def test_area_under_a_curve_by_hand() -> None:
    # 0..10 flat at 0 (first value holds back), 10..20 rising to 100: (0 + 500) / 20
    assert area_under_curve([(10, 0.0), (20, 100.0)], budget=20) == 25.0


def test_a_trial_that_stopped_early_keeps_its_last_return_up_to_its_budget() -> None:
    # 0..10 at -500, 10..20 rising to -100, and -100 up to 100: (-5000 - 3000 - 8000) / 100
    assert area_under_curve([(10, -500.0), (20, -100.0)], budget=100) == -160.0
    assert area_under_curve([(10, 100.0)], budget=20) == 100.0


@given(st.lists(st.floats(-500, -70), min_size=1, max_size=20), st.integers(0, 20))
def test_an_area_under_a_curve_lies_between_the_lowest_and_the_highest_return(
    returns: list[float], unused: int
) -> None:
    points = [(1000.0 * (i + 1), value) for i, value in enumerate(returns)]
    area = area_under_curve(points, budget=1000.0 * (len(returns) + unused))
    assert min(returns) - 1e-9 <= area <= max(returns) + 1e-9


def test_learner_metrics_prefer_means_over_minibatches_to_the_last_one() -> None:
    results = {"total_loss": 1.0, "entropy": 0.5, "suite_minibatch_means": {"total_loss": 2.0}, "mean_kl_loss": 0.0}
    assert learner_metrics(results, has_kl=False) == {"learner/loss": 2.0, "learner/entropy": 0.5}
    assert learner_metrics(results, has_kl=True)["learner/kl"] == 0.0


def test_value_loss_is_the_unclipped_mean_of_each_algorithm() -> None:
    assert learner_metrics({"vf_loss": 1.0, "vf_loss_unclipped": 9.0}, False)["learner/value_loss"] == 9.0  # PPO
    assert learner_metrics({"vf_loss": 5000.0, "mean_vf_loss": 5.0}, False)["learner/value_loss"] == 5.0  # IMPALA
    assert learner_metrics({"qf_loss": 0.1, "logps": -1.5}, False) == {
        "learner/value_loss": 0.1,
        "learner/entropy": 1.5,
    }  # SAC


def test_gradient_steps_count_minibatches() -> None:
    assert gradient_steps({"num_module_steps_trained": 12544, "module_train_batch_size_mean": 256.0}) == 49
    assert gradient_steps({}) == 0
    # asynchronous algorithms
    nothing_learned = {"num_module_steps_trained": math.nan, "module_train_batch_size_mean": math.nan}
    assert gradient_steps(nothing_learned) == 0


def test_shares_of_training_seconds_add_to_one() -> None:
    logger = SimpleNamespace(log_time=lambda key, **kwargs: nullcontext())
    clock = PhaseClock()
    clock.attach(logger)
    start = time.perf_counter()
    for key in [
        ("timers", "env_runner_sampling_timer"),
        ("timers", "learner_update_timer"),
        ("timers", "unknown"),
        "plain",
    ]:
        with logger.log_time(key):
            time.sleep(0.002)
    shares = training_shares(clock.take(), time.perf_counter() - start)
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["throughput/sample_share"] > 0
    assert shares["throughput/learn_share"] > 0
    assert shares["throughput/sync_share"] == 0
    assert training_shares(clock.take(), 1.0)["throughput/other_share"] == 1  # it started anew
    clock.add("replay_buffer_sampling_timer", 0.25)
    assert training_shares(clock.take(), 1.0)["throughput/learn_share"] == 0.25


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_values_are_named_with_their_place(value: float) -> None:
    with pytest.raises(NonFiniteError, match=r"learner/loss = .* after 4000 env steps"):
        check_finite({"learner/loss": value}, 4000)


def test_every_metric_has_a_meaning() -> None:
    groups = {"eval", "train", "throughput", "time", "progress", "learner", "system", "final"}
    names: dict[str, Any] = {name: meaning for name, meaning in METRICS.items() if meaning}
    assert names == METRICS
    assert {name.split("/")[0] for name in METRICS} == groups
