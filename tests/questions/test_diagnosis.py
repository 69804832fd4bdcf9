"""The diagnosis of trials and of whole studies."""

import numpy as np
import pandas as pd
import pytest

from analysis.questions.bottleneck import STARVED, UNKNOWN
from analysis.questions.diagnosis import by_configuration, diagnose, of_study, tags
from analysis.questions.time_use import ENV, LEARNER
from tests.support.diagnosed import LAPTOP, diagnosed_study, logged, reports
from tests.support.study_frames import make_curves


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
    found, _ = diagnose(curves, LAPTOP)
    assert (found.name, found.share) == (LEARNER, pytest.approx((0.1 + 0.1 + 9) / 12))


def test_every_trial_of_a_study_has_a_row() -> None:
    runs, curves = diagnosed_study()
    table = of_study(runs, curves, num_cpus=8)
    assert table["run_id"].tolist() == runs["run_id"].tolist()
    assert table["bottleneck"].tolist() == [ENV, ENV, ENV, LEARNER, LEARNER, UNKNOWN]
    assert table["health"].tolist() == ["ok"] * 4 + ["staleness", "too short to tell"]
    assert "num_env_runners=2." in table["advice"][0]
    assert of_study(runs.assign(run_id=pd.NA), curves.iloc[:0]).empty


def test_an_algorithm_of_any_name_is_what_its_study_recorded() -> None:
    runs, curves = diagnosed_study()
    mine = runs.assign(algorithm="my_impala")
    # Of which a synchronous algorithm's learner would have a part.
    crowd = {"system/machine_cpu_percent": 92.0, "system/other_cpu_percent": 1.0, "system/runner_cpu_share": 0.4}
    full = {m: [(1000 * i, i, v) for i in range(1, 13)] for m, v in crowd.items()}
    curves = pd.concat([curves, make_curves(mine, {("two", 0): full})], ignore_index=True).astype(
        {"run_id": curves["run_id"].dtype}
    )
    facts = {"num_cpus": 2, "num_env_runners": 8}
    recorded = {"two": {**facts, "asynchronous": True, "replays": False}}
    assert of_study(mine, curves, recorded)["bottleneck"][3] == STARVED
    assert of_study(mine, curves, {"two": {**facts, "replays": True, "replay_capacity": 1000}})["advice"][4].startswith(
        "Fewer updates per env step"
    )


def test_seeds_are_counted_and_the_middle_one_speaks() -> None:
    table = by_configuration(of_study(*diagnosed_study(), num_cpus=8)).set_index("config")
    assert table["bottleneck"].tolist() == [ENV, LEARNER]
    assert table[["num_agree", "num_trials"]].to_numpy().tolist() == [[3, 3], [2, 3]]
    assert table.loc["one", "share"] == pytest.approx(0.75 / 0.95)
    assert "79% of training time" in table.loc["one", "evidence"]
