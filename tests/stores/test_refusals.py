"""What cannot be read is refused with a sentence, and where a report goes."""

import http.server
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from analysis import AnalysisError
from analysis.load import load_study
from analysis.stores.attach import attach
from analysis.stores.records import Reader
from analysis.stores.server import ServerReader
from analysis.stores.sqlite import SqliteReader
from tests.support.stored_studies import PLAN, START_MS, Written, uri_of


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


def test_an_empty_store_and_a_study_without_trials_are_told_apart(
    copied: Callable[[], Written], tmp_path: Path
) -> None:
    written = copied()
    with pytest.raises(AnalysisError, match=r"holds no study yet: run one \(make study\)"):
        load_study(None, uri_of(tmp_path))
    written.study("lr", "lr/ppo-cartpole", START_MS, PLAN)
    with pytest.raises(AnalysisError, match=r"No trial of lr/ppo-cartpole .* has started"):
        load_study(None, uri_of(tmp_path))


def test_a_study_that_has_just_begun_gives_way_to_the_one_before_it(
    copied: Callable[[], Written], tmp_path: Path
) -> None:
    written = copied()
    before = written.study("lr", "lr/ppo-cartpole", START_MS, PLAN)
    written.trial(before, "lr/ppo-cartpole", "lr=3e-3", 0)
    begun = written.study("lr", "lr/ppo-cartpole", START_MS + 1000, PLAN)
    assert load_study("lr", uri_of(tmp_path)).run_id == load_study(None, uri_of(tmp_path)).run_id == before
    with pytest.raises(AnalysisError, match="has started"):
        load_study(begun, uri_of(tmp_path))


@pytest.mark.parametrize(("name", "damage"), [("plan.json", "is damaged"), ("other.json", "is missing")])
def test_a_study_whose_plan_cannot_be_read_is_refused(
    name: str, damage: str, copied: Callable[[], Written], tmp_path: Path
) -> None:
    written = copied()
    study = written.store.create_run("studies", "lr/ppo-cartpole", START_MS, {"kind": "study", "study": "lr"})
    written.store.log_texts(study, {name: '{"study": '})
    written.trial(study, "lr/ppo-cartpole", "a", 0)
    with pytest.raises(
        AnalysisError, match=rf"plan.json of the study's run {study} {damage}: restore it, or run the study again"
    ):
        load_study("lr", uri_of(tmp_path))


def test_a_store_of_a_newer_mlflow_is_refused(blank: Path, tmp_path: Path) -> None:
    shutil.copy(blank, tmp_path / "mlflow.db")
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        database.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")
        database.commit()
    with pytest.raises(
        AnalysisError, match="written by a newer MLflow than the installed one: pip install --upgrade mlflow"
    ):
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
    study = copied().study("reported", "reported/ppo-cartpole", START_MS)
    assert attach("<p>It works.</p>", {"seeds.svg": b"<svg/>"}, study, uri_of(tmp_path)) == ""
    _check_attached(SqliteReader(tmp_path / "mlflow.db"), study)


def test_a_report_goes_where_a_moved_stores_artifacts_are(copied: Callable[[], Written], tmp_path: Path) -> None:
    study = copied().study("reported", "reported/ppo-cartpole", START_MS)
    shutil.copytree(tmp_path, moved := tmp_path.with_name("moved"))
    shutil.rmtree(tmp_path / "mlartifacts")
    assert attach("<p>It works.</p>", {"seeds.svg": b"<svg/>"}, study, uri_of(moved)) == ""
    _check_attached(SqliteReader(moved / "mlflow.db"), study)


def test_a_report_is_attached_to_the_studys_run_on_a_server(server: str, tmp_path: Path) -> None:
    study = load_study("lr", server).run_id
    assert attach("<p>It works.</p>", {"seeds.svg": b"<svg/>"}, study, server) == ""
    _check_attached(ServerReader(server, tmp_path), study)


def _check_attached(store: Reader, study: str) -> None:
    (run,) = (run for run in store.runs("studies") if run.run_id == study)
    assert store.content(run, "report.html") == b"<p>It works.</p>"
    assert store.content(run, "figures/seeds.svg") == b"<svg/>"


def test_a_store_that_does_not_take_a_report_says_why_without_its_password(
    copied: Callable[[], Written], tmp_path: Path
) -> None:
    copied()
    assert "the run none is not there" in attach("", {}, "none", uri_of(tmp_path))
    refused = attach("", {}, "none", "http://me:secret@127.0.0.1:9")
    assert refused.startswith("http://***@127.0.0.1:9: ") and "refused" in refused and "secret" not in refused


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
