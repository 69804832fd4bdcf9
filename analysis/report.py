"""A study's report: one HTML file that holds everything it shows."""

import sys
from pathlib import Path

if not __package__:  # run as a file: what is called like the suite's packages in other folders is not taken for them
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import math
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd

import conf
from analysis import AnalysisError
from analysis.document import dataset
from analysis.document.answer import Answer, answers, closing_table
from analysis.document.caveats import caveats, without_episodes
from analysis.document.command_line import words_of
from analysis.document.commands import Command, NotAWord
from analysis.document.conclusions import steps_of
from analysis.document.configurations import cells_of
from analysis.document.garbage import without_collections
from analysis.document.methods import methods_of
from analysis.document.next_step import NextStep, study_command
from analysis.document.opening import opening
from analysis.document.page import address, environment, svg
from analysis.document.parts import Drawn
from analysis.document.search import seeds_named
from analysis.document.sections import across, by_env
from analysis.document.side_by_side import build as side_by_side
from analysis.document.side_by_side import side_of
from analysis.load import Clips, Study, load_clips, load_settings, load_studies, load_study
from analysis.questions.labels import listed
from analysis.questions.search import spent
from analysis.stores.attach import attach
from conf import CONFIG_DIR
from experiments.contract.extensions import ExtensionError, take_own
from experiments.contract.report_file import report_file, write_page
from experiments.contract.sqlite_address import sqlite_path

SEED = 0
"""Of the draws behind a report: the same study gives the same report."""

_VERSION = metadata.version("rl-scaling-suite")


@dataclass(frozen=True)
class StudyReport:
    """A study's report.

    Attributes:
        html: The file's text.
        answers: One for each environment.
        steps: What to do next, likewise.
        table: All configurations, best first.
        pictures: File name to SVG.
    """

    html: str
    answers: tuple[Answer, ...]
    steps: tuple[NextStep | None, ...]
    table: pd.DataFrame
    pictures: Mapping[str, bytes]


@without_collections()
def build(study: Study, clips: Sequence[Clips] = ()) -> StudyReport:
    """A study's report.

    Args:
        study: Finished or not.
        clips: Of the policies of its choice, as `analysis.load.load_clips` gives them.
    """
    rng, evidence = np.random.default_rng(SEED), study.evidence
    found, table = answers(evidence), closing_table(evidence)
    steps = tuple(steps_of(found, study.runs, study_command(study)))
    several = len(found) > 1
    pictures: dict[str, bytes] = {}
    shown = []
    for env, of_env in by_env(study, rng).items():
        for section in of_env:
            figures = _figures(section.figures, f"{env}-" if several else "", pictures)
            key, title = (
                (f"{section.key}-{env}", f"{section.title}: {env}") if several else (section.key, section.title)
            )
            said = {"sentences": section.sentences, "tables": section.tables}
            shown.append({"key": key, "title": title, **said, "figures": figures})
    overall = across(study, evidence.concluding.runs, rng)
    if overall.sentences:
        shown.insert(
            0,
            {
                "key": overall.key,
                "title": overall.title,
                "sentences": overall.sentences,
                "tables": overall.tables,
                "figures": _figures(overall.figures, "", pictures),
            },
        )
    page = (
        environment()
        .get_template("report.html.j2")
        .render(
            title=f"{study.experiment}: report",
            over=f"Study {study.experiment} \u00b7 {study.started:%Y-%m-%d %H:%M} UTC \u00b7 {_size(study)}",
            question=study.question or study.name,
            clips=[_shown(clip, several) for clip in clips],
            answers=list(zip(found, steps, _openings(study, found, pictures), strict=True)),
            gaps=study.gaps(),
            caveats=_caveats(study),
            sections=shown,
            table=cells_of(table),
            methods=methods_of(study),
            command=study.command,
            provenance=_provenance(study),
            footer=(
                f"Study run {study.run_id}. Written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC "
                f"by rl-scaling-suite {_VERSION}."
            ),
        )
    )
    return StudyReport(page, tuple(found), steps, table, pictures)


def _openings(study: Study, found: Sequence[Answer], pictures: dict[str, bytes]) -> list[dict[str, str] | None]:
    """The figure beside each answer, as the page shows it."""
    shown: list[dict[str, str] | None] = []
    for answer in found:
        env = answer.decision.env
        drawn = opening(study, study.evidence.of_envs[env])
        before = f"{env}-" if len(found) > 1 else ""
        shown.append(None if drawn is None else _figures([drawn], before, pictures)[0])
    return shown


def _figures(figures: Sequence[Drawn], before: str, pictures: dict[str, bytes]) -> list[dict[str, str]]:
    """Figures as the page shows them; their files, whose names begin with `before`,
    are added to the pictures.
    """
    for drawn in figures:
        pictures[f"{before}{drawn.key}.svg"] = svg(drawn.figure)
    return [{"source": address(pictures[f"{before}{drawn.key}.svg"]), "caption": drawn.caption} for drawn in figures]


