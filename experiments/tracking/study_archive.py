"""Finds all that a store holds of an execution of a study, and deletes it."""

import contextlib
import re
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

from experiments.config.errors import ConfigurationError
from experiments.contract import INDEX_EXPERIMENT, Tag
from experiments.tracking.archive import Archive
from experiments.tracking.registry import ABOUT, MODEL_ID

WAIT_S = 10.0
"""How long a study that writes may keep its database from being written anew."""
RECLAIM_SHARE = 0.1
"""Of a database's pages: where fewer are free, writing it anew takes longer than the room is worth."""
_ROOT = "mlartifacts"
"""The folder of artifacts, beside an embedded store."""
_IN_A_FILTER = 100
"""Ids in one filter: a server takes a search as an address, which may not be of any length."""


@dataclass(frozen=True)
class StoredRun:
    """A run.

    Attributes:
        run_id: In MLflow.
        name: As the UI shows it.
        trial_id: The folder of its trial; "" of the study's own run.
        status: RUNNING, FINISHED, FAILED or KILLED.
        experiment_id: In MLflow.
        artifact_uri: Where its artifacts are.
        folder: The study's folder, as it was when the study ran; "" of a trial.
    """

    run_id: str
    name: str
    trial_id: str
    status: str
    experiment_id: str
    artifact_uri: str
    folder: str = ""


@dataclass(frozen=True)
class StoredModel:
    """A logged model.

    Attributes:
        model_id: In MLflow.
        name: `policy`, or with env steps.
        run_id: Of its trial.
        trial: Name of that run.
        artifact_uri: Where its files are.
    """

    model_id: str
    name: str
    run_id: str
    trial: str
    artifact_uri: str

    def __str__(self) -> str:
        return f"{self.name} of {self.trial}"


@dataclass(frozen=True)
class StoredVersion:
    """A version of a registered model.

    Attributes:
        name: Of the registered model.
        version: Its number.
        run_id: Of its trial.
        model_id: The logged model that it is; "" if it is none.
        aliases: By which it is asked for.
    """

    name: str
    version: str
    run_id: str
    model_id: str
    aliases: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True)
class Stored:
    """All that a store holds of an execution of a study, in a database also what a person marked as deleted before.

    Attributes:
        study: Its run in the experiment `studies`.
        trials: The runs of its trials.
        models: Logged from them.
        versions: Registered from them.
    """

    study: StoredRun
    trials: tuple[StoredRun, ...]
    models: tuple[StoredModel, ...]
    versions: tuple[StoredVersion, ...]


