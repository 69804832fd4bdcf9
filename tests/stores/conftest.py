"""Stores to read from: a file, a server on a copy of it, and empty ones."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from analysis.stores.cache import CACHE_DIR
from experiments.tracking.store import Store
from tests.support.mlflow_server import Server
from tests.support.names import ODD
from tests.support.stored_studies import Written, uri_of, write_studies


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store without runs, to copy: MLflow takes seconds to make one."""
    folder = tmp_path_factory.mktemp("blank")
    Store(uri_of(folder), folder / "mlartifacts", 5.0)
    return folder / "mlflow.db"


@pytest.fixture(scope="session")
def written(blank: Path, tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("a store") / ODD
    folder.mkdir()
    shutil.copy(blank, folder / "mlflow.db")
    written = Written(folder)
    write_studies(written)
    return written


@pytest.fixture(scope="session")
def server(written: Written) -> Iterator[str]:
    """A tracking server on a copy of the same store."""
    folder = written.folder.parent / "served"
    folder.mkdir()
    with (
        closing(sqlite3.connect(written.folder / "mlflow.db")) as source,
        closing(sqlite3.connect(folder / "server.db")) as target,
    ):
        source.backup(target)
    running = Server(folder)
    yield running.uri
    running.kill()


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
