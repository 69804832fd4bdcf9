"""The files and runs of a study, on disk and in MLflow, and its removal,
which can be interrupted and made again.
"""

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from experiments.config.errors import ConfigurationError
from experiments.config.output_dir import stored_at
from experiments.contract.report_file import partial_file
from experiments.contract.words import labelled, mib, plural, some
from experiments.storage.objects import Objects
from experiments.study.files.folder import StudyFolder
from experiments.study.files.study_files import LOCK_FILE, STATE_FILE
from experiments.tracking.place import Place
from experiments.tracking.study_archive import Stored, StoredModel, StoredRun, StoredVersion, StudyArchive
from experiments.trial.events import now_ms
from experiments.trial.folder import locked

NAMED_AT_MOST = 6
"""Models that a line names."""


@dataclass(frozen=True)
class Holdings:
    """Where a study has what it has.

    Attributes:
        folder: Its own; None if it is not on this machine.
        output_dir: Absolute: where its policies and its report are.
        stored: What MLflow has of it; None if it knows nothing of it.
        report: The file that its report is written to.
        artifacts: Run id or model id to the local folder of its artifacts.
        elsewhere: Folders of artifacts that are not removed, since they may be of another copy of the study.
        on_server: Whether artifacts are with a tracking server.
    """

    folder: Path | None
    output_dir: Path
    stored: Stored | None
    report: Path | None = None
    artifacts: Mapping[str, Path] = field(default_factory=dict)
    elsewhere: tuple[Path, ...] = ()
    on_server: bool = False


