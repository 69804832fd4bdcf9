"""Removes a study, on disk and in MLflow: all of it, or what weighs of all but the recommended configuration.

python experiments/delete.py study=<name, study run id or folder> [keep=best] [yes=true] [key=value ...]
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: what is called like the suite's packages in other folders is not taken for them
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from analysis.document.commands import Command
from experiments.config.errors import ConfigurationError, first_line
from experiments.config.output_dir import absolute, stored_at
from experiments.contract import Tag
from experiments.contract.passwords import without_passwords
from experiments.contract.words import labelled, some
from experiments.tracking.place import Place

if TYPE_CHECKING:  # imported once the command line is understood: MLflow and pandas take seconds
    from experiments.study.removal import Holdings, Removal
    from experiments.tracking.study_archive import StoredRun, StudyArchive

TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Asked:
    """The words of a command line.

    Attributes:
        study: Name, run id or folder of the study.
        keeps_best: Whether the recommended configuration stays.
        yes: Whether nobody is asked.
        aliases: Whether versions with an alias are removed as well.
        place: The output folder and the store that keep the studies.
    """

    study: str
    keeps_best: bool
    yes: bool
    aliases: bool
    place: Place


def deleted(
    *,
    study: str = "",
    keep: Literal["best"] | None = None,
    yes: bool = False,
    aliases: bool = False,
    tracking_uri: str | None = None,
    output_dir: str | None = None,
) -> int:
    """Removes a study, on disk and in MLflow. Shows what it would remove, and asks.

    What runs is never removed. Of an embedded store runs are removed for good. A tracking server marks runs and models
    as deleted, and `mlflow gc` beside it removes them. Interrupted half way, the same command removes the rest.

    Args:
        study: Its name, where that has one execution; the run id of an execution (`list` names it); or its folder,
            outputs/studies/NAME or s3://bucket/folder/studies/NAME, of which MLflow need not know.
        keep: best: remove no more than the checkpoints, exported policies, videos and models of all trials but those of
            the recommended configuration. Runs, metrics, events, plan and report stay, so that the analysis does.
        yes: true: do not ask.
        aliases: true: remove versions in MLflow's registry as well that have an alias, as champion; without it they are
            a reason to refuse.
        tracking_uri: The store that holds the study: sqlite:////absolute/mlflow.db or http(s)://host:port; default:
            mlflow.db in output_dir.
        output_dir: Where its files are; default: the folder of an embedded store, else outputs.
    """
    if not study:
        raise ConfigurationError(
            "study= is missing: name it, or its run id. python experiments/list.py lists what there is."
        )
    folder = absolute(study)
    if _is_folder(folder) and folder.parent.name == "studies" and not (output_dir or tracking_uri):
        output_dir = str(folder.parents[1])
    try:
        return delete(Asked(study, keep == "best", yes, aliases, Place.named(tracking_uri, output_dir)))
    except OSError as error:
        raise ConfigurationError(f"{error}: nothing was removed") from error


COMMAND = Command(
    "delete",
    deleted,
    ("study=lr_batch", "study=lr_batch keep=best yes=true"),
    "0 removed, or there was nothing to remove. 1 not all of it: something went wrong, or you said no. 2 refused: "
    "nothing was removed. 129 SIGHUP, 130 SIGINT, 143 SIGTERM.",
    (ConfigurationError,),
    "interrupted: the same command removes what is left",
)


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    return COMMAND.exit_code(arguments)


def _is_folder(path: Path) -> bool:
    """True for a study's folder, or a copy of one that is kept in an object store."""
    return (path / "study.json").is_file() or (stored_at(path) is not None and path.parent.name == "studies")


def delete(asked: Asked) -> int:
    """Remove what is asked for; the exit code.

    Raises:
        ConfigurationError: There is no such study, or it may not be removed; nothing was.
    """
    from experiments.study.cluster.ray_process import prepare

    prepare()

    from experiments.study import progress
    from experiments.study.removal import kept_from_running, remove

    console = progress.console()
    archive, study, folder = _find(asked)
    with kept_from_running(folder, study):
        found = _holdings(asked, archive, study, folder)  # now that it does not change any more
        kept = _recommended(asked, found) if asked.keeps_best else None
        removal = _removal(asked, found, kept)
        for line in _what(found, removal, kept):
            progress.say(console, line)
        if removal.is_empty:
            return 0
        if not asked.yes and not _confirmed():
            progress.say(console, labelled("removed", "nothing"))
            return 1
        size = removal.size
        try:
            remove(removal, archive)
        except Exception as error:  # noqa: BLE001  # whatever MLflow or the disk raises
            what = f"{type(error).__name__}: {without_passwords(first_line(error))}"
            print(f"error: not all of it is removed ({what}). The same command removes the rest.", file=sys.stderr)
            return 1
    for line in _afterwards(asked, removal, archive, size):
        progress.say(console, line)
    return 0


