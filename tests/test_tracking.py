import json
import sqlite3
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import PlanOf

from experiments.errors import ConfigurationError
from experiments.provenance import without_passwords
from experiments.schema import TrackingSettings
from experiments.summary import TrialOutcome, runs_of
from experiments.tracking import writer as writer_module
from experiments.tracking.callback import TrackingCallback
from experiments.tracking.store import Store, check_store, store_uri
from experiments.tracking.writer import Writer


class FlakyStore:
    """A store that refuses its first calls."""

    def __init__(self, failures: int) -> None:
        self.failures, self.calls = failures, []

    def create_run(self, *args: Any) -> str:
        return self._take("create_run", args) or "run-1"

    def log_reports(self, *args: Any) -> None:
        self._take("log_reports", args)

    def _take(self, method: str, args: tuple[Any, ...]) -> None:
        if self.failures > 0:
            self.failures -= 1
            raise ConnectionError("the server is away")
        self.calls.append((method, args))


@pytest.fixture(autouse=True)
def fast_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "RETRY_S", 0.01)
    monkeypatch.setattr(writer_module, "GATHER_S", 0.05)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path / "artifacts", 5.0)


def test_a_store_that_comes_back_loses_nothing_and_keeps_the_order(tmp_path: Path) -> None:
    flaky = FlakyStore(failures=3)
    writer = Writer(lambda: flaky, tmp_path / "spool.jsonl")  # type: ignore[arg-type, return-value]
    writer.put("create_run", "trial", "experiment", "name", 0, {})
    for step in range(5):
        writer.put("log_metrics", "trial", {"x": 1.0}, step, 0)
    writer.close(wait_s=5)
    assert [step for method, args in flaky.calls if method == "log_reports" for _, step, _ in args[1]] == [0, 1, 2, 3, 4]
    assert writer.undelivered == 0
    assert not (tmp_path / "spool.jsonl").exists()


def test_a_store_that_stays_away_ends_the_wait_and_keeps_the_writes_in_a_file(tmp_path: Path) -> None:
    writer = Writer(lambda: FlakyStore(failures=10**9), tmp_path / "spool.jsonl")  # type: ignore[arg-type, return-value]
    writer.put("create_run", "trial", "experiment", "name", 0, {})
    writer.put("log_metrics", "trial", {"x": 1.0}, 4000, 7)
    writer.close(wait_s=0.05)
    kept = [json.loads(line) for line in (tmp_path / "spool.jsonl").read_text().splitlines()]
    assert [k["method"] for k in kept] == ["create_run", "log_metrics"]
    assert kept[1]["args"] == [{"x": 1.0}, 4000, 7]


def test_reports_that_wait_go_out_together_but_never_past_the_runs_end(tmp_path: Path) -> None:
    store = FlakyStore(failures=0)
    store.finish = lambda *args: store.calls.append(("finish", args))  # type: ignore[attr-defined]
    writer = Writer(lambda: store, tmp_path / "spool.jsonl")  # type: ignore[arg-type, return-value]
    for key in ("a", "b"):
        writer.put("create_run", key, "experiment", key, 0, {})
    for step in range(3):
        for key in ("a", "b"):
            writer.put("log_metrics", key, {"x": 1.0}, step, 0)
    writer.put("finish", "a", "FINISHED", 0)
    writer.close(wait_s=5)
    assert [method for method, _ in store.calls] == ["create_run", "create_run", "log_reports", "log_reports", "finish"]
    assert [[step for _, step, _ in args[1]] for method, args in store.calls if method == "log_reports"] == [[0, 1, 2], [0, 1, 2]]


def test_queueing_never_waits_for_the_store(tmp_path: Path) -> None:
    release = threading.Event()

    class Slow(FlakyStore):
        def _take(self, method: str, args: tuple[Any, ...]) -> None:
            release.wait(10)

    writer = Writer(lambda: Slow(0), tmp_path / "spool.jsonl")  # type: ignore[arg-type, return-value]
    for step in range(1000):
        writer.put("log_metrics", "trial", {"x": 1.0}, step, 0)
    assert not release.is_set()  # all were queued while the first was still on its way
    writer.run_ids["trial"] = "run-1"
    release.set()
    writer.close()


