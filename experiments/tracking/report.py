"""Attaches a study's report to its run."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from experiments.config.errors import first_line
from experiments.tracking.store import Store

TIMEOUT_S = 30.0


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
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "report.html").write_text(html, encoding="utf-8")
        for path, content in pictures.items():
            target = folder / "figures" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        try:
            # Runs have their artifact folder since they were made: none is needed here.
            Store(tracking_uri, folder, TIMEOUT_S).log_folder(run_id, folder)
        except Exception as error:  # noqa: BLE001  # whatever the store does, the report is written
            return first_line(error)
    return ""
