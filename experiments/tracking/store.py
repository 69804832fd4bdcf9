"""MLflow's client with the few calls that a study makes. Light to import: MLflow itself is imported when first used."""

import logging
import math
import os
import socket
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from experiments import views
from experiments.errors import ConfigurationError
from experiments.schema import TrackingSettings


def store_uri(settings: TrackingSettings, output_dir: Path) -> str:
    """The tracking URI: the one that is set, else the embedded SQLite store."""
    return settings.uri or f"sqlite:///{output_dir / 'mlflow.db'}"


def check_store(uri: str, timeout_s: float) -> None:
    """Make sure that the store can be written to, without writing.

    Raises:
        ConfigurationError: It cannot; within `timeout_s`.
    """
    parsed = urlparse(uri)
    if parsed.scheme in ("http", "https"):
        port = parsed.port or (443 if parsed.scheme == "https" else 80)
        try:
            socket.create_connection((parsed.hostname or "", port), timeout=timeout_s).close()
        except OSError as error:
            raise ConfigurationError(
                f"tracking.uri={uri}: the tracking server does not answer ({error}). Start it, or use tracking=sqlite."
            ) from None
    elif parsed.scheme == "sqlite":
        _check_sqlite(Path(uri.removeprefix("sqlite:///")))
    elif parsed.scheme not in ("postgresql", "mysql", "mssql"):
        raise ConfigurationError(
            f"tracking.uri={uri}: must be http://host:port, https://... or sqlite:////absolute/path.db. "
            "MLflow no longer supports folders as a store."
        )


def _check_sqlite(path: Path) -> None:
    if not path.is_absolute():
        raise ConfigurationError(f"tracking.uri=sqlite:///{path}: the path must be absolute. Try sqlite:///{path.absolute()}.")
    if not path.exists():
        return
    try:
        with sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=5) as connection:
            connection.execute("SELECT name FROM sqlite_master LIMIT 1")
    except sqlite3.Error as error:
        raise ConfigurationError(f"tracking store {path}: {error}. Move it away, or choose another output_dir.") from None


Report = tuple[Mapping[str, float], int, int]
"""Metrics, step, and the moment they were reported (ms since the epoch)."""


class Store:
    """MLflow's client with the few calls that a study makes."""

    def __init__(self, uri: str, artifact_root: Path, timeout_s: float) -> None:
        """Connect.

        Args:
            uri: Tracking URI.
            artifact_root: Where artifacts of an embedded store go.
            timeout_s: Per request to a server.
        """
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(math.ceil(timeout_s)))
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # MLflow's 7 would block for minutes
        from mlflow.tracking import MlflowClient  # a second of imports, in the writer's thread

        for name in ("mlflow", "alembic"):  # after the import, which sets them up
            logging.getLogger(name).setLevel(logging.ERROR)
        self._embedded = uri.startswith("sqlite:///")
        self._artifact_root = artifact_root
        if self._embedded:
            _create_database(Path(uri.removeprefix("sqlite:///")))
        self._client = MlflowClient(tracking_uri=uri)

    def experiment(self, name: str) -> str:
        """Id of the experiment of this name, made if need be."""
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(name)
        if found is None:
            location = (self._artifact_root / name).as_uri() if self._embedded else None
            try:
                return str(self._client.create_experiment(name, artifact_location=location))
            except MlflowException:  # another study was faster
                found = self._client.get_experiment_by_name(name)
                if found is None:
                    raise
        return str(found.experiment_id)

    def create_run(self, experiment: str, name: str, start_ms: int, tags: Mapping[str, str]) -> str:
        """A new run's id."""
        run = self._client.create_run(self.experiment(experiment), run_name=name, start_time=start_ms, tags=dict(tags))
        return str(run.info.run_id)

    def log_params(self, run_id: str, params: Mapping[str, Any]) -> None:
        """Log parameters in one call."""
        from mlflow.entities import Param

        self._client.log_batch(run_id, params=[Param(k, str(v)) for k, v in params.items()])

    def log_reports(self, run_id: str, reports: Sequence[Report]) -> None:
        """Log some reports of a run in one call."""
        from mlflow.entities import Metric

        self._client.log_batch(
            run_id, metrics=[Metric(k, float(v), at_ms, step) for metrics, step, at_ms in reports for k, v in metrics.items()]
        )

    def log_texts(self, run_id: str, texts: Mapping[str, str]) -> None:
        """Attach text files, name to content, in one call."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in texts.items():
                (Path(folder) / name).write_text(text)
            self._client.log_artifacts(run_id, folder)

    def log_folder(self, run_id: str, folder: Path) -> None:
        """Attach a folder's files, in one call."""
        self._client.log_artifacts(run_id, str(folder))

    def log_table(self, run_id: str, columns: Mapping[str, Sequence[Any]], name: str) -> None:
        """Attach a table that the UI shows."""
        self._client.log_table(run_id, dict(columns), name)

    def set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Set tags."""
        for key, value in tags.items():
            self._client.set_tag(run_id, key, value)

    def set_views(self, experiment: str, states: Mapping[str, str]) -> None:
        """Set an experiment's shared views."""
        experiment_id = self.experiment(experiment)
        for key, state in states.items():
            self._client.set_experiment_tag(experiment_id, views.TAG_PREFIX + key, state)

    def finish(self, run_id: str, status: str, end_ms: int) -> None:
        """End a run."""
        self._client.set_terminated(run_id, status=status, end_time=end_ms)

    def past_speed(self, experiment_algorithm: str, env: str) -> float | None:
        """Median env steps per second of the finished trials of an algorithm on an env; None without any."""
        experiments = [e.experiment_id for e in self._client.search_experiments()]
        runs = self._client.search_runs(
            experiments,
            f"tags.kind = 'trial' and tags.algorithm = '{experiment_algorithm}' and tags.env = '{env}' and attributes.status = 'FINISHED'",
            max_results=200,
        )
        speeds = sorted(
            run.data.metrics["progress/env_steps"] / run.data.metrics["final/wall_s"]
            for run in runs
            if run.data.metrics.get("final/wall_s") and "progress/env_steps" in run.data.metrics
        )
        return speeds[len(speeds) // 2] if speeds else None


def _create_database(path: Path) -> None:
    """Make MLflow's tables, if the file is not there: complete or not at all, also when studies start at the same moment."""
    if not path.exists():
        from mlflow.tracking import MlflowClient

        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".new-store-") as folder:
            MlflowClient(tracking_uri=f"sqlite:///{folder}/new.db").search_experiments(max_results=1)
            with suppress(FileExistsError):  # another study was faster: its store serves as well
                os.link(Path(folder) / "new.db", path)
    with sqlite3.connect(path, timeout=30) as connection:
        # Readers (notebooks, the UI) then never block the writer. Set once, it stays.
        connection.execute("PRAGMA journal_mode=WAL")
