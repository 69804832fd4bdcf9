import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis import AnalysisError, plan
from analysis.plan import command_of, lines_of, profile, target_of
from analysis.questions.prediction import Beside, Target, beside_training, predict
from analysis.stats.interval import Interval
from tests.support.study_frames import make_curves, make_runs

Speeds = Callable[[int], float]


def study(speed: Speeds, counts: tuple[int, ...] = (1, 2, 4, 8), envs: int = 4, cores: int = 64,
          serial: float = 0.2, machine: float = 50.0,
          seeds: int = 3) -> tuple[pd.DataFrame, pd.DataFrame, Mapping[str, Mapping[str, Any]]]:  # fmt: skip
    """A study of throughput of PPO, in which `serial` of one runner's time is the learner's."""
    rng = np.random.default_rng(0)
    names = {n: f"runners={n}" for n in counts}
    values = {names[n]: [speed(n) * math.exp(rng.normal(0, 0.01)) for _ in range(seeds)] for n in counts}
    params = {
        "num_env_runners": {names[n]: n for n in counts},
        "num_envs_per_env_runner": dict.fromkeys(names.values(), envs),
    }
    runs = make_runs(
        {name: [math.nan] * seeds for name in values}, params=params, env_steps_per_s=values, trained_steps_per_s=values
    )
    runs["phase"] = "throughput"
    curves = {}
    for n in counts:
        learn = serial / (serial + (1 - serial) / max(1, n))
        shares = {
            "time/learn_share": learn,
            "time/env_step_share": (1 - learn) * 0.75,
            "time/inference_share": (1 - learn) * 0.25,
        }
        metrics = {**shares, "system/machine_cpu_percent": machine}
        for seed in range(seeds):
            curves[names[n], seed] = {
                name: [(step, step / 1000, value) for step in (1000, 2000, 3000)] for name, value in metrics.items()
            }
    return runs, make_curves(runs, curves), {name: {"num_cpus": cores} for name in values}


def amdahl(n: int) -> float:
    return 1000 / (0.2 + 0.8 / n)


def width(speed: Interval) -> float:
    return speed.high / speed.low


def test_a_count_that_was_measured_is_predicted_by_the_fit() -> None:
    runs, curves, facts = study(amdahl)
    found = predict(runs, curves, Target(3_600_000, 4), facts)
    speed, hours = found.env_steps_per_s, found.training_h
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


def test_many_more_runners_than_were_measured_are_bounded_and_have_no_point() -> None:
    """Where something binds that did not show with a few, the truth may be what these had: it is within the bounds."""
    runs, curves, facts = study(lambda n: 1000 / (0.02 + 0.98 / n), counts=(1, 2), cores=3, machine=100.0, serial=0.02)
    target = Target(3_600_000, 64)
    found = predict(runs, curves, target, facts)
    assert found.is_bound
    speed = found.env_steps_per_s
    assert speed.low <= 1000 / (0.02 + 0.98 / 2)  # no further runner helps
    assert speed.high == pytest.approx(found.most_env_steps_per_s, rel=0.5)
    told = lines_of(found, target, None, "")
    assert told[0] == f"throughput  {speed.low:,.0f} to {speed.high:,.0f} env steps/s"
    assert "[" not in told[1]
    assert any("bounds: what binds so many runners was not seen" in line for line in told)
    single, of_single, known = study(amdahl, counts=(1, 2), cores=3, machine=100.0, seeds=1)
    assert math.isfinite(predict(single, of_single, target, known).env_steps_per_s.low)
    assert not predict(runs, curves, Target(1e6, 2), facts).is_bound


def test_the_batch_is_that_of_the_target_or_the_closest_that_was_measured() -> None:
    small, curves_small, facts = study(lambda n: 0.7 * amdahl(n))
    large, curves_large, _ = study(amdahl)
    runs = pd.concat(
        [
            small.assign(train_batch_size_total=512),
            large.assign(train_batch_size_total=4096, run_id=large["run_id"] + "/large"),
        ],
        ignore_index=True,
    )
    curves = pd.concat([curves_small, curves_large.assign(run_id=curves_large["run_id"].astype(str) + "/large")])
    slow, fast, any_batch, other = (
        predict(runs, curves, Target(1e6, 4, batch_env_steps=batch), facts) for batch in (512, 4096, None, 700)
    )
    assert slow.env_steps_per_s.estimate == pytest.approx(0.7 * fast.env_steps_per_s.estimate, rel=0.02)
    assert (any_batch.env_steps_per_s, other.env_steps_per_s) == (fast.env_steps_per_s, slow.env_steps_per_s)
    assert other.extrapolated == ("batches of 700 were not measured; taken as 512, the closest of 512, 4096",)
    assert "batches of 4,096" in fast.config


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
    assert found.env_steps_per_s.high == pytest.approx(1000 / (0.8 / 4), rel=0.1)  # the learner's 0.2 of a step gone
    told = "\n".join(lines_of(found, Target(1e6, 4, gpu=True), None, ""))
    assert "any number of runners" not in told  # beside the learner all of it is what runners share
    (limit,) = [
        line
        for line in lines_of(predict(runs, curves, Target(1e6, 4), facts), Target(1e6, 4), None, "")
        if "limit" in line
    ]
    assert "; with any number of runners at most 5," in limit or "; with any number of runners at most 4," in limit


