"""Two studies that commit d567f16 wrote, where a test wants them: one that is finished,
and one whose driver was killed.

The settings of `tests.support.outputs.SMALL` and `report=false`, into /tmp/d567f16/out; and one trial at a time, killed
when one had finished and another one had a checkpoint, into /tmp/d567f16/begun.
"""

import json
import re
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

from analysis.load import Study
from analysis.report import build
from tests.support.report_pages import Page

ARCHIVE = Path(__file__).with_name("d567f16.txz")
_WRITTEN_AT = "/tmp/d567f16"
_PATHS = {"runs": "artifact_uri", "experiments": "artifact_location", "tags": "value"}
"""Table of MLflow's to the column that has whole paths."""


def unpack(folder: Path) -> tuple[Path, Path]:
    """The output folders of both, as if they had been written below a folder."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    for text in (path for pattern in ("*.json", "*.yaml") for path in folder.rglob(pattern)):
        text.write_text(text.read_text().replace(_WRITTEN_AT, str(folder)))
    for out in (folder / "out", folder / "begun"):
        with closing(sqlite3.connect(out / "mlflow.db")) as database:
            for table, column in _PATHS.items():
                database.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (_WRITTEN_AT, str(folder)))
            database.commit()
    return folder / "out", folder / "begun"


def report_of(study: Study, out: Path) -> str:
    """What a study's report says, a text a line, without what is of the machine and the day.

    Args:
        study: Read from the finished study's store.
        out: Its output folder.
    """
    html = re.sub(r"<(style|script)\b.*?</\1>", "", build(study).html, flags=re.DOTALL)
    said = "\n".join(line for part in Page(html).texts if (line := " ".join(part.split()))) + "\n"
    said = said.replace(str(out), "OUT").replace(study.run_id, "RUN").replace(study.run_id[:8], "RUN")
    return re.sub(r"\d{4}-\d\d-\d\d[ T][\d:]+( UTC)?", "WHEN", said)


def events_of(out: Path) -> dict[str, dict[str, Any]]:
    """Kind of an event to its fields and their types, of metrics to their names,
    as the newest ones in the logs of trials have them.
    """
    logs = sorted(out.glob("studies/*/trials/*/events.jsonl"), key=lambda log: log.stat().st_mtime)
    events = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    return {
        event["kind"]: {
            name: sorted(value) if name == "metrics" else type(value).__name__ for name, value in event.items()
        }
        for event in events
    }
