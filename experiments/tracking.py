"""The only writer to MLflow.

`Writer` delivers operations to a store from a thread of its own, in order; `TrackingCallback` turns Tune's events into operations. A
store that fails never stops a study: operations wait, are tried again, and what cannot be delivered in the end is kept in a file.
"""

import collections
import json
import logging
import math
import os
import socket
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import yaml
from experiments.driver_callback import DriverCallback, first_line

from experiments import views
from experiments.errors import ConfigurationError
from experiments.metrics import METRICS
from experiments.plan import Plan
from experiments.provenance import command_line, git_state, host, versions
from experiments.resolve import TrialConfig
from experiments.schema import TrackingSettings
from experiments.trial import STEP, TRIAL

INDEX_EXPERIMENT = "studies"
"""The MLflow experiment with a run per execution of a study."""

RETRY_S = 2.0
FINAL_WAIT_S = 30.0
"""How long the end of a study waits for a store that does not answer."""

logger = logging.getLogger(__name__)


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

    def log_metrics(self, run_id: str, metrics: Mapping[str, float], step: int, at_ms: int) -> None:
        """Log one report in one call."""
        from mlflow.entities import Metric

        self._client.log_batch(run_id, metrics=[Metric(k, float(v), at_ms, step) for k, v in metrics.items()])

    def log_text(self, run_id: str, text: str, name: str) -> None:
        """Attach a text file."""
        self._client.log_text(run_id, text, name)

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


@dataclass(frozen=True)
class Operation:
    """One call of a `Store`, on the run that `key` stands for."""

    method: str
    key: str
    args: tuple[Any, ...]


class Writer:
    """Delivers operations to a store, in order, from a thread of its own."""

    def __init__(self, connect: Callable[[], Store], spool: Path) -> None:
        """Start the thread.

        Args:
            connect: Makes the store; called in the thread, again after a failure.
            spool: File for what cannot be delivered.
        """
        self._connect, self._spool = connect, spool
        self._store: Store | None = None
        self._pending: collections.deque[Operation] = collections.deque()
        self._changed = threading.Condition()
        self._closing_at = math.inf
        self.run_ids: dict[str, str] = {}
        self.experiment_ids: dict[str, str] = {}
        self.busy_s = 0.0
        """Seconds spent in the store, failures included."""
        self.undelivered = 0
        self._thread = threading.Thread(target=self._deliver_all, name="tracking", daemon=True)
        self._thread.start()

    def put(self, method: str, key: str, *args: Any) -> None:
        """Queue a call of `Store.method` on the run of `key`; returns at once."""
        with self._changed:
            self._pending.append(Operation(method, key, args))
            self._changed.notify()

    def close(self, wait_s: float = FINAL_WAIT_S) -> None:
        """Deliver what is queued, for `wait_s` at most if the store fails, and end the thread."""
        with self._changed:
            self._closing_at = time.monotonic() + wait_s
            self._changed.notify()
        self._thread.join()

    def _deliver_all(self) -> None:
        failing = False
        while True:
            with self._changed:
                while not self._pending and self._closing_at == math.inf:
                    self._changed.wait()
                if not self._pending:
                    return
                operation = self._pending[0]
            start = time.perf_counter()
            try:
                self._deliver(operation)
            except Exception as error:  # noqa: BLE001  # whatever the store does, the study goes on
                if not failing:
                    logger.warning("MLflow does not take a write (%s); it is kept and tried again.", first_line(error))
                failing = True
                self._store = None
                if time.monotonic() >= self._closing_at:
                    self._save_undelivered()
                    return
                with self._changed:
                    self._changed.wait(RETRY_S)
            else:
                if failing:
                    logger.warning("MLflow takes writes again; nothing was lost.")
                failing = False
                self._pending.popleft()
            finally:
                self.busy_s += time.perf_counter() - start

    def _deliver(self, operation: Operation) -> None:
        if self._store is None:
            self._store = self._connect()
        if operation.method == "create_run":
            self.run_ids[operation.key] = self._store.create_run(*operation.args)
        elif operation.method == "experiment":
            self.experiment_ids[operation.key] = self._store.experiment(operation.key)
        elif operation.method == "set_views":
            self._store.set_views(operation.key, *operation.args)
        elif operation.method == "link":  # a tag whose value is another run's id
            tag, other = operation.args
            self._store.set_tags(self.run_ids[operation.key], {tag: self.run_ids[other]})
        else:
            getattr(self._store, operation.method)(self.run_ids[operation.key], *operation.args)

    def _save_undelivered(self) -> None:
        self.undelivered = len(self._pending)
        with self._spool.open("a") as file:
            for operation in self._pending:
                line = {"method": operation.method, "run": self.run_ids.get(operation.key, operation.key), "args": operation.args}
                file.write(json.dumps(line, default=str) + "\n")


