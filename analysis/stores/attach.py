"""Attaches a study's report to its run."""

import logging
import os
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from analysis.stores.sqlite import SqliteReader
from experiments.contract.passwords import without_passwords
from experiments.contract.sqlite_address import sqlite_path

TIMEOUT_S = 30
"""Of a request. A server that does not answer keeps the report from nobody: it is a file as well."""
FILES_AT_ONCE = 10
"""To a server, to hide its delay: as many as MLflow's pool holds connections,
else urllib3 warns of each that it throws away."""


def attach(html: str, pictures: Mapping[str, bytes], run_id: str, tracking_uri: str) -> str:
    """Put a report and its pictures into a study's run.

    Args:
        html: The report.
        pictures: File name to content; they go to `figures`.
        run_id: The study's run.
        tracking_uri: Of its store.

    Returns:
        What went wrong; empty if nothing did.
    """
    files = {"report.html": html.encode(), **{f"figures/{name}": content for name, content in pictures.items()}}
    try:
        if (database := sqlite_path(tracking_uri)) is not None:
            # Not by MLflow's client, which takes two seconds to start and then copies the files.
            _write(files, SqliteReader(database).folder(run_id))
        else:
            with tempfile.TemporaryDirectory() as folder:
                _write(files, Path(folder))
                _upload(files, Path(folder), run_id, tracking_uri)
    except Exception as error:  # noqa: BLE001  # whatever the store does, the report is written
        return f"{without_passwords(tracking_uri)}: {_reason(error)}"
    return ""


def _write(files: Mapping[str, bytes], folder: Path) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def _upload(paths: Iterable[str], folder: Path, run_id: str, tracking_uri: str) -> None:
    """Send files of a folder to a server."""
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = str(TIMEOUT_S)
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"  # MLflow's 7 wait for minutes
    from mlflow.tracking import MlflowClient  # a second of imports, which nothing else needs

    logging.getLogger("mlflow").setLevel(logging.ERROR)  # after the import, which sets it up
    client = MlflowClient(tracking_uri=tracking_uri, registry_uri=tracking_uri)

    def put(path: str) -> None:
        client.log_artifact(run_id, str(folder / path), Path(path).parent.as_posix().strip("."))

    with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
        list(threads.map(put, paths))


def _reason(error: BaseException) -> str:
    """The cause of an error of the network or the database, in a line: `Connection refused`,
    and not a page around it.
    """
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:500]
