import http.server
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from analysis import AnalysisError
from analysis.load import CURVE_METRICS, load_study
from analysis.stores import server as server_module
from analysis.stores.address import without_password
from analysis.stores.attach import attach
from analysis.stores.cache import CACHE_DIR
from analysis.stores.records import Run
from analysis.stores.server import ServerStore
from analysis.stores.sqlite import SqliteStore
from experiments.tracking.store import Store

START_MS = 1_800_000_000_000
MORE_THAN_ONE_ANSWER = 26_000
"""Points of one curve; the server's bulk endpoint gives 25,000 at most."""


def uri_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'mlflow.db'}"


class Written:
    """Writes studies as the suite's own tracking does."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ids = folder, {}
        self.store = Store(uri_of(folder), folder / "mlartifacts", 5.0)

    def study(self, name: str, experiment: str, started_ms: int, plan: Any = None, params: Mapping[str, Any] | None = None) -> str:
        tags = {"kind": "study", "study": name, "mlflow.source.name": "python experiments/run.py", "exclusive": "true"}
        note = {"mlflow.note.content": f"**Question.** What about {name}?\n\nThe answer."}
        run = self.store.create_run("studies", experiment, started_ms, {**tags, **note})
        self.store.log_params(run, params or {})
        texts = {
            "plan.json": json.dumps(
                plan or {"study": name, "question": "", "seeds": [0], "axes": {}, "exclusive": True, "configurations": []}
            ),
            "provenance.json": json.dumps({"commit": "abc", "command": "python run.py seeds=[0,1]"}),
        }
        self.store.log_texts(run, texts)
        self.ids[experiment] = run
        return run

    def trial(
        self,
        study: str,
        experiment: str,
        config: str,
        seed: int,
        reports: Sequence[tuple[Mapping[str, float], int, int]] = (),
        status: str | None = "FINISHED",
        started_ms: int = START_MS,
        params: Mapping[str, Any] | None = None,
        **tags: str,
    ) -> str:
        all_tags = {
            "kind": "trial", "study_run": study, "algorithm": "ppo", "env": "cartpole", "hardware": "laptop", "config": config,
            "config_id": f"id-{config}", "seed": str(seed), "phase": "fixed", "exclusive": "false", "exploratory": "false",
            "mlflow.source.git.commit": "abc", **tags,
        }  # fmt: skip
        run = self.store.create_run(experiment, f"{config} s={seed}", started_ms, all_tags)
        self.store.log_params(run, {"algorithm": "ppo", "seed": seed, "budget_env_steps": 2000, **(params or {})})
        self.store.log_reports(run, [(metrics, step, started_ms + at_ms) for metrics, step, at_ms in reports])
        if status is not None:
            self.store.finish(run, status, started_ms + 9000)
        self.ids[f"{config} s={seed}"] = run
        return run


def planned(config: str, lr: float) -> dict[str, Any]:
    return {
        "config": config, "config_id": f"id-{config}", "algorithm": "ppo", "env": "cartpole", "hardware": "laptop",
        "budget_env_steps": 2000, "target": 475.0, "score_range": [0.0, None], "point": {"algorithm.training.lr": lr},
        "params": {"algorithm": "ppo", "budget_env_steps": 2000, "lr": lr, "log10_lr": -3.0, "clip": None, "activation": "tanh"},
    }  # fmt: skip


PLAN = {
    "study": "lr", "question": "Which learning rate?", "seeds": [0, 1, 2], "axes": {"lr": "algorithm.training.lr"}, "exclusive": True,
    "configurations": [planned("lr=3e-3", 0.003), planned("lr=1e-3", 0.001)],
}  # fmt: skip


def write_studies(written: Written) -> None:
    """A study of three trials; one of six planned trials, of which three finished; a long one."""
    old = written.study("old", "old/ppo-cartpole", START_MS, params={"space.algorithm.training.train_batch_size_per_learner": "[512, 64]"})
    for config, batch, seed, at_ms in (("b=512", 512, 0, 0), ("b=64", 64, 0, 1), ("b=512", 512, 1, 2)):
        params = {"train_batch_size_total": batch, "log10_train_batch_size_total": 1.0}
        written.trial(old, "old/ppo-cartpole", config, seed, [({"final/score": 1.0}, 1000, 5)], started_ms=START_MS + at_ms, params=params)

    study = written.study("lr", "lr/ppo-cartpole", START_MS + 10, PLAN)
    experiment, lr3, lr1 = "lr/ppo-cartpole", {"lr": 0.003, "activation": "tanh"}, {"lr": 0.001, "activation": "tanh"}
    final = {"final/score": 490.0, "final/auc": 300.5, "final/env_steps_to_target": 1000.0, "final/train_s": 2.5}
    written.trial(
        study, experiment, "lr=3e-3", 0,
        [
            ({"eval/return_mean": 10.0, "train/return_mean": 5.0}, 1000, 500),
            ({"eval/return_mean": 99.0}, 2000, 1000),  # lost in a crash, and again after it:
            ({"eval/return_mean": 20.0, **final}, 2000, 4500),
        ],
        params=lr3,
    )  # fmt: skip
    written.trial(study, experiment, "lr=1e-3", 0, [({"eval/return_mean": float("nan")}, 1000, 250)], params=lr1)
    written.trial(study, experiment, "lr=3e-3", 1, status="FAILED", failure="out of memory", params=lr3)
    written.trial(study, experiment, "lr=1e-3", 1, [({"eval/return_mean": 7.0}, 1000, 100)], status=None, params=lr1)
    written.trial(study, experiment, "lr=3e-3", 2, status="KILLED", params=lr3)
    deleted = written.trial(study, experiment, "lr=1e-3", 2, [({"eval/return_mean": 8.0}, 1000, 100)], params=lr1)
    written.store._client.delete_run(deleted)
    written.store.finish(study, "FAILED", START_MS + 10_000)

    growing = written.study("growing", "growing/ppo-cartpole", START_MS - 20)
    for config, at_ms in (("c", 0), ("d", 1)):
        written.trial(growing, "growing/ppo-cartpole", config, 0, [({"eval/return_mean": 1.0}, 1000, 5)], started_ms=START_MS + at_ms)

    long = written.study("long", "long/ppo-cartpole", START_MS - 10)
    written.trial(long, "long/ppo-cartpole", "a", 0)
    written.trial(long, "long/ppo-cartpole", "b", 0, started_ms=START_MS + 1)
    with closing(sqlite3.connect(written.folder / "mlflow.db", timeout=20)) as database:
        for config, number in (("a", MORE_THAN_ONE_ANSWER), ("b", 100)):
            run = written.ids[f"{config} s=0"]
            insert_points(database, run, "eval/return_mean", [(i / 7, START_MS + i, i) for i in range(number)])


def insert_points(database: sqlite3.Connection, run: str, metric: str, points: Sequence[tuple[float, int, int]]) -> None:
    """As MLflow stores them, fast: (value, timestamp, step), the last one last."""
    rows = [(metric, value, at_ms, run, step, 0) for value, at_ms, step in points]
    for table in ("metrics", "latest_metrics"):
        database.executemany(
            f"INSERT OR REPLACE INTO {table} (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, ?)",
            rows if table == "metrics" else rows[-1:],
        )
    database.commit()


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store without runs, to copy: MLflow takes seconds to make one."""
    folder = tmp_path_factory.mktemp("blank")
    Store(uri_of(folder), folder / "mlartifacts", 5.0)
    return folder / "mlflow.db"