class StudyArchive(Archive):
    """A store with the calls that find what it holds of a study, and delete it.

    A database is written by this process, and what is deleted is gone, as after `mlflow gc`. A server deletes artifacts
    and versions, and marks runs and models as deleted: `mlflow gc`, run beside it, removes them.
    """

    def study_of_folder(self, name: str) -> str | None:
        """The id of the run of the study whose folder has a name; None if there is none.

        The output folder may have been moved.
        """
        with self._readable_errors():
            found = self._client.get_experiment_by_name(INDEX_EXPERIMENT)
            runs = [] if found is None else self._runs([found.experiment_id], f"tags.{Tag.KIND} = 'study'")
        return next(
            (run.info.run_id for run in runs if PurePosixPath(run.data.tags.get(Tag.STUDY_FOLDER, "")).name == name),
            None,
        )

    def study(self, study_run: str) -> StoredRun:
        """The run of a study, by its id.

        Raises:
            ConfigurationError: There is no such run, it is no study's, or the store cannot be read.
        """
        missing = (
            f"study={study_run}: there is no such run in {self._shown}. python experiments/list.py lists the studies."
        )
        with self._readable_errors(missing):
            run = self._client.get_run(study_run)
        if run.data.tags.get(Tag.KIND) != "study":
            of_trial = run.data.tags.get(Tag.STUDY_RUN)
            what = f"the run of a trial. Name its study's: study={of_trial}." if of_trial else "no run of this suite."
            raise ConfigurationError(f"study={study_run}: is {what}")
        return _stored_run(run)

    def stored(self, study: StoredRun) -> Stored:
        """All that there is of a study, by its run.

        Raises:
            ConfigurationError: The store cannot be read.
        """
        with self._readable_errors():
            experiments = [
                experiment.experiment_id
                for experiment in self._pages(self._client.search_experiments, view_type=self._view)
            ]
            trials = [_stored_run(run) for run in self._runs(experiments, f"tags.{Tag.STUDY_RUN} = '{study.run_id}'")]
            trials.sort(key=lambda run: run.name)
            return Stored(study, tuple(trials), tuple(self._models(trials)), tuple(self._versions(trials)))

    @property
    def _view(self) -> int:
        from mlflow.entities import ViewType

        return int(ViewType.ALL if self.embedded else ViewType.ACTIVE_ONLY)

    def _runs(self, experiments: Sequence[str], search: str) -> list[Any]:
        return self._pages(self._client.search_runs, experiments, search, self._view) if experiments else []

    def _models(self, trials: Sequence[StoredRun]) -> list[StoredModel]:
        found, names = list[Any](), {run.run_id: run.name for run in trials}
        experiments = sorted({run.experiment_id for run in trials})
        for some in _parts(trials):
            found += self._pages(self._client.search_logged_models, experiments, f"source_run_id IN ({some})")
        if self.embedded:
            marked = [
                self._database.get_logged_model(model_id, allow_deleted=True)
                for model_id in self._database._get_deleted_logged_models()
            ]
            found += [model for model in marked if model.source_run_id in names]
        models = [
            StoredModel(m.model_id, m.name, m.source_run_id, names[m.source_run_id], m.artifact_location) for m in found
        ]
        return sorted(models, key=str)

    def _versions(self, trials: Sequence[StoredRun]) -> list[StoredVersion]:
        found: list[Any] = []
        for some in _parts(trials):
            found += self._pages(self._client.search_model_versions, f"run_id IN ({some})")
        aliases = {name: self._client.get_registered_model(name).aliases for name in {one.name for one in found}}
        versions = []
        for one in sorted(found, key=lambda one: (one.name, int(one.version))):
            by_name = tuple(alias for alias, of in aliases[one.name].items() if str(of) == str(one.version))
            versions.append(StoredVersion(one.name, str(one.version), one.run_id, _model_of(one), by_name))
        return versions

    def artifacts(self, of: StoredRun | StoredModel) -> Path | None:
        """The local folder of the artifacts of a run or a model of an embedded store; None if there is none.

        In the output folder or beside the store, and nowhere else: where both were copied or moved, the store still
        names the first place.
        """
        if self._beside is None or not _is_own(of):
            return None
        _, _, below = urlparse(of.artifact_uri).path.rpartition(f"/{_ROOT}/")
        given = PurePosixPath(url2pathname(below)).parent
        places = (root / given for root in (self._artifact_root, self._beside / _ROOT))
        return next((place for place in places if ".." not in given.parts and place.is_dir()), None)

    def elsewhere(self, of: StoredRun | StoredModel) -> Path | None:
        """Where the artifacts of a run or a model of an embedded store are, if that is neither in the output folder
        nor beside the store.

        They stay: of an output folder that was copied, they are the original's.
        """
        given = Path(url2pathname(urlparse(of.artifact_uri).path)).parent
        return given if self.embedded and self.artifacts(of) is None and given.is_dir() else None

    def delete_version(self, version: StoredVersion) -> None:
        """Delete a version, and its registered model if that has no other, and nothing that a person wrote."""
        with _unless_missing():
            self._client.delete_model_version(version.name, version.version)
        with _unless_missing():
            model = self._client.get_registered_model(version.name)
            of_a_person = model.tags or model.description not in (None, "", ABOUT)
            if not of_a_person and not self._client.search_model_versions(f"name = '{version.name}'", max_results=1):
                self._client.delete_registered_model(version.name)

    def delete_model(self, model: StoredModel) -> None:
        """Delete a logged model and its files."""
        self._delete_artifacts(model)
        with _unless_missing():
            if self.embedded:
                self._delete_links("destination_id", model.model_id)
                self._database._hard_delete_logged_model(model.model_id)
            else:
                self._client.delete_logged_model(model.model_id)

    def delete_run(self, run: StoredRun) -> None:
        """Delete a run and its artifacts."""
        self._delete_artifacts(run)
        with _unless_missing():
            if self.embedded:
                self._delete_links("source_id", run.run_id)
                self._database._hard_delete_run(run.run_id)
            else:
                self._client.delete_run(run.run_id)

    def _delete_artifacts(self, of: StoredRun | StoredModel) -> None:
        if not self.embedded and _is_own(of):
            from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

            with _unless_missing():
                get_artifact_repository(of.artifact_uri, tracking_uri=self._client.tracking_uri).delete_artifacts()
        elif (folder := self.artifacts(of)) is not None:
            shutil.rmtree(folder)
            _remove_empty(folder.parent)

    def delete_experiment_of(self, study: StoredRun) -> None:
        """Delete the experiment of a study's trials, if no other execution has runs or models there, or is about to.

        A server's stays: the next study of the name would take it out of the bin, and with it all of its runs.
        """
        experiment = self._client.get_experiment_by_name(study.name) if self.embedded else None
        if experiment is None:
            return
        own, studies = [experiment.experiment_id], self._runs([study.experiment_id], "")
        if self._runs(own, "") or self._pages(self._client.search_logged_models, own):
            return
        if any(run.info.run_name == study.name and run.info.run_id != study.run_id for run in studies):
            return
        if experiment.lifecycle_stage == "active":
            self._client.delete_experiment(*own)
        self._database._hard_delete_experiment(*own)

    def reclaim(self) -> str:
        """Give the free pages of an embedded store's file back to the disk, if they are many;
        what is to be said of it, "" if nothing.
        """
        if not self.embedded:
            return ""
        before = Path(self.place).stat().st_size
        try:
            with contextlib.closing(sqlite3.connect(self.place, timeout=WAIT_S, isolation_level=None)) as connection:
                ((free,), (pages,)) = (
                    connection.execute(f"PRAGMA {name}").fetchone() for name in ("freelist_count", "page_count")
                )
                if free < RECLAIM_SHARE * pages:
                    return ""
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            return f"{self.place} keeps the room for later runs ({error})"
        return f"{self.place} has {(before - Path(self.place).stat().st_size) / 2**20:.1f} MiB less"

    @property
    def _database(self) -> Any:
        """MLflow's store of an embedded database, whose hard deletions are the ones that `mlflow gc` makes."""
        return self._client._tracking_client.store

    def _delete_links(self, column: str, entity_id: str) -> None:
        """Delete what links runs to models, which MLflow's hard deletions leave."""
        from mlflow.store.tracking.dbmodels.models import SqlInput

        with self._database.ManagedSessionMaker(read_only=False) as session:
            session.query(SqlInput).filter(getattr(SqlInput, column) == entity_id).delete(synchronize_session=False)