@pytest.mark.parametrize("target", [Target(1e6, 8), Target(1e6, 64), Target(1e6, 8, gpu=True), Target(1e6, 1)])
def test_no_prediction_lies_above_what_it_says_is_the_most(target: Target) -> None:
    for settings in ({"cores": 3, "machine": 100.0}, {}, {"counts": (1, 2), "seeds": 2, "cores": 2, "machine": 100.0}):
        runs, curves, facts = study(lambda n: amdahl(min(n, 2)) / (1 + 0.3 * max(0, n - 2)), **settings)
        found = predict(runs, curves, target, facts)
        assert found.env_steps_per_s.low <= found.env_steps_per_s.estimate <= found.env_steps_per_s.high
        assert found.env_steps_per_s.high <= found.most_env_steps_per_s


def test_other_environments_per_runner_take_the_closest_that_was_measured() -> None:
    runs, curves, facts = study(amdahl)
    found = predict(runs, curves, Target(1e6, 4, 5), facts)
    assert "5 envs per env runner were not measured; taken as 4" in found.extrapolated[0]


def test_a_single_seed_has_no_interval() -> None:
    runs, curves, facts = study(amdahl, seeds=1)
    found = predict(runs, curves, Target(1e6, 4), facts)
    assert math.isnan(found.env_steps_per_s.low)
    assert "no interval from a single seed" in "\n".join(lines_of(found, Target(1e6, 4), None, ""))


def test_profiles_take_over_what_they_do_not_say() -> None:
    found = profile("workstation")
    assert (found["name"], found["num_env_runners"], found["total_envs"]) == ("workstation", 8, 16)
    with pytest.raises(AnalysisError, match=r"hardware=nosuch: there is no such profile; there are auto, "):
        profile("nosuch")


def test_a_profile_may_be_in_a_folder_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware" / "desk.yaml").write_text("defaults: [laptop]\nname: desk\nnum_envs_per_env_runner: 7\n")
    found = target_of({"env_steps": 1e7, "hardware": "desk"}, [str(tmp_path)])
    assert found == Target(1e7, 2, 7, "desk")  # the runners are the laptop's
    assert plan.main(["env_steps=1e7", "hardware=desk", "--config-dir", "/nowhere"]) == 2
    assert "--config-dir /nowhere: there is no such folder." in capsys.readouterr().err