@dataclass(frozen=True)
class Removal:
    """The parts of a study that are to be removed, in the order in which it is removed.

    Attributes:
        versions: Of registered models.
        models: Logged ones.
        paths: Word to folders and files: what it is that they hold.
        trials: Runs of trials.
        folder: The study's own.
        study: Its run, the last to go: by it the study is found again.
        artifacts: Run id or model id to the local folder of its artifacts.
    """

    versions: tuple[StoredVersion, ...] = ()
    models: tuple[StoredModel, ...] = ()
    paths: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    trials: tuple[StoredRun, ...] = ()
    folder: Path | None = None
    study: StoredRun | None = None
    artifacts: Mapping[str, Path] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to remove."""
        return not (self.versions or self.models or self.trials or self.paths or self.folder or self.study)

    @property
    def aliased(self) -> list[StoredVersion]:
        """The versions that are asked for by an alias."""
        return [version for version in self.versions if version.aliases]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        folders = [self.folder] if self.folder else []
        return sum(
            map(
                held_in,
                (*folders, *self.artifacts.values(), *(path for paths in self.paths.values() for path in paths)),
            )
        )

    def lines(self) -> list[str]:
        """The parts by kind, with their sizes, for the terminal."""
        lines = []
        if self.folder:
            where = stored_at(self.folder) or self.folder
            lines.append(
                labelled(
                    "folder",
                    f"{where}: {mib(held_in(self.folder))}, {mib(_of_checkpoints(self.folder))} of it checkpoints",
                )
            )
        for word, paths in self.paths.items():
            where = str(paths[0]) if len(paths) == 1 else f"{len(paths)} folders in {os.path.commonpath(paths)}"
            lines.append(f"{word:<12}{where}: {mib(sum(map(held_in, paths)))}")
        if self.trials or self.study:
            lines.append(
                labelled(
                    "runs",
                    f"{plural(len(self.trials), 'trial')} in MLflow{', and that of the study' if self.study else ''}",
                )
            )
        if self.models:
            lines.append(labelled("models", some([*map(str, self.models)], NAMED_AT_MOST)))
        if self.versions:
            versions = some([*map(_described, self.versions)], NAMED_AT_MOST)
            lines.append(labelled("versions", f"{versions} in MLflow's registry"))
        if self.artifacts:
            lines.append(
                labelled("artifacts", f"{mib(sum(map(size_of, self.artifacts.values())))} of runs and models in MLflow")
            )
        return lines


def holdings(folder: Path | None, stored: Stored, archive: StudyArchive, report: Path | None = None) -> Holdings:
    """Where a study that MLflow knows has what it has.

    Args:
        folder: Its own; None if it is not on this machine.
        stored: What MLflow has of it.
        archive: The store.
        report: The file that its report is written to, if it was.
    """
    owners = {run.run_id: run for run in (stored.study, *stored.trials)} | {
        model.model_id: model for model in stored.models
    }
    found = {own: place for own, owner in owners.items() if (place := archive.artifacts(owner)) is not None}
    others = tuple(place for owner in owners.values() if (place := archive.elsewhere(owner)) is not None)
    return Holdings(folder, archive.where.output_dir, stored, report, found, others, not archive.embedded)


def everything(found: Holdings) -> Removal:
    """A study, whole."""
    stored = found.stored
    if stored is None:
        return Removal(folder=found.folder)
    paths = {"policies": _existing(found.output_dir / "policies" / run.run_id for run in stored.trials)}
    if found.report is not None:
        paths["report"] = _existing([found.report, partial_file(found.report)])
    return Removal(
        stored.versions, stored.models, _with_any(paths), stored.trials, found.folder, stored.study, found.artifacts
    )


def all_but(found: Holdings, kept: Collection[str]) -> Removal:
    """The heavy parts of a study, but for some of its trials: checkpoints, exported policies, videos and models.

    All runs stay, with their parameters, metrics and artifacts, and so do the trials' events, the plan and the report:
    the analysis stays whole. Versions with an alias stay, whichever trial they are of.

    Args:
        found: Where the study has it; MLflow knows the study.
        kept: Run ids of the trials that stay as they are.
    """
    assert found.stored is not None
    stay = {run.trial_id for run in found.stored.trials if run.run_id in kept}
    of_others = [run for run in found.stored.trials if run.run_id not in kept]
    by_alias = {version.model_id for version in found.stored.versions if version.aliases}
    models = tuple(
        model for model in found.stored.models if model.run_id not in kept and model.model_id not in by_alias
    )
    paths = {"policies": _existing(found.output_dir / "policies" / run.run_id for run in of_others)}
    if found.folder is not None:
        trials = [path for path in _inside(found.folder / "trials") if path.name not in stay]
        paths = {
            "checkpoints": _existing(path / "checkpoints" for path in trials),
            "exports": tuple(path for path in _inside(found.folder / "policies") if path.name not in stay),
            **paths,
        }
    return Removal(
        versions=tuple(
            version for version in found.stored.versions if version.run_id not in kept and not version.aliases
        ),
        models=models,
        paths=_with_any(paths),
        artifacts={
            model.model_id: found.artifacts[model.model_id] for model in models if model.model_id in found.artifacts
        },
    )


def remove(removal: Removal, archive: StudyArchive | None) -> None:
    """Remove it, in such an order that what is left after an interruption is found again by the same name.

    Args:
        removal: What there is to remove.
        archive: The store; None if nothing of it is there.

    Raises:
        Exception: Whatever MLflow or the disk raises; what comes after that is still there.
    """
    if archive is not None:
        if removal.study is not None and removal.study.status == "RUNNING":  # as its driver left it, which is dead
            archive.finish(removal.study.run_id, "KILLED", now_ms())
        for version in removal.versions:
            archive.delete_version(version)
        for model in removal.models:
            archive.delete_model(model)
    for path in (path for paths in removal.paths.values() for path in paths):  # which the trials' runs name
        _remove_stored(path)
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    if archive is not None:
        for run in removal.trials:
            archive.delete_run(run)
    if removal.folder is not None:
        _remove_folder(removal.folder)
    if archive is not None and removal.study is not None:
        archive.delete_experiment_of(removal.study)
        archive.delete_run(removal.study)


def _remove_folder(folder: Path) -> None:
    """By its `study.json` a folder is known: it goes last."""
    _remove_stored(folder, STATE_FILE)
    for path in _inside(folder):
        if path.name != STATE_FILE:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if folder.exists():  # of what is in an object store there need be no copy
        shutil.rmtree(folder)


def _remove_stored(path: Path, last: str = "") -> None:
    """Remove the objects of a folder from its store, `last` at the end; but the lock, which is its driver's."""
    if (uri := stored_at(path)) is not None:
        objects = Objects(uri)
        names = [name for name in objects.names() if name != LOCK_FILE]
        objects.remove(name for name in names if name != last)
        objects.remove(name for name in names if name == last)


