"""A tracking server that dies, is slow, loses answers or never answers: no point of a study is lost,
none is there twice.
"""

import contextlib
import http.server
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.config.errors import ConfigurationError
from experiments.tracking import writer as writer_module
from experiments.tracking.store import SERVER_THREADS
from experiments.tracking.store_address import check_store
from tests.support.mlflow_server import Proxy, Server, free_port
from tests.support.written_studies import (
    HALF,
    REPORTS,
    assert_complete,
    assert_same_name_complete,
    end_study,
    eventually,
    open_study,
    put_reports,
    start_together,
    warnings_of,
    whole_study,
    writer_to,
)

NAME = "tracking.example"

pytestmark = pytest.mark.slow


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


def test_a_study_that_is_delivered_again_changes_nothing_on_a_server(server: Server, tmp_path: Path) -> None:
    for attempt in range(2):
        writer = writer_to(server.uri, tmp_path)
        whole_study(writer, "again", new=attempt == 0)
        writer.close()
        assert (writer.undelivered, writer.refused) == (0, 0)
        assert_complete(server.database, server.artifacts, "again")


def test_a_server_that_is_killed_and_comes_back_loses_no_point(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = writer_to(server.uri, tmp_path)
    open_study(writer, "killed", 3)
    put_reports(writer, 3, range(HALF))
    eventually(lambda: len(writer.run_ids) == 4)
    server.kill()
    put_reports(writer, 3, range(HALF, REPORTS))
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


def test_a_slow_server_is_written_to_side_by_side_and_loses_no_point(
    server: Server, proxy: Proxy, tmp_path: Path
) -> None:
    proxy.fate = lambda path: 0.5
    writer = writer_to(proxy.uri, tmp_path)
    whole_study(writer, "slow", trials=16)
    writer.close()
    assert (writer.undelivered, writer.refused) == (0, 0)
    assert_complete(server.database, server.artifacts, "slow", trials=16)
    assert SERVER_THREADS // 2 <= proxy.most_at_once <= SERVER_THREADS


@pytest.mark.parametrize(
    "fate",
    [
        pytest.param("drop", id="answers are lost"),
        pytest.param(4.0, id="requests are carried out after they were given up", marks=pytest.mark.slow),
    ],
)
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
        ((made,),) = connection.execute(
            "SELECT count(*) FROM tags WHERE key = 'study_folder' AND value = ?", (f"/out/{name}",)
        ).fetchall()
    # a run that comes late cannot be kept from being made, but does not stay
    assert made == (1 if fate == "drop" else 2)


def test_a_server_that_never_comes_back_costs_a_bounded_wait_and_what_is_missing_is_delivered_later(
    server: Server, tmp_path: Path
) -> None:
    away = writer_to(f"http://127.0.0.1:{free_port()}", tmp_path)
    whole_study(away, "later")
    away.close(wait_s=1.0)
    assert away.undelivered == 5 + 3 * 3 + 3 * REPORTS + 3 + 3
    later = writer_to(server.uri, tmp_path)
    whole_study(later, "later", new=False)
    later.close()
    assert_complete(server.database, server.artifacts, "later")


def test_a_server_that_takes_connections_and_never_answers_does_not_keep_the_process_alive(
    silent_server: str, tmp_path: Path
) -> None:
    code = (
        f"from tests.system import test_tracking_faults as t; t.write_to_silence({silent_server!r}, "
        f"t.Path({str(tmp_path)!r}))"
    )
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
    monkeypatch.setattr("experiments.tracking.store_address.CHECK_S", 0.5)
    with pytest.raises(ConfigurationError, match=r"tracking\.uri=http://127.*does not answer.*timed out"):
        check_store(silent_server, 30.0)


def test_a_server_that_is_no_tracking_server_is_refused_at_the_start(tmp_path: Path) -> None:
    handler = http.server.SimpleHTTPRequestHandler
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: handler(*a, directory=str(tmp_path))) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        with pytest.raises(ConfigurationError, match=r"tracking\.uri=http://\*\*\*@127.*answers with an error \(404"):
            check_store(f"http://me:secret@127.0.0.1:{other.server_port}", 30.0)
        other.shutdown()


def test_a_server_that_is_not_to_be_known_by_a_name_is_refused_with_the_option_that_it_lacks(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *how, **more: found("127.0.0.1" if host == NAME else host, *how, **more)
    )
    with pytest.raises(
        ConfigurationError, match=rf"Invalid Host header.*Start it with --allowed-hosts={NAME}:{server.port}, "
    ) as refused:
        check_store(f"http://me:secret@{NAME}:{server.port}", 30.0)
    assert "secret" not in str(refused.value)


def test_a_server_that_works_is_accepted_at_the_start(server: Server) -> None:
    check_store(server.uri, 30.0)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("MLFLOW_WORKSPACE", "team", r"has no workspaces, and MLFLOW_WORKSPACE=team is in the environment\. Unset it"),
        (
            "MLFLOW_TRACKING_SERVER_CERT_PATH",
            "/nowhere.pem",
            r"^MLFLOW_TRACKING_SERVER_CERT_PATH=/nowhere\.pem .* no such file\. Correct it, or unset it",
        ),
    ],
)
def test_a_variable_of_mlflows_that_cannot_work_with_a_server_is_refused_at_the_start(
    name: str, value: str, said: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=said):
        check_store(server.uri, 30.0)


def test_two_studies_that_start_at_the_same_moment_on_one_server_both_complete_and_do_not_mix(
    server: Server, tmp_path: Path
) -> None:
    start_together(server.uri, tmp_path)
    for study in ("first", "second"):
        assert_same_name_complete(server.database, study)