@pytest.fixture(scope="session")
def written(blank: Path, tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("a store #1")
    shutil.copy(blank, folder / "mlflow.db")
    written = Written(folder)
    write_studies(written)
    return written


@pytest.fixture(scope="session")
def server(written: Written) -> Iterator[str]:
    """A tracking server on a copy of the same store."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    copy = written.folder.parent / "served.db"
    with closing(sqlite3.connect(written.folder / "mlflow.db")) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    address = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{copy}", *address],
        cwd=written.folder,
        env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                assert time.monotonic() < deadline and process.poll() is None, "the tracking server does not start"
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # its worker processes too
        process.wait()


@pytest.fixture(autouse=True)
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_DIR, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(params=["sqlite", "server"])
def uri(request: pytest.FixtureRequest, written: Written) -> str:
    return uri_of(written.folder) if request.param == "sqlite" else request.getfixturevalue("server")


@pytest.fixture
def copied(blank: Path, tmp_path: Path) -> Callable[[], Written]:
    """An empty store of the test's own."""

    def make() -> Written:
        shutil.copy(blank, tmp_path / "mlflow.db")
        return Written(tmp_path)

    return make


# The frames.


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
    assert runs["run_id"].tolist()[:5] == [written.ids[f"{c} s={s}"] for c, s in zip(runs["config"][:5], runs["seed"][:5], strict=True)]
    assert runs["run_id"].isna().tolist() == runs["started"].isna().tolist() == [False] * 5 + [True]
    assert runs["started"][0] == pd.Timestamp(START_MS, unit="ms", tz="UTC")
    assert runs["ended"].isna().tolist() == [False] * 3 + [True, False, True]
    assert not [column for column in runs if column.startswith("log10_")]
    assert {str(runs[c].dtype) for c in ("run_id", "config_id", "algorithm", "env", "hardware", "phase", "commit")} == {"str"}


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
            "metric": pd.Categorical([f"{kind}/return_mean" for kind in ("eval", "eval", "train", "eval", "eval")], CURVE_METRICS),
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
def test_a_study_is_found_by_name_experiment_or_run_and_the_latest_by_nothing(name: str | None, written: Written) -> None:
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


def test_unplanned_trials_follow_and_of_a_restarted_trial_the_latest_run_counts(copied: Callable[[], Written], tmp_path: Path) -> None:
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


def test_each_repeat_of_a_seed_is_a_row_and_of_two_runs_of_one_the_newest_counts(copied: Callable[[], Written], tmp_path: Path) -> None:
    written = copied()
    experiment = "lr/ppo-cartpole"
    study = written.study("lr", experiment, START_MS, {**PLAN, "seeds": [0, 1], "repeats": 2})
    report = [({"eval/return_mean": 7.0}, 1000, 500)]
    first = written.trial(
        study, experiment, "lr=3e-3", 0, report, repeat="0", weights="0123456789abcdef", reproducible="true", restarts="1"
    )
    written.trial(study, experiment, "lr=3e-3", 0, report, started_ms=START_MS + 1, status="FAILED", repeat="1")
    newest = written.trial(study, experiment, "lr=3e-3", 0, report, started_ms=START_MS + 2, repeat="1", reproducible="false")
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
        "6 of 8 trials missing: planned, but without a run: lr=1e-3 s=0, lr=3e-3 s=1, lr=1e-3 s=1, lr=1e-3 s=0 r=1, lr=3e-3 s=1 r=1, "
        "lr=1e-3 s=1 r=1."
    ]
    assert "2 configurations x 2 seeds x 2 repeats" in repr(found)


