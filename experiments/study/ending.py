"""The lines at a study's end: where the results are, how to open them, and how to go on."""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conf import CONFIG_DIR
from experiments.config.choices import files_of
from experiments.config.compose import override
from experiments.config.errors import first_line
from experiments.config.output_dir import stored_at
from experiments.config.schema import SuiteConfig
from experiments.contract import INDEX_EXPERIMENT, PROGRAM
from experiments.contract.passwords import without_passwords
from experiments.contract.sqlite_address import sqlite_uri
from experiments.contract.words import labelled, plural
from experiments.planning.plan import Plan
from experiments.study.driver import StudyOutcome
from experiments.study.removal import Holdings, holdings, room
from experiments.tracking import views
from experiments.tracking.place import Place
from experiments.tracking.provenance import ROOT, by_program
from experiments.tracking.store_address import database_of
from experiments.tracking.study_archive import StudyArchive


@dataclass(frozen=True)
class Commands:
    """The commands by which a study goes on after its end, as one can type them.

    Attributes:
        suite: The study's settings.
        outcome: How it went.
        place: The output folder and the store that keep it.
        own: A person's own folder of configuration files; named where the store's file is of it:
            all else is in the study's folder.
    """

    suite: SuiteConfig
    outcome: StudyOutcome
    place: Place
    own: Path | None = None

    def resume(self) -> str:
        """Goes on with the study."""
        named = self.outcome.study_run or _place(self.outcome.folder)
        uri = self.suite.tracking.uri
        in_default = _in_clone() and self.suite.output_dir == "outputs"
        return self._run(_typed("run"), named, None if in_default else self.place.output_dir, uri)

    def deliver(self, uri: str = "") -> str:
        """Puts into a store what it lacks of the study, typed in any folder.

        Args:
            uri: Address of the store; "": the one that the study logs to.
        """
        uri, output_dir = uri or self.place.store_uri, self.place.output_dir
        is_beside = uri == sqlite_uri(output_dir / "mlflow.db") and self.place.objects_uri is None
        anywhere = _typed("run", anywhere=True)
        return self._run(anywhere, _place(self.outcome.folder), output_dir, None if is_beside else uri)

    def delete(self) -> str:
        """Removes the study."""
        words, uri = [f"study={self.outcome.study_run or self.outcome.folder}"], self.suite.tracking.uri
        # whose folder it would be
        if self.suite.output_dir != "outputs" or not _in_clone() or (uri or "").startswith("sqlite"):
            words.append(f"output_dir={_place(self.place.output_dir)}")
        if uri is not None:
            words.append(f"tracking_uri={without_passwords(uri)}")
        return shlex.join([*_typed("delete"), *words])

    def _run(self, program: list[str], study: str, output_dir: Path | None, uri: str | None) -> str:
        tracking = self.suite.tracking.name
        words = [CONFIG_DIR, str(self.own)] if self.own is not None and tracking not in files_of("tracking") else []
        words.append(override("resume", study))
        if output_dir is not None:
            words.append(override("output_dir", _place(output_dir)))
        if tracking != "sqlite":
            words.append(f"tracking={tracking}")
        if uri is not None:
            words.append(override("tracking.uri", without_passwords(uri)))
        return shlex.join([*program, *words])


def _typed(command: str, anywhere: bool = False) -> list[str]:
    """The beginning of a command line, as the one that started this process was typed.

    Args:
        command: Of the suite.
        anywhere: Whether it is typed in another folder.
    """
    if by_program():
        return [PROGRAM, command]
    script = f"experiments/{command}.py"
    return ["python", script if _in_clone() and not anywhere else str(ROOT / script)]


def message(outcome: StudyOutcome) -> tuple[str, str]:
    """What a study came to, for somebody elsewhere: the subject, and the text."""
    counts = Counter(o.status for o in outcome.outcomes)
    told = ", ".join(f"{number} {status}" for status, number in counts.most_common())
    end = f"interrupted by {outcome.interrupted_by}" if outcome.interrupted_by else "ended"
    lines = [f"{plural(len(outcome.outcomes), 'trial')}: {told}.", *outcome.conclusions.answers]
    if not outcome.in_mlflow:
        lines.append("MLflow does not have all of it: the terminal has the command that delivers it.")
    return end, "\n".join(lines)


def _place(folder: Path) -> str:
    """The address in an object store that a folder is a copy of; itself if it is none."""
    return stored_at(folder) or str(folder)


