"""How fast a study's points are read, from the embedded store and from a tracking server."""

import json
import random
import socket
import sqlite3
import statistics
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from analysis.load import CURVE_METRICS
from benchmarks.support.harness import BenchmarkError, Report, Table, against, run, spread, started, take_turns
from experiments.contract.sqlite_address import sqlite_uri
from experiments.tracking.store import Store

SQLITE_TARGET_S = 0.5
SERVER_TARGET_S = 35.0
ONE_METRIC_TARGET_S = 3.0
AGAIN_TARGET_S = 1.0
TARGET_MIB = 1536.0
SEEDS = 10
STEP = 4000
EXPERIMENT = "lr_batch/ppo-cartpole"


@dataclass(frozen=True)
class Size:
    """Of the store, and how much of it the peer reads: a run is like the next, so the rest can be told from it."""

    runs: int
    metrics: int
    reports: int
    peer_runs: int
    repeats: int

    @property
    def points(self) -> int:
        """In all."""
        return self.runs * self.metrics * self.reports


@dataclass(frozen=True)
class Done:
    """One load, in a process of its own.

    Attributes:
        seconds: Of the call, packages imported before.
        wall_s: Of the process, from its start to its exit.
        peak_mib: Of the process's resident memory.
    """

    seconds: float
    wall_s: float
    peak_mib: float


FULL = Size(runs=200, metrics=25, reports=200, peer_runs=8, repeats=3)
QUICK = Size(runs=20, metrics=5, reports=20, peer_runs=4, repeats=1)


def measure(quick: bool) -> Report:
    """Run it."""
    size = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        scratch = Path(folder)
        embedded = sqlite_uri(scratch / "mlflow.db")
        _build(scratch, size)
        with _server(embedded, scratch / "server.log") as server:
            caches = _numbered(scratch / "cache")
            kept = scratch / "kept"

            def load(uri: str, points: int, cache: Callable[[], Path], *arguments: str) -> Callable[[], Done]:
                return lambda: _load(scratch, uri, points, cache(), *arguments)

            per_run = size.metrics * size.reports
            peer = ("--peer-runs", str(size.peer_runs))
            one = ("--metric", CURVE_METRICS[0])
            variants = {
                "SQLite, all": load(embedded, size.points, lambda: kept),
                "SQLite, one metric": load(embedded, size.runs * size.reports, lambda: kept, *one),
                "SQLite, get_metric_history": load(embedded, size.peer_runs * per_run, lambda: kept, *peer),
                "server, one metric": load(server, size.runs * size.reports, lambda: next(caches), *one),
                "server, all, first time": load(server, size.points, lambda: kept),
                "server, all, again": load(server, size.points, lambda: kept),
                "server, get_metric_history": load(server, size.peer_runs * per_run, lambda: kept, *peer),
            }
            # Once: what the first turn keeps would make a second one another thing, and the peer is slow.
            for _ in range(2):  # the first requests that a server process ever answers take seconds
                variants["server, one metric"]()
            found = take_turns(variants, size.repeats, once=("server, all, first time", "server, get_metric_history"))
            scans = [_scan_s(scratch / "mlflow.db") for _ in range(size.repeats)]
    scale = size.runs / size.peer_runs
    targets = {
        "SQLite, all": SQLITE_TARGET_S,
        "server, all, first time": SERVER_TARGET_S,
        "server, one metric": ONE_METRIC_TARGET_S,
        "server, all, again": AGAIN_TARGET_S,
    }
    medians = {name: statistics.median(d.seconds for d in done) for name, done in found.items()}
    verdicts = [f"{name}: {against(medians[name], target, ' s')}" for name, target in targets.items()]
    peak = max(d.peak_mib for d in found["SQLite, all"])
    return Report(
        name="loading",
        title="Loading a study",
        compared=(
            f"A study of {size.runs} runs x {size.metrics} metrics x {size.reports} reports = {size.points:,} points, "
            "in a SQLite store of MLflow's, and the same store behind `mlflow server` with its defaults, "
            "on this machine. Each load is `analysis.load.load_study` in a fresh process; "
            "*again* finds the points in the local cache, asks the server whether they are all, and takes them. "
            f"The peer is `MlflowClient.get_metric_history`, run by run and metric by metric: {size.peer_runs} runs "
            f"are read, and the seconds, without those of connecting and listing the runs, multiplied by {scale:g}."
        ),
        verdict=f"Targets: {'; '.join(verdicts)}; memory: {against(peak, TARGET_MIB, ' MiB', '.0f')}.",
        tables=(
            Table(
                "Seconds",
                ("", "load, s", "target, s", "points/s", "whole process, s", "peak memory, MiB"),
                tuple(
                    _row(name, found[name], points, targets.get(name))
                    for name, points in {
                        "SQLite, all": size.points,
                        "SQLite, one metric": size.runs * size.reports,
                        "server, all, first time": size.points,
                        "server, all, again": size.points,
                        "server, one metric": size.runs * size.reports,
                    }.items()
                ),
                f"Median (minimum-maximum) of {size.repeats} turns; *first time* once. *Load* is the call alone, "
                "*whole process* adds Python's start and the imports: pandas, and for a server MLflow. SQLite itself "
                f"takes {spread(scans, '.2f')} s to go through all points in one thread; `load_study` has two do it, "
                "makes frames of what they found and reads the runs.",
            ),
            Table(
                "Against MLflow's client",
                ("", "load_study, s", "get_metric_history, s, scaled", "times as fast"),
                tuple(
                    (
                        store,
                        f"{medians[name]:.2f}",
                        f"{scale * medians[peer_name]:.0f}",
                        f"{scale * medians[peer_name] / medians[name]:.0f}",
                    )
                    for store, name, peer_name in (
                        ("SQLite", "SQLite, all", "SQLite, get_metric_history"),
                        ("server, first time", "server, all, first time", "server, get_metric_history"),
                        ("server, again", "server, all, again", "server, get_metric_history"),
                    )
                ),
                "The client gives a list of objects for each curve; `load_study` gives typed frames.",
            ),
        ),
        packages=("pandas", "pyarrow", "adbc-driver-sqlite"),
    )