def _shown(clips: Clips, several: bool) -> dict[str, Any]:
    """A policy's recorded episodes, as the page shows them."""
    words = {role: f"the {role} episode" for role in clips.animations}
    what = f"The recommended configuration{f' on {clips.env}' if several else ''} at play, on held-out env seeds"
    return {
        "episodes": [
            {"source": address(file, "webp"), "words": words[role]} for role, file in clips.animations.items()
        ],
        "caption": f"{what}: {listed([*words.values()])} of its {clips.seed} seed.",
    }


def publish(study: Study, path: Path) -> tuple[StudyReport, str]:
    """Build a study's report, write its file, and its folder if need be, and attach it to the study's run.

    Returns:
        The report, and why MLflow does not have it; empty if it does.
    """
    report = build(study, load_clips(study))
    write_page(path, report.html)
    return report, attach(report.html, report.pictures, study.run_id, study.tracking_uri)


def reported(
    *,
    study: str | None = None,
    studies: str | None = None,
    delta: float | None = None,
    failure_below: float | None = None,
    tracking_uri: str | None = None,
    out: str | None = None,
    export: Literal["table"] | None = None,
    config_dirs: Annotated[Sequence[str], NotAWord] = (),
) -> int:
    """Writes a study's report, finished or not: one HTML file that holds everything it shows. Prints the answer and
    where the file is.

    `--config-dir FOLDER` names a folder of your own, of which what is in its science/ is shown too.

    Args:
        study: Its name, of which the latest execution is taken, or the run id of one; default: the latest of all.
        studies: Two studies or more side by side, [a,b]: what differs, how their configurations compare, and what may
            not be compared.
        delta: Scores that differ by less are practically the same, a return; default: the study's report.delta.
        failure_below: The score below which a seed fails, a return; default: the study's report.failure_below.
        tracking_uri: The store that holds it: sqlite:////absolute/mlflow.db or http(s)://host:port; default:
            outputs/mlflow.db. Of studies in different stores one for each, [uri,uri].
        out: The file; default: in reports/ beside the store. It is also attached to the study's run in MLflow.
        export: `table`: its trials and curves as Parquet files, its settings, and a card that says what they are, for
            others, in a folder beside the report.
        config_dirs: Folders of a person's own.
    """
    for folder in config_dirs:
        take_own(Path(folder))
    given = {name: value for name, value in (("delta", delta), ("failure_below", failure_below)) if value is not None}
    if studies is not None:
        if study is not None:
            raise AnalysisError("study= and studies= are given: study= is for one study, studies= for several.")
        if given:
            alone = next(iter(given))
            raise AnalysisError(f"{alone}= is for the report of one study: side by side, each keeps its own.")
        if export is not None:
            raise AnalysisError(f"export={export}: is of one study. Export each by itself, with study=.")
        return _side_by_side(studies, words_of(tracking_uri or ""), out)
    found = _concluded_by(load_study(study, tracking_uri), given)
    path = report_file(found.experiment, found.run_id, _output_dir(found.tracking_uri)) if out is None else Path(out)
    report, problem = publish(found, path)
    for answer, step in zip(report.answers, report.steps, strict=True):
        print("\n".join([*answer.lines(), *([step.sentence.replace("`", ""), step.command] if step else [])]))
    print(path.resolve())
    if export is not None:
        write_tables(found, report, path.with_suffix(""))
        print(path.with_suffix("").resolve())
    for folder in conf.config_dirs(shlex.split(found.command))[1]:
        if folder not in config_dirs and any(Path(folder).glob("science/*/manifest.py")):
            print(
                f"warning: the study was begun with {CONFIG_DIR} {folder}, and the report lacks what {folder}/science "
                f"shows. To have it, add {CONFIG_DIR} {folder}.",
                file=sys.stderr,
            )
    if problem:
        print(f"warning: the report is not in MLflow: {problem}", file=sys.stderr)
    return 0


COMMAND = Command(
    "report",
    reported,
    ("study=smoke", "'studies=[lr_batch,lr_rules]'"),
    "0 written. 2 there is no such study, none of its trials has started, or the store cannot be read.",
    (ExtensionError,),
)


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    words, folders = conf.config_dirs(arguments)
    return COMMAND.exit_code(words, config_dirs=folders)


def _concluded_by(study: Study, given: Mapping[str, float]) -> Study:
    """A study whose conclusions are drawn by what the command line says, where it says something.

    Raises:
        AnalysisError: A value makes no sense; names the fix.
    """
    for key, value in given.items():
        if not math.isfinite(value) or (key == "delta" and value <= 0):
            raise AnalysisError(
                f"{key}={value:g}: must be a number{' above 0' if key == 'delta' else ''}, a return, such as 10."
            )
    return replace(study, runs=study.runs.assign(**given))


