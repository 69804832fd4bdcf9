import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis import AnalysisError, plan
from analysis.plan import Target, predict, profile, target_of
from analysis.stats.interval import Interval
from tests.support.study_frames import make_curves, make_runs

Speeds = Callable[[int], float]


def study(speed: Speeds, counts: tuple[int, ...] = (1, 2, 4, 8), envs: int = 4, cores: int = 64, serial: float = 0.2, machine: float = 50.0,
          seeds: int = 3) -> tuple[pd.DataFrame, pd.DataFrame, Mapping[str, Mapping[str, Any]]]:  # fmt: skip
    """A study of throughput of PPO, in which `serial` of one runner's time is the learner's."""
    rng = np.random.default_rng(0)
    names = {n: f"runners={n}" for n in counts}
    values = {names[n]: [speed(n) * math.exp(rng.normal(0, 0.01)) for _ in range(seeds)] for n in counts}
    params = {"num_env_runners": {names[n]: n for n in counts}, "num_envs_per_env_runner": dict.fromkeys(names.values(), envs)}
    runs = make_runs({name: [math.nan] * seeds for name in values}, params=params, env_steps_per_s=values, trained_steps_per_s=values)
    runs["phase"] = "throughput"
    curves = {}
    for n in counts:
        learn = serial / (serial + (1 - serial) / n)
        shares = {"time/learn_share": learn, "time/env_step_share": (1 - learn) * 0.75, "time/inference_share": (1 - learn) * 0.25}
        metrics = {**shares, "system/machine_cpu_percent": machine}
        for seed in range(seeds):
            curves[names[n], seed] = {name: [(step, step / 1000, value) for step in (1000, 2000, 3000)] for name, value in metrics.items()}
    return runs, make_curves(runs, curves), {name: {"num_cpus": cores} for name in values}


def amdahl(n: int) -> float:
    return 1000 / (0.2 + 0.8 / n)


def width(speed: Interval) -> float:
    return speed.high / speed.low


def test_a_count_that_was_measured_is_predicted_by_the_fit() -> None:
    runs, curves, facts = study(amdahl)
    found = predict(runs, curves, Target(3_600_000, 4), facts)
    speed, hours = found.env_steps_per_s, found.hours
    assert speed.low <= amdahl(4) <= speed.high
    assert hours.estimate == pytest.approx(1000 / speed.estimate)
    assert hours.low < hours.estimate < hours.high
    assert not found.extrapolated
    assert found.limit == "learner updates"
    assert found.limit_share == pytest.approx(0.5, abs=0.01)
    assert found.most_env_steps_per_s == pytest.approx(5000, rel=0.05)


def test_what_limits_one_runner_is_its_environment() -> None:
    runs, curves, facts = study(amdahl)
    assert predict(runs, curves, Target(1e6, 1), facts).limit == "stepping environments"


def test_a_count_beyond_the_measured_ones_is_marked_and_its_interval_is_wider() -> None:
    runs, curves, facts = study(amdahl)
    inside, beyond = (predict(runs, curves, Target(1e6, n), facts) for n in (8, 64))
    assert any("64 env runners, of which at most 8 were measured" in reason for reason in beyond.extrapolated)
    assert beyond.env_steps_per_s.low <= amdahl(64) <= beyond.env_steps_per_s.high
    assert width(beyond.env_steps_per_s) > width(inside.env_steps_per_s)


def test_too_few_cores_limit_what_was_measured_and_not_what_is_planned() -> None:
    runs, curves, facts = study(lambda n: amdahl(min(n, 2)) / (1 + 0.05 * max(0, n - 2)), cores=3, machine=100.0)
    found = predict(runs, curves, Target(1e6, 8), facts)
    assert any("3 cores, too few" in reason for reason in found.extrapolated)
    assert found.env_steps_per_s.low <= amdahl(8) <= found.env_steps_per_s.high
    assert found.env_steps_per_s.estimate > runs.loc[runs["config"] == "runners=8", "env_steps_per_s"].max()


def test_environments_that_wait_need_no_cores() -> None:
    runs, curves, facts = study(amdahl, cores=2, machine=20.0)
    assert not predict(runs, curves, Target(1e6, 8), facts).extrapolated


def test_learners_that_were_not_measured_are_said() -> None:
    runs, curves, facts = study(amdahl)
    found = predict(runs, curves, Target(1e6, 4, gpu=True, several_learners=True), facts)
    assert len(found.extrapolated) == 2
    assert found.env_steps_per_s.high > predict(runs, curves, Target(1e6, 4), facts).env_steps_per_s.high


def test_other_environments_per_runner_take_the_closest_that_was_measured() -> None:
    runs, curves, facts = study(amdahl)
    found = predict(runs, curves, Target(1e6, 4, 5), facts)
    assert "5 envs per env runner were not measured; taken as 4" in found.extrapolated[0]


def test_a_single_seed_has_no_interval() -> None:
    runs, curves, facts = study(amdahl, seeds=1)
    found = predict(runs, curves, Target(1e6, 4), facts)
    assert math.isnan(found.env_steps_per_s.low)
    assert "no interval from a single seed" in "\n".join(found.lines(Target(1e6, 4)))


def test_profiles_take_over_what_they_do_not_say() -> None:
    found = profile("workstation")
    assert (found["name"], found["num_env_runners"], found["total_envs"]) == ("workstation", 8, 16)
    with pytest.raises(AnalysisError, match=r"hardware=nosuch: there is no such profile; there are auto, "):
        profile("nosuch")


def test_a_profile_may_be_in_a_folder_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware" / "desk.yaml").write_text("defaults: [laptop]\nname: desk\nnum_envs_per_env_runner: 7\n")
    found = target_of({"env_steps": "1e7", "hardware": "desk"}, [str(tmp_path)])
    assert found == Target(1e7, 2, 7, "desk")  # the runners are the laptop's
    assert plan.main(["env_steps=1e7", "hardware=desk", "--config-dir", "/nowhere"]) == 2
    assert "--config-dir /nowhere: there is no such folder." in capsys.readouterr().err


def test_the_command_line_wins_over_the_profile() -> None:
    found = target_of({"env_steps": "1e7", "hardware": "workstation", "num_env_runners": "16"})
    assert found == Target(1e7, 16, 4, "workstation", gpu=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "env_steps= is missing"),
        (["env_steps=many", "num_env_runners=1"], "env_steps=many: must be a number above 0"),
        (["env_steps=-1", "num_env_runners=1"], "env_steps=-1: must be a number above 0"),
        (["env_steps=1e6"], "how many env runners? no hardware= was given"),
        (["env_steps=1e6", "hardware=auto"], "hardware=auto leaves it to the machine: give num_env_runners="),
        (["env_steps=1e6", "num_env_runners=0"], "num_env_runners=0: must be a whole number, 1 or more"),
        (["steps=1"], "'steps=1' is not understood. Usage: python analysis/plan.py env_steps="),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan.main(words) == 2
    assert message in capsys.readouterr().err


def test_a_study_that_trains_to_a_budget_plans_nothing() -> None:
    runs, curves, facts = study(amdahl)
    local = runs.assign(num_env_runners=0)
    with pytest.raises(AnalysisError, match="no trial with an env runner of its own finished"):
        predict(local, curves, Target(1e6, 4), facts)
