import json
import shutil
import sqlite3
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from analysis.document import conclusions
from experiments.config.errors import ConfigurationError
from experiments.config.schema import TrackingSettings
from experiments.config.trial_config import TrialConfig
from experiments.contract import FAILED, FINISHED, INDEX_EXPERIMENT, PRUNED, Tag
from experiments.planning.plan import Plan
from experiments.planning.trials import StudyTrials
from experiments.study.files.folder import StudyFolder
from experiments.study.outcomes import TrialOutcome
from experiments.tracking import views, writes
from experiments.tracking import writer as writer_module
from experiments.tracking.listener import TrackingListener
from experiments.tracking.place import Place
from experiments.tracking.store import MAX_VALUES, Store, StoreError
from experiments.tracking.store_address import check_store
from experiments.tracking.writer import Writer
from experiments.trial.events import Ended, Placed, Reported, Started
from tests.support.names import NAMES, ODD
from tests.support.recording_writer import RecordingWriter
from tests.support.suite import PlanOf


class FlakyStore:
    """A store that refuses its first calls."""

    def __init__(self, failures: int = 0) -> None:
        self.failures, self.calls = failures, []

    def __getattr__(self, method: str) -> Any:
        def call(*args: Any) -> str:
            if self.failures > 0:
                self.failures -= 1
                raise ConnectionError("the server is away")
            self.calls.append((method, args))
            return f"run-{len(self.calls)}"

        return call


class SlowToOpen(FlakyStore):
    """A store that makes no run before it is told to."""

    def __init__(self, release: threading.Event) -> None:
        super().__init__()
        self.release = release

    def create_run(self, *args: Any) -> str:
        self.release.wait(10)
        return "run"


@pytest.fixture(autouse=True)
def fast_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "RETRY_S", 0.01)
    monkeypatch.setattr(writer_module, "GATHER_S", 0.05)


