"""Attaches a study's report to its run."""

import logging
import os
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from analysis.stores.address import without_password

TIMEOUT_S = 30
"""Of a request. A server that does not answer keeps the report from nobody: it is a file as well."""
FILES_AT_ONCE = 16
"""To a server, to hide its delay."""


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
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = str(TIMEOUT_S)
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"  # MLflow's 7 wait for minutes
    from mlflow.tracking import MlflowClient  # a second of imports, which a report that is only written does not need

    for name in ("mlflow", "alembic"):  # after the import, which sets them up
        logging.getLogger(name).setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "report.html").write_text(html, encoding="utf-8")
        for path, content in pictures.items():
            target = folder / "figures" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        try:
            client = MlflowClient(tracking_uri=tracking_uri)

            def put(file: Path) -> None:
                client.log_artifact(run_id, str(file), file.parent.relative_to(folder).as_posix().strip("."))

            with ThreadPoolExecutor(FILES_AT_ONCE if tracking_uri.startswith("http") else 1) as threads:
                list(threads.map(put, (file for file in sorted(folder.rglob("*")) if file.is_file())))
        except Exception as error:  # noqa: BLE001  # whatever the store does, the report is written
            return f"{without_password(tracking_uri)}: {_reason(error)}"
    return ""


def _reason(error: BaseException) -> str:
    """What an error of the network or the database comes from, in a line: `Connection refused`, and not a page around it."""
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:500]
