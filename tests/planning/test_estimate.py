"""How long a study takes before anything has run: known answers where the speed of environment
and networks is given.
"""

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from torch.utils.flop_counter import FlopCounterMode

from experiments.contract.words import span
from experiments.limits.cpus import Cpus
from experiments.planning import estimate, facts
from experiments.planning.durations import ENDING_S, WITHIN
from experiments.planning.estimate import TrialEstimate, study_duration
from experiments.planning.machines import Cluster, Node
from experiments.planning.plan import Plan, with_auto
from experiments.planning.terminal import faster_line, summary, time_line
from experiments.rllib import probe
from experiments.rllib.probe import NetworkSpeed, _step_s, env_step_s, network_speed
from tests.support.planning import composed_for
from tests.support.suite import PlanOf

SINGLE = "study.space={}"
CARTPOLE_S = 62e-6
"""Of a step of 16 environments on one core of an AMD EPYC: docs/benchmarks/fast.md,
as experiments/fast/README.md shares it out."""


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> Callable[[NetworkSpeed], None]:
    """The machine of docs/benchmarks, with networks as fast as they are told to be."""

    def known(network: NetworkSpeed) -> None:
        monkeypatch.setattr(estimate, "env_step_s", lambda env, num_envs: CARTPOLE_S * num_envs / 16)
        monkeypatch.setattr(estimate, "network_speed", lambda trial: network)
        monkeypatch.setattr(facts, "usable_cpus", lambda: Cpus(2, 2))
        monkeypatch.setattr(estimate, "usable_cpus", lambda: Cpus(2, 2))
        monkeypatch.setattr(estimate, "slowdown", lambda num_cores: 1.0)

    return known


SMALL = NetworkSpeed(act_s=0.8e-6, learn_s=2.5e-6)
"""Two perceptrons of [64, 64]."""


@pytest.mark.parametrize(
    ("overrides", "measured"),
    [
        ((), 24_507),  # docs/throughput.md: in the trial's own process
        (("algorithm.env_runners.num_env_runners=1",), 21_206),  # study=runner_scaling
        (("algorithm.env_runners.num_env_runners=2",), 23_745),
        (("algorithm.env_runners.num_env_runners=2", "hardware.num_learners=1"), 9_189),  # study=learner_scaling
        (("algorithm.training.train_batch_size_per_learner=4000", "algorithm.training.minibatch_size=1000",
          "algorithm.training.num_epochs=4"), 39_569),  # docs/benchmarks/fast.md, as the following
        (("algorithm.training.train_batch_size_per_learner=4000", "algorithm.training.minibatch_size=128",
          "algorithm.training.num_epochs=10"), 21_336),
        (("algorithm.training.train_batch_size_per_learner=4000", "algorithm.training.minibatch_size=128",
          "algorithm.training.num_epochs=10", "fast=false"), 3_404),
        # study=throughput_algorithms, one runner
        (("algorithm=impala", "algorithm.training.train_batch_size_per_learner=1600"), 29_337),
        (("algorithm=appo",), 26_297),
        (("algorithm=dqn", "algorithm.update_to_data=1", "hardware.total_envs=1"), 863),  # an update of 32 an env step
    ],
)  # fmt: skip
def test_what_was_measured_is_estimated_within_a_factor_of_two(
    plan_of: PlanOf, quiet: Callable[[NetworkSpeed], None], overrides: tuple[str, ...], measured: float
) -> None:
    quiet(SMALL)
    plan = plan_of(SINGLE,
                   "hardware.num_envs_per_env_runner=" + ("1" if "hardware.total_envs=1" in overrides else "16"),
                   *overrides,
                   cluster=Cluster((Node(8, 0),)))  # fmt: skip
    found = 1 / TrialEstimate(plan.configurations[0]).env_step_s
    assert max(found / measured, measured / found) < WITHIN, found


def test_nothing_is_learned_before_learning_starts(plan_of: PlanOf, quiet: Callable[[NetworkSpeed], None]) -> None:
    quiet(SMALL)
    at_once, late = (
        TrialEstimate(
            plan_of(
                SINGLE,
                "algorithm=dqn",
                "algorithm.training.train_batch_size_per_learner=64",
                f"algorithm.training.num_steps_sampled_before_learning_starts={n}",
            ).configurations[0]
        )
        for n in (1, 10_001)
    )
    # of 32 rows an env step
    assert at_once.seconds - late.seconds == pytest.approx(10_000 * 32 * (2.5e-6 + 1.2e-3 / 64))


def test_updates_that_are_left_to_rllib_are_reckoned_as_rllibs(
    plan_of: PlanOf, quiet: Callable[[NetworkSpeed], None]
) -> None:
    quiet(SMALL)

    def learning_s(algorithm: str, fast: bool) -> float:
        at_once, late = (
            TrialEstimate(
                plan_of(
                    SINGLE,
                    f"algorithm={algorithm}",
                    "env=pendulum",
                    "~tuned",
                    f"fast={fast}",
                    f"algorithm.training.num_steps_sampled_before_learning_starts={n}",
                ).configurations[0]
            ).seconds
            for n in (1, 10_001)
        )
        return at_once - late

    rllibs = pytest.approx(10_000 * (256 * 2.5e-6 + 40e-3))  # an update of 256 rows an env step
    assert [learning_s("tqc", fast) for fast in (True, False)] == [rllibs, rllibs]
    assert learning_s("sac", True) < learning_s("sac", False)