def _find(asked: Asked) -> "tuple[StudyArchive | None, StoredRun | None, Path | None]":
    """The store and the study's run, if there are any, and its folder, if it is on this machine.

    Raises:
        ConfigurationError: There is no such study, or there are several.
    """
    from analysis import AnalysisError
    from analysis.stores.executions import only_execution
    from experiments.study.files.folder import StudyFolder
    from experiments.study.removal import locate
    from experiments.tracking.study_archive import StudyArchive

    named = absolute(asked.study)
    folder = named if _is_folder(named) else None
    if folder is not None and not StudyFolder(folder).is_begun:
        raise ConfigurationError(f"study={asked.study}: there is no study.")
    if folder is not None and asked.place.missing_database is not None:
        return None, None, folder
    archive = StudyArchive(asked.place)
    if folder is not None:
        run_id = archive.study_of_folder(folder.name)
        return archive, None if run_id is None else archive.study(run_id), folder
    try:
        run_id = only_execution(asked.study, asked.place.store_uri)
    except AnalysisError as error:
        if study_run := archive.tag_of(asked.study, Tag.STUDY_RUN):
            raise ConfigurationError(
                f"study={asked.study}: is the run of a trial. Name its study's: study={study_run}."
            ) from None
        raise ConfigurationError(f"study={asked.study}: {error}") from None
    study = archive.study(run_id)
    return archive, study, locate(study, asked.place)


def _holdings(
    asked: Asked, archive: "StudyArchive | None", study: "StoredRun | None", folder: Path | None
) -> "Holdings":
    """Where a study has what it has."""
    from experiments.contract.report_file import report_file
    from experiments.study.removal import Holdings, holdings

    if archive is None or study is None:
        return Holdings(folder, asked.place.output_dir, None)
    return holdings(
        folder,
        archive.stored(study),
        archive,
        report_file(study.name, study.run_id, asked.place.output_dir),
    )


def _recommended(asked: Asked, found: "Holdings") -> set[str]:
    """Run ids of the trials of the configurations that a study recommends.

    Raises:
        ConfigurationError: It recommends none.
    """
    from analysis import AnalysisError
    from analysis.load import load_study
    from analysis.questions.decision import runs_of_chosen

    try:
        study = load_study(found.stored.study.run_id, asked.place.store_uri, metrics=()) if found.stored else None
    except AnalysisError as error:
        raise ConfigurationError(f"keep=best: {error}") from None
    kept = set() if study is None else runs_of_chosen(study.evidence)
    if not kept:
        why = "MLflow does not know the study" if study is None else "no trial has finished with a score"
        raise ConfigurationError(
            f"keep=best: no configuration is recommended, since {why}. Without keep=best everything is removed."
        )
    return kept


def _removal(asked: Asked, found: "Holdings", kept: set[str] | None) -> "Removal":
    """The parts to remove.

    Raises:
        ConfigurationError: There is a version with an alias, and it was not said that those may go.
    """
    from experiments.study.removal import all_but, everything

    removal = everything(found) if kept is None else all_but(found, kept)
    if removal.aliased and not asked.aliases:
        named = " and ".join(
            f"models:/{version.name}@{version.aliases[0]} (version {version.version})" for version in removal.aliased
        )
        raise ConfigurationError(
            f"study={asked.study}: {named} in MLflow's registry is a policy of this study, and may be in use. "
            "keep=best keeps it. aliases=true removes it as well. Or give the alias to another version: "
            "MlflowClient().set_registered_model_alias(...)."
        )
    return removal


def _what(found: "Holdings", removal: "Removal", kept: set[str] | None) -> list[str]:
    """The lines on what is removed and what stays."""
    from analysis.stores.records import STATUS
    from experiments.study.removal import NAMED_AT_MOST

    lines = []
    if stored := found.stored:
        lines.append(
            labelled("study", f"{stored.study.name}, study run {stored.study.run_id}, {STATUS[stored.study.status]}")
        )
        if found.folder is None:
            lines.append(labelled("folder", f"{stored.study.folder}: not on this machine"))
    if kept is not None and stored is not None:
        names = some([run.name for run in stored.trials if run.run_id in kept], NAMED_AT_MOST)
        lines.append(labelled("keeps", f"{names} whole; of all trials runs, metrics and events; plan and report"))
        if stored.study.status == "KILLED" and removal.paths:
            lines.append(
                labelled(
                    "resume", "trials that did not finish would start from the beginning, without their checkpoints"
                )
            )
    if found.on_server and (removal.models or removal.study):
        lines.append(labelled("artifacts", "those of the runs and models below, on the tracking server"))
    if found.elsewhere and kept is None:
        where = os.path.commonpath(found.elsewhere)
        lines.append(labelled("stays", f"artifacts in {where}, which may be of another copy of the study"))
    return [
        *lines,
        *([labelled("removes", "nothing: there is nothing to remove")] if removal.is_empty else removal.lines()),
    ]


def _confirmed() -> bool:
    """Ask the person; true for yes.

    Raises:
        ConfigurationError: Nobody can be asked.
    """
    if not sys.stdin.isatty():
        raise ConfigurationError(
            "nobody can be asked, since stdin is no terminal: nothing was removed. To remove it: yes=true."
        )
    try:
        return input("Remove this for good? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _afterwards(asked: Asked, removal: "Removal", archive: "StudyArchive | None", size: int) -> list[str]:
    """The lines on what was removed and what is left to do."""
    from analysis.stores.cache import PointCache, default_folder
    from experiments.contract.words import mib

    lines = [labelled("removed", f"{mib(size)} of files")]
    if archive is None or not (removal.models or removal.study):
        return lines
    if archive.embedded:
        return [*lines, *([labelled("store", said)] if (said := archive.reclaim()) else [])]
    if removal.study is not None:
        PointCache(default_folder(), asked.place.store_uri, removal.study.run_id).remove()
    uri = without_passwords(asked.place.store_uri)
    return [
        *lines,
        (
            labelled(
                "server",
                "runs and models are marked as deleted there. Beside it, this removes all that is marked, of whomever:",
            )
        ),
        labelled("", f"mlflow gc --backend-store-uri <the server's database> --tracking-uri {uri}"),
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