def _in_clone() -> bool:
    """True where the command was typed where the suite is, so that its files and make are there."""
    return Path.cwd() == ROOT


def in_mlflow(uri: str, *pages: str) -> list[str]:
    """How to open pages of MLflow's UI.

    Args:
        uri: Address of the store.
        *pages: Below the server's address.
    """
    if uri.startswith("http"):
        server, first = without_passwords(uri).rstrip("/"), []
    else:
        is_default = uri == sqlite_uri(Path("outputs/mlflow.db").absolute())
        options = ["--backend-store-uri", uri, "--host", "127.0.0.1"]
        command = "make ui" if is_default and _in_clone() else shlex.join(["mlflow", "ui", *options])
        server, first = "http://127.0.0.1:5000", [labelled("MLflow", command)]
    links = [f"{server}/{page}" for page in pages]
    return [*first, *(labelled("" if first or i else "MLflow", link) for i, link in enumerate(links))]


def room_lines(commands: Commands) -> list[str]:
    """The room that a study takes on disk and in MLflow, and how to free it.

    A server is not asked: that takes a request for each folder.
    """
    outcome, place = commands.outcome, commands.place
    database = database_of(place.store_uri)
    found = Holdings(outcome.folder, place.output_dir, None)
    try:
        if database and outcome.study_run and not outcome.undelivered:
            archive = StudyArchive(place)
            found = holdings(outcome.folder, archive.stored(archive.study(outcome.study_run)), archive)
        held = room(found, database)
    except Exception as error:  # noqa: BLE001  # whatever MLflow or the disk raises: the study is safe
        held = f"unknown: {first_line(error)}"
    return [labelled("room", f"{held}; to free it:"), labelled("", commands.delete())]


def where_lines(plan: Plan, commands: Commands, held: Sequence[str]) -> list[str]:
    """Where the results are and how to open them.

    Args:
        plan: The study's plan.
        commands: The commands by which the study goes on.
        held: Lines on what it holds.
    """
    outcome, uri = commands.outcome, commands.place.store_uri
    lines = []
    if reused := sum(bool(o.reused_from) for o in outcome.outcomes):
        of_all = f"{reused} of {plural(len(outcome.outcomes), 'trial')}"
        lines.append(labelled("known", f"taken from other studies, and not run again: {of_all} (tag reused_from)"))
    if outcome.limit:
        lines.append(
            labelled(
                "limit",
                f"{outcome.limit} ended the study after {len(outcome.outcomes)} trials, of which all results are kept",
            )
        )
    if outcome.interrupted_by is not None:
        left = sum(o.status == "interrupted" for o in outcome.outcomes)
        trials = "1 trial" if left == 1 else f"{left} trials"
        lines.append(
            f"interrupted by {outcome.interrupted_by}: {trials} did not finish; what they logged is kept. Go on with"
        )
        lines.append(labelled("resume", commands.resume()))
    elif any(o.status == "failed" for o in outcome.outcomes):
        lines.append(labelled("try again", f"{commands.resume()}   (what is finished stays)"))
    if experiment := outcome.experiment_ids.get(plan.experiment):
        studies = outcome.experiment_ids.get(INDEX_EXPERIMENT)
        own = [f"#/experiments/{studies}/runs/{outcome.study_run}"] if studies and outcome.study_run else []
        lines += in_mlflow(uri, views.view_path(experiment, views.BY_CONFIG), *own)
    for name, count in outcome.registered.items():
        versions = "1 version" if count == 1 else f"{count} versions"
        lines.append(labelled("policies", f"{versions} of models:/{name} in MLflow's registry, which need no Ray"))
    lines.append(labelled("files", stored_at(outcome.folder) or outcome.folder))
    if outcome.study_run:
        lines.append(labelled("study run", outcome.study_run))
    lines += held
    if outcome.refused:
        lines.append(
            f"MLflow refused {outcome.refused} writes for good, as said above; they are in the study's files. "
            "To write all elsewhere:"
        )
        lines.append(labelled("deliver", commands.deliver(sqlite_uri(outcome.folder / "mlflow.db"))))
    if outcome.undelivered:
        lines.append(f"MLflow did not take {outcome.undelivered} writes. Deliver them, when it is back, with")
        lines.append(labelled("deliver", commands.deliver()))
    return lines
