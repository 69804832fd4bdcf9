import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.rllib.algorithms.impala import impala_learner
from ray.rllib.utils import metrics as rllib_names
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from experiments.contract import METRICS
from experiments.rllib.clocks import LEARNER_THREAD_TIMER, RUNNER_TIMERS
from experiments.rllib.results import RUNNER_SECONDS, RunnerSeconds, runner_seconds
from experiments.rllib.runner_clock import RunnerClock
from experiments.trial.usage.time_use import TimeUse

SECONDS = st.floats(0, 100)
PHASES = st.fixed_dictionaries({"sample": SECONDS, "learn": SECONDS, "sync": SECONDS})


def runner(sample: float, env_step: float, inference: float, cpu: float = 0.0) -> RunnerSeconds:
    return RunnerSeconds(sample, env_step, inference, cpu)


def part(shares: dict[str, float], name: str) -> float:
    return shares[f"time/{name}_share"]


def test_a_trial_that_samples_in_its_own_process_moves_no_data() -> None:
    use = TimeUse(runners={"0": runner(4, 2, 1)}, evaluation_s=1, logging_s=0.5)
    shares = use.shares(10, {"sample": 5, "learn": 2, "sync": 0.5})
    found = {name.removeprefix("time/").removesuffix("_share"): share for name, share in shares.items()}
    expected = {
        "env_step": 0.2,
        "inference": 0.1,
        "connectors": 0.2,
        "learn": 0.2,
        "sync": 0.05,
        "evaluation": 0.1,
        "logging": 0.05,
    }
    assert found == pytest.approx({**expected, "unexplained": 0.1})


def test_remote_runners_are_waited_for_and_their_samples_moved() -> None:
    use = TimeUse(runners={"1": runner(4, 2, 1), "2": runner(6, 4, 1)})
    shares = use.shares(10, {"sample": 8, "learn": 2, "sync": 0})
    assert part(shares, "env_step") == pytest.approx(0.3)  # the mean of the runners
    assert part(shares, "inference") == pytest.approx(0.1)
    assert part(shares, "connectors") == pytest.approx(0.1)
    assert part(shares, "waiting") == pytest.approx(0.1)  # the slowest took a second more than the mean
    assert part(shares, "transfer") == pytest.approx(0.2)  # 8 s in which the slowest sampled for 6


def test_an_asynchronous_trial_waits_for_what_its_runners_do() -> None:
    use = TimeUse(asynchronous=True, learner_s=4, runners={"1": runner(8, 6, 1)})
    shares = use.shares(10, {"sample": 9, "learn": 1, "sync": 0.1})
    assert part(shares, "learn") == pytest.approx(0.4)
    assert part(shares, "env_step") == pytest.approx(0.6 * 0.6)
    assert part(shares, "transfer") == pytest.approx(0.6 * 0.2)  # the runner was idle for 2 of 10 s


@given(
    wall_s=SECONDS,
    phases=PHASES,
    asynchronous=st.booleans(),
    others=st.tuples(SECONDS, SECONDS, SECONDS),
    runners=st.dictionaries(st.sampled_from("012"), st.tuples(SECONDS, SECONDS, SECONDS)),
)
def test_the_parts_add_up_whatever_was_measured(
    wall_s: float, phases: Any, asynchronous: bool, others: Any, runners: Any
) -> None:
    spent = {index: RunnerSeconds(sum(seconds), seconds[0], seconds[1]) for index, seconds in runners.items()}
    use = TimeUse(asynchronous, spent, *others)
    shares = use.shares(wall_s, phases)
    assert set(shares) <= set(METRICS)
    assert all(share >= 0 for share in shares.values())
    total = sum(shares.values())
    assert total == pytest.approx(1) or (total == 0 and wall_s < 1e-6)


def test_the_runners_share_of_a_cpu_is_over_all_of_them() -> None:
    use = TimeUse()
    assert use.runner_cpu_share() is None
    use.add({"1": runner(2, 1, 1, cpu=2), "2": runner(2, 1, 1, cpu=1)}, 0.0)
    assert use.runner_cpu_share() == 0.75


def test_a_runner_clock_counts_blocks_and_what_goes_by_beside_them() -> None:
    metrics, clock = MetricsLogger(), RunnerClock()
    clock.attach(metrics)
    with clock.sampling():
        with metrics.log_time("env_step_timer"):
            time.sleep(0.02)
        with metrics.log_time("something_else"):
            time.sleep(0.02)
        clock.add(env_step_s=1.0, inference_s=2.0)
    clock.log(metrics, 3)
    (found,) = runner_seconds({RUNNER_SECONDS: metrics.peek(RUNNER_SECONDS)}).items()
    assert found[0] == "3"
    assert found[1].sample >= 0.04 > found[1].cpu
    assert 1.02 <= found[1].env_step < found[1].sample + 1
    assert found[1].inference == 2.0


def test_a_runner_that_has_nothing_to_tell_counts_as_idle() -> None:
    assert runner_seconds({}) == {}
    assert runner_seconds({RUNNER_SECONDS: {"1": {"sample": math.nan, "cpu": math.nan}}}) == {"1": RunnerSeconds()}


def test_rllibs_names_are_still_what_the_clocks_listen_to() -> None:
    assert set(RUNNER_TIMERS) == {rllib_names.ENV_STEP_TIMER, rllib_names.RLMODULE_INFERENCE_TIMER}
    assert impala_learner.LEARNER_THREAD_UPDATE_TIMER == LEARNER_THREAD_TIMER
