"""What the terminal says at a study's end: where the results are, how to open them, and how to go on."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from conf import CONFIG_DIR
from experiments.config.choices import files_of
from experiments.config.compose import override
from experiments.config.errors import first_line
from experiments.config.output_dir import stored_at
from experiments.config.schema import SuiteConfig
from experiments.contract.sqlite_address import sqlite_uri
from experiments.planning.plan import Plan
from experiments.study.driver import StudyOutcome
from experiments.study.removal import Holdings, holdings, room
from experiments.tracking import views
from experiments.tracking.provenance import ROOT, without_passwords
from experiments.tracking.store_address import database_of
from experiments.tracking.study_archive import StudyArchive

_RUN = str(ROOT / "experiments/run.py")


def resume_command(suite: SuiteConfig, outcome: StudyOutcome, output_dir: Path, own: Path | None = None) -> str:
    """The command that goes on with a study, as one can type it.

    Args:
        suite: The study's settings.
        outcome: What became of it.
        output_dir: Absolute.
        own: A person's own folder of configuration files; named where the store's file is of it:
            all else is in the study's folder.
    """
    script, folder = (
        ("experiments/run.py", None if suite.output_dir == "outputs" else output_dir)
        if _in_clone()
        else (_RUN, output_dir)
    )
    return _run_command(script, outcome.study_run or _place(outcome.folder), folder, suite, suite.tracking.uri, own)


def deliver_command(suite: SuiteConfig, folder: Path, output_dir: Path, uri: str, own: Path | None = None) -> str:
    """The command that puts into a store what it lacks of a study, as one can type it in any folder.

    Args:
        suite: The study's settings.
        folder: Where the study keeps its state and the logs of its trials.
        output_dir: Absolute.
        uri: Of the store.
        own: As `resume_command` takes it.
    """
    is_beside = uri == sqlite_uri(output_dir / "mlflow.db") and stored_at(output_dir) is None
    return _run_command(_RUN, _place(folder), output_dir, suite, None if is_beside else uri, own)


def _run_command(
    script: str, study: str, output_dir: Path | None, suite: SuiteConfig, uri: str | None, own: Path | None
) -> str:
    words = [CONFIG_DIR, str(own)] if own is not None and suite.tracking.name not in files_of("tracking") else []
    words.append(override("resume", study))
    if output_dir is not None:
        words.append(override("output_dir", _place(output_dir)))
    if suite.tracking.name != "sqlite":
        words.append(f"tracking={suite.tracking.name}")
    if uri is not None:
        words.append(override("tracking.uri", without_passwords(uri)))
    return shlex.join(["python", script, *words])


def _place(folder: Path) -> str:
    """The address in an object store that a folder is a copy of; itself if it is none."""
    return stored_at(folder) or str(folder)


def _in_clone() -> bool:
    """Whether the command was typed where the suite is, so that its files and make are there."""
    return Path.cwd() == ROOT


def in_mlflow(uri: str, page: str) -> list[str]:
    """How to open a page of MLflow's UI.

    Args:
        uri: The store's.
        page: Below the server's address.
    """
    if uri.startswith("http"):
        return [f"MLflow      {without_passwords(uri).rstrip('/')}/{page}"]
    is_default = uri == sqlite_uri(Path("outputs/mlflow.db").absolute())
    command = (
        "make ui"
        if is_default and _in_clone()
        else f"mlflow ui --backend-store-uri {shlex.quote(uri)} --host 127.0.0.1"
    )
    return [f"MLflow      {command}", f"            http://127.0.0.1:5000/{page}"]


def delete_command(suite: SuiteConfig, outcome: StudyOutcome, output_dir: Path) -> str:
    """The command that removes a study, as one can type it; as `resume_command`."""
    script = "experiments/delete.py" if _in_clone() else str(ROOT / "experiments/delete.py")
    words, uri = [f"study={outcome.study_run or outcome.folder}"], suite.tracking.uri
    if suite.output_dir != "outputs" or not _in_clone() or (uri or "").startswith("sqlite"):  # whose folder it would be
        words.append(f"output_dir={_place(output_dir)}")
    if uri is not None:
        words.append(f"tracking_uri={without_passwords(uri)}")
    return shlex.join(["python", script, *words])


def room_lines(suite: SuiteConfig, outcome: StudyOutcome, uri: str, output_dir: Path) -> list[str]:
    """What a study holds on disk and in MLflow, and how to free it.

    A server is not asked: that takes a request for each folder.
    """
    database = database_of(uri)
    found = Holdings(outcome.folder, output_dir, None)
    try:
        if database and outcome.study_run and not outcome.undelivered:
            archive = StudyArchive(uri, output_dir, suite.tracking.timeout_s)
            found = holdings(outcome.folder, output_dir, archive.stored(archive.study(outcome.study_run)), archive)
        held = room(found, database)
    except Exception as error:  # noqa: BLE001  # whatever MLflow or the disk raises: the study is safe
        held = f"unknown: {first_line(error)}"
    return [f"room        {held}; to free it:", f"            {delete_command(suite, outcome, output_dir)}"]


def where_lines(
    plan: Plan, outcome: StudyOutcome, uri: str, resume: str, deliver: Callable[[str], str], held: Sequence[str]
) -> list[str]:
    """Where the results are and how to open them.

    Args:
        plan: The study's.
        outcome: What became of it.
        uri: The store's.
        resume: The command that goes on with it.
        deliver: A store's address to the command that puts into it what it lacks of the study.
        held: Lines on what it holds.
    """
    lines = []
    if outcome.limit:
        lines.append(
            f"limit       {outcome.limit} ended the study after {len(outcome.outcomes)} trials, "
            "of which all results are kept"
        )
    if outcome.interrupted_by is not None:
        left = sum(o.status == "interrupted" for o in outcome.outcomes)
        trials = "1 trial" if left == 1 else f"{left} trials"
        lines.append(
            f"interrupted by {outcome.interrupted_by}: {trials} did not finish; what they logged is kept. Go on with"
        )
        lines.append(f"resume      {resume}")
    elif any(o.status == "failed" for o in outcome.outcomes):
        lines.append(f"try again   {resume}   (what is finished stays)")
    if experiment := outcome.experiment_ids.get(plan.experiment):
        lines += in_mlflow(uri, views.view_path(experiment, views.BY_CONFIG))
    for name, count in outcome.registered.items():
        versions = "1 version" if count == 1 else f"{count} versions"
        lines.append(f"policies    {versions} of models:/{name} in MLflow's registry, which need no Ray")
    lines.append(f"files       {stored_at(outcome.folder) or outcome.folder}")
    if outcome.study_run:
        lines.append(f"study run   {outcome.study_run}")
    lines += held
    if outcome.refused:
        lines.append(
            f"MLflow refused {outcome.refused} writes for good, as said above; they are in the study's files. "
            "To write all elsewhere:"
        )
        lines.append(f"deliver     {deliver(sqlite_uri(outcome.folder / 'mlflow.db'))}")
    if outcome.undelivered:
        lines.append(f"MLflow did not take {outcome.undelivered} writes. Deliver them, when it is back, with")
        lines.append(f"deliver     {deliver(uri)}")
    return lines
