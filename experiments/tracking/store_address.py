"""Where a study is logged: the address of its store, and whether it can be written to there."""

import os
import socket
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from experiments.config.errors import ConfigurationError, first_line, root_cause
from experiments.config.output_dir import check_writable
from experiments.contract.mlflow_environment import check_honoured
from experiments.contract.passwords import without_passwords
from experiments.contract.sqlite_address import sqlite_path, sqlite_uri
from experiments.tracking import postgresql
from experiments.tracking.file_systems import mounts, network_type

CHECK_S = 6.0
"""How long a server may take to answer before a study starts."""


def database_of(uri: str, setting: str = "tracking_uri") -> Path | None:
    """The file of an embedded store, as it is named; None of another store.

    Args:
        uri: The tracking URI.
        setting: Names it, in messages.

    Raises:
        ConfigurationError: Its address cannot be read.
    """
    try:
        return sqlite_path(uri)
    except ValueError as error:
        raise ConfigurationError(f"{setting}={error}") from None


def check_store(uri: str, timeout_s: float) -> None:
    """Make sure that the store can be written to, without writing.

    Raises:
        ConfigurationError: It cannot; within `timeout_s`, and within 10 s whatever that is.
    """
    parsed = urlparse(uri)
    if parsed.scheme in ("http", "https"):
        try:
            check_honoured()
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
        problem = _problem_of_server(uri, min(timeout_s, CHECK_S))
        if problem:
            raise ConfigurationError(
                f"tracking.uri={without_passwords(uri)}: the tracking server {problem}, or use tracking=sqlite."
            )
    elif (path := database_of(uri, "tracking.uri")) is not None:
        _check_sqlite(path)
    elif postgresql.is_postgresql(uri):
        postgresql.check(uri, min(timeout_s, CHECK_S))
    else:
        raise ConfigurationError(
            f"tracking.uri={without_passwords(uri)}: must be http://host:port, https://..., "
            "postgresql://host/database or sqlite:////absolute/path.db. For another database, start a server on it, "
            "mlflow server --backend-store-uri ..., and name that."
        )


def check_local(uri: str, setting: str = "tracking.uri") -> None:
    """Make sure that a study may write to the store, if it is a file:
    SQLite's locks do not hold on network file systems.

    Args:
        uri: The tracking URI.
        setting: Chooses another, in messages.

    Raises:
        ConfigurationError: It is on one.
    """
    if (path := database_of(uri, setting)) is None:
        return
    if (kind := network_type(path, mounts())) is not None:
        raise ConfigurationError(
            f"tracking store {path}: is on a network file system ({kind}), where SQLite's locks do not hold and its "
            "file can be damaged. Start a tracking server, mlflow server --backend-store-uri sqlite:////local/path.db, "
            f"and name it: {setting}=http://host:port. Or keep the database on a disk of this machine: "
            f"{setting}=sqlite:////local/path.db."
        )


def _problem_of_server(uri: str, timeout_s: float) -> str:
    """Why a study could not write to a server; empty if it could."""
    parsed = urlparse(uri)
    try:  # first without MLflow, whose import takes seconds
        socket.create_connection(
            (parsed.hostname or "", parsed.port or (443 if parsed.scheme == "https" else 80)), timeout_s / 2
        ).close()
    except OSError as error:
        return f"does not answer ({error}). Start it"

    # with the user's credentials and certificates
    from mlflow.tracking._tracking_service.utils import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    try:
        path, credentials = "/api/2.0/mlflow/experiments/search?max_results=1", get_default_host_creds(uri)
        answer = http_request(credentials, path, "GET", max_retries=0, timeout=timeout_s, raise_on_status=False)
    except Exception as error:  # noqa: BLE001  # MLflow wraps whatever happened
        return f"does not answer ({first_line(root_cause(error))}). Start it"
    reason = f"{answer.status_code} {answer.text[:200]}".strip()
    if not answer.ok and "Invalid Host header" in reason:
        name = parsed.netloc.rpartition("@")[2]
        return (
            f"does not know itself by this name ({reason}). Start it with --allowed-hosts={name}, "
            "beside the names that it has"
        )
    if (workspace := os.environ.get("MLFLOW_WORKSPACE")) and not _has_workspaces(credentials):
        found = f"has no workspaces, and MLFLOW_WORKSPACE={workspace} is in the environment"
        return f"{found}. Unset it, start the server with --enable-workspaces"
    return "" if answer.ok else f"answers with an error ({reason}). Check the address and your credentials"


def _has_workspaces(credentials: Any) -> bool:
    """True of a server with workspaces. One of an older MLflow would leave the name out of account."""
    from mlflow.exceptions import MlflowException
    from mlflow.store.tracking.rest_store import RestStore

    with suppress(MlflowException):
        return bool(RestStore(lambda: credentials).supports_workspaces)
    return False


def _check_sqlite(path: Path) -> None:
    if not path.is_absolute():
        raise ConfigurationError(
            f"tracking.uri=sqlite:///{path}: the path must be absolute. Try {sqlite_uri(path.absolute())}."
        )
    if not path.exists():
        check_writable(path.parent, f"tracking.uri={sqlite_uri(path)}", "tracking.uri=sqlite:////path.db")
        return
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=5)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            by_server = "experiments" in tables and connection.execute(postgresql.FILES_BY_SERVER).fetchone()
    except sqlite3.Error as error:
        raise ConfigurationError(
            f"tracking store {path}: {error}. Move it away, or choose another output_dir."
        ) from None
    if by_server:
        raise ConfigurationError(f"tracking store {path}: {postgresql.BY_SERVER}.")