def _side_by_side(asked: str, uris: Sequence[str], out: str | None) -> int:
    """Write the page of several studies; the exit code.

    Args:
        asked: Their names, as they are typed.
        uris: Of their stores: none, one, or one for each.
        out: The file.

    Raises:
        AnalysisError: One of them is not there, or its name is ambiguous.
    """
    names = words_of(asked)
    if len(names) < 2:
        one = f": python analysis/report.py study={names[0]}" if names else ""
        raise AnalysisError(
            f"studies={asked}: side by side it takes two studies or more. Of one there is a report{one}."
        )
    studies = load_studies(names, uris, ["eval/return_mean"])
    sides = [side_of(chr(ord("A") + i), study, *load_settings(study)) for i, study in enumerate(studies)]
    found = side_by_side(studies, sides)
    name = f"side-by-side-{'-'.join(study.run_id[:8] for study in studies)}.html"
    path = _output_dir(studies[0].tracking_uri) / "reports" / name if out is None else Path(out)
    write_page(path, found.html)
    print("\n".join(found.lines))
    print(path.resolve())
    return 0


def _output_dir(tracking_uri: str) -> Path:
    """Beside an embedded store; else where studies put things by default."""
    database = sqlite_path(tracking_uri)
    return Path("outputs") if database is None else database.parent


def write_tables(study: Study, report: StudyReport, folder: Path, metrics: Collection[str] | None = None) -> None:
    """Write a study's tables, with all settings and a card that says what they are.

    Args:
        study: Of which what is given is written.
        report: The same study's.
        folder: May exist.
        metrics: Those whose curves are written; None: all.

    Raises:
        OSError: It cannot be written.
    """
    cells = cells_of(report.table)
    rows = [[f"{cell['text']} {cell.get('below', '')}".strip() for cell in row["cells"]] for row in cells["rows"]]
    lines = [line for answer in report.answers for line in answer.lines()]
    findings = dataset.Findings(lines, cells["columns"], rows, _caveats(study), _provenance(study, with_host=False))
    curves = study.curves if metrics is None else study.curves[study.curves["metric"].isin(metrics)]
    dataset.write(replace(study, curves=curves), findings, load_settings(study)[0], folder)


def _caveats(study: Study) -> list[str]:
    """What a reader should beware of, in sentences."""
    evidence = study.evidence
    return [*_start(study), *_unmasked(study), *caveats(evidence), *without_episodes(evidence.concluding)]


def _start(study: Study) -> list[str]:
    """The policy that its trials start from, if it is no weights of their own."""
    if not study.start:
        return []
    return [
        f"All trials start from {study.start}. Env steps, the time to the target and the area under the curve count "
        "from there: compare them with those of trials that start from it as well."
    ]


def _unmasked(study: Study) -> list[str]:
    """Environments that say which actions are allowed, where no policy heeds it."""
    return [
        f"The observations of {env} have an `action_mask`, which is not applied: policies observe it, "
        "but may take actions that it rules out. Scores include such episodes."
        for env in study.unmasked
    ]


def _size(study: Study) -> str:
    configurations, finished = study.runs["config"].nunique(), int((study.runs["status"] == "finished").sum())
    if study.runs["exploratory"].any():
        return _size_of_search(study)
    repeats = f" \u00d7 {study.repeats} repeats" if study.repeats > 1 else ""
    return (
        f"{configurations} configurations \u00d7 {len(study.seeds)} seeds{repeats}, "
        f"{finished} of {len(study.runs)} trials finished{_taken(study)}"
    )


def _size_of_search(study: Study) -> str:
    cost = spent(study.runs, study.curves)
    searched, confirming = cost.loc["search"], cost.loc["confirm"]
    found = f"{confirming['num_configurations']} confirmed \u00d7 {confirming['num_seeds']} held-out seeds"
    stopped = f", {searched['num_stopped']} stopped early" if searched["num_stopped"] else ""
    return (
        f"{searched['num_configurations']} configurations searched in {searched['num_trials']} trials, "
        f"{found if confirming['num_trials'] else 'none confirmed'}, {cost['num_finished'].sum()} "
        f"of {cost['num_trials'].sum()} trials finished{stopped}{_taken(study)}"
    )


def _taken(study: Study) -> str:
    """How many trials ran in other studies, a clause; "" if none did."""
    number = int((study.runs["reused_from"] != "").sum())
    return f", {number} of them in other studies" if number else ""


def _provenance(study: Study, with_host: bool = True) -> list[tuple[str, str]]:
    facts = study.provenance
    machine = facts.get("host") or {}
    versions = facts.get("versions") or {}
    commit = str(facts.get("commit") or "unknown")
    changed = " with uncommitted changes (the study run's artifact uncommitted.diff)" if facts.get("dirty") else ""
    return [
        ("commit", commit + changed),
        ("machine", ", ".join(f"{k} {v}" for k, v in machine.items() if with_host or k != "host")),
        ("versions", ", ".join(f"{k} {v}" for k, v in versions.items())),
        ("seeds", seeds_named(study.runs, study.seeds)),
        ("MLflow", f"experiment {study.experiment}, study run {study.run_id}"),
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
