"""A server's points, kept on this machine: reading a million of them again takes half a minute."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import platformdirs
import pyarrow as pa
from pyarrow import parquet

from analysis.stores.records import Points, Run

CACHE_DIR = "RL_SCALING_SUITE_CACHE_DIR"
"""Environment variable: the folder for the cache, instead of the platform's own."""

_SCHEMA = pa.schema([("run", pa.int64()), ("step", pa.int64()), ("at_ms", pa.int64()), ("value", pa.float64())])
"""`run` is an index into the run ids of the metadata `stamps`: JSON, run id to stamp."""


def default_folder() -> Path:
    """Where points are kept: ~/.cache/rl-scaling-suite on Linux, ~/Library/Caches/rl-scaling-suite on macOS.

    May be deleted at any time.
    """
    return Path(os.environ.get(CACHE_DIR) or platformdirs.user_cache_dir("rl-scaling-suite"))


class PointCache:
    """One Parquet file for each metric of a study on a server.

    The points of a run are taken from it only if the run has ended and its state is what it was when they were written,
    so a point that is logged later is never missed. A file that cannot be read or written is as good as none.
    """

    def __init__(self, folder: Path, server: str, study_run: str) -> None:
        """Name the files.

        Args:
            folder: Of the whole cache.
            server: The server's URI.
            study_run: The run of the study there.
        """
        self._folder = folder / hashlib.sha256(f"{server} {study_run}".encode()).hexdigest()[:16]

    def read(self, runs: Sequence[Run], metric: str, code: int) -> tuple[Points, list[int]]:
        """The known points of a metric.

        Args:
            runs: All of the study.
            metric: Its name.
            code: Its number in the points.

        Returns:
            Points, and the indices of the runs that they are complete for.
        """
        try:
            table = parquet.read_table(self._file(metric))
            if not table.schema.equals(_SCHEMA):
                raise ValueError("written by another version of this module")
            stamps: dict[str, str] = json.loads(table.schema.metadata[b"stamps"])
            written = list(stamps)
            fresh = {
                run.run_id: i
                for i, run in enumerate(runs)
                if run.ended_ms is not None and stamps.get(run.run_id) == _stamp(run, metric)
            }
            new_index = np.array([fresh.get(run_id, -1) for run_id in written], np.int64)
            run = new_index[table["run"].to_numpy()]
            step, at_ms, value = (table[name].to_numpy() for name in ("step", "at_ms", "value"))
            points = Points(run, np.full(len(run), code, np.int64), step, at_ms, value)
        except (OSError, pa.ArrowException, ValueError, LookupError, TypeError):
            return Points.joined([]), []
        return points if (run >= 0).all() else points.where(run >= 0), sorted(fresh.values())

    def write(self, runs: Sequence[Run], metric: str, points: Points) -> None:
        """Keep all points of a metric.

        Args:
            runs: All of the study.
            metric: Its name.
            points: Of this metric alone.
        """
        stamps = {run.run_id: _stamp(run, metric) for run in runs}
        columns = [getattr(points, name) for name in _SCHEMA.names]
        table = pa.table(columns, schema=_SCHEMA.with_metadata({"stamps": json.dumps(stamps)}))
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._folder, suffix=".part")
            os.close(handle)
            try:
                parquet.write_table(table, name, compression="zstd")
                Path(name).replace(self._file(metric))  # complete or not at all, whoever else reads or writes it
            finally:
                Path(name).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove what is kept of the study."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _file(self, metric: str) -> Path:
        return self._folder / f"{metric.replace('/', '.')}.parquet"


def _stamp(run: Run, metric: str) -> str:
    """A mark that changes when a run goes on or a point is added: text, for NaN differs from itself."""
    return f"{run.status} {run.ended_ms} {run.latest.get(metric)!r}"
