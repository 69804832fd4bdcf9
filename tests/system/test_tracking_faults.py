import contextlib
import http.client
import http.server
import json
import logging
import multiprocessing
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.config.errors import ConfigurationError
from experiments.metrics import Tag
from experiments.tracking import writer as writer_module
from experiments.tracking.store import SERVER_THREADS, Store, check_store
from experiments.tracking.writer import Writer
from tests.support.full_disk import fill, make_room, on_small_disk

INDEX = "studies"
REPORTS = 40
METRICS = 30


def at_ms(trial: int, report: int) -> int:
    return 1_700_000_000_000 + 100_000 * trial + report


def value(trial: int, report: int, metric: int) -> float:
    return (trial + 1) / (report + metric + 3)  # digits to the last place


def open_study(writer: Writer, name: str, trials: int, new: bool = True) -> None:
    """What a study's callback puts before the first report; `name` is the experiment and the study's identity."""
    for experiment in (INDEX, name):
        writer.put("experiment", experiment)
    writer.put("set_views", name, {"byconfig": "{}"})
    writer.put("open_run", "study", INDEX, name, 5, {"kind": "study", "study_folder": f"/out/{name}"}, ("study_folder",), new)
    writer.put("log_texts", "study", {"plan.json": "{}"})
    for trial in range(trials):
        tags = {"kind": "trial", "trial_id": f"t{trial}", Tag.STUDY_RUN: "study"}
        writer.put("open_run", f"t{trial}", name, f"s={trial}", 10 + trial, tags, (Tag.STUDY_RUN, "trial_id"), new)
        writer.put("log_params", f"t{trial}", {"lr": 3e-4, "seed": trial})
        writer.put("log_texts", f"t{trial}", {"config.json": f'{{"seed": {trial}}}'})


def put_reports(writer: Writer, trials: int, reports: range) -> None:
    for report in reports:
        for trial in range(trials):
            metrics = {f"m/{metric}": value(trial, report, metric) for metric in range(METRICS)}
            writer.put("log_metrics", f"t{trial}", metrics, 1000 * report, at_ms(trial, report))


def end_study(writer: Writer, trials: int) -> None:
    for trial in range(trials):
        writer.put("finish", f"t{trial}", "FINISHED", at_ms(trial, REPORTS))
    writer.put("set_tags", "study", {"best": "s=0"})
    writer.put("log_table", "study", {"config": ["a", "b"], "score": [1.0, None]}, "configurations.json")
    writer.put("finish", "study", "FINISHED", at_ms(trials, REPORTS))


def whole_study(writer: Writer, name: str, trials: int = 3, new: bool = True) -> None:
    open_study(writer, name, trials, new)
    put_reports(writer, trials, range(REPORTS))
    end_study(writer, trials)


def assert_complete(database: Path, artifacts: Path, name: str, trials: int = 3) -> None:
    """Every run of `whole_study` once, with every point once, exactly as it was put."""
    with contextlib.closing(sqlite3.connect(database)) as connection:

        def select(what: str, *arguments: str) -> list[tuple[Any, ...]]:
            return connection.execute(f"SELECT {what}", arguments).fetchall()

        ((study, status),) = select(
            "r.run_uuid, r.status FROM runs r JOIN tags t ON t.run_uuid = r.run_uuid"
            " WHERE t.key = 'study_folder' AND t.value = ? AND r.lifecycle_stage = 'active'",
            f"/out/{name}",
        )
        assert status == "FINISHED"
        assert select("value FROM tags WHERE key = 'best' AND run_uuid = ?", study) == [("s=0",)]
        runs = select(
            "r.run_uuid, r.name, r.status, r.start_time, r.end_time, t.value FROM runs r"
            " JOIN tags t ON t.run_uuid = r.run_uuid AND t.key = 'study_run' JOIN experiments e ON e.experiment_id = r.experiment_id"
            " WHERE e.name = ? AND r.lifecycle_stage = 'active' ORDER BY r.start_time",
            name,
        )
        assert [run[1:] for run in runs] == [(f"s={t}", "FINISHED", 10 + t, at_ms(t, REPORTS), study) for t in range(trials)]
        for trial, (run, *_) in enumerate(runs):
            assert dict(select("key, value FROM params WHERE run_uuid = ?", run)) == {"lr": "0.0003", "seed": str(trial)}
            expected = [(f"m/{m}", 1000 * r, at_ms(trial, r), value(trial, r, m)) for m in range(METRICS) for r in range(REPORTS)]
            assert sorted(select("key, step, timestamp, value FROM metrics WHERE run_uuid = ?", run)) == sorted(expected)
            (config,) = artifacts.rglob(f"{run}/artifacts/config.json")
            assert json.loads(config.read_text()) == {"seed": trial}
    (table,) = artifacts.rglob(f"{study}/artifacts/configurations.json")
    assert json.loads(table.read_text()) == {"columns": ["config", "score"], "data": [["a", 1.0], ["b", None]]}