def locate(study: StoredRun, place: Place) -> Path | None:
    """The folder of a study that MLflow knows; None if it is not on this machine.

    Args:
        study: Its run.
        place: Where the person's own studies are, which may have been moved there.

    Raises:
        ConfigurationError: The store names a folder elsewhere: others may write to a store.
    """
    recorded = Path(study.folder)
    here = place.studies / recorded.name
    if "://" in study.folder:
        if stored_at(here) == study.folder:
            return here if StudyFolder(here).is_begun else None
        kept = study.folder.rpartition("/studies/")[0]
        raise ConfigurationError(
            f"study={study.run_id}: its folder is {study.folder}. If it is yours, name it: output_dir={kept}."
        )
    if (here / STATE_FILE).is_file():
        return here
    if (recorded / STATE_FILE).is_file():
        raise ConfigurationError(
            f"study={study.run_id}: its folder {recorded} is outside of output_dir={place.output_dir}. If it is yours, "
            f"name it: output_dir={recorded.parent.parent}."
        )
    return None


@contextmanager
def kept_from_running(folder: Path | None, study: StoredRun | None) -> Iterator[None]:
    """Make sure that a study does not run, and that nobody takes it up in the meantime.

    Args:
        folder: Its own; None if it is not on this machine.
        study: Its run; None if MLflow knows nothing of it.

    Raises:
        ConfigurationError: It runs, or that is not known.
    """
    if folder is None:
        if study is not None and study.status == "RUNNING":
            run_id = study.run_id
            raise ConfigurationError(
                f"study={run_id}: is running, as MLflow has it. Its folder {study.folder}, which would say whether it "
                "is, is not on this machine: delete it where it is. If the folder was moved: output_dir=/path, where "
                f"studies/ is. If it is lost, end the run first: MlflowClient().set_terminated('{run_id}', 'KILLED')."
            )
        yield
        return
    own = StudyFolder(folder)
    own.lock()
    try:
        for path in folder.glob("trials/*/lock"):
            with path.open("w") as file:
                if not locked(file):
                    raise ConfigurationError(
                        f"{path.parent}: the trial is still running, in another process. Wait until that has ended."
                    )
        yield
    finally:
        own.close()


def room(found: Holdings, database: Path | None) -> str:
    """The room that a study takes, as a clause.

    Args:
        found: Where it has it.
        database: The file of an embedded store, which all studies share; None of a server.
    """
    parts = []
    if found.folder is not None:
        parts.append(f"{mib(held_in(found.folder))} of files (checkpoints {mib(_of_checkpoints(found.folder))})")
    if found.artifacts:
        parts.append(f"{mib(sum(map(size_of, found.artifacts.values())))} of artifacts in MLflow")
    if database is None:
        parts.append("artifacts on the tracking server")
    else:
        parts.append(f"{database.name} of all studies {mib(size_of(database))}")
    return ", ".join(parts)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; of links only their own.

    What goes in the meantime is not counted.
    """
    try:
        with os.scandir(path) as entries:
            return sum(
                size_of(Path(entry))
                if entry.is_dir(follow_symlinks=False)
                else entry.stat(follow_symlinks=False).st_size
                for entry in entries
            )
    except NotADirectoryError:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def held_in(path: Path) -> int:
    """Bytes of a file or folder on this machine, and in the object store that it is a copy of."""
    return size_of(path) + sum(_stored_sizes(path).values())


def _stored_sizes(path: Path) -> dict[str, int]:
    return {} if (uri := stored_at(path)) is None else Objects(uri).sizes()


def _of_checkpoints(folder: Path) -> int:
    stored = sum(size for name, size in _stored_sizes(folder).items() if "/checkpoints/" in name)
    return stored + sum(map(size_of, folder.glob("trials/*/checkpoints")))


def _inside(folder: Path) -> Iterator[Path]:
    here = set(folder.iterdir()) if folder.is_dir() else set()
    uri = stored_at(folder)
    return iter(sorted(here if uri is None else here | {folder / name for name in Objects(uri).folders()}))


def _existing(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(path for path in paths if path.exists() or _stored_sizes(path))


def _with_any(paths: Mapping[str, tuple[Path, ...]]) -> dict[str, tuple[Path, ...]]:
    return {word: found for word, found in paths.items() if found}


def _described(version: StoredVersion) -> str:
    return f"{version} ({', '.join(f'@{alias}' for alias in version.aliases)})" if version.aliases else str(version)
