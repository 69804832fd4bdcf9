"""The embedded store: MLflow's SQLite file, read by SQL.

MLflow's own client would create the file if it is not there, migrate it if it is older, and take 25 seconds
for a million points.
"""

import importlib.util
import json
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

import adbc_driver_sqlite.dbapi as adbc
import numpy as np
import pyarrow as pa

from analysis import AnalysisError
from analysis.stores.records import Latest, Points, Run

_READERS = 2
"""Threads that read points, each those of its share of the runs. SQLite and Arrow hold no lock
of Python's meanwhile."""
WAIT_S = 20
"""How long to wait for a writer that locks the file, which one in WAL mode never does."""

_POINTS = """
SELECT wanted.key AS run, metrics.key AS metric, metrics.step, metrics.timestamp, iif(metrics.is_nan, 9e999, metrics.value) AS value
FROM json_each(?) AS wanted CROSS JOIN metrics ON metrics.run_uuid = wanted.value
WHERE wanted.key >= ? AND wanted.key < ?
"""  # noqa: E501
"""NaN comes as infinity, which MLflow stores as the largest number there is:
a column less for each of a million points."""
_SOME = "AND metrics.key IN (SELECT value FROM json_each(?))"
_INDEXED = 3
"""Up to so many metrics the index on (run, key) pays. For more, every point of a run is read, in one pass: the points
of one metric lie far apart in the file, and metric by metric each page is read as often as there are metrics (13 s
instead of 0.4 s for a million points)."""