def test_the_trials_of_a_search_are_those_it_chose_with_their_lineage(copied: Callable[[], Written], tmp_path: Path) -> None:
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
    study = written.study("lr", experiment, START_MS, {**PLAN, **how})
    tags = {"trial_id": "first_s0", "exploratory": "true", "phase": "search"}
    written.trial(study, experiment, "lr=3e-3", 0, **tags)
    written.trial(study, experiment, "lr=1e-3", 1, status=None, started_ms=START_MS + 1, **{**tags, "trial_id": "second_s1"})
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


def test_a_study_from_before_repeats_has_one_run_of_each_seed(uri: str) -> None:
    study = load_study("lr", uri)
    assert study.repeats == 1
    assert study.runs["restarts"].tolist() == [0] * 6
    assert study.runs["weights"].tolist() == [""] * 6
    assert study.runs["reproducible"].isna().all() and str(study.runs["reproducible"].dtype) == "boolean"


def test_what_an_algorithm_does_is_recorded_and_of_older_studies_told_by_its_name(copied: Callable[[], Written], tmp_path: Path) -> None:
    written = copied()
    old, new = ({**planned(config, 0.1), "algorithm": name} for config, name in (("old", "impala"), ("new", "my_impala")))
    new["facts"] = {"asynchronous": True, "replays": False, "num_cpus": 8}
    study = written.study("mixed", "mixed/impala-cartpole", START_MS, {**PLAN, "study": "mixed", "configurations": [old, new]})
    written.trial(study, "mixed/impala-cartpole", "old", 0, algorithm="impala")
    found = load_study("mixed", uri_of(tmp_path)).facts
    assert found == {"old": {"asynchronous": True, "replays": False}, "new": {"asynchronous": True, "replays": False, "num_cpus": 8}}
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


