"""A study as frames, from a file and from a server."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from analysis.load import CURVE_METRICS, load_study
from tests.support.stored_studies import PLAN, START_MS, Written, planned, uri_of


def test_every_planned_trial_is_a_row_in_plan_order(uri: str, written: Written) -> None:
    runs = load_study("lr", uri).runs
    expected = pd.DataFrame(
        {
            "config": pd.Categorical(["lr=3e-3", "lr=1e-3"] * 3, ["lr=3e-3", "lr=1e-3"], ordered=True),
            "seed": np.array([0, 0, 1, 1, 2, 2]),
            "repeat": [0] * 6,
            "status": ["finished", "finished", "failed", "running", "interrupted", "missing"],
            "failure": ["", "", "out of memory", "", "", ""],
            "exclusive": [False] * 5 + [True],  # the missing trial's is the plan's
            "end_env_steps": [2000, 1000, 0, 1000, 0, 0],
            "budget_env_steps": [2000] * 6,
            "target": [475.0] * 6,
            "score_range_low": [0.0] * 6,
            "score_range_high": [np.nan] * 6,
            "lr": [0.003, 0.001] * 3,
            "activation": ["tanh"] * 6,
            "score": [490.0] + [np.nan] * 5,
            "auc": [300.5] + [np.nan] * 5,
            "env_steps_to_target": [1000.0] + [np.nan] * 5,
            "env_steps_per_s": [np.nan] * 6,
            "train_s": [2.5] + [np.nan] * 5,
        }
    )
    assert_frame_equal(runs[list(expected)], expected)
    assert runs["run_id"].tolist()[:5] == [
        written.ids[f"{c} s={s}"] for c, s in zip(runs["config"][:5], runs["seed"][:5], strict=True)
    ]
    assert runs["run_id"].isna().tolist() == runs["started"].isna().tolist() == [False] * 5 + [True]
    assert runs["started"][0] == pd.Timestamp(START_MS, unit="ms", tz="UTC")
    assert runs["ended"].isna().tolist() == [False] * 3 + [True, False, True]
    assert not [column for column in runs if column.startswith("log10_")]
    assert {str(runs[c].dtype) for c in ("run_id", "config_id", "algorithm", "env", "hardware", "phase", "commit")} == {
        "str"
    }


def test_curves_are_sorted_and_a_point_counts_once_as_logged_last(uri: str, written: Written) -> None:
    curves = load_study("lr", uri).curves
    ids = load_study("lr", uri, metrics=[]).runs["run_id"].dropna().tolist()
    labels = ["lr=3e-3", "lr=1e-3"]
    expected = pd.DataFrame(
        {
            "run_id": pd.Categorical([ids[0]] * 3 + [ids[1], ids[3]], ids),
            "config": pd.Categorical([labels[i] for i in (0, 0, 0, 1, 1)], labels, ordered=True),
            "seed": [0, 0, 0, 0, 1],
            "repeat": [0] * 5,
            "metric": pd.Categorical(
                [f"{kind}/return_mean" for kind in ("eval", "eval", "train", "eval", "eval")], CURVE_METRICS
            ),
            "env_steps": [1000, 2000, 1000, 1000, 1000],
            "wall_s": [0.5, 4.5, 0.5, 0.25, 0.1],
            "value": [10.0, 20.0, 5.0, np.nan, 7.0],
        }
    )
    assert_frame_equal(curves, expected)


def test_a_study_knows_its_question_its_axes_and_where_it_comes_from(uri: str, written: Written) -> None:
    study = load_study("lr", uri)
    assert (study.name, study.experiment, study.run_id) == ("lr", "lr/ppo-cartpole", written.ids["lr/ppo-cartpole"])
    assert (study.question, study.status, study.seeds) == ("Which learning rate?", "failed", (0, 1, 2))
    assert (study.axes, study.paths) == (("lr",), {"lr": "algorithm.training.lr"})
    assert study.points == {"lr=3e-3": {"algorithm.training.lr": 0.003}, "lr=1e-3": {"algorithm.training.lr": 0.001}}
    assert (study.command, study.provenance["commit"]) == ("python run.py seeds=[0,1]", "abc")
    assert study.started == pd.Timestamp(START_MS + 10, unit="ms", tz="UTC")


def test_trials_that_did_not_finish_are_named_by_cause(uri: str) -> None:
    study = load_study("lr", uri, metrics=[])
    assert study.gaps() == [
        "1 of 6 trials failed (out of memory): lr=3e-3 s=1.",
        "1 of 6 trials still running: lr=1e-3 s=1.",
        "1 of 6 trials interrupted: lr=3e-3 s=2.",
        "1 of 6 trials missing: planned, but without a run: lr=1e-3 s=2.",
    ]
    assert study.incomplete["status"].tolist() == ["failed", "running", "interrupted", "missing"]


def test_both_stores_give_the_same_frames(written: Written, server: str) -> None:
    for name in ("lr", "old"):
        embedded, served = load_study(name, uri_of(written.folder)), load_study(name, server)
        assert_frame_equal(embedded.runs, served.runs)
        assert_frame_equal(embedded.curves, served.curves)


@pytest.mark.parametrize("name", [None, "lr", "lr/ppo-cartpole", "id"])
def test_a_study_is_found_by_name_experiment_or_run_and_the_latest_by_nothing(
    name: str | None, written: Written
) -> None:
    run = written.ids["lr/ppo-cartpole"]
    assert load_study(run if name == "id" else name, uri_of(written.folder), metrics=[]).run_id == run


def test_of_two_executions_the_later_is_read_and_only_its_trials(copied: Callable[[], Written], tmp_path: Path) -> None:
    written = copied()
    for at_ms, value in ((0, 1.0), (1, 2.0)):
        study = written.study("lr", "lr/ppo-cartpole", START_MS + at_ms, PLAN)
        written.trial(study, "lr/ppo-cartpole", "lr=3e-3", 0, [({"eval/return_mean": value}, 1000, 5)])
    latest = load_study("lr", uri_of(tmp_path))
    assert latest.run_id == study
    assert latest.curves["value"].tolist() == [2.0]


def test_unplanned_trials_follow_and_of_a_restarted_trial_the_latest_run_counts(
    copied: Callable[[], Written], tmp_path: Path
) -> None:
    written = copied()
    study = written.study("lr", "lr/ppo-cartpole", START_MS, {**PLAN, "seeds": [0]})
    written.trial(study, "lr/ppo-cartpole", "lr=3e-3", 0, status="FAILED")
    again = written.trial(study, "lr/ppo-cartpole", "lr=3e-3", 0, started_ms=START_MS + 5)
    written.trial(study, "lr/ppo-cartpole", "lr=9e-3", 7, params={"lr": 0.009})
    runs = load_study("lr", uri_of(tmp_path)).runs
    assert runs[["config", "seed", "status"]].astype(str).agg(" ".join, axis=1).tolist() == [
        "lr=3e-3 0 finished", "lr=1e-3 0 missing", "lr=9e-3 7 finished",
    ]  # fmt: skip
    assert runs["run_id"][0] == again
    assert runs["lr"].tolist() == [0.003, 0.001, 0.009]


def test_each_repeat_of_a_seed_is_a_row_and_of_two_runs_of_one_the_newest_counts(
    copied: Callable[[], Written], tmp_path: Path
) -> None:
    written = copied()
    experiment = "lr/ppo-cartpole"
    study = written.study("lr", experiment, START_MS, {**PLAN, "seeds": [0, 1], "repeats": 2})
    report = [({"eval/return_mean": 7.0}, 1000, 500)]
    first = written.trial(
        study,
        experiment,
        "lr=3e-3",
        0,
        report,
        repeat="0",
        weights="0123456789abcdef",
        reproducible="true",
        restarts="1",
    )
    written.trial(study, experiment, "lr=3e-3", 0, report, started_ms=START_MS + 1, status="FAILED", repeat="1")
    newest = written.trial(
        study, experiment, "lr=3e-3", 0, report, started_ms=START_MS + 2, repeat="1", reproducible="false"
    )
    found = load_study("lr", uri_of(tmp_path))
    assert (found.repeats, found.seeds) == (2, (0, 1))
    assert found.runs[["repeat", "seed", "config", "status"]].astype(str).agg(" ".join, axis=1).tolist() == [
        "0 0 lr=3e-3 finished", "0 0 lr=1e-3 missing", "0 1 lr=3e-3 missing", "0 1 lr=1e-3 missing",
        "1 0 lr=3e-3 finished", "1 0 lr=1e-3 missing", "1 1 lr=3e-3 missing", "1 1 lr=1e-3 missing",
    ]  # fmt: skip
    expected = pd.DataFrame(
        {
            "run_id": pd.Series([first, newest], index=[0, 4], dtype="str"),
            "weights": pd.Series(["0123456789abcdef", ""], index=[0, 4], dtype="str"),
            "restarts": pd.Series([1, 0], index=[0, 4]),
            "reproducible": pd.Series([True, False], index=[0, 4], dtype="boolean"),
        }
    )
    assert_frame_equal(found.runs.loc[[0, 4], list(expected)], expected)
    assert found.runs["reproducible"].isna().sum() == 6
    assert found.curves[["run_id", "repeat"]].astype(str).to_numpy().tolist() == [[first, "0"], [newest, "1"]]
    assert found.gaps() == [
        "6 of 8 trials missing: planned, but without a run: lr=1e-3 s=0, lr=3e-3 s=1, lr=1e-3 s=1, lr=1e-3 s=0 r=1, "
        "lr=3e-3 s=1 r=1, lr=1e-3 s=1 r=1."
    ]
    assert "2 configurations x 2 seeds x 2 repeats" in repr(found)


def test_values_that_are_texts_stay_texts_where_they_look_like_numbers(
    copied: Callable[[], Written], tmp_path: Path
) -> None:
    written = copied()
    configurations = [
        {**entry, "params": {**entry["params"], "level": level, "clip": clip}}
        for entry, level, clip in zip(PLAN["configurations"], ("01", "1"), ("inf", 0.5), strict=True)  # type: ignore[call-overload]
    ]
    study = written.study("lr", "lr/ppo-cartpole", START_MS, {**PLAN, "seeds": [0], "configurations": configurations})
    for config, params in (("lr=3e-3", {"level": "01", "clip": "inf"}), ("lr=1e-3", {"level": "1", "clip": 0.5})):
        written.trial(study, "lr/ppo-cartpole", config, 0, params={**params, "lr": 0.003})
    runs = load_study("lr", uri_of(tmp_path)).runs
    assert (runs["level"].tolist(), runs["clip"].tolist()) == (["01", "1"], [np.inf, 0.5])


def test_whether_a_trial_diverged_is_recorded_and_of_older_runs_told_by_the_class_of_its_error(
    copied: Callable[[], Written], tmp_path: Path
) -> None:
    written = copied()
    study = written.study("lr", "lr/ppo-cartpole", START_MS, PLAN)
    failures = (
        "ValueError: not finite",
        "NonFiniteError: non-finite learner/loss = nan after 8 env steps",
        "RuntimeError: infinite loop",
    )
    for seed, (failure, tags) in enumerate(zip(failures, ({"diverged": "true"}, {}, {}), strict=True)):
        written.trial(study, "lr/ppo-cartpole", "lr=3e-3", seed, status="FAILED", failure=failure, **tags)
    runs = load_study("lr", uri_of(tmp_path)).runs
    assert runs[runs["status"] == "failed"].set_index("seed")["diverged"].to_dict() == {0: True, 1: True, 2: False}


def test_the_trials_of_a_search_are_those_it_chose_with_their_lineage(
    copied: Callable[[], Written], tmp_path: Path
) -> None:
    written = copied()
    experiment = "lr/ppo-cartpole"
    chosen = [
        {"config": "lr=3e-3", "seed": 0, "phase": "search", "exploratory": True},
        {
            "config": "lr=1e-3",
            "seed": 1,
            "phase": "search",
            "exploratory": True,
            "start": {"trial": "first_s0", "env_steps": 1000, "copied": True},
        },
        {
            "config": "lr=1e-3",
            "seed": 2,
            "phase": "search",
            "exploratory": True,
            "start": {"trial": "first_s0", "env_steps": 1000, "copied": False},
        },
        {"config": "lr=1e-3", "seed": 1000, "phase": "confirm"},
    ]
    how = {"trials": chosen, "phase": "search", "base": "lr=3e-3", "objectives": ["score", "train_s"]}
    study = written.study("lr", experiment, START_MS, {**PLAN, **how}, {"scheduler": "pbt"})
    tags = {"trial_id": "first_s0", "exploratory": "true", "phase": "search"}
    written.trial(study, experiment, "lr=3e-3", 0, **tags)
    written.trial(
        study, experiment, "lr=1e-3", 1, status=None, started_ms=START_MS + 1, **{**tags, "trial_id": "second_s1"}
    )
    found = load_study("lr", uri_of(tmp_path))
    assert (found.base, found.objectives) == ("lr=3e-3", ("score", "train_s"))
    expected = pd.DataFrame(
        {
            "config": pd.Categorical(["lr=3e-3", *["lr=1e-3"] * 3], ["lr=3e-3", "lr=1e-3"], ordered=True),
            "seed": [0, 1, 2, 1000],
            "status": ["finished", "running", "missing", "missing"],
            "phase": ["search", "search", "search", "confirm"],
            "exploratory": [True, True, True, False],
            "trial_id": ["first_s0", "second_s1", "", ""],
            "parent": ["", "first_s0", "first_s0", ""],
            "copied": [False, True, False, False],
            "generation": pd.array([0, 1, 1, pd.NA], "Int64"),  # which earlier studies did not record
            "start_env_steps": [0, 1000, 1000, 0],
        }
    )
    assert_frame_equal(found.runs[list(expected)], expected)


def test_a_fixed_design_has_no_base_no_aim_and_no_lineage(uri: str) -> None:
    study = load_study("lr", uri)
    assert (study.base, study.objectives) == ("", ())
    assert set(study.runs["parent"]) == set(study.runs["trial_id"]) == {""}
    assert not study.runs["copied"].any() and study.runs["copied"].dtype == bool
    assert study.runs["start_env_steps"].tolist() == [0] * 6
    assert study.runs["generation"].isna().all()


def test_a_study_from_before_repeats_has_one_run_of_each_seed(uri: str) -> None:
    study = load_study("lr", uri)
    assert study.repeats == 1
    assert study.runs["restarts"].tolist() == [0] * 6
    assert study.runs["weights"].tolist() == [""] * 6
    assert study.runs["reproducible"].isna().all() and str(study.runs["reproducible"].dtype) == "boolean"


def test_what_an_algorithm_does_is_recorded_and_of_older_studies_told_by_its_name(
    copied: Callable[[], Written], tmp_path: Path
) -> None:
    written = copied()
    old, new = (
        {**planned(config, 0.1), "algorithm": name} for config, name in (("old", "impala"), ("new", "my_impala"))
    )
    new["facts"] = {"asynchronous": True, "replays": False, "num_cpus": 8}
    study = written.study(
        "mixed", "mixed/impala-cartpole", START_MS, {**PLAN, "study": "mixed", "configurations": [old, new]}
    )
    written.trial(study, "mixed/impala-cartpole", "old", 0, algorithm="impala")
    found = load_study("mixed", uri_of(tmp_path)).facts
    assert found == {
        "old": {"asynchronous": True, "replays": False},
        "new": {"asynchronous": True, "replays": False, "num_cpus": 8},
    }
    bare = written.study("bare", "bare/dqn-cartpole", START_MS)
    written.trial(bare, "bare/dqn-cartpole", "only", 0, algorithm="dqn")
    assert load_study("bare", uri_of(tmp_path)).facts == {"only": {"asynchronous": False, "replays": True}}


def test_only_the_metrics_that_are_asked_for_are_read(uri: str) -> None:
    curves = load_study("lr", uri, metrics=["train/return_mean"]).curves
    assert curves["value"].tolist() == [5.0]
    assert curves["metric"].dtype == load_study("lr", uri).curves["metric"].dtype


def test_the_files_of_a_moved_output_folder_are_found(written: Written, tmp_path: Path) -> None:
    shutil.copytree(written.folder, tmp_path / "moved")
    shutil.move(written.folder / "mlartifacts", tmp_path / "away")
    try:
        assert load_study("lr", uri_of(tmp_path / "moved"), metrics=[]).question == "Which learning rate?"
    finally:
        shutil.move(tmp_path / "away", written.folder / "mlartifacts")
