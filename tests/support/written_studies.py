"""Whole studies put straight into a writer, for the tests of what it delivers,
and what has to be in the store afterwards.
"""

import contextlib
import json
import multiprocessing
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.contract import Tag
from experiments.tracking import writer as writer_module
from experiments.tracking import writes
from experiments.tracking.store import SERVER_THREADS, Store
from experiments.tracking.writer import Writer

INDEX = "studies"
REPORTS = 20
HALF = REPORTS // 2
METRICS = 10
IDENTITY = (Tag.STUDY_RUN, "trial_id")


def at_ms(trial: int, report: int) -> int:
    return 1_700_000_000_000 + 100_000 * trial + report


def value(trial: int, report: int, metric: int) -> float:
    return (trial + 1) / (report + metric + 3)  # digits to the last place


def open_study(writer: Writer, name: str, trials: int, new: bool = True) -> None:
    """What a study's callback puts before the first report; `name` is the experiment and the study's identity."""
    for experiment in (INDEX, name):
        writer.put(experiment, writes.OpenExperiment())
    writer.put(name, writes.SetViews({"byconfig": "{}"}))
    tags = {"kind": "study", "study_folder": f"/out/{name}"}
    writer.put("study", writes.OpenRun(INDEX, name, 5, tags, ("study_folder",), new))
    writer.put("study", writes.LogTexts({"plan.json": "{}"}))
    for trial in range(trials):
        tags = {"kind": "trial", "trial_id": f"t{trial}", Tag.STUDY_RUN: "study"}
        writer.put(f"t{trial}", writes.OpenRun(name, f"s={trial}", 10 + trial, tags, IDENTITY, new))
        writer.put(f"t{trial}", writes.LogParams({"lr": 3e-4, "seed": trial}))
        writer.put(f"t{trial}", writes.LogTexts({"config.json": f'{{"seed": {trial}}}'}))


def put_reports(writer: Writer, trials: int, reports: range) -> None:
    for report in reports:
        for trial in range(trials):
            metrics = {f"m/{metric}": value(trial, report, metric) for metric in range(METRICS)}
            writer.put(f"t{trial}", writes.LogReport(metrics, 1000 * report, at_ms(trial, report)))


def end_study(writer: Writer, trials: int) -> None:
    for trial in range(trials):
        writer.put(f"t{trial}", writes.Finish("FINISHED", at_ms(trial, REPORTS)))
    writer.put("study", writes.SetTags({"best": "s=0"}))
    writer.put("study", writes.LogTable({"config": ["a", "b"], "score": [1.0, None]}, "configurations.json"))
    writer.put("study", writes.Finish("FINISHED", at_ms(trials, REPORTS)))


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
            "r.run_uuid, r.name, r.status, r.start_time, r.end_time, t.value FROM runs r JOIN tags t ON t.run_uuid "
            "= r.run_uuid AND t.key = 'study_run' JOIN experiments e ON e.experiment_id = r.experiment_id "
            "WHERE e.name = ? AND r.lifecycle_stage = 'active' ORDER BY r.start_time",
            name,
        )
        assert [run[1:] for run in runs] == [
            (f"s={t}", "FINISHED", 10 + t, at_ms(t, REPORTS), study) for t in range(trials)
        ]
        for trial, (run, *_) in enumerate(runs):
            assert dict(select("key, value FROM params WHERE run_uuid = ?", run)) == {
                "lr": "0.0003",
                "seed": str(trial),
            }
            expected = [
                (f"m/{m}", 1000 * r, at_ms(trial, r), value(trial, r, m))
                for m in range(METRICS)
                for r in range(REPORTS)
            ]
            assert sorted(select("key, step, timestamp, value FROM metrics WHERE run_uuid = ?", run)) == sorted(
                expected
            )
            (config,) = artifacts.rglob(f"{run}/artifacts/config.json")
            assert json.loads(config.read_text()) == {"seed": trial}
    (table,) = artifacts.rglob(f"{study}/artifacts/configurations.json")
    assert json.loads(table.read_text()) == {"columns": ["config", "score"], "data": [["a", 1.0], ["b", None]]}


def writer_to(uri: str, folder: Path, timeout_s: float = 30.0) -> Writer:
    return Writer(
        lambda: Store(uri, folder / "mlartifacts", timeout_s), SERVER_THREADS if uri.startswith("http") else 1
    )


def eventually(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == writer_module.__name__]


def start_together(uri: str, folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    processes = [
        context.Process(target=run_same_name, args=(uri, folder, study, barrier)) for study in ("first", "second")
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]


def run_same_name(uri: str, folder: Path, study: str, barrier: Any) -> None:
    from mlflow.tracking import MlflowClient  # noqa: F401  # its import would set them apart

    barrier.wait()
    writer = writer_to(uri, folder)
    tags = {"study_folder": f"/out/same-{study}"}
    writer.put("study", writes.OpenRun(INDEX, "same", 5, tags, ("study_folder",), True))
    for trial in range(3):
        tags = {"trial_id": f"t{trial}", Tag.STUDY_RUN: "study"}
        writer.put(f"t{trial}", writes.OpenRun("same", f"s={trial}", 10, tags, IDENTITY, True))
        writer.put(f"t{trial}", writes.LogParams({"study": study}))
        writer.put(f"t{trial}", writes.LogReport({"x": 1.0}, 0, 1 if study == "first" else 2))
        writer.put(f"t{trial}", writes.Finish("FINISHED", 20))
    writer.close()
    assert (writer.undelivered, writer.refused) == (0, 0)


def assert_same_name_complete(database: Path, study: str) -> None:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "SELECT r.name, r.status, p.value, m.timestamp FROM runs r JOIN experiments e "
            "ON e.experiment_id = r.experiment_id JOIN tags t ON t.run_uuid = r.run_uuid AND t.key = 'study_run' "
            "JOIN tags s ON s.run_uuid = t.value AND s.key = 'study_folder' JOIN params p ON p.run_uuid = r.run_uuid "
            "JOIN metrics m ON m.run_uuid = r.run_uuid WHERE e.name = 'same' AND s.value = ? ORDER BY r.name",
            (f"/out/same-{study}",),
        ).fetchall()
    assert rows == [(f"s={trial}", "FINISHED", study, 1 if study == "first" else 2) for trial in range(3)]