def test_the_default_study_takes_as_long_as_it_did(plan_of: PlanOf, quiet: Callable[[NetworkSpeed], None]) -> None:
    quiet(SMALL)
    found = study_duration(plan_of(), None)
    assert found.duration.low < 138.3 < found.duration.high  # docs/benchmarks/study_fast.md
    assert found.estimated == ("ppo on cartpole",)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Time passes while somebody sleeps, and by a microsecond whenever somebody looks."""
    now = itertools.count()
    slept = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: slept[0] + 1e-6 * next(now))
    monkeypatch.setattr(time, "sleep", lambda seconds: slept.append(slept.pop() + seconds))
    yield
    _step_s.cache_clear()  # of what was measured by this clock


@pytest.mark.usefixtures("clock")
def test_environments_that_take_turns_take_longer_than_side_by_side(plan_of: PlanOf) -> None:
    _step_s.cache_clear()
    slow = plan_of(SINGLE, "env=synthetic", "env.env_config.step_cost_ms=4", "env.env_config.mode=wait").configurations[
        0
    ]
    assert env_step_s(slow.suite.env, 16) == pytest.approx(16 * 4e-3, rel=0.01)
    side_by_side = replace(slow.suite.env, vectorize_mode="async")
    assert env_step_s(side_by_side, 16) == pytest.approx(4e-3, rel=0.01)


def test_networks_with_more_multiplications_take_longer(plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch) -> None:
    def multiplications(act: Callable[[], Any]) -> float:
        with FlopCounterMode(display=False) as counted:
            act()
        return counted.get_total_flops() / 2

    monkeypatch.setattr(probe, "_seconds_of", multiplications)
    wide = plan_of(SINGLE, "++algorithm.rl_module.fcnet_hiddens=[1024,1024]").trials[0]
    small, large = (network_speed(trial) for trial in (plan_of(SINGLE).trials[0], wide))
    for width, speed in ((64, small), (1024, large)):
        # RLlib's policy runs the value's encoder as well, without its last layer
        both = 2 * (4 * width + width * width) + width * 2
        assert (speed.act_s, speed.learn_s) == (both, pytest.approx(3 * (both + width)))


def test_learning_counts_what_does_not_act(plan_of: PlanOf) -> None:
    sac = network_speed(plan_of(SINGLE, "algorithm=sac", "env=pendulum").trials[0])
    policy, critic = 3 * 64 + 64 * 64 + 64 * 2, (3 + 1) * 64 + 64 * 64 + 64
    assert sac.learn_s / sac.act_s == pytest.approx(3 * (policy + 2 * critic) / policy)


def test_where_nothing_has_run_the_time_is_a_range_that_says_what_it_is(
    plan_of: PlanOf, quiet: Callable[[NetworkSpeed], None]
) -> None:
    quiet(SMALL)
    plan = plan_of("study=algorithms", "env=cartpole")
    assert "an estimate" in time_line(plan, None)
    asked: list[tuple[str, str, float]] = []

    def earlier(algorithm: str, env: str, least_env_steps: float, layout: Mapping[str, float | str]) -> list[float]:
        asked.append((algorithm, env, least_env_steps))
        assert layout["num_gpus_per_learner"] == 0.0
        assert layout.keys() > {"num_env_runners", "num_envs_per_env_runner", "num_learners", "vectorize_mode"}
        return [1e-4] * 9 if algorithm != "dqn" else []

    told = time_line(plan, earlier)
    assert "an estimate" in told
    assert "No trial of dqn on cartpole of about this length has run" in told
    assert asked == [(name, "cartpole", 125_000) for name in ("ppo", "dqn", "appo", "impala")]  # a quarter of 500,000
    known = study_duration(plan_of(), earlier)
    assert known.duration.seconds == pytest.approx(2_700_000 * 1e-4 / 2 + 14 + ENDING_S)  # two at once, Ray's start
    assert known.estimated == ()
    assert time_line(plan_of(), earlier) == "time        about 2 to 4 min, by the speed of earlier trials in this store"
    early = plan_of("stop_at_target=true")
    assert time_line(early, earlier).startswith("time        at most about 4 min, by")
    assert "45 trials, at most 2,700,000 env steps" in summary(early)


@pytest.mark.parametrize(("env_steps_s", "hours"), [(189.0, False), (187.0, True)])
def test_a_study_of_hours_is_warned_of_with_what_makes_it_shorter(
    env_steps_s: float, hours: bool, plan_of: PlanOf
) -> None:
    said = time_line(plan_of(), lambda *_: [1 / env_steps_s])  # 2.7M env steps, two at once
    assert ("These are hours" in said) is hours
    assert ("resume=" in said and said.endswith("max_minutes=60 or max_env_steps=675000")) is hours


def test_what_a_limit_cuts_off_is_no_study_of_hours(plan_of: PlanOf) -> None:
    said = time_line(plan_of("max_minutes=30"), lambda *_: [1e-2])  # 2.7M env steps
    assert said.startswith("time        at most about 30 min, by the speed")
    assert "These are hours" not in said


def test_more_trials_than_cores_are_not_like_those_that_ran_before(
    plan_of: PlanOf, quiet: Callable[[NetworkSpeed], None]
) -> None:
    quiet(SMALL)  # two cores
    plan = plan_of("hardware.num_cpus=64", cluster=Cluster((Node(64, 0),)))
    found = study_duration(plan, lambda *_: [1e-4])
    assert plan.concurrency > 2
    assert found == study_duration(plan, None)


def test_measuring_takes_what_is_set_and_the_starts(plan_of: PlanOf, quiet: Callable[[NetworkSpeed], None]) -> None:
    quiet(SMALL)
    without, two = (
        plan_of(
            "study=runner_scaling",
            f"study.space={{algorithm.env_runners.num_env_runners:[{runners}]}}",
            cluster=Cluster((Node(4, 0),)),
        )
        for runners in (0, 2)
    )
    how = without.suite.measurement
    assert how is not None
    set_s, found = without.num_trials * (how.warmup_s + how.seconds), study_duration(without, None).duration
    assert set_s < found.seconds - ENDING_S < set_s + 0.5 * without.num_trials + 15
    assert study_duration(two, None).duration.seconds == pytest.approx(found.seconds + two.num_trials * 5.0)
    assert time_line(without, None).endswith("one trial at a time")


def test_an_environment_that_fails_leaves_the_time_unknown(plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> float:
        raise ValueError("no display\nmore")

    monkeypatch.setattr(estimate, "env_step_s", fails)
    assert time_line(plan_of(SINGLE), None).endswith("could not be timed here (ValueError: no display)")


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (20, 80, "20 to 80 s"),
        (301, 310, "5 min"),
        (50, 240, "50 s to 4 min"),
        (5000, 40_000, "83 min to 11 h"),
        (6000, 9e4, "1.7 to 25 h"),
    ],
)
def test_a_range_is_rough(low: float, high: float, words: str) -> None:
    assert span(low, high) == words


def both(*overrides: str) -> tuple[Plan, Plan | None]:
    """A study on a machine of 16 CPUs and a GPU, and the same with hardware=auto."""
    plan, compose = composed_for(*overrides, cluster=Cluster((Node(16, 1),)))
    return plan, with_auto(plan, compose)


def test_a_profile_that_leaves_the_machine_idle_names_the_faster_way_and_what_it_changes(
    quiet: Callable[[NetworkSpeed], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet(SMALL)
    monkeypatch.setattr(facts, "usable_cpus", lambda: Cpus(16, 16))
    own, auto = both("hardware=workstation")
    said = faster_line(own, auto) or ""
    assert "hardware=auto runs 16 trials at once in place of 1, by an estimate " in said
    times = float(said.partition(" times as fast")[0].rpartition(" ")[2])
    assert 4 < times < 40
    assert (
        "has 16 envs in place of 32 (of 512 env steps a batch 32 of each, in place of 16) and learns on the CPU" in said
    )
    assert own.hardware == "workstation"
    assert faster_line(*both("hardware=workstation", "seeds=[0]", SINGLE)) is None  # one trial has nothing beside it
    assert faster_line(*both()) is None
    assert faster_line(*both("hardware=workstation", "+measurement=throughput")) is None


def test_logical_cpus_make_nothing_faster(
    quiet: Callable[[NetworkSpeed], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet(SMALL)
    one = replace(both()[0].configurations[0])
    alone, crowd = (TrialEstimate(one, n).seconds for n in (1, 16))
    assert crowd == pytest.approx(8 * alone)  # 16 trials on 2 CPUs
    assert not math.isnan(alone)


def test_cores_that_share_one_take_longer_together(
    plan_of: PlanOf, quiet: Callable[[NetworkSpeed], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two trials side by side, or a trial and its runner; one alone has it to itself."""
    quiet(SMALL)
    one, with_runner = (
        plan_of(SINGLE, f"algorithm.env_runners.num_env_runners={n}", cluster=Cluster((Node(8, 0),))).configurations[0]
        for n in (0, 1)
    )
    cases = ((one, 1), (one, 2), (with_runner, 1), (with_runner, 4))
    apart = [TrialEstimate(configuration, n).seconds for configuration, n in cases]
    asked = []
    monkeypatch.setattr(estimate, "slowdown", lambda num_cores: asked.append(num_cores) or float(num_cores))
    shared = [TrialEstimate(configuration, n).seconds for configuration, n in cases]
    assert asked == [1, 2, 2, 2]  # of eight that are declared two are there
    assert shared == pytest.approx([apart[0], *(2 * seconds for seconds in apart[1:])])