def test_one_report_is_one_row_per_metric_at_the_same_step(store: Store, tmp_path: Path) -> None:
    run = store.create_run("study/ppo-cartpole", "lr=1e-3 s=0", 0, {"kind": "trial"})
    store.log_reports(run, [({"eval/return_mean": 1.0, "train/return_mean": 2.0}, 4000, 5)])
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        rows = database.execute("SELECT key, value, step FROM metrics ORDER BY key").fetchall()
    assert rows == [("eval/return_mean", 1.0, 4000), ("train/return_mean", 2.0, 4000)]


def test_an_open_reader_does_not_block_the_writer(store: Store, tmp_path: Path) -> None:
    run = store.create_run("study", "run", 0, {})
    store.log_reports(run, [({"a": 1.0}, 1, 0)])
    reader = sqlite3.connect(tmp_path / "mlflow.db")
    cursor = reader.execute("SELECT * FROM metrics")
    cursor.fetchone()
    store.log_reports(run, [({"a": 2.0}, 2, 0)])
    reader.close()


def test_two_studies_that_start_together_share_one_complete_store(tmp_path: Path) -> None:
    failures = []

    def use() -> None:
        try:
            Store(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path / "artifacts", 5.0).create_run("same", "run", 0, {})
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        assert database.execute("SELECT count(*) FROM runs").fetchone() == (2,)
        assert database.execute("SELECT count(*) FROM experiments WHERE name = 'same'").fetchone() == (1,)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("http://127.0.0.1:9", "does not answer"),
        ("file:///tmp/mlruns", "no longer supports folders"),
        ("sqlite:///relative.db", "must be absolute"),
        ("mlruns", "must be http"),
    ],
)
def test_an_unusable_store_is_refused_with_the_fix(uri: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_store(uri, 1.0)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text("not a database, but long enough to have a header of its own" * 10)
    with pytest.raises(ConfigurationError, match="not a database"):
        check_store(f"sqlite:///{tmp_path / 'mlflow.db'}", 1.0)


def test_the_embedded_store_is_under_the_output_folder(tmp_path: Path) -> None:
    assert store_uri(TrackingSettings("sqlite"), tmp_path) == f"sqlite:///{tmp_path}/mlflow.db"


def test_passwords_in_urls_are_not_recorded() -> None:
    assert without_passwords("tracking.uri=https://me:secret@host:5000/x seeds=[0]") == "tracking.uri=https://***@host:5000/x seeds=[0]"
    assert without_passwords("sqlite:////tmp/a@b.db") == "sqlite:////tmp/a@b.db"


class FakeTrial:
    """As much of a Tune trial as the callback reads."""

    def __init__(self, trial_id: str, config: Mapping[str, Any]) -> None:
        self.trial_id, self.config = trial_id, config

    def get_error(self) -> str | None:
        return None


class RecordingWriter:
    """Keeps what is put."""

    def __init__(self) -> None:
        self.operations: list[tuple[Any, ...]] = []

    def put(self, *operation: Any) -> None:
        self.operations.append(operation)


@pytest.fixture
def recorded(plan_of: PlanOf) -> tuple[TrackingCallback, RecordingWriter, FakeTrial]:
    plan, writer = plan_of(), RecordingWriter()
    callback = TrackingCallback(plan, writer)  # type: ignore[arg-type]
    return callback, writer, FakeTrial("t1", {"trial": plan.trials[0].to_mapping()})


def test_a_trial_run_has_the_contracts_tags_and_few_params(recorded: tuple[TrackingCallback, RecordingWriter, FakeTrial]) -> None:
    callback, writer, trial = recorded
    callback.on_trial_start(1, [], trial)
    _, _, experiment, name, _, tags = next(o for o in writer.operations if o[0] == "create_run")
    assert experiment == "lr_batch/ppo-cartpole"
    assert name == "lr=3e-4 b=512 s=0"
    assert {
        "kind", "study", "algorithm", "env", "hardware", "config", "config_id", "seed", "phase", "exclusive", "exploratory", "trial_id",
        "mlflow.source.name", "study_run",
    } <= set(tags)  # fmt: skip
    assert (tags["config"], tags["seed"], tags["exclusive"]) == ("lr=3e-4 b=512", "0", "false")
    params = next(o[2] for o in writer.operations if o[0] == "log_params")
    assert len(params) <= 25
    assert params["lr"] == 3e-4
    assert params["train_batch_size_total"] == 512


def test_only_allow_listed_finite_metrics_are_logged_at_the_grid_step(
    recorded: tuple[TrackingCallback, RecordingWriter, FakeTrial],
) -> None:
    callback, writer, trial = recorded
    result = {"eval/return_mean": 5.0, "learner/loss": float("nan"), "time_total_s": 3.0, "config": {}, "report_env_steps": 4000}
    callback.on_trial_result(1, [], trial, result)
    (_, _, metrics, step, _), = writer.operations  # fmt: skip
    assert (metrics, step) == ({"eval/return_mean": 5.0}, 4000)


def test_no_run_is_left_running(recorded: tuple[TrackingCallback, RecordingWriter, FakeTrial]) -> None:
    callback, writer, trial = recorded
    done = FakeTrial("t2", trial.config)
    for started in (trial, done):
        callback.on_trial_start(1, [], started)
    callback.on_trial_complete(1, [], done)
    outcomes = [TrialOutcome(t.label, t.seed, "interrupted") for t in callback.plan.trials]
    callback.end([trial, done], "KILLED", runs_of(callback.plan.record(), outcomes))
    ends = {o[1]: o[2] for o in writer.operations if o[0] == "finish"}
    assert ends == {"t2": "FINISHED", "t1": "KILLED", "study": "KILLED"}
    assert not any(o[0] == "log_metrics" for o in writer.operations)  # nothing finished: nothing is best


def test_a_studys_run_ends_with_its_answer_its_table_and_sortable_numbers(
    recorded: tuple[TrackingCallback, RecordingWriter, FakeTrial],
) -> None:
    callback, writer, _ = recorded
    final = {"final/score": 480.0, "final/auc": 300.0, "final/train_s": 9.0, "final/env_steps_per_s": 8000.0}
    outcomes = [
        TrialOutcome(t.label, t.seed, "finished", {**final, "final/score": 480.0 + t.seed if t.label == "lr=1e-3 b=512" else 10.0 + t.seed})
        for t in callback.plan.trials
    ]
    callback.end([], "FINISHED", runs_of(callback.plan.record(), outcomes))
    logged = {o[0]: o for o in writer.operations}
    assert "Use `lr=1e-3 b=512`" in logged["set_tags"][2]["mlflow.note.content"]
    assert logged["set_tags"][2]["best"] == "lr=1e-3 b=512"
    assert logged["log_metrics"][2]["best/score"] == 481.0
    assert {len(cells) for cells in logged["log_table"][2].values()} == {15}
    assert json.dumps(logged["log_table"][2], allow_nan=False, default=str)  # MLflow's table is JSON: no NaN


def test_a_conclusion_that_fails_costs_the_study_nothing(
    recorded: tuple[TrackingCallback, RecordingWriter, FakeTrial], monkeypatch: pytest.MonkeyPatch
) -> None:
    callback, writer, trial = recorded
    monkeypatch.setattr("analysis.answer.answers", lambda runs: 1 / 0)
    callback.on_trial_start(1, [], trial)
    outcomes = [TrialOutcome(t.label, t.seed, "interrupted") for t in callback.plan.trials]
    callback.end([trial], "FINISHED", runs_of(callback.plan.record(), outcomes))
    assert [o[1:3] for o in writer.operations if o[0] == "finish"] == [("t1", "KILLED"), ("study", "FINISHED")]


def test_the_plan_is_recorded_with_every_configuration(plan_of: PlanOf) -> None:
    plan = plan_of()
    record = json.loads(json.dumps(plan.record()))
    assert record["axes"] == {
        "lr": "algorithm.training.lr",
        "train_batch_size_total": "algorithm.training.train_batch_size_per_learner",
    }
    assert [c["config"] for c in record["configurations"]] == [c.label for c in plan.configurations]
    assert record["configurations"][0]["point"] == {
        "algorithm.training.lr": 3e-4,
        "algorithm.training.train_batch_size_per_learner": 512,
    }
    assert (record["configurations"][0]["target"], record["configurations"][0]["score_range"]) == (475.0, [0.0, 500.0])


def test_writes_are_stamped_when_they_happen_not_when_they_are_delivered(
    recorded: tuple[TrackingCallback, RecordingWriter, FakeTrial],
) -> None:
    callback, writer, trial = recorded
    before = time.time_ns() // 1_000_000
    callback.on_trial_result(1, [], trial, {"eval/return_mean": 5.0, "report_env_steps": 4000})
    assert before <= writer.operations[-1][4] <= time.time_ns() // 1_000_000