class Server:
    """A real tracking server, that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.uri, self.database, self.artifacts = f"http://127.0.0.1:{self.port}", folder / "server.db", folder / "artifacts"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        stores = ["--backend-store-uri", f"sqlite:///{self.database}", "--artifacts-destination", str(self.artifacts)]
        environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # more processes, for what is not tracking
        with (self.folder / "server.log").open("a") as log:
            self.process = subprocess.Popen([*command, *stores], stdout=log, stderr=log, start_new_session=True, env=environment)
        give_up = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.uri}/health", timeout=5).close()
                return
            assert self.process.poll() is None, (self.folder / "server.log").read_text()[-2000:]
            assert time.monotonic() < give_up
            time.sleep(0.1)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)  # its workers too
        self.process.wait()


class Proxy:
    """Stands between client and server, and is slow or loses answers.

    `fate` is asked for each request: None passes it on, "drop" passes it on and hangs up without an answer, a number passes it on so many
    seconds later.
    """

    def __init__(self, server: Server) -> None:
        self.fate: Callable[[str], str | float | None] = lambda path: None
        self.requests: list[str] = []
        self.at_once = self.most_at_once = 0
        lock, proxy = threading.Lock(), self

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with lock:
                    fate = proxy.fate(self.path)
                    proxy.requests.append(self.path)
                    proxy.at_once += 1
                    proxy.most_at_once = max(proxy.most_at_once, proxy.at_once)
                try:
                    time.sleep(fate if isinstance(fate, float) else 0)
                    answer, content = self._carry_out(body)
                finally:  # before the client can know of it, and send its next one
                    with lock:
                        proxy.at_once -= 1
                if fate != "drop":
                    self._pass_back(answer, content)
                self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def _carry_out(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                connection.request(self.command, self.path, body, {k: v for k, v in self.headers.items() if k.lower() != "connection"})
                answer = connection.getresponse()
                content = answer.read()
                connection.close()
                return answer, content

            def _pass_back(self, answer: http.client.HTTPResponse, content: bytes) -> None:
                with contextlib.suppress(OSError):  # the client gave up
                    self.send_response(answer.status)
                    self.send_header("Content-Type", answer.headers["Content-Type"] or "")
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server"))
    yield running
    running.kill()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    running = Proxy(server)
    yield running
    running.stop()


@pytest.fixture
def silent_server() -> Iterator[str]:
    """Takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture(autouse=True)
def fast_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "RETRY_S", 0.2)


def writer_to(uri: str, folder: Path, timeout_s: float = 30.0) -> Writer:
    return Writer(lambda: Store(uri, folder / "mlartifacts", timeout_s), SERVER_THREADS if uri.startswith("http") else 1)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == writer_module.__name__]