# Reading leaves the store as it is.


def test_reading_waits_for_no_writer_and_changes_no_byte(written: Written) -> None:
    path = written.folder / "mlflow.db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = path.read_bytes()
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE runs SET name = 'half written'")
        start = time.perf_counter()
        assert load_study("lr", uri_of(written.folder)).experiment == "lr/ppo-cartpole"
        assert time.perf_counter() - start < 5
        writer.rollback()
    assert path.read_bytes() == before


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AnalysisError, match=r"no store at .*/outputs/mlflow.db: run a study first \(make study\)"):
        load_study()
    assert not list(tmp_path.iterdir())


# The server's limits, and the cache.


def test_more_points_than_the_server_gives_in_one_answer_are_all_read(written: Written, server: str) -> None:
    runs = [written.ids["a s=0"], written.ids["b s=0"]]
    cut = urllib.request.urlopen(
        f"{server}{server_module._BULK}?metric_key=eval/return_mean&" + "&".join(f"run_id={run}" for run in runs), timeout=60
    ).read()
    assert len(json.loads(cut)["metrics"]) == server_module.MAX_POINTS  # and not a word of the other 1,100
    served = load_study("long", server)
    assert served.curves["run_id"].value_counts().tolist() == [MORE_THAN_ONE_ANSWER, 100]
    assert_frame_equal(served.curves, load_study("long", uri_of(written.folder)).curves)


class CuttingStore(ServerStore):
    """A server that gives at most two points in one bulk answer, and of a single curve all but the last."""

    def __init__(self, single_is_cut: bool) -> None:
        self._shown, self._single_is_cut, self.requests = "http://cutting", single_is_cut, []

    def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        ids = options["params"]["run_id"]
        self.requests.append(ids)
        bulk = path == server_module._BULK
        points = [{"run_id": i, "step": step, "timestamp": step, "value": 1.0} for i in (ids if bulk else [ids]) for step in range(3)]
        return {"metrics": points[:2] if bulk or self._single_is_cut else points}


def test_a_cut_below_the_known_limit_is_noticed_by_the_missing_last_point() -> None:
    runs = [Run(i, i, "FINISHED", 0, 1, "", {}, {}, {"m": server_module.Latest(1.0, 2, 2)}) for i in ("a", "b")]
    store = CuttingStore(single_is_cut=False)
    assert [(row["run_id"], row["step"]) for row in store._history("m", runs)] == [(i, step) for i in ("a", "b") for step in range(3)]
    assert store.requests == [["a", "b"], ["a"], "a", ["b"], "b"]
    with pytest.raises(AnalysisError, match="only in part: load the study again"):
        CuttingStore(single_is_cut=True)._history("m", runs)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """The curves that a server is asked for."""
    asked, history = [], ServerStore._history

    def note(self: ServerStore, metric: str, runs: Sequence[Run]) -> list[dict[str, Any]]:
        asked.append((metric, [run.name for run in runs]))
        return history(self, metric, runs)

    monkeypatch.setattr(ServerStore, "_history", note)
    return asked


def test_reading_that_takes_long_shows_how_far_it_is_on_a_terminal_alone(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server_module, "SHOW_PROGRESS_AFTER_S", -1.0)
    load_study("lr", server, cache_dir=tmp_path / "one")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    load_study("lr", server, cache_dir=tmp_path / "two")
    out, err = capsys.readouterr()
    assert out == ""
    assert "Reading curves" in err and "4/4" in err