@pytest.fixture(scope="module")
def new_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: MLflow takes seconds to make its tables."""
    path = tmp_path_factory.mktemp("store") / "new.db"
    Store(f"sqlite:///{path}", path.parent, 5.0)
    return path


@pytest.fixture
def store(new_database: Path, tmp_path: Path) -> Store:
    shutil.copy(new_database, tmp_path / "mlflow.db")
    return Store(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path / "artifacts", 5.0)


def writer_to(store: Any, num_threads: int = 1) -> Writer:
    return Writer(lambda: store, num_threads)


def open_trial(writer: Writer, key: str = "trial", new: bool = True) -> None:
    writer.put(key, writes.OpenRun("experiment", key, 10, {"kind": "trial", "trial_id": key}, ("trial_id",), new))


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "mlflow.db")) as database:
        return database.execute(query).fetchall()


def test_a_store_that_comes_back_loses_nothing_and_keeps_the_order() -> None:
    flaky = FlakyStore(failures=3)
    writer = writer_to(flaky)
    open_trial(writer)
    for step in range(5):
        writer.put("trial", writes.LogReport({"x": 1.0}, step, 0))
    writer.close(wait_s=5)
    assert [row.step for method, args in flaky.calls if method == "log_rows" for row in args[1:]] == [0, 1, 2, 3, 4]
    assert writer.undelivered == 0


@pytest.mark.parametrize(
    ("failures", "calls"), [(0, ["create_run", "finish"]), (1, ["open_run", "finish", "delete_duplicates"])]
)
def test_a_new_run_is_made_at_once_and_looked_for_if_that_failed(failures: int, calls: list[str]) -> None:
    flaky = FlakyStore(failures)
    writer = writer_to(flaky)
    open_trial(writer)
    writer.put("trial", writes.Finish("FINISHED", 0))
    writer.close(wait_s=5)
    assert [method for method, _ in flaky.calls] == calls


def test_a_store_that_stays_away_ends_the_wait_and_the_missing_writes_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    writer = writer_to(FlakyStore(failures=10**9))
    open_trial(writer)
    writer.put("trial", writes.LogReport({"x": 1.0}, 4000, 7))
    writer.close(wait_s=0.5)
    assert writer.undelivered == 2
    assert [r.getMessage() for r in caplog.records] == [
        "MLflow does not take a write (the server is away); it is kept and tried again."
    ]  # once, whatever the number of attempts


class SlowStore(FlakyStore):
    """Takes a fifth of a second for each call."""

    def __getattr__(self, method: str) -> Any:
        call = super().__getattr__(method)

        def slowly(*args: Any) -> str:
            time.sleep(0.2)
            return str(call(*args))

        return slowly


@pytest.mark.parametrize(
    ("patient", "age_s", "all_delivered"),
    [(False, 60.0, False), (True, 60.0, True), (True, 0.0, False)],
    ids=["one wait", "patient", "young"],
)
def test_a_store_that_is_behind_is_waited_for_as_long_as_it_takes_writes_and_the_study_took(
    patient: bool, age_s: float, all_delivered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "FINAL_PATIENCE_S", 0.0)
    writer = writer_to(SlowStore())
    for number in range(12):
        open_trial(writer, f"trial {number}")
    writer._started_at -= age_s
    assert writer.pending > 6
    writer.close(wait_s=1.0, patient=patient)
    assert (writer.undelivered == 0) is all_delivered


def test_a_study_that_was_resumed_for_its_last_minute_waits_for_all_that_a_busy_store_takes() -> None:
    writer = writer_to(SlowStore())
    for number in range(12):
        open_trial(writer, f"trial {number}")
    writer.close(wait_s=1.0, patient=True)
    assert writer.undelivered == 0


def test_reports_that_wait_go_out_together_but_never_past_the_runs_end() -> None:
    flaky = FlakyStore()
    writer = writer_to(flaky)
    for key in ("a", "b"):
        open_trial(writer, key)
    for step in range(3):
        for key in ("a", "b"):
            writer.put(key, writes.LogReport({"x": 1.0}, step, 0))
    writer.put("a", writes.Finish("FINISHED", 0))
    writer.close(wait_s=5)
    assert [method for method, args in flaky.calls if args[0] == writer.run_ids["a"]] == ["log_rows", "finish"]
    steps = [[row.step for row in args[1:]] for method, args in flaky.calls if method == "log_rows"]
    assert steps == [[0, 1, 2]] * 2


def test_parameters_tags_and_reports_that_wait_go_out_in_one_call() -> None:
    release = threading.Event()
    slow = SlowToOpen(release)
    writer = writer_to(slow)
    open_trial(writer)
    first, last = writes.SetTags({"restarts": "0"}), writes.SetTags({"restarts": "1"})
    rows = (writes.LogParams({"lr": 1}), first, writes.LogReport({"x": 1.0}, 5, 6), last)
    for row in rows:
        writer.put("trial", row)
    release.set()
    writer.close(wait_s=5)
    assert slow.calls == [("log_rows", ("run", *rows))]


def test_a_call_holds_whole_reports_and_no_more_values_than_mlflow_takes() -> None:
    release = threading.Event()
    slow = SlowToOpen(release)
    writer = writer_to(slow)
    open_trial(writer)
    for step in range(100):
        writer.put("trial", writes.LogReport({f"m{i}": 1.0 for i in range(30)}, step, 0))
    release.set()
    writer.close(wait_s=5)
    calls = [args[1:] for method, args in slow.calls if method == "log_rows"]
    assert [len(reports) for reports in calls] == [33, 33, 33, 1]
    assert MAX_VALUES == 1000


def test_a_store_that_cannot_take_as_much_at_once_is_given_less() -> None:
    class Weak(FlakyStore):
        def log_rows(self, run_id: str, *rows: writes.Rows) -> None:
            if len(rows) > 3:
                raise TimeoutError("timed out")
            self.calls.append(("log_rows", rows))

    weak = Weak()
    writer = writer_to(weak)
    open_trial(writer)
    for step in range(20):
        writer.put("trial", writes.LogReport({"x": 1.0}, step, 0))
    writer.close(wait_s=30)
    assert [row.step for method, rows in weak.calls if method == "log_rows" for row in rows] == list(range(20))


def test_queueing_never_waits_for_the_store() -> None:
    release = threading.Event()
    writer = writer_to(SlowToOpen(release))
    open_trial(writer)
    for step in range(1000):
        writer.put("trial", writes.LogReport({"x": 1.0}, step, 0))
    assert not release.is_set()  # all were queued while the first was still on its way
    release.set()
    writer.close()


def test_the_studys_run_is_there_before_its_trials_and_files_do_not_hold_up_reports() -> None:
    calls: list[str] = []
    told = threading.Event()

    class Slow(FlakyStore):
        def create_run(self, experiment: str, name: str, start_ms: int, tags: Mapping[str, str]) -> str:
            calls.append(f"create {name} of {tags.get(Tag.STUDY_RUN)}")
            return f"id-{name}"

        def log_texts(self, run_id: str, texts: Mapping[str, str]) -> None:
            told.wait(10)
            calls.append("files")

        def log_rows(self, run_id: str, *rows: writes.Rows) -> None:
            calls.append("reports")
            told.set()

        def finish(self, run_id: str, status: str, end_ms: int) -> None:
            calls.append("end")

    writer = writer_to(Slow(), num_threads=4)
    tags = {"trial_id": "trial", Tag.STUDY_RUN: "study"}
    writer.put("trial", writes.OpenRun("e", "trial", 0, tags, (Tag.STUDY_RUN, "trial_id"), True))
    writer.put("trial", writes.LogTexts({"config.json": "{}"}))
    writer.put("trial", writes.LogReport({"x": 1.0}, 0, 0))
    writer.put("trial", writes.Finish("FINISHED", 0))
    writer.put("study", writes.OpenRun("e", "study", 0, {}, (), True))
    writer.close()
    # ended runs are whole
    assert calls == ["create study of None", "create trial of id-study", "reports", "files", "end"]


def test_a_run_is_found_again_whatever_the_folder_is_called_that_tells_it_from_others(store: Store) -> None:
    def opened(name: str) -> str:
        return store.open_run("e", "study", 0, {Tag.STUDY_FOLDER: f"/{name}/study"}, (Tag.STUDY_FOLDER,))

    names = (*NAMES, ODD, "two lines", "per_cent", "a\\")
    assert len({opened(name) for name in names}) == len(names)
    assert [opened(name) for name in names] == [opened(name) for name in names]


def test_a_changed_parameter_is_refused_once_and_holds_up_nothing(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = writer_to(store)
    open_trial(writer)
    for lr in (1, 1, 2):
        writer.put("trial", writes.LogParams({"lr": lr}))
    writer.put("trial", writes.LogParams({"lr": 3}))
    writer.put("trial", writes.SetTags({"best": "yes"}))
    writer.close()
    assert (writer.undelivered, writer.refused) == (0, 2)
    assert rows(tmp_path, "SELECT value FROM params") == [("1",)]
    assert rows(tmp_path, "SELECT value FROM tags WHERE key = 'best'") == [("yes",)]
    (message,) = [r.getMessage() for r in caplog.records if r.name == writer_module.__name__]
    assert "Changing param values is not allowed" in message


def test_of_reports_that_go_out_together_only_the_bad_one_is_refused(store: Store, tmp_path: Path) -> None:
    writer = writer_to(store)
    open_trial(writer)
    for step in range(5):
        writer.put("trial", writes.LogReport({"bad name?" if step == 2 else "x": 1.0}, step, 0))
    writer.put("trial", writes.Finish("FINISHED", 0))
    writer.close()
    assert (writer.undelivered, writer.refused) == (0, 1)
    assert rows(tmp_path, "SELECT step FROM metrics ORDER BY step") == [(0,), (1,), (3,), (4,)]
    assert rows(tmp_path, "SELECT status FROM runs") == [("FINISHED",)]


def test_what_belongs_to_a_run_that_cannot_be_opened_is_refused_with_it(store: Store) -> None:
    writer = writer_to(store)
    writer.put("study", writes.OpenRun("e", "study", 0, {"mlflow.runName": "another name"}, (), True))
    writer.put("study", writes.LogTexts({"plan.json": "{}"}))
    writer.put("trial", writes.OpenRun("e", "trial", 0, {Tag.STUDY_RUN: "study"}, (), True))
    writer.put("trial", writes.LogReport({"x": 1.0}, 0, 0))
    open_trial(writer, "other")
    writer.close()
    assert (writer.undelivered, writer.refused) == (0, 4)
    assert list(writer.run_ids) == ["other"]


def test_a_run_that_a_person_deletes_costs_its_own_writes_only(store: Store, tmp_path: Path) -> None:
    writer = writer_to(store)
    for key in ("deleted", "kept"):
        open_trial(writer, key)
    while len(writer.run_ids) < 2:
        time.sleep(0.01)
    store._client.delete_run(writer.run_ids["deleted"])
    for key in ("deleted", "kept"):
        writer.put(key, writes.LogReport({"x": 1.0}, 0, 0))
        writer.put(key, writes.Finish("FINISHED", 0))
    writer.close()
    assert (writer.undelivered, writer.refused) == (0, 2)
    assert rows(tmp_path, "SELECT name, status FROM runs ORDER BY name") == [
        ("deleted", "RUNNING"),
        ("kept", "FINISHED"),
    ]


def test_a_batch_of_which_some_points_are_there_adds_the_others(store: Store, tmp_path: Path) -> None:
    run = store.create_run("study", "run", 0, {})
    reports = [writes.LogReport({"a": 1 / 3, "b": float(step)}, step, 100 + step) for step in range(6)]
    for some in (reports[1:3], reports[2:5], reports, reports):
        store.log_rows(run, *some)
    found = rows(tmp_path, "SELECT key, step, timestamp, value FROM metrics ORDER BY key, step")
    assert found == [("a", s, 100 + s, 1 / 3) for s in range(6)] + [("b", s, 100 + s, float(s)) for s in range(6)]
    assert rows(tmp_path, "SELECT key, value FROM latest_metrics ORDER BY key") == [("a", 1 / 3), ("b", 5.0)]
    store.log_rows(run, writes.SetTags({"restarts": "0"}), writes.SetTags({"restarts": "1"}))
    assert rows(tmp_path, "SELECT value FROM tags WHERE key = 'restarts'") == [("1",)]


@pytest.mark.parametrize("folder", ["/out/a", "/out/it's", '/out/"a"'])
def test_a_run_that_is_opened_again_is_the_same_and_runs(folder: str, store: Store, tmp_path: Path) -> None:
    tags = {"kind": "study", "study_folder": folder}
    other = store.open_run("e", "other", 5, {"study_folder": "/out/b"}, ("study_folder",))
    first = store.open_run("e", "name", 10, tags, ("study_folder",))
    store.finish(first, "KILLED", 20)
    assert store.open_run("e", "name", 30, tags, ("study_folder",)) == first != other
    assert rows(tmp_path, "SELECT name, status, start_time FROM runs ORDER BY name") == [
        ("name", "RUNNING", 10),
        ("other", "RUNNING", 5),
    ]


def test_a_table_that_is_logged_again_is_replaced_and_mlflow_finds_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")  # load_table looks there
    run = store.create_run("study", "run", 0, {})
    for score in (1.0, None):
        store.log_table(run, {"config": ["a", "b"], "score": [2.0, score]}, "configurations.json")
    experiment = store.experiment("study")
    table = store._client.load_table(experiment, "configurations.json", [run])
    found = table.astype(object).where(table.notna(), None).to_dict("list")
    assert found == {"config": ["a", "b"], "score": [2.0, None]}
    assert store._client.load_table(experiment, "configurations.json").equals(table)  # by the tag that the UI looks at


def test_an_experiment_that_a_person_deleted_is_taken_out_of_the_bin(store: Store, tmp_path: Path) -> None:
    store._client.delete_experiment(store.experiment("study"))
    again = Store(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path / "artifacts", 5.0)
    again.create_run("study", "run", 0, {})
    assert rows(tmp_path, "SELECT name, lifecycle_stage FROM experiments WHERE name = 'study'") == [("study", "active")]


def test_an_error_of_the_store_is_one_line_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=f"^{tmp_path}/file/mlflow.db: .*File exists"):
        Store(f"sqlite:///{tmp_path / 'file' / 'mlflow.db'}", tmp_path, 5.0)
    away = Store("http://me:secret@127.0.0.1:9", tmp_path, 5.0)
    with pytest.raises(StoreError, match=r"^http://\*\*\*@127.0.0.1:9: \[Errno \d+\] Connection refused$"):
        away.create_run("e", "run", 0, {})


def test_an_open_reader_does_not_block_the_writer(store: Store, tmp_path: Path) -> None:
    run = store.create_run("study", "run", 0, {})
    store.log_rows(run, writes.LogReport({"a": 1.0}, 1, 0))
    reader = sqlite3.connect(tmp_path / "mlflow.db")
    cursor = reader.execute("SELECT * FROM metrics")
    cursor.fetchone()
    store.log_rows(run, writes.LogReport({"a": 2.0}, 2, 0))
    reader.close()


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("http://127.0.0.1:9", "does not answer"),
        ("file:///tmp/mlruns", "must be http"),
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


def test_a_database_in_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"tracking\.uri=sqlite:///.*new\.db: cannot be written"):
        check_store(f"sqlite:///{tmp_path}/file/new.db", 1.0)


def test_a_file_of_a_tracking_server_is_refused_for_the_server(store: Store, tmp_path: Path) -> None:
    uri, experiment = f"sqlite:///{tmp_path / 'mlflow.db'}", store.experiment(INDEX_EXPERIMENT)
    check_store(uri, 1.0)
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database, database:  # as a server makes it
        database.execute(
            "UPDATE experiments SET artifact_location = 'mlflow-artifacts:/2' WHERE experiment_id = ?", [experiment]
        )
    with pytest.raises(
        ConfigurationError,
        match=r"mlflow\.db: has studies that were logged by a tracking server.*Name it, tracking\.uri=",
    ):
        check_store(uri, 1.0)


def test_the_embedded_store_is_under_the_output_folder(tmp_path: Path) -> None:
    assert Place.of(TrackingSettings("sqlite"), tmp_path).store_uri == f"sqlite:///{tmp_path}/mlflow.db"


Recorded = tuple[TrackingListener, RecordingWriter, TrialConfig]


@pytest.fixture
def recorded(plan_of: PlanOf, tmp_path: Path) -> Recorded:
    listener, writer = begun(plan_of(), tmp_path)
    writer.puts.clear()
    return listener, writer, listener.plan.trials[0]


def begun(plan: Plan, folder: Path) -> tuple[TrackingListener, RecordingWriter]:
    writer = RecordingWriter()
    listener = TrackingListener(StudyTrials(plan), StudyFolder(folder / "study"), writer, conclusions)  # type: ignore[arg-type]
    listener.begin()
    return listener, writer


def reported(env_steps: int, metrics: Mapping[str, float]) -> Reported:
    return Reported(env_steps=env_steps, metrics=metrics, at_ms=1000 + env_steps)


def failed(reason: str, diverged: bool = False) -> Ended:
    return Ended(status=FAILED, env_steps=4000, reason=reason, diverged=diverged)


def interrupted(listener: TrackingListener) -> Any:
    return [TrialOutcome(t.label, t.seed, "interrupted") for t in listener.plan.trials]


def test_where_trials_may_stop_at_the_target_no_view_averages_their_clocks(plan_of: PlanOf, tmp_path: Path) -> None:
    _, writer = begun(plan_of("stop_at_target=true"), tmp_path)
    *_, (_, found) = writer.of(writes.SetViews)
    assert "groupBy" not in json.loads(json.loads(found.states[views.TIME])["state"])


def test_a_trial_run_has_the_contracts_tags_and_few_params(recorded: Recorded) -> None:
    listener, writer, trial = recorded
    listener.on_event(trial, Started())
    ((key, run),) = writer.of(writes.OpenRun)
    tags = run.tags
    assert run.experiment == "lr_batch/ppo-cartpole"
    assert run.name == "lr=3e-4 b=512 s=0"
    assert {
        "kind", "study", "algorithm", "env", "hardware", "config", "config_id", "seed", "phase", "exclusive",
        "exploratory", "trial_id", "mlflow.source.name", "study_run",
    } <= set(tags)  # fmt: skip
    assert (tags["config"], tags["seed"], tags["exclusive"]) == ("lr=3e-4 b=512", "0", "false")
    assert (run.identity, run.new) == (("study_run", "trial_id"), True)
    assert tags["trial_id"] == key
    params = writer.of(writes.LogParams)[0][1].values
    assert len(params) <= 25
    assert params["lr"] == 3e-4
    assert params["train_batch_size_total"] == 512


def test_only_allow_listed_finite_metrics_are_logged_at_the_grid_step_and_the_moment_they_were_reported(
    recorded: Recorded,
) -> None:
    listener, writer, trial = recorded
    listener.on_event(trial, Started())
    listener.on_event(trial, reported(4000, {"eval/return_mean": 5.0, "learner/loss": float("nan")}))
    assert writer.of(writes.LogReport) == [(trial.folder_name, writes.LogReport({"eval/return_mean": 5.0}, 4000, 5000))]


def test_a_report_that_a_restarted_trial_makes_again_is_logged_once(recorded: Recorded) -> None:
    listener, writer, trial = recorded
    listener.on_event(trial, Started())
    for step in (1000, 2000, 1000, 2000, 3000):
        listener.on_event(trial, reported(step, {"eval/return_mean": 5.0}))
    assert [report.step for _, report in writer.of(writes.LogReport)] == [1000, 2000, 3000]


def _placed(listener: TrackingListener, writer: RecordingWriter, *hosts: str) -> dict[str, dict[str, str]]:
    """The tags of trials that report from some hosts and end there, one host each, in the order of their start."""
    trials = listener.plan.trials[: len(hosts)]
    for at_ms, (trial, host) in enumerate(zip(trials, hosts, strict=True)):
        listener.on_event(trial, Started())
        listener.on_event(
            trial, Placed(hosts=(host,), cpus=("EPYC",), gpus=("H200",) if host == "gpu-node" else (), at_ms=at_ms)
        )
    for trial in trials:
        listener.on_event(trial, Ended(status=FINISHED, env_steps=9000, at_ms=100))
    tags: dict[str, dict[str, str]] = {trial.folder_name: {} for trial in trials}
    for key, put in writer.of(writes.SetTags):
        tags[key] |= put.values
    return tags


def test_a_trial_says_on_which_machine_it_ran_and_was_alone_there_whatever_was_planned(recorded: Recorded) -> None:
    listener, writer, _ = recorded
    first, second = _placed(listener, writer, "node", "gpu-node").values()
    assert (first["host"], first["cpu"], first["exclusive"]) == ("node", "EPYC", "true")
    assert (second["host"], second["gpu"], second["exclusive"]) == ("gpu-node", "H200", "true")
    assert "gpu" not in first and "node_type" not in first
    assert not listener.plan.exclusive


def test_trials_on_one_machine_at_one_time_were_not_alone(plan_of: PlanOf, tmp_path: Path) -> None:
    listener, writer = begun(plan_of("hardware.max_concurrent_trials=1"), tmp_path)
    assert listener.plan.exclusive
    exclusive = [tags.get("exclusive") for tags in _placed(listener, writer, "one", "two", "one").values()]
    assert exclusive == ["false", None, "false"]


def test_no_run_is_left_running(recorded: Recorded) -> None:
    listener, writer, trial = recorded
    done = listener.plan.trials[1]
    for started in (trial, done):
        listener.on_event(started, Started())
    for _ in range(2):  # what is heard twice counts once
        listener.on_event(done, Ended(status=FINISHED, env_steps=9000, weights="0123456789abcdef"))
    listener.end("KILLED", interrupted(listener))
    first, second = (t.folder_name for t in listener.plan.trials[:2])
    assert writer.ends() == [(second, "FINISHED"), (first, "KILLED"), ("study", "KILLED")]
    assert [report.values for _, report in writer.of(writes.LogReport)] == [{}]  # nothing is best


def test_a_studys_run_ends_with_its_answer_its_table_and_sortable_numbers(recorded: Recorded) -> None:
    listener, writer, _ = recorded
    final = {"final/score": 480.0, "final/auc": 300.0, "final/train_s": 9.0, "final/env_steps_per_s": 8000.0}
    scores = [(480.0 if t.label == "lr=3e-3 b=512" else 10.0) + t.seed for t in listener.plan.trials]
    outcomes = [
        TrialOutcome(t.label, t.seed, "finished", final={**final, "final/score": score})
        for t, score in zip(listener.plan.trials, scores, strict=True)
    ]
    listener.end("FINISHED", outcomes)
    (_, tags), (_, table), (_, report) = (
        writer.of(kind)[-1] for kind in (writes.SetTags, writes.LogTable, writes.LogReport)
    )
    assert "Use `lr=3e-3 b=512`" in tags.values["mlflow.note.content"]
    assert tags.values["best"] == "lr=3e-3 b=512"
    assert json.loads(tags.values["answers"])[0].startswith("Use lr=3e-3 b=512")
    assert report.values["best/score"] == 482.0
    assert {len(cells) for cells in table.columns.values()} == {9}
    assert json.dumps(table.columns, allow_nan=False, default=str)  # MLflow's table is JSON: no NaN


def test_a_conclusion_that_fails_costs_the_study_nothing(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    listener, writer, trial = recorded
    monkeypatch.setattr("analysis.document.answer.answers", lambda runs: 1 / 0)
    listener.on_event(trial, Started())
    listener.end("FINISHED", interrupted(listener))
    assert writer.ends() == [(trial.folder_name, "KILLED"), ("study", "FINISHED")]


@pytest.mark.parametrize(
    ("end", "status", "said"),
    [
        (Ended(status=PRUNED, env_steps=4000), "FINISHED", {"stopped_at_env_steps": "4000"}),
        (failed("it crashed"), "FAILED", {"failure": "it crashed", "diverged": "false"}),
        (failed("NaN", diverged=True), "FAILED", {"failure": "NaN", "diverged": "true"}),
    ],
)
def test_a_trial_that_ended_before_its_budget_is_not_taken_for_interrupted(
    recorded: Recorded, end: Ended, status: str, said: dict[str, str]
) -> None:
    listener, writer, trial = recorded
    for event in (Started(), reported(4000, {"eval/return_mean": 9.0}), end):
        listener.on_event(trial, event)
    listener.end("FINISHED", interrupted(listener))
    assert writer.ends() == [(trial.folder_name, status), ("study", "FINISHED")]
    assert (trial.folder_name, writes.SetTags(said)) in writer.puts


def test_what_earlier_trials_measured_is_found_by_algorithm_and_env(store: Store) -> None:
    measured = {"final/gradient_square": 2.0, "final/gradient_noise": 60.0, "final/score": 1.0}
    for algorithm, metrics, status in (
        ("ppo", measured, "FINISHED"),
        ("ppo", {"final/score": 1.0}, "FINISHED"),
        ("ppo", {"final/env_steps_per_s": 99.0}, "FINISHED"),
        ("ppo", measured, "FAILED"),
    ):
        run = store.create_run("study", "run", 0, {Tag.KIND: "trial", Tag.ALGORITHM: algorithm, Tag.ENV: "cartpole"})
        store.log_rows(run, writes.LogParams({"num_env_runners": 2, "num_gpus_per_learner": 0}))
        store.log_rows(run, writes.LogReport({**metrics, "progress/env_steps": 500, "final/wall_s": 5.0}, 1, 0))
        store.finish(run, status, 1)
    (found,) = store.past_metrics("ppo", "cartpole", "final/gradient_square")
    assert found.items() >= measured.items()
    assert store.past_metrics("dqn", "cartpole", "final/gradient_square") == []
    two: dict[str, float | str] = {"num_env_runners": 2, "num_gpus_per_learner": 0.0}
    one = {**two, "num_env_runners": 1}
    assert store.seconds_an_env_step("ppo", "cartpole", 500, two) == [0.01, 0.01]
    assert store.seconds_an_env_step("ppo", "acrobot", 500, two) == []
    assert store.seconds_an_env_step("ppo", "cartpole", 501, two) == []
    assert store.seconds_an_env_step("ppo", "cartpole", 500, one) == []
    assert store.seconds_an_env_step("ppo", "cartpole", 500, {**two, "num_gpus_per_learner": 0.5}) == []