def test_the_command_line_wins_over_the_profile() -> None:
    found = target_of({"env_steps": 1e7, "hardware": "workstation", "num_env_runners": 16})
    assert found == Target(1e7, 16, 4, "workstation", gpu=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "env_steps= is missing"),
        (["env_steps=many", "num_env_runners=1"], "env_steps=many: must be a number"),
        (["env_steps=-1", "num_env_runners=1"], "env_steps=-1: must be a number above 0"),
        (["env_steps=1e6"], "how many env runners? no hardware= was given"),
        (["env_steps=1e6", "num_env_runners=-1"], "num_env_runners=-1: must be a whole number, 0 or more"),
        (
            ["env_steps=1e6", "hardware=auto", "num_envs_per_env_runner=0"],
            "num_envs_per_env_runner=0: must be a whole number, 1 or more",
        ),
        (
            ["env_steps=1e6", "hardware=auto", "algorithm=sac", "env=pendulum", "tracking_uri=sqlite:////nowhere.db"],
            (
                "Run first: python experiments/run.py study=runner_scaling algorithm=sac env=pendulum "
                "tracking.uri=sqlite:////nowhere.db"
            ),
        ),
        (["steps=1"], "'steps=1' is not understood. Did you mean env_steps=? rl-scaling plan --help"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan.main(words) == 2
    assert message in capsys.readouterr().err


def test_a_count_that_was_not_measured_is_named() -> None:
    runs, curves, facts = study(amdahl)
    with pytest.raises(AnalysisError, match="no trial with an env runner of its own finished"):
        predict(runs.assign(num_env_runners=0), curves, Target(1e6, 4), facts)
    with pytest.raises(AnalysisError, match="no trial without env runners finished"):
        predict(runs, curves, Target(1e6, 0), facts)


def test_what_auto_takes_is_predicted_from_trials_without_runners() -> None:
    runs, curves, facts = study(lambda n: amdahl(max(1, n)), counts=(0, 1, 2, 4))
    found = predict(runs, curves, Target(1e6, 0), facts)
    assert found.env_steps_per_s.low < 1000 < found.env_steps_per_s.high < 1100
    assert not found.extrapolated
    told = lines_of(found, Target(1e6, 0), None, "")
    assert any(line.startswith("rests on    4 envs in the trial's own process, 3 seeds") for line in told)
    assert not any("any number of runners" in line for line in told)
    assert target_of({"env_steps": 1e6, "hardware": "auto"}) == Target(1e6, 0, 16, "auto")


def trained(num_reports: int = 15, aside_s: float = 3.0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Trials of 60,000 env steps that spend 3 s beside their training."""
    runs = make_runs({"a": [480.0, 490.0, 500.0]}, budget_env_steps=60_000)
    runs["wall_s"] = runs["train_s"] + [0.95 * aside_s, aside_s, 1.05 * aside_s]
    every = 60_000 // num_reports
    points = {
        ("a", s): {"progress/env_steps": [(every * i, float(i), every * i) for i in range(1, num_reports + 1)]}
        for s in range(3)
    }
    return runs, make_curves(runs, points)


def test_hours_include_evaluations_and_reports_where_trials_say_what_they_take() -> None:
    found = beside_training(*trained(), "lr_batch/ppo-cartpole")
    assert found is not None
    assert (found.every_env_steps, found.num_trials) == (4000, 3)
    assert found.report_s.estimate == pytest.approx(0.2, rel=0.01)
    assert found.report_s.low < 0.19 < 0.21 < found.report_s.high
    assert found.num_reports(40_000) == 10
    assert found.hours(40_000).estimate == pytest.approx(10 * 0.2 / 3600, rel=0.01)
    assert found.num_reports(1e8) == 320  # no curve has more points
    runs, curves, facts = study(amdahl)
    target = Target(40_000, 4)
    speed = predict(runs, curves, target, facts)
    (line,) = [line for line in lines_of(speed, target, found, "") if line.startswith("time")]
    whole, training = 40_000 / speed.env_steps_per_s.estimate + 2, 40_000 / speed.env_steps_per_s.estimate
    assert f"time        {whole:.0f} s [" in line
    assert f"training {training:.0f} s [" in line
    assert (
        "evaluations and 10 reports 2 s [2 s, 3 s], as long each as those of 3 trials of lr_batch/ppo-cartpole" in line
    )


def test_trials_that_measured_throughput_or_failed_say_nothing_of_evaluations() -> None:
    runs, curves = trained()
    assert beside_training(runs.assign(phase="throughput"), curves, "x") is None
    assert beside_training(runs.assign(status="failed"), curves, "x") is None
    one = runs[runs["seed"] == 0]
    alone = beside_training(one, curves[curves["run_id"].isin(one["run_id"])], "x")
    assert isinstance(alone, Beside)
    assert math.isnan(alone.report_s.low)


def test_without_such_trials_the_command_that_would_tell_is_printed() -> None:
    runs, curves, facts = study(amdahl)
    first = "python experiments/run.py study=single algorithm=ppo env=cartpole"
    told = "\n".join(lines_of(predict(runs, curves, Target(1e6, 4), facts), Target(1e6, 4), None, first))
    assert "of training alone. Evaluations and reports come on top" in told
    assert f"run first   {first}" in told


def test_the_command_names_an_environment_without_a_file_as_the_measured_study_did() -> None:
    runs = pd.DataFrame({"algorithm": ["ppo"], "env": ["walker2d-v5"]})
    ran = "python experiments/run.py study=runner_scaling env=gym env.id=Walker2d-v5 modules=[my_env.py] seeds=[0]"
    assert command_of("single", {}, runs, ran) == (
        "python experiments/run.py study=single algorithm=ppo env=gym env.id=Walker2d-v5 'modules=[my_env.py]'"
    )
    assert (
        command_of("single", {"env": "hopper"}, runs)
        == "python experiments/run.py study=single algorithm=ppo env=hopper"
    )