def test_a_second_load_asks_only_for_runs_that_go_on(server: str, asked: list[tuple[str, list[str]]]) -> None:
    first = load_study("lr", server)
    assert {name for _, names in asked for name in names} == {"lr=3e-3 s=0", "lr=1e-3 s=0", "lr=1e-3 s=1"}
    asked.clear()
    assert_frame_equal(load_study("lr", server).curves, first.curves)
    assert asked == [("eval/return_mean", ["lr=1e-3 s=1"])]


def test_a_point_that_was_added_is_read_although_the_rest_is_cached(
    written: Written, server: str, asked: list[tuple[str, list[str]]]
) -> None:
    first = load_study("growing", server)
    asked.clear()
    with closing(sqlite3.connect(written.folder.parent / "served.db", timeout=20)) as database:
        insert_points(database, written.ids["d s=0"], "eval/return_mean", [(5.5, START_MS + 60_000, 77_000)])
    assert load_study("growing", server).curves["value"].tolist() == [*first.curves["value"], 5.5]
    assert asked == [("eval/return_mean", ["d s=0"])]


@pytest.mark.parametrize("damage", [b"", b"not Parquet", None])
def test_a_damaged_or_unwritable_cache_is_as_good_as_none(damage: bytes | None, server: str, cache_dir: Path) -> None:
    if damage is None:
        cache_dir.write_text("a file where the folder should be")
    first = load_study("lr", server).curves
    if damage is not None:
        files = list(cache_dir.rglob("*.parquet"))
        assert len(files) == 2
        for file in files:
            file.write_bytes(damage)
    assert_frame_equal(load_study("lr", server).curves, first)


# Bad input: a sentence each.


def test_near_misses_of_an_unknown_study_are_listed(uri: str) -> None:
    with pytest.raises(AnalysisError, match=r"There is no study 'olt' in .*; near: old"):
        load_study("olt", uri)
    with pytest.raises(AnalysisError, match=r"there are: lr, lr/ppo-cartpole, old, old/ppo-cartpole, long"):
        load_study("zzzzzzzz", uri)


def test_an_unknown_metric_and_a_final_one_are_refused(written: Written) -> None:
    with pytest.raises(AnalysisError, match="near: eval/return_mean"):
        load_study("lr", uri_of(written.folder), metrics=["eval/returns_mean"])
    with pytest.raises(AnalysisError, match="the column score of the study's runs"):
        load_study("lr", uri_of(written.folder), metrics=["final/score"])


def test_an_empty_store_and_a_study_without_trials_are_told_apart(copied: Callable[[], Written], tmp_path: Path) -> None:
    written = copied()
    with pytest.raises(AnalysisError, match=r"holds no study yet: run one \(make study\)"):
        load_study(None, uri_of(tmp_path))
    written.study("lr", "lr/ppo-cartpole", START_MS, PLAN)
    with pytest.raises(AnalysisError, match=r"No trial of lr/ppo-cartpole .* has started"):
        load_study(None, uri_of(tmp_path))


def test_a_study_that_has_just_begun_gives_way_to_the_one_before_it(copied: Callable[[], Written], tmp_path: Path) -> None:
    written = copied()
    before = written.study("lr", "lr/ppo-cartpole", START_MS, PLAN)
    written.trial(before, "lr/ppo-cartpole", "lr=3e-3", 0)
    begun = written.study("lr", "lr/ppo-cartpole", START_MS + 1000, PLAN)
    assert load_study("lr", uri_of(tmp_path)).run_id == load_study(None, uri_of(tmp_path)).run_id == before
    with pytest.raises(AnalysisError, match="has started"):
        load_study(begun, uri_of(tmp_path))


@pytest.mark.parametrize(("name", "damage"), [("plan.json", "is damaged"), ("other.json", "is missing")])
def test_a_study_whose_plan_cannot_be_read_is_refused(name: str, damage: str, copied: Callable[[], Written], tmp_path: Path) -> None:
    written = copied()
    study = written.store.create_run("studies", "lr/ppo-cartpole", START_MS, {"kind": "study", "study": "lr"})
    written.store.log_texts(study, {name: '{"study": '})
    written.trial(study, "lr/ppo-cartpole", "lr=3e-3", 0)
    with pytest.raises(AnalysisError, match=rf"plan.json of the study's run {study} {damage}: restore it, or run the study again"):
        load_study(None, uri_of(tmp_path))


