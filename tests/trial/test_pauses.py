"""A trial whose process stands still for a while, as its clock has it: what it says of its seconds."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from ray.rllib.algorithms import algorithm
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from experiments.rllib import runner_pool
from experiments.trial.folder import STATE_FILE
from experiments.trial.measured_trial import MeasuredTrial
from experiments.trial.tune_keys import MEASURE_SYSTEM
from tests.support.suite import PlanOf
from tests.support.trials import Make, run, step, tiny, with_folder

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_instance")]

PAUSE_S = 1000.0


@pytest.fixture
def stand_still(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Called, it makes of now `PAUSE_S` later, while threads sleep."""
    real, boot, later = time.perf_counter, time.clock_gettime, [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: real() + sum(later))
    monkeypatch.setattr(time, "clock_gettime", lambda clock: boot(clock) + sum(later))
    return lambda: later.append(PAUSE_S)


def during_its_next_iteration(trial: Any, do: Any, after: int = 0) -> None:
    """Or `after` some others."""
    trained, left = trial._training.algorithm, [after]
    train = trained.train

    def interrupted() -> Any:
        left[0] -= 1
        if left[0] < 0:
            trained.train = train
            do()
        return train()

    trained.train = interrupted


def test_a_pause_is_in_no_second_and_is_told(plan_of: PlanOf, make: Make, tmp_path: Path, stand_still: Any) -> None:
    trial = make(tiny(plan_of, "budget_env_steps=4096"), system=True)
    reports = [step(trial)]
    during_its_next_iteration(trial, stand_still)
    reports += [step(trial) for _ in range(2)]
    saved = tmp_path / "checkpoint"
    saved.mkdir()
    trial.save_checkpoint(str(saved))
    reports += run(trial)

    assert ["throughput/pauses" in report for report in reports] == [False, True, False, False]
    assert reports[1]["throughput/pauses"] == 1
    last = reports[-1]
    assert PAUSE_S - 0.3 <= last["final/paused_s"] <= PAUSE_S + 5
    assert 0 < last["final/train_s"] < last["final/wall_s"] < PAUSE_S / 4
    speeds = [report["throughput/env_steps_per_s"] for report in reports]
    assert min(speeds) > 1024 / (PAUSE_S / 4)
    # where the seconds of that report went is not known, and is known of the others
    shares = [{name for name in report if name.endswith("_share")} for report in reports]
    assert shares[0] == shares[2] == shares[3] > shares[1] == set()

    go_on = make(tiny(plan_of, "budget_env_steps=4096"))
    go_on.load_checkpoint(str(saved))
    assert run(go_on)[-1]["final/paused_s"] == pytest.approx(last["final/paused_s"], abs=0.1)


def test_a_trial_without_a_pause_says_nothing_of_one_also_from_a_checkpoint_that_does_not_know_of_them(
    plan_of: PlanOf, make: Make, tmp_path: Path
) -> None:
    trial = make(tiny(plan_of))
    first = step(trial)
    trial.save_checkpoint(str(tmp_path))
    state = json.loads((tmp_path / STATE_FILE).read_text())
    assert state["counters"].pop("paused_s") == 0
    (tmp_path / STATE_FILE).write_text(json.dumps(state))
    go_on = make(tiny(plan_of))
    go_on.load_checkpoint(str(tmp_path))
    last = run(go_on)[-1]
    assert not {"throughput/pauses", "final/paused_s"} & (first.keys() | last.keys())
    assert last["final/wall_s"] > last["final/train_s"]


def test_seconds_to_target_are_without_a_pause(plan_of: PlanOf, make: Make, stand_still: Any) -> None:
    trial = make(tiny(plan_of, "env.id=tiny_envs:tiny/Count-v0", "env.vectorize_mode=sync", "env.target=5"))
    trial._start()
    during_its_next_iteration(trial, stand_still)
    last = run(trial)[-1]
    assert last["final/paused_s"] >= PAUSE_S - 0.3
    assert last["final/seconds_to_target"] < PAUSE_S / 4


def test_a_throughput_is_measured_without_a_pause(
    plan_of: PlanOf, tmp_path: Path, stand_still: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(algorithm, "EnvRunnerGroup", EnvRunnerGroup)  # as it is: it makes RLlib take another
    settings = ("measurement.warmup_s=0.1", "measurement.seconds=1", "measurement.max_seconds=4")
    settings += ("measurement.block_s=0.25", "measurement.precision=0.5", "measurement.max_other_cpu_percent=400")
    (config,) = plan_of("+measurement=throughput", "study.space={}", "seeds=[0]", *settings).trials
    trial = MeasuredTrial({**with_folder(config, tmp_path), MEASURE_SYSTEM: False})
    try:
        trial._start()
        during_its_next_iteration(trial, stand_still, after=4)
        reports = run(trial)
    finally:
        trial.cleanup()
        runner_pool.clear()
    last = reports[-1]
    assert last["final/paused_s"] >= PAUSE_S - 0.3
    assert last["final/wall_s"] < PAUSE_S / 4
    undisturbed = [r["throughput/env_steps_per_s"] for r in reports if "throughput/pauses" not in r]
    assert min(undisturbed) <= last["final/env_steps_per_s"] <= max(undisturbed)