STUDY_KEY = "study"


@dataclass
class TrackingCallback(DriverCallback):
    """Tune's events to MLflow runs."""

    plan: Plan
    writer: Writer
    ended: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Make the study's experiments, its run and its views."""
        plan, now = self.plan, _now_ms()
        for experiment in (INDEX_EXPERIMENT, plan.experiment):
            self.writer.put("experiment", experiment)
        self.writer.put("set_views", INDEX_EXPERIMENT, views.studies_view())
        labels = [c.label for c in plan.configurations]
        self.writer.put("set_views", plan.experiment, views.shared_views(plan.searched_params, labels))
        tags = {
            "kind": "study",
            "study": plan.study,
            "algorithm": plan.algorithms,
            "env": plan.envs,
            "hardware": plan.hardware,
            "exclusive": _word(plan.exclusive),
            "mlflow.note.content": f"**Question.** {plan.question}\n\n**Trials.** {plan.summary()}",
            **_source_tags(),
        }
        self.writer.put("create_run", STUDY_KEY, INDEX_EXPERIMENT, plan.experiment, now, tags)
        self.writer.put("log_params", STUDY_KEY, plan.study_params())
        self.writer.put("log_text", STUDY_KEY, yaml.safe_dump(plan.composed, sort_keys=False), "config.yaml")
        self.writer.put("log_text", STUDY_KEY, json.dumps(_provenance(), indent=1), "provenance.json")
        if git_state().dirty_diff:
            self.writer.put("log_text", STUDY_KEY, git_state().dirty_diff, "uncommitted.diff")

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Make the trial's run."""
        key, config = trial.trial_id, TrialConfig.from_mapping(trial.config[TRIAL])
        if key in self.ended or getattr(trial, "_suite_started", False):
            return
        trial._suite_started = True
        tags = {
            "kind": "trial",
            "study": self.plan.study,
            "algorithm": config.algorithm["name"],
            "env": config.env.name,
            "hardware": self.plan.hardware,
            "config": config.label,
            "config_id": config.config_id,
            "seed": str(config.seed),
            "phase": "fixed",
            "exclusive": _word(self.plan.exclusive),
            "exploratory": "false",
            "trial_id": key,
            **_source_tags(),
        }
        self.writer.put("create_run", key, self.plan.experiment, config.name, _now_ms(), tags)
        self.writer.put("link", key, "study_run", STUDY_KEY)
        self.writer.put("log_params", key, self.plan.trial_params(config))
        resolved = config.to_mapping()
        self.writer.put("log_text", key, yaml.safe_dump(resolved, sort_keys=False), "config.yaml")
        self.writer.put("log_text", key, json.dumps({**resolved, "provenance": _provenance()}, indent=1), "config.json")

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any) -> None:
        """Log one report."""
        values = {name: result[name] for name in METRICS if name in result and math.isfinite(result[name])}
        self.writer.put("log_metrics", trial.trial_id, values, int(result[STEP]), _now_ms())

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """End the run of a finished trial."""
        self._end(trial.trial_id, "FINISHED")

    def on_failure(self, trial: Any, reason: str) -> None:
        """End the run of a failed trial, with the reason."""
        self.writer.put("set_tags", trial.trial_id, {"failure": reason})
        self._end(trial.trial_id, "FAILED")

    def _end(self, key: str, status: str) -> None:
        if key not in self.ended:
            self.ended.add(key)
            self.writer.put("finish", key, status, _now_ms())

    def end(self, trials: Sequence[Any], status: str, answer: str, table: Mapping[str, Sequence[Any]]) -> None:
        """End every run that is still open, and the study's own with its summary.

        Args:
            trials: Tune's.
            status: The study's: FINISHED, FAILED or KILLED.
            answer: The closing words, Markdown.
            table: The configurations' summary, by column.
        """
        for trial in trials:
            if getattr(trial, "_suite_started", False):
                self._end(trial.trial_id, "KILLED")
        note = f"**Question.** {self.plan.question}\n\n{answer}"
        self.writer.put("set_tags", STUDY_KEY, {"mlflow.note.content": note})
        if table:
            self.writer.put("log_table", STUDY_KEY, table, "configurations.json")
        self.writer.put("finish", STUDY_KEY, status, _now_ms())


def _provenance() -> dict[str, Any]:
    git = git_state()
    return {"commit": git.commit, "dirty": bool(git.dirty_diff), "versions": versions(), "host": host(), "command": command_line()}


def _source_tags() -> dict[str, str]:
    tags = {"mlflow.source.name": command_line()[:500], "mlflow.source.type": "LOCAL"}
    if commit := git_state().commit:
        tags["mlflow.source.git.commit"] = commit
        tags["git_dirty"] = _word(bool(git_state().dirty_diff))
    return tags


def _word(value: bool) -> str:
    return "true" if value else "false"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