def test_a_store_of_a_newer_mlflow_is_refused(blank: Path, tmp_path: Path) -> None:
    shutil.copy(blank, tmp_path / "mlflow.db")
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        database.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")
        database.commit()
    with pytest.raises(AnalysisError, match="written by a newer MLflow than the installed one: pip install --upgrade mlflow"):
        load_study(None, uri_of(tmp_path))


@pytest.mark.parametrize("content", ["text", "tables"])
def test_a_file_that_is_no_store_of_mlflow_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    if content == "text":
        path.write_text("not a database, but long enough to have a header of its own" * 10)
    else:
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE runs (run_uuid TEXT)")
    with pytest.raises(AnalysisError, match="cannot be read as an MLflow store"):
        load_study(None, uri_of(tmp_path))


def test_a_report_and_its_figures_are_attached_to_the_studys_run(copied: Callable[[], Written], tmp_path: Path) -> None:
    written = copied()
    study = written.study("reported", "reported/ppo-cartpole", START_MS)
    assert attach("<p>It works.</p>", {"seeds.svg": b"<svg/>"}, study, uri_of(tmp_path)) == ""
    (run,) = SqliteStore(tmp_path / "mlflow.db").runs("studies")
    assert SqliteStore(tmp_path / "mlflow.db").text(run, "report.html") == "<p>It works.</p>"
    assert SqliteStore(tmp_path / "mlflow.db").text(run, "figures/seeds.svg") == "<svg/>"


def test_a_store_that_does_not_take_a_report_says_why_without_its_password(copied: Callable[[], Written], tmp_path: Path) -> None:
    copied()
    assert "Run with id=none not found" in attach("", {}, "none", uri_of(tmp_path))
    refused = attach("", {}, "none", "http://me:secret@127.0.0.1:9")
    assert refused.startswith("http://***@127.0.0.1:9: ") and "refused" in refused and "secret" not in refused


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("http://me:secret@host:5000/path", "http://***@host:5000/path"),
        ("https://token@host", "https://***@host"),
        ("http://me:se@cret@host", "http://***@host"),
        ("http://host:5000", "http://host:5000"),
        ("sqlite:////a/b@c.db", "sqlite:////a/b@c.db"),
        ("mlflow.db", "mlflow.db"),
    ],
)
def test_an_address_is_shown_without_its_credentials(uri: str, shown: str) -> None:
    assert without_password(uri) == shown


@pytest.mark.parametrize("uri", ["outputs/mlflow.db", "postgresql://me:secret@host/mlflow", "file:///mlruns"])
def test_another_kind_of_store_is_refused_without_its_password(uri: str) -> None:
    with pytest.raises(AnalysisError, match=r"neither sqlite:///path/mlflow.db nor http") as refused:
        load_study(None, uri)
    assert "secret" not in str(refused.value)


def test_a_server_that_does_not_answer_is_reported_within_seconds_without_its_password() -> None:
    start = time.perf_counter()
    with pytest.raises(AnalysisError, match=r"http://\*\*\*@127.0.0.1:9 does not answer: start it") as refused:
        load_study(None, "http://me:secret@127.0.0.1:9")
    assert time.perf_counter() - start < 10
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (200, b"<html>", "not as an MLflow tracking server"),
        (404, b"<html>", "not as an MLflow tracking server"),
        (401, b"", "refuses access .401.: set MLFLOW_TRACKING_USERNAME"),
        (403, b"Invalid Host header", "or start it with --allowed-hosts"),
        (400, b"{}", "answers 400"),
    ],
)
def test_a_server_that_answers_otherwise_is_told_how(status: int, body: bytes, message: str) -> None:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        try:
            with pytest.raises(AnalysisError, match=message):
                load_study(None, f"http://127.0.0.1:{other.server_port}")
        finally:
            other.shutdown()
