"""MLflow's client with the few calls that a study makes. Light to import: MLflow itself is imported when first used."""

import functools
import json
import logging
import math
import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import urlparse
from urllib.request import url2pathname

from experiments.config.errors import first_line, root_cause
from experiments.contract import SCORE, Tag
from experiments.contract.passwords import without_passwords
from experiments.contract.sqlite_address import sqlite_path, sqlite_uri
from experiments.tracking import postgresql, registry, views
from experiments.tracking.writes import LogParams, LogReport, Rows, SetTags

SERVER_THREADS = 16
"""Writes under way at the same time, to a server. A slow one is slow by its distance or its queue,
not by what one study asks."""

_PERMANENT = frozenset({"INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST"})
"""MLflow's codes for a write that it will refuse next time as well: a changed parameter,
a run that a person deleted."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


class StoreError(OSError):
    """A store did not take a write; the message names the store, or the folder of its files.

    Attributes:
        permanent: Whether it will not take it later either.
    """

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


def num_writers(uri: str) -> int:
    """How many threads should write to a store: several hide a server's delay, and would only wait
    for each other in a database file.
    """
    return SERVER_THREADS if uri.startswith("http") else 1


MAX_VALUES = 1000
"""Metrics, parameters and tags that MLflow takes in one call."""


def _writes(method: Callable[Concatenate["Store", _P], _T]) -> Callable[Concatenate["Store", _P], _T]:
    """Make a method of a store raise nothing but `StoreError`."""

    @functools.wraps(method)
    def write(store: "Store", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return method(store, *args, **kwargs)
        except StoreError:
            raise
        except Exception as error:  # MLflow raises whatever its parts raise
            from mlflow.exceptions import MlflowException

            permanent = (
                error.error_code in _PERMANENT if isinstance(error, MlflowException) else isinstance(error, TypeError)
            )
            place = store.place
            if isinstance(error, OSError) and not store.on_server and args:
                place = store.folder_of(str(args[0])) or place
            reason = first_line(error if permanent else root_cause(error))
            raise StoreError(f"{place}: {without_passwords(reason)}", permanent=permanent) from error

    return write


@contextmanager
def _in(place: Path | str) -> Iterator[None]:
    """Name the place where writing failed."""
    try:
        yield
    except Exception as error:
        raise StoreError(f"{place}: {first_line(root_cause(error))}") from error


class Store:
    """MLflow's client with the few calls that a study makes.

    Every write can be made again: it changes nothing if it was carried out before. All raise `StoreError`.

    Attributes:
        on_server: Whether a server writes the database and the files, or this process does.
        embedded: Whether the database is an SQLite file.
        place: The store as it is named in messages.
    """

    def __init__(self, uri: str, artifact_root: Path, timeout_s: float) -> None:
        """Connect.

        Args:
            uri: Tracking URI.
            artifact_root: Where artifacts go, where no server takes them.
            timeout_s: Per request to a server.

        Raises:
            StoreError: The embedded store cannot be made.
        """
        os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = str(math.ceil(timeout_s))
        # MLflow's 7 would block for minutes, and repeat requests that were carried out:
        # whoever writes tries again, and looks first.
        os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
        os.environ["MLFLOW_HTTP_POOL_MAXSIZE"] = str(SERVER_THREADS)
        os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"  # it costs a request as well
        from mlflow.tracking import MlflowClient  # a second of imports, in the writer's thread

        for name in ("mlflow", "alembic"):  # after the import, which sets them up
            logging.getLogger(name).setLevel(logging.ERROR)
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # a traceback for what is raised anyway
        database = sqlite_path(uri)
        self.embedded, self.on_server = database is not None, uri.startswith("http")
        self.place = without_passwords(uri) if database is None else str(database)
        self._artifact_root = artifact_root
        self._experiment_ids: dict[str, str] = {}
        if database is not None:
            _create_database(database, artifact_root)
        elif postgresql.is_postgresql(uri):
            uri = postgresql.with_timeouts(uri, timeout_s)
            with _in(self.place), postgresql.one_at_a_time(uri):
                _make_tables(uri, artifact_root)
        # by default it asks the process for the second, and its shell
        self._client = MlflowClient(tracking_uri=uri, registry_uri=uri)

    @_writes
    def experiment(self, name: str) -> str:
        """Id of the experiment of this name, made if need be, and taken out of the bin if it is there."""
        if name not in self._experiment_ids:
            self._experiment_ids[name] = self._experiment(name)
        return self._experiment_ids[name]

    def _experiment(self, name: str) -> str:
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(name)
        if found is None:
            location = (self._artifact_root / name).as_uri() if not self.on_server else None
            try:
                return str(self._client.create_experiment(name, artifact_location=location))
            except MlflowException:  # another study was faster
                found = self._client.get_experiment_by_name(name)
                if found is None:
                    raise
        if found.lifecycle_stage == "deleted":
            self._client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)

    @_writes
    def create_run(self, experiment: str, name: str, start_ms: int, tags: Mapping[str, str]) -> str:
        """A new run's id. The one write that makes something else when it is made again: see `open_run`."""
        run = self._client.create_run(self.experiment(experiment), run_name=name, start_time=start_ms, tags=dict(tags))
        return str(run.info.run_id)

    @_writes
    def open_run(
        self, experiment: str, name: str, start_ms: int, tags: Mapping[str, str], identity: Sequence[str]
    ) -> str:
        """The id of a run that is running: the experiment's run with the same values of the tags `identity`,
        else a new one.
        """
        found = self._find(experiment, tags, identity)
        if not found:
            return self.create_run(experiment, name, start_ms, tags)
        if found[0].info.status != "RUNNING":
            self._client.update_run(found[0].info.run_id, status="RUNNING")
        return str(found[0].info.run_id)

    @_writes
    def delete_duplicates(self, run_id: str, experiment: str, tags: Mapping[str, str], identity: Sequence[str]) -> None:
        """Delete the runs with the same identity: a server may carry out a `create_run` long after it was given up."""
        for run in self._find(experiment, tags, identity):
            if run.info.run_id != run_id:
                self._client.delete_run(run.info.run_id)

    def _find(self, experiment: str, tags: Mapping[str, str], identity: Sequence[str]) -> Sequence[Any]:
        search = " and ".join(f"tags.{tag} {_is_like(tags[tag])}" for tag in identity)
        found = self._client.search_runs([self.experiment(experiment)], search, order_by=["attributes.start_time ASC"])
        return [run for run in found if all(run.data.tags.get(tag) == tags[tag] for tag in identity)]

    @_writes
    def log_rows(self, run_id: str, *rows: Rows) -> None:
        """Log parameters, tags and reports in one call, `MAX_VALUES` at most: all reports or none."""
        from mlflow.entities import Metric, Param, RunTag

        reports = [row for row in rows if isinstance(row, LogReport)]
        tags = {k: v for row in rows if isinstance(row, SetTags) for k, v in row.values.items()}
        self._client.log_batch(
            run_id,
            metrics=[Metric(k, float(v), one.at_ms, one.step) for one in reports for k, v in one.values.items()],
            params=[Param(k, str(v)) for row in rows if isinstance(row, LogParams) for k, v in row.values.items()],
            tags=[RunTag(k, v) for k, v in tags.items()],
        )

    @_writes
    def log_texts(self, run_id: str, texts: Mapping[str, str]) -> None:
        """Attach text files, path to content, in one call."""
        with tempfile.TemporaryDirectory() as folder:
            with _in(Path(folder)):
                for name, text in texts.items():
                    (file := Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(text)
            self._client.log_artifacts(run_id, folder)

    @_writes
    def log_files(self, run_id: str, folder: Path, at: str) -> None:
        """Attach the files of a folder, below a path among the run's artifacts."""
        self._client.log_artifacts(run_id, str(folder), at)

    @_writes
    def log_table(self, run_id: str, columns: Mapping[str, Sequence[Any]], name: str) -> None:
        """Attach a table that the UI shows: as MLflow's `log_table`,
        which would append to the table of an earlier call.
        """
        import pandas as pd
        from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_ARTIFACTS

        text = pd.DataFrame(dict(columns)).to_json(orient="split", index=False, date_format="iso")
        self.log_texts(run_id, {name: text})
        self.log_rows(run_id, SetTags({MLFLOW_LOGGED_ARTIFACTS: json.dumps([{"path": name, "type": "table"}])}))

    @_writes
    def log_model(self, study_run: str, experiment: str, model: registry.PolicyModel) -> str | None:
        """Log a policy as a model of its trial's run, and register it: see `registry.log`."""
        return registry.log(self._client, self._trial_run(study_run, experiment, model.trial), model, self.on_server)

    @_writes
    def make_champion(self, study_run: str, experiment: str, model: registry.PolicyModel) -> None:
        """Give the alias `champion` to a policy that was logged, if it deserves it: see `registry.make_champion`."""
        registry.make_champion(self._client, self._trial_run(study_run, experiment, model.trial), model)

    def _trial_run(self, study_run: str, experiment: str, trial: str) -> Any:
        found = self._find(experiment, {Tag.STUDY_RUN: study_run, Tag.TRIAL_ID: trial}, (Tag.STUDY_RUN, Tag.TRIAL_ID))
        if not found:
            raise StoreError(f"{self.place}: the run of {trial} is not there yet")
        return found[0]

    @_writes
    def set_views(self, experiment: str, states: Mapping[str, str]) -> None:
        """Set an experiment's shared views."""
        experiment_id = self.experiment(experiment)
        for key, state in states.items():
            self._client.set_experiment_tag(experiment_id, views.TAG_PREFIX + key, state)

    @_writes
    def finish(self, run_id: str, status: str, end_ms: int) -> None:
        """End a run."""
        self._client.set_terminated(run_id, status=status, end_time=end_ms)

    def tag_of(self, run_id: str, tag: str) -> str | None:
        """A tag of a run; None if there is no such run, or the run has no such tag."""
        from mlflow.exceptions import MlflowException

        try:
            value = self._client.get_run(run_id).data.tags.get(tag)
        except MlflowException:
            return None
        return None if value is None else str(value)

    def finished_trials(self, index: str, study: Mapping[str, str], experiment: str) -> set[str]:
        """Tags `trial_id` of the finished runs of a study.

        Args:
            index: The experiment of the study's run.
            study: Tags that tell the study's run from others.
            experiment: The experiment of its trials' runs.
        """
        executions = self._find(index, study, list(study))
        trials = [run for own in executions for run in self._of_study(self.experiment(experiment), own.info.run_id)]
        return {str(run.data.tags[Tag.TRIAL_ID]) for run in trials if run.info.status == "FINISHED"}

    def _of_study(self, experiment_id: str, study_run: str) -> list[Any]:
        """The runs of the trials of an execution of a study."""
        return self._pages(self._client.search_runs, [experiment_id], f"tags.{Tag.STUDY_RUN} = '{study_run}'")

    @staticmethod
    def _pages(search: Callable[..., Any], *arguments: Any, **options: Any) -> list[Any]:
        """All that a search of MLflow's finds."""
        found, token = [], None
        while True:
            page = search(*arguments, page_token=token, **options)
            found += page
            if not (token := page.token):
                return found

    def folder_of(self, run_id: str) -> str:
        """Where the files of a run go, for a message; empty if that is not known."""
        with suppress(Exception):
            return url2pathname(urlparse(self._client.get_run(run_id).info.artifact_uri).path)
        return ""

    def seconds_an_env_step(
        self, algorithm: str, env: str, least_env_steps: float, layout: Mapping[str, float | str]
    ) -> list[float]:
        """Wall-clock an env step of the finished trials of an algorithm on an env that were trained to a budget, of the
        200 newest.

        Args:
            algorithm: Its name.
            env: Its name.
            least_env_steps: Those of fewer do not count.
            layout: Parameter to value of those that do.
        """
        exact = {name: value for name, value in layout.items() if not isinstance(value, float)}  # 0.5 is text there
        like = "".join(f" and params.{name} = '{value}'" for name, value in exact.items())
        shares = [(name, value) for name, value in layout.items() if name not in exact]
        found = [
            run.data.metrics
            for run in self._finished(algorithm, env, f"{like} and metrics.`{SCORE}` < 1e300")
            if all(float(run.data.params.get(name, 0)) == value for name, value in shares)
        ]
        return [
            m["final/wall_s"] / m["progress/env_steps"]
            for m in found
            if m.get("final/wall_s") and m.get("progress/env_steps", 0) >= max(1, least_env_steps)
        ]

    def past_metrics(self, algorithm: str, env: str, metric: str) -> list[dict[str, float]]:
        """The last metrics of the finished trials of an algorithm on an env that logged a metric, of the 200 newest."""
        return [run.data.metrics for run in self._finished(algorithm, env, f" and metrics.`{metric}` < 1e300")]

    def past_peaks(self, algorithm: str, env: str) -> dict[str, float]:
        """Id of each configuration to the most memory that a finished trial of it took, MiB, of the 200 newest
        of an algorithm on an env.
        """
        found: dict[str, float] = {}
        for run in self._finished(algorithm, env, " and metrics.`final/memory_mib` > 0"):
            config_id = run.data.tags.get(Tag.CONFIG_ID, "")
            found[config_id] = max(found.get(config_id, 0.0), run.data.metrics["final/memory_mib"])
        return found

    def _finished(self, algorithm: str, env: str, also: str = "") -> list[Any]:
        """Finished trials, the 200 newest, without those that were taken from another study."""
        experiments = [e.experiment_id for e in self._client.search_experiments()]
        wanted = (
            f"tags.kind = 'trial' and tags.algorithm = '{algorithm}' and tags.env = '{env}' "
            f"and attributes.status = 'FINISHED'{also}"
        )
        found = self._client.search_runs(experiments, wanted, max_results=200)
        return [run for run in found if Tag.REUSED_FROM not in run.data.tags]  # which did not run here


def _is_like(value: str) -> str:
    """The end of a filter of MLflow's for a tag with a value, and maybe others: it cannot have every character."""
    writable = re.sub(r"""['"\\]|[^\S ]""", "_", value)
    return f"= '{value}'" if writable == value else f"LIKE '{writable}'"


def _make_tables(uri: str, artifact_root: Path) -> None:
    """Make MLflow's tables, if they are not there.

    Not by a client, which puts the name of the working directory into its SQL as it is: a quote in it,
    or `:d`, makes that fail.
    """
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    SqlAlchemyStore(uri, artifact_root.as_uri())


def _create_database(path: Path, artifact_root: Path) -> None:
    """Make MLflow's tables, if the file is not there: complete or not at all,
    also when studies start at the same moment.
    """
    with _in(path):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=".new-store-") as folder:
                _make_tables(sqlite_uri(Path(folder) / "new.db"), artifact_root)
                with suppress(FileExistsError):  # another study was faster: its store serves as well
                    os.link(Path(folder) / "new.db", path)
        with closing(sqlite3.connect(path, timeout=30)) as connection:
            # Readers (notebooks, the UI) then never block the writer. Set once, it stays.
            connection.execute("PRAGMA journal_mode=WAL")