class SqliteReader:
    """An MLflow store in a SQLite file."""

    def __init__(self, path: Path) -> None:
        """Make sure that it can be read.

        Args:
            path: The file.

        Raises:
            AnalysisError: There is no such file, it is no store of MLflow, or one of a newer MLflow.
        """
        self._path = path.absolute()
        if not self._path.is_file():
            raise AnalysisError(
                f"There is no store at {self._path}: run a study first (make study), "
                "or name its store by tracking_uri=."
            )
        self._uri = f"{self._path.as_uri()}?mode=ro"
        if not os.access(self._path.parent, os.W_OK) and not Path(f"{self._path}-wal").exists():
            # in WAL mode even a reader needs a file beside the store, which cannot be made here
            self._uri += "&immutable=1"
        versions = self._rows("SELECT version_num FROM alembic_version")
        if not versions or not _is_known(str(versions[0][0])):
            raise AnalysisError(
                f"{self._path} was written by a newer MLflow than the installed one: pip install --upgrade mlflow."
            )

    def runs(self, experiment: str, tag: tuple[str, str] | None = None) -> list[Run]:
        """See `Reader.runs`."""
        found = self._rows(
            "SELECT run_uuid, runs.name, status, start_time, end_time, artifact_uri "
            "FROM runs JOIN experiments USING (experiment_id) "
            "WHERE experiments.name = ? AND runs.lifecycle_stage = 'active' AND experiments.lifecycle_stage = 'active'",
            experiment,
        )
        if tag is not None:
            tagged = {row[0] for row in self._rows("SELECT run_uuid FROM tags WHERE key = ? AND value = ?", *tag)}
            found = [row for row in found if row[0] in tagged]
        ids = json.dumps([row[0] for row in found])
        of_runs = "run_uuid IN (SELECT value FROM json_each(?))"
        tags: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for run_id, key, value in self._rows(f"SELECT run_uuid, key, value FROM tags WHERE {of_runs}", ids):
            tags[run_id][key] = value or ""
        params: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for run_id, key, value in self._rows(f"SELECT run_uuid, key, value FROM params WHERE {of_runs}", ids):
            params[run_id][key] = value
        latest: defaultdict[str, dict[str, Latest]] = defaultdict(dict)
        for run_id, key, value, is_nan, step, at_ms in self._rows(
            f"SELECT run_uuid, key, value, is_nan, step, timestamp FROM latest_metrics WHERE {of_runs}", ids
        ):
            latest[run_id][key] = Latest(float("nan") if is_nan else float(value), step, at_ms)
        return [
            Run(
                run_id,
                name or "",
                status,
                started_ms or 0,
                ended_ms,
                uri or "",
                tags[run_id],
                params[run_id],
                latest[run_id],
            )
            for run_id, name, status, started_ms, ended_ms, uri in found
        ]

    def content(self, run: Run, name: str) -> bytes | None:
        """See `Reader.content`."""
        for folder in self._folders(run.run_id, run.artifact_uri):
            if (folder / name).is_file():
                return (folder / name).read_bytes()
        return None

    def folder(self, run_id: str) -> Path:
        """Where the artifacts of a run are.

        Raises:
            AnalysisError: There is no such run, or there is nothing where its artifacts should be.
        """
        found = self._rows("SELECT artifact_uri FROM runs WHERE run_uuid = ?", run_id)
        for folder in (folder for (uri,) in found for folder in self._folders(run_id, uri or "")):
            if folder.is_dir():
                return folder
        raise AnalysisError(
            f"{f'the artifacts of the run {run_id} are' if found else f'the run {run_id} is'} not there"
        )

    def _folders(self, run_id: str, artifact_uri: str) -> Iterator[Path]:
        """Where the artifacts of a run may be."""
        location = urlparse(artifact_uri)
        if location.scheme in ("", "file") and location.path:
            yield Path(url2pathname(location.path))
        # Where the output folder was moved, the files still lie beside the store.
        yield from self._path.parent.glob(f"mlartifacts/**/{run_id}/artifacts")

    def points(self, study_run: str, runs: Sequence[Run], metrics: Sequence[str]) -> Points:
        """See `Reader.points`."""
        wanted, few = (
            json.dumps([run.run_id for run in runs]),
            json.dumps(list(metrics)) if len(metrics) <= _INDEXED else None,
        )
        shares = np.linspace(0, len(runs), _READERS + 1).astype(int).tolist()
        try:
            with ThreadPoolExecutor(_READERS) as pool:
                tables = list(pool.map(partial(self._share, wanted, few), shares[:-1], shares[1:]))
        except adbc.Error as error:
            raise self._unreadable(error) from error
        # an empty one has columns of no type
        table = pa.concat_tables([table for table in tables if table.num_rows] or tables[:1])
        code_of = {metric: code for code, metric in enumerate(metrics)}
        names = table["metric"].dictionary_encode().combine_chunks()
        codes = np.array([code_of.get(name, -1) for name in names.dictionary.to_pylist()], np.int64)
        metric = codes[names.indices.to_numpy()] if len(codes) else np.empty(0, np.int64)
        value = table["value"].to_numpy()
        value = np.where(np.isinf(value), np.nan, value)
        points = Points(table["run"].to_numpy(), metric, table["step"].to_numpy(), table["timestamp"].to_numpy(), value)
        return points if (codes >= 0).all() else points.where(metric >= 0)

    def _share(self, wanted: str, metrics: str | None, first: int, end: int) -> pa.Table:
        """Points of the runs from one to before another, of some metrics or of all."""
        with adbc.connect(self._uri) as connection, connection.cursor() as cursor:
            cursor.execute(f"PRAGMA busy_timeout = {1000 * WAIT_S}")
            cursor.execute(
                _POINTS if metrics is None else _POINTS + _SOME,
                [wanted, first, end] + ([] if metrics is None else [metrics]),
            )
            return cursor.fetch_arrow_table()

    def _rows(self, sql: str, *values: str) -> list[tuple[Any, ...]]:
        try:
            with closing(sqlite3.connect(self._uri, uri=True, timeout=WAIT_S)) as connection:
                return connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> AnalysisError:
        return AnalysisError(
            f"{self._path} cannot be read as an MLflow store ({error}): name another one by tracking_uri=."
        )


def _is_known(version: str) -> bool:
    """True if the installed MLflow knows a version of the tables: it has a file for every one."""
    spec = importlib.util.find_spec("mlflow")  # without importing it, which takes a second
    folders = spec.submodule_search_locations if spec is not None else None
    return any(list(Path(folder).glob(f"store/db_migrations/versions/{version}_*.py")) for folder in folders or [])