def _stored_run(run: Any) -> StoredRun:
    info, tags = run.info, run.data.tags
    name, trial, folder = info.run_name or "", tags.get(Tag.TRIAL_ID, ""), tags.get(Tag.STUDY_FOLDER, "")
    return StoredRun(info.run_id, name, trial, info.status, info.experiment_id, info.artifact_uri or "", folder)


def _is_own(of: StoredRun | StoredModel) -> bool:
    """True of artifacts in a folder with the id of the run or the model, as MLflow names it.

    A store may name any; no other goes.
    """
    own = of.run_id if isinstance(of, StoredRun) else of.model_id
    return PurePosixPath(urlparse(of.artifact_uri).path).parent.name == own


def _model_of(version: Any) -> str:
    """The id of a version's logged model. One that a person registered has it in its source alone."""
    found = re.search(r"m-[0-9a-f]{32}", version.tags.get(MODEL_ID) or version.source or "")
    return found[0] if found else ""


def _remove_empty(folder: Path) -> None:
    """Remove a folder of artifacts that holds nothing any more, and those around it."""
    with contextlib.suppress(OSError):
        while _ROOT in folder.parts[:-1]:
            folder.rmdir()
            folder = folder.parent


def _parts(trials: Sequence[StoredRun]) -> Iterator[str]:
    """The run ids as lists of a filter."""
    ids = [f"'{run.run_id}'" for run in trials]
    return (", ".join(ids[start : start + _IN_A_FILTER]) for start in range(0, len(ids), _IN_A_FILTER))


@contextlib.contextmanager
def _unless_missing() -> Iterator[None]:
    """Let pass what is gone already: an interrupted deletion is made again."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "NOT_FOUND"):
            raise
