"""Stores to read from: a file, a server on a copy of it, and empty ones."""

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from analysis.stores.cache import CACHE_DIR
from experiments.tracking.store import Store
from tests.support.stored_studies import Written, uri_of, write_studies


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