def eventually(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_a_study_that_is_delivered_again_changes_nothing_in_an_embedded_store(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    for attempt in range(2):
        writer = writer_to(uri, tmp_path)
        whole_study(writer, "again", new=attempt == 0)
        writer.close()
        assert (writer.undelivered, writer.refused) == (0, 0)
        assert_complete(tmp_path / "mlflow.db", tmp_path / "mlartifacts", "again")


def test_a_study_that_is_delivered_again_changes_nothing_on_a_server(server: Server, tmp_path: Path) -> None:
    for attempt in range(2):
        writer = writer_to(server.uri, tmp_path)
        whole_study(writer, "again", new=attempt == 0)
        writer.close()
        assert (writer.undelivered, writer.refused) == (0, 0)
        assert_complete(server.database, server.artifacts, "again")


def test_a_server_that_is_killed_and_comes_back_loses_no_point(server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = writer_to(server.uri, tmp_path)
    open_study(writer, "killed", 3)
    put_reports(writer, 3, range(20))
    eventually(lambda: len(writer.run_ids) == 4)
    server.kill()
    put_reports(writer, 3, range(20, REPORTS))
    end_study(writer, 3)
    eventually(lambda: len(warnings_of(caplog)) == 1)
    time.sleep(3 * writer_module.RETRY_S)  # more attempts, of which nothing is said
    server.start()
    writer.close()
    assert (writer.undelivered, writer.refused) == (0, 0)
    assert_complete(server.database, server.artifacts, "killed")
    failed, recovered = warnings_of(caplog)
    assert server.uri in failed
    assert any(reason in failed for reason in ("refused", "reset", "closed connection"))
    assert "nothing was lost" in recovered


def test_a_slow_server_is_written_to_side_by_side_and_loses_no_point(server: Server, proxy: Proxy, tmp_path: Path) -> None:
    proxy.fate = lambda path: 0.5
    writer = writer_to(proxy.uri, tmp_path)
    whole_study(writer, "slow", trials=16)
    writer.close()
    assert (writer.undelivered, writer.refused) == (0, 0)
    assert_complete(server.database, server.artifacts, "slow", trials=16)
    assert SERVER_THREADS // 2 <= proxy.most_at_once <= SERVER_THREADS


@pytest.mark.parametrize("fate", ["drop", 4.0], ids=["answers are lost", "requests are carried out after they were given up"])
def test_no_run_is_made_twice_when(fate: str | float, server: Server, proxy: Proxy, tmp_path: Path) -> None:
    name, lost = f"doubt-{fate}", ("runs/create", "runs/log-batch")
    proxy.fate = lambda path: fate if path.endswith(lost) and proxy.requests.count(path) < 2 else None
    writer = writer_to(proxy.uri, tmp_path, timeout_s=30.0 if fate == "drop" else 2.0)
    open_study(writer, name, 3)
    put_reports(writer, 3, range(REPORTS))
    eventually(lambda: len(writer.run_ids) == 4)
    eventually(lambda: proxy.at_once == 0)  # the last of them was carried out
    end_study(writer, 3)
    writer.close()
    assert (writer.undelivered, writer.refused) == (0, 0)
    assert_complete(server.database, server.artifacts, name)
    with contextlib.closing(sqlite3.connect(server.database)) as connection:
        ((made,),) = connection.execute("SELECT count(*) FROM tags WHERE key = 'study_folder' AND value = ?", (f"/out/{name}",)).fetchall()
    assert made == (1 if fate == "drop" else 2)  # a run that comes late cannot be kept from being made, but does not stay


def test_a_server_that_never_comes_back_costs_a_bounded_wait_and_what_is_missing_is_delivered_later(server: Server, tmp_path: Path) -> None:
    away = writer_to(f"http://127.0.0.1:{free_port()}", tmp_path)
    whole_study(away, "later")
    away.close(wait_s=1.0)
    assert away.undelivered == 5 + 3 * 3 + 3 * REPORTS + 3 + 3
    later = writer_to(server.uri, tmp_path)
    whole_study(later, "later", new=False)
    later.close()
    assert_complete(server.database, server.artifacts, "later")


def test_a_server_that_takes_connections_and_never_answers_does_not_keep_the_process_alive(silent_server: str, tmp_path: Path) -> None:
    code = f"import test_tracking_faults as t; t.write_to_silence({silent_server!r}, t.Path({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "11 undelivered"


def write_to_silence(uri: str, folder: Path) -> None:
    writer = writer_to(uri, folder, timeout_s=3600.0)
    open_study(writer, "silence", 2)
    time.sleep(5.0)
    writer.close(wait_s=1.0)
    print(writer.undelivered, "undelivered")


def test_a_server_that_takes_connections_and_never_answers_is_refused_at_the_start(
    silent_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.tracking.store.CHECK_S", 0.5)
    with pytest.raises(ConfigurationError, match=r"tracking\.uri=http://127.*does not answer.*timed out"):
        check_store(silent_server, 30.0)


def test_a_server_that_is_no_tracking_server_is_refused_at_the_start(tmp_path: Path) -> None:
    handler = http.server.SimpleHTTPRequestHandler
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: handler(*a, directory=str(tmp_path))) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        with pytest.raises(ConfigurationError, match=r"tracking\.uri=http://\*\*\*@127.*answers with an error \(404"):
            check_store(f"http://me:secret@127.0.0.1:{other.server_port}", 30.0)
        other.shutdown()


def test_a_server_that_works_is_accepted_at_the_start(server: Server) -> None:
    check_store(server.uri, 30.0)


@pytest.mark.slow
def test_a_database_that_another_process_locks_for_30_s_loses_nothing_even_at_the_very_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = tmp_path / "mlflow.db"
    writer = writer_to(f"sqlite:///{database}", tmp_path)
    open_study(writer, "locked", 3)
    put_reports(writer, 3, range(20))
    eventually(lambda: len(writer.run_ids) == 4)
    code = (
        "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1], timeout=60); c.execute('BEGIN EXCLUSIVE'); "
        "print('locked', flush=True); time.sleep(30); c.rollback()"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(database)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        put_reports(writer, 3, range(20, REPORTS))
        end_study(writer, 3)
        writer.close()
        assert holder.poll() == 0  # the end waited for it
    assert (writer.undelivered, writer.refused) == (0, 0)
    assert_complete(database, tmp_path / "mlartifacts", "locked")
    failed, _ = warnings_of(caplog)
    assert f"{database}: " in failed
    assert "database is locked" in failed


@pytest.mark.parametrize("full", ["the database's", "the artifacts'", "a new database's", "the temporary files'"])
def test_a_disk_that_is_full_is_named_and_loses_nothing_when_it_is(full: str, tmp_path: Path) -> None:
    disk = tmp_path / "small"
    disk.mkdir()
    code = f"import test_tracking_faults as t; t.write_to_full_disk({full!r}, t.Path({str(tmp_path)!r}), t.Path({str(disk)!r}))"
    environment = {**os.environ, "TMPDIR": str(disk)} if full == "the temporary files'" else None
    done = subprocess.run(
        on_small_disk(disk, 4, [sys.executable, "-c", code]), capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]


def write_to_full_disk(full: str, folder: Path, disk: Path) -> None:
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    writer_module.logger.addHandler(handler)
    writer_module.RETRY_S = 0.2
    database = (disk if "database" in full else folder) / "mlflow.db"
    artifacts = (disk if full == "the artifacts'" else folder) / "mlartifacts"
    writer = Writer(lambda: Store(f"sqlite:///{database}", artifacts, 30.0))
    if full != "a new database's":
        open_study(writer, "full", 2)
        put_reports(writer, 2, range(20))
        eventually(lambda: len(writer.run_ids) == 3 and not writer._lanes)
    fill(disk)
    if full == "a new database's":
        open_study(writer, "full", 2)
        put_reports(writer, 2, range(20))
    put_reports(writer, 2, range(20, REPORTS))
    writer.put("log_table", "study", {"config": ["a"] * 1000}, "configurations.json")
    eventually(lambda: len(messages) == 1)
    named = {"the database's": database, "a new database's": database, "the artifacts'": artifacts, "the temporary files'": disk}[full]
    assert f"({named}" in messages[0], messages
    assert "No space left" in messages[0] or "disk is full" in messages[0] or "unable to open" in messages[0], messages
    if full != "a new database's":  # earlier results can be read, by another process
        count = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM metrics').fetchone()[0])"
        rows = int(subprocess.run([sys.executable, "-c", count, str(database)], capture_output=True, text=True, check=True).stdout)
        assert rows >= 2 * 20 * METRICS
    if "database" not in full:  # and rows do not wait for files
        eventually(lambda: list(writer._lanes) == [("study", True)])
    make_room(disk)
    end_study(writer, 2)
    writer.close()
    assert (writer.undelivered, writer.refused) == (0, 0)
    assert_complete(database, artifacts, "full", trials=2)
    assert "nothing was lost" in messages[-1], messages


def test_two_studies_that_start_at_the_same_moment_on_one_new_store_both_complete_and_do_not_mix(tmp_path: Path) -> None:
    start_together(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path)
    for study in ("first", "second"):
        assert_same_name_complete(tmp_path / "mlflow.db", study)


def test_two_studies_that_start_at_the_same_moment_on_one_server_both_complete_and_do_not_mix(server: Server, tmp_path: Path) -> None:
    start_together(server.uri, tmp_path)
    for study in ("first", "second"):
        assert_same_name_complete(server.database, study)


def start_together(uri: str, folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    processes = [context.Process(target=run_same_name, args=(uri, folder, study, barrier)) for study in ("first", "second")]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]


def run_same_name(uri: str, folder: Path, study: str, barrier: Any) -> None:
    from mlflow.tracking import MlflowClient  # noqa: F401  # its import would set them apart

    barrier.wait()
    writer = writer_to(uri, folder)
    writer.put("open_run", "study", INDEX, "same", 5, {"study_folder": f"/out/same-{study}"}, ("study_folder",), True)
    for trial in range(3):
        tags = {"trial_id": f"t{trial}", Tag.STUDY_RUN: "study"}
        writer.put("open_run", f"t{trial}", "same", f"s={trial}", 10, tags, (Tag.STUDY_RUN, "trial_id"), True)
        writer.put("log_params", f"t{trial}", {"study": study})
        writer.put("log_metrics", f"t{trial}", {"x": 1.0}, 0, 1 if study == "first" else 2)
        writer.put("finish", f"t{trial}", "FINISHED", 20)
    writer.close()
    assert (writer.undelivered, writer.refused) == (0, 0)


def assert_same_name_complete(database: Path, study: str) -> None:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "SELECT r.name, r.status, p.value, m.timestamp FROM runs r JOIN experiments e ON e.experiment_id = r.experiment_id"
            " JOIN tags t ON t.run_uuid = r.run_uuid AND t.key = 'study_run' JOIN tags s ON s.run_uuid = t.value AND s.key = 'study_folder'"
            " JOIN params p ON p.run_uuid = r.run_uuid JOIN metrics m ON m.run_uuid = r.run_uuid"
            " WHERE e.name = 'same' AND s.value = ? ORDER BY r.name",
            (f"/out/same-{study}",),
        ).fetchall()
    assert rows == [(f"s={trial}", "FINISHED", study, 1 if study == "first" else 2) for trial in range(3)]
