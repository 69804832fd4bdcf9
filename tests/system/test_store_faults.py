"""An embedded store that is locked, on a full disk, or that two studies begin at once: no point is lost,
none is there twice.
"""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.tracking import writer as writer_module
from experiments.tracking import writes
from experiments.tracking.store import Store
from experiments.tracking.writer import Writer
from tests.support.full_disk import fill, make_room, on_small_disk
from tests.support.written_studies import (
    HALF,
    METRICS,
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


@pytest.fixture(autouse=True)
def fast_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "RETRY_S", 0.2)


def test_a_study_that_is_delivered_again_changes_nothing_in_an_embedded_store(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    for attempt in range(2):
        writer = writer_to(uri, tmp_path)
        whole_study(writer, "again", new=attempt == 0)
        writer.close()
        assert (writer.undelivered, writer.refused) == (0, 0)
        assert_complete(tmp_path / "mlflow.db", tmp_path / "mlartifacts", "again")


@pytest.mark.slow
def test_a_database_that_another_process_locks_for_30_s_loses_nothing_even_at_the_very_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = tmp_path / "mlflow.db"
    writer = writer_to(f"sqlite:///{database}", tmp_path)
    open_study(writer, "locked", 3)
    put_reports(writer, 3, range(HALF))
    eventually(lambda: len(writer.run_ids) == 4)
    code = (
        "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1], timeout=60); c.execute('BEGIN EXCLUSIVE'); "
        "print('locked', flush=True); time.sleep(30); c.rollback()"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(database)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        put_reports(writer, 3, range(HALF, REPORTS))
        end_study(writer, 3)
        writer.close()
        assert holder.poll() == 0  # the end waited for it
    assert (writer.undelivered, writer.refused) == (0, 0)
    assert_complete(database, tmp_path / "mlartifacts", "locked")
    failed, _ = warnings_of(caplog)
    assert f"{database}: " in failed
    assert "database is locked" in failed


NIGHTLY = [pytest.param(what, marks=pytest.mark.nightly) for what in ("a new database's", "the temporary files'")]


@pytest.mark.slow
@pytest.mark.parametrize("full", ["the database's", "the artifacts'", *NIGHTLY])
def test_a_disk_that_is_full_is_named_and_loses_nothing_when_it_is(full: str, tmp_path: Path) -> None:
    disk = tmp_path / "small"
    disk.mkdir()
    code = (
        f"from tests.system import test_store_faults as t; t.write_to_full_disk({full!r}, "
        f"t.Path({str(tmp_path)!r}), t.Path({str(disk)!r}))"
    )
    environment = {**os.environ, "TMPDIR": str(disk)} if full == "the temporary files'" else None
    done = subprocess.run(
        on_small_disk(disk, 4, [sys.executable, "-c", code]),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
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
        put_reports(writer, 2, range(HALF))
        eventually(lambda: len(writer.run_ids) == 3 and not writer.pending)
    fill(disk)
    if full == "a new database's":
        open_study(writer, "full", 2)
        put_reports(writer, 2, range(HALF))
    put_reports(writer, 2, range(HALF, REPORTS))
    writer.put("study", writes.LogTable({"config": ["a"] * 1000}, "configurations.json"))
    eventually(lambda: len(messages) == 1)
    named = {
        "the database's": database,
        "a new database's": database,
        "the artifacts'": artifacts,
        "the temporary files'": disk,
    }[full]
    assert f"({named}" in messages[0], messages
    assert "No space left" in messages[0] or "disk is full" in messages[0] or "unable to open" in messages[0], messages
    if full != "a new database's":  # earlier results can be read, by another process
        count = (
            "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) "
            "FROM metrics').fetchone()[0])"
        )
        rows = int(
            subprocess.run(
                [sys.executable, "-c", count, str(database)], capture_output=True, text=True, check=True
            ).stdout
        )
        assert rows >= 2 * HALF * METRICS
    if "database" not in full:  # and rows do not wait for files
        eventually(lambda: list(writer._lanes.of) == [("study", True)])
    make_room(disk)
    end_study(writer, 2)
    writer.close()
    assert (writer.undelivered, writer.refused) == (0, 0)
    assert_complete(database, artifacts, "full", trials=2)
    assert "nothing was lost" in messages[-1], messages


@pytest.mark.nightly
def test_two_studies_that_start_at_the_same_moment_on_one_new_store_both_complete_and_do_not_mix(
    tmp_path: Path,
) -> None:
    start_together(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path)
    for study in ("first", "second"):
        assert_same_name_complete(tmp_path / "mlflow.db", study)
