"""What limits the speed of a trial: cases worked by hand."""

import math
from typing import Any

import pytest

from analysis.questions.bottleneck import BALANCED, STARVED, UNKNOWN, Bottleneck, bottleneck
from analysis.questions.facts import Facts
from analysis.questions.time_use import ENV, INFERENCE, LEARNER, TRANSFER
from experiments.contract import METRICS, TIME_PARTS
from tests.support.diagnosed import LAPTOP, facts

IDLE = {"system/machine_cpu_percent": 30.0, "system/runner_cpu_share": 0.98, "throughput/env_steps_per_s": 1000.0}
FULL = {"system/machine_cpu_percent": 99.0, "system/other_cpu_percent": 1.0, "system/runner_cpu_share": 0.4}


def of(measured: dict[str, float] | None = None, of_trial: Facts = LAPTOP, **shares: float) -> Bottleneck:
    return bottleneck(shares, of_trial, IDLE if measured is None else measured)


def test_its_parts_are_metrics() -> None:
    assert {f"time/{part}_share" for part in TIME_PARTS} <= set(METRICS)


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
    assert (
        "17 processes share 8 cores, which are busy 100% while runners sample; runners have one in 40%"
        in found.evidence
    )
    assert "num_env_runners=8 algorithm.env_runners.num_envs_per_env_runner=2." in found.advice
    impala = of(FULL, facts(asynchronous=True, num_env_runners=16, num_envs_per_env_runner=1), env_step=0.9)
    # a core for the learner
    assert "num_env_runners=7 algorithm.env_runners.num_envs_per_env_runner=3." in impala.advice


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
        # the runner sleeps while they step
        (FULL, {"num_env_runners": 1, "num_envs_per_env_runner": 8, "vectorize_mode": "async"}),
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
    assert (
        of({**FULL, "system/other_cpu_percent": 300.0}, many, env_step=0.9).advice
        == "Stop the other programs, and measure again."
    )
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
    shares = {
        "env_step": 0.02,
        "inference": 0.05,
        "connectors": 0.04,
        "transfer": 0.2,
        "learn": 0.19,
        "sync": 0.29,
        "unexplained": 0.14,
    }
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
    # As measured: 8 runners that wait use three quarters of 2 cores. More of them would not fit,
    # but environments side by side would.
    eight = {**waits, "system/machine_cpu_percent": 74.0, "system/runner_cpu_share": 0.17}
    advice = of(
        eight, facts(num_env_runners=8, num_envs_per_env_runner=1, num_cpus=2), env_step=0.55, transfer=0.2
    ).advice
    assert advice.startswith(
        "No core is free for more runners. Environments that wait can do so side by side in one runner: "
    )


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
    assert (
        "env.vectorize_mode=vector_entry_point"
        in of(env_step=0.9, learn=0.1, of_trial=facts(has_vector_entry_point=True)).advice
    )


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
    assert "update_to_data" in of(of_trial=facts(replays=True), learn=0.9).advice
    assert "num_learners=2" in of(learn=0.9).advice
    full = of({**IDLE, "system/machine_cpu_percent": 97.0}, learn=0.9).advice
    assert "num_learners" not in full
    assert "num_env_runners=1." in full


def test_more_environments_say_what_they_leave_of_a_batch_and_stop_where_that_is_too_little() -> None:
    batch = facts(batch_env_steps=2048, num_env_runners=1, num_envs_per_env_runner=16)
    more = of(of_trial=batch, inference=0.9).advice
    assert (
        "num_envs_per_env_runner=32. That changes what is learned, so compare scores: "
        "of 2,048 env steps a batch each environment"
    ) in more
    assert "then has 64, in place of 128." in more
    full = of(of_trial=facts(batch_env_steps=512, num_env_runners=0, num_envs_per_env_runner=16), inference=0.9).advice
    assert "num_envs_per_env_runner" not in full
    assert "smaller network" in full
    runners = of(env_step=0.9, of_trial=facts(batch_env_steps=2048)).advice
    assert (
        "num_env_runners=4. That changes what is learned, so compare scores "
        "(algorithm.env_runners.num_envs_per_env_runner=2 "
    ) in runners
    dqn = of(env_step=0.9, of_trial=facts(batch_env_steps=32, replays=True)).advice
    assert "changes what is learned" not in dqn


def test_crowded_runners_are_not_advised_to_have_512_environments() -> None:
    crowd = facts(num_env_runners=8, num_envs_per_env_runner=64, num_cpus=2, batch_env_steps=2048)
    advice = of(FULL, crowd, env_step=0.9).advice
    assert (
        "and fewer environments in all: algorithm.env_runners.num_env_runners=2 "
        "algorithm.env_runners.num_envs_per_env_runner=32."
    ) in advice
    assert "each environment then has 32, in place of 4" in advice


def test_another_learner_says_that_the_batch_grows_and_where_it_is_measured() -> None:
    advice = of(learn=0.9, of_trial=facts(batch_env_steps=2048)).advice
    assert (
        "num_learners=2. Each brings a batch of its own, so that of all grows to 4,096 env steps, "
        "which changes what is learned"
    ) in advice
    assert "study=learner_scaling measures it" in advice
