"""Reads single runs back from MLflow, to run them again."""

import json
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.config.errors import ConfigurationError, first_line
from experiments.contract import SCORE, Tag, depends_on_clock
from experiments.contract.passwords import without_passwords
from experiments.tracking.place import Place
from experiments.tracking.store import Store
from experiments.tracking.store_address import check_store, database_of

CONFIG = "config.json"
"""The artifact of a trial's run that holds its configuration and its provenance."""


@dataclass(frozen=True)
class LoggedTrial:
    """A trial's run in MLflow.

    Attributes:
        run_id: In MLflow.
        name: As the UI shows it.
        status: RUNNING, FINISHED, FAILED or KILLED.
        experiment: Name of the experiment.
        experiment_id: Of the same.
        tags: By name.
        config: config.json: the trial's configuration, and its provenance.
        curves: Metric to env steps of the report to value, without the metrics that depend on the clock.
    """

    run_id: str
    name: str
    status: str
    experiment: str
    experiment_id: str
    tags: Mapping[str, str]
    config: Mapping[str, Any]
    curves: Mapping[str, Mapping[int, float]]

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Where its results come from, as far as it was recorded."""
        return self.config.get("provenance") or {}

    @property
    def last_env_steps(self) -> int:
        """Env steps of the last report; 0 without any."""
        return max((env_steps for curve in self.curves.values() for env_steps in curve), default=0)


@dataclass(frozen=True)
class FinishedTrial:
    """The run of a trial that finished, as it is found among many.

    Attributes:
        run_id: In MLflow.
        started_ms: Since the epoch.
        tags: By name.
        metrics: Name to its last value.
    """

    run_id: str
    started_ms: int
    tags: Mapping[str, str]
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class LoggedReport:
    """What a trial logged at a point of its report grid.

    Attributes:
        env_steps: The point.
        at_ms: When, ms since the epoch.
        metrics: By name, at the last point with the `final/` ones.
    """

    env_steps: int
    at_ms: int
    metrics: Mapping[str, float]


class Archive(Store):
    """A store with the calls that read a trial's run.

    Attributes:
        where: The place that it was given.
    """

    def __init__(self, place: Place) -> None:
        """Connect.

        Raises:
            ConfigurationError: There is no such store, or it does not answer.
        """
        uri, self.where = place.store_uri, place
        self._shown, self._beside = without_passwords(uri), None
        if (path := database_of(uri)) is not None:
            if not path.is_file():
                raise ConfigurationError(
                    f"tracking_uri={uri}: there is no store. Run a study first (make study), or name its store."
                )
            self._beside = path.parent
        try:
            check_store(uri, place.timeout_s)
        except ConfigurationError as error:
            # as it is called here
            raise ConfigurationError(str(error).replace("tracking.uri", "tracking_uri")) from None
        os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")  # one small file is not worth a bar
        with self._readable_errors():
            super().__init__(uri, place.artifacts, place.timeout_s)

    def trial(self, run_id: str, named: str = "", with_curves: bool = True) -> LoggedTrial:
        """The run of a trial.

        Args:
            run_id: In MLflow.
            named: As the person named it, for messages; by default `run=`.
            with_curves: Whether its curves are read, which takes a request for each metric.

        Raises:
            ConfigurationError: There is no such run, it is no trial's, or lacks its configuration.
        """
        named = named or f"run={run_id}"
        with self._readable_errors(
            f"{named}: there is no such run in {self._shown}. The page of a run in MLflow's UI shows its id."
        ):
            run = self._client.get_run(run_id)
        tags = dict(run.data.tags)
        if (kind := tags.get(Tag.KIND)) != "trial":
            raise ConfigurationError(
                f"{named} is {'the run of a whole study' if kind == 'study' else 'no run of this suite'}, "
                "not of a trial. Trials are the runs in the experiment <study>/<algorithm>-<env>; name one of them."
            )
        with self._readable_errors():
            experiment = self._client.get_experiment(run.info.experiment_id)
            names = [name for name in run.data.metrics if with_curves and not depends_on_clock(name)]
            curves = {name: self._curve(run_id, name) for name in names}
        return LoggedTrial(
            run_id=run_id,
            name=run.info.run_name or "",
            status=run.info.status,
            experiment=experiment.name,
            experiment_id=str(experiment.experiment_id),
            tags=tags,
            config=self._config(run_id),
            curves=curves,
        )

    def finished_of(self, config_id: str) -> list[FinishedTrial]:
        """The finished trials of a configuration in all studies, the oldest first.

        Of those that began at the same moment, the ones that were taken from others come last.

        Raises:
            ConfigurationError: The store cannot be read.
        """
        wanted = (
            f"tags.{Tag.KIND} = 'trial' and tags.{Tag.CONFIG_ID} = '{config_id}' and attributes.status = 'FINISHED'"
        )
        with self._readable_errors():
            experiments = [one.experiment_id for one in self._pages(self._client.search_experiments)]
            runs = self._pages(self._client.search_runs, experiments, wanted)
        found = [FinishedTrial(r.info.run_id, int(r.info.start_time), r.data.tags, r.data.metrics) for r in runs]
        return sorted(found, key=lambda one: (one.started_ms, Tag.REUSED_FROM in one.tags, one.run_id))

    def reports_of(self, trial: FinishedTrial, metrics: Collection[str] = ()) -> list[LoggedReport]:
        """What a trial reported, in order; a request for each metric.

        Args:
            trial: As `finished_of` gives it.
            metrics: Those that are read; empty: all.

        Raises:
            ConfigurationError: The store cannot be read, or has no such run any more.
        """
        values: dict[int, dict[str, float]] = {}
        moments: dict[int, int] = {}
        with self._readable_errors():
            for name in metrics or trial.metrics:
                for point in sorted(self._client.get_metric_history(trial.run_id, name), key=lambda p: p.timestamp):
                    values.setdefault(int(point.step), {})[name] = float(point.value)
                    moments[int(point.step)] = max(int(point.timestamp), moments.get(int(point.step), 0))
        return [LoggedReport(step, moments[step], values[step]) for step in sorted(values)]

    def trials_of(self, experiment: str, study_run: str) -> list[str]:
        """Ids of the trials' runs of an execution of a study."""
        with self._readable_errors():
            return [run.info.run_id for run in self._of_study(self.experiment(experiment), study_run)]

    def scores_of_other_seeds(self, trial: LoggedTrial) -> dict[int, float]:
        """Seed to score, of the finished trials of the same configuration in the same study,
        without the trial's own seed.
        """
        own = {Tag.CONFIG_ID: trial.tags.get(Tag.CONFIG_ID), Tag.REPEAT: "0"}
        with self._readable_errors():
            runs = self._of_study(trial.experiment_id, trial.tags.get(Tag.STUDY_RUN, ""))
        scores = {}
        for run in runs:
            tags = {Tag.REPEAT: "0", **run.data.tags}
            if (
                run.info.status == "FINISHED"
                and SCORE in run.data.metrics
                and all(tags.get(k) == v for k, v in own.items())
            ):
                scores[int(tags[Tag.SEED])] = float(run.data.metrics[SCORE])
        scores.pop(int(trial.tags[Tag.SEED]), None)
        return scores

    def _curve(self, run_id: str, metric: str) -> dict[int, float]:
        """Env steps to value; of a point that was logged twice, by a trial that was taken up again, the last."""
        points = sorted(self._client.get_metric_history(run_id, metric), key=lambda point: point.timestamp)
        return {int(point.step): float(point.value) for point in points}

    def _config(self, run_id: str) -> dict[str, Any]:
        """config.json of a run."""
        text = self._text(run_id)
        if text is None:
            raise ConfigurationError(
                f"run={run_id} has no {CONFIG}, which holds what to run again: restore the artifacts of {self._shown}, "
                "or name another run."
            )
        try:
            config = json.loads(text)
        except ValueError:
            config = None
        if not isinstance(config, dict):
            raise ConfigurationError(f"run={run_id}: its {CONFIG} is damaged. Restore it, or name another run.")
        return config

    def _text(self, run_id: str) -> str | None:
        from mlflow.exceptions import MlflowException

        with tempfile.TemporaryDirectory() as folder, suppress(MlflowException, OSError):
            return Path(self._client.download_artifacts(run_id, CONFIG, folder)).read_text(encoding="utf-8")
        # Where the output folder was moved, the files still lie beside the store.
        moved = self._beside.glob(f"mlartifacts/**/{run_id}/artifacts/{CONFIG}") if self._beside else iter(())
        return next((path.read_text(encoding="utf-8") for path in moved), None)

    @contextmanager
    def _readable_errors(self, missing: str = "") -> Iterator[None]:
        """Turn the store's errors into one that says what to do; `missing` is for what the store does not have."""
        from mlflow.exceptions import MlflowException

        try:
            yield
        except (MlflowException, OSError) as error:
            if missing and getattr(error, "error_code", "") == "RESOURCE_DOES_NOT_EXIST":
                raise ConfigurationError(missing) from None
            raise ConfigurationError(f"tracking_uri={self._shown} cannot be read: {first_line(error)}") from error