def _row(name: str, done: list[Done], points: int, target: float | None) -> tuple[str, ...]:
    seconds = [d.seconds for d in done]
    return (
        name,
        spread(seconds, ".2f"),
        "" if target is None else f"{target:g}",
        f"{points / statistics.median(seconds):,.0f}",
        spread([d.wall_s for d in done], ".2f"),
        f"{max(d.peak_mib for d in done):.0f}",
    )


def _load(scratch: Path, uri: str, points: int, cache: Path, *arguments: str) -> Done:
    result = scratch / "result.json"
    command = [
        sys.executable,
        "-m",
        "benchmarks.analysis.load_once",
        uri,
        str(result),
        "--cache",
        str(cache),
        *arguments,
    ]
    usage = run(command, scratch / "load.log")
    measured = json.loads(result.read_text())
    if measured["points"] != points:
        raise BenchmarkError(f"{points:,} points were to be read from {uri}, and {measured['points']:,} were")
    return Done(measured["seconds"], usage.wall_s, measured["peak_mib"])


def _scan_s(file: Path) -> float:
    """Seconds that SQLite takes to go through the columns of all points."""
    with closing(sqlite3.connect(file)) as database:
        began = time.perf_counter()
        database.execute(
            "SELECT sum(value), sum(step), sum(timestamp), sum(length(key)), sum(length(run_uuid)) FROM metrics"
        ).fetchall()
        return time.perf_counter() - began


def _numbered(folder: Path) -> Iterator[Path]:
    """Folders that are not there yet."""
    number = 0
    while True:
        number += 1
        yield folder / str(number)


def _build(folder: Path, size: Size) -> None:
    """A store with one study, in the order in which two trials at a time would write it."""
    store = Store(sqlite_uri(folder / "mlflow.db"), folder / "mlartifacts", 5.0)
    name = EXPERIMENT.split("/")[0]
    study = store.create_run("studies", EXPERIMENT, 0, {"kind": "study", "study": name})
    plan = {
        "study": name,
        "question": "",
        "axes": {},
        "exclusive": True,
        "seeds": [*range(SEEDS)],
        "configurations": [],
    }
    store.log_texts(study, {"plan.json": json.dumps(plan)})
    experiment = int(store.experiment(EXPERIMENT))
    runs = [uuid.UUID(int=number + 1).hex for number in range(size.runs)]
    tags = {
        run_id: {
            "kind": "trial",
            "study_run": study,
            "config": f"lr={1 + number // SEEDS}e-4",
            "seed": str(number % SEEDS),
        }
        for number, run_id in enumerate(runs)
    }
    metrics, rng = CURVE_METRICS[: size.metrics], random.Random(0)
    points = (
        (metric, rng.random(), report * 1000, run_id, report * STEP, 0)
        for pair in zip(runs[::2], runs[1::2], strict=True)
        for report in range(1, size.reports + 1)
        for run_id in pair
        for metric in metrics
    )
    with closing(sqlite3.connect(folder / "mlflow.db")) as database:
        database.executemany(
            "INSERT INTO runs (run_uuid, name, source_type, source_name, entry_point_name, user_id, "
            "source_version, status, start_time, end_time, lifecycle_stage, artifact_uri, experiment_id) "
            "VALUES (?, ?, 'UNKNOWN', '', '', 'unknown', '', 'FINISHED', 0, ?, 'active', '', ?)",
            [(run_id, run_id, size.reports * 1000, experiment) for run_id in runs],
        )
        database.executemany(
            "INSERT INTO tags (run_uuid, key, value) VALUES (?, ?, ?)",
            [(run_id, key, value) for run_id, of_run in tags.items() for key, value in of_run.items()],
        )
        database.executemany(
            "INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, ?)", points
        )
        database.execute(
            "INSERT INTO latest_metrics (key, value, timestamp, run_uuid, step, is_nan) "
            "SELECT key, value, timestamp, run_uuid, step, is_nan FROM metrics WHERE step = ?",
            (size.reports * STEP,),
        )
        database.commit()
    store.finish(study, "FINISHED", size.reports * 1000)


@contextmanager
def _server(store: str, log: Path) -> Iterator[str]:
    """A tracking server on a store, on a free port; gives its URI once it answers."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    uri = f"http://127.0.0.1:{port}"
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "server",
        "--backend-store-uri",
        store,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    with log.open("w") as file, started(command, file) as (process, _):
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"{uri}/health", timeout=5).close()
                break
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise BenchmarkError(f"mlflow server does not start:\n{log.read_text()[-2000:]}") from None
                time.sleep(0.2)
        yield uri
