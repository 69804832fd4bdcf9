"""How much tuning a result needed: sensitivity to hyperparameters over environments, of studies or of a table."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd

from analysis import AnalysisError
from analysis.document.command_line import words_of
from analysis.document.commands import Command, NotAWord
from analysis.load import Study, load_study
from analysis.questions.labels import listed
from science.sensitivity.page import page
from science.sensitivity.question import checked, of_runs, sensitivity

SEED = 0
"""Of the bootstrap: the same runs give the same page."""


def table_of(studies: Sequence[Study], measure: str = "score") -> pd.DataFrame:
    """The runs of several studies as one table; an algorithm that several ran in the same environment
    is told apart by the study.

    Args:
        studies: One or more that trained to a budget.
        measure: `score` or `auc`.

    Raises:
        AnalysisError: A hyperparameter was not searched in all of them.
    """
    axes = [{axis for axis in study.axes if axis not in ("env", "algorithm")} for study in studies]
    if other := {axis for some in axes for axis in some if any(axis not in others for others in axes)}:
        raise AnalysisError(
            f"{listed(sorted(other))} was not searched in all of these studies: their settings cannot be compared."
        )
    tables = [of_runs(study.runs, study.axes, measure) for study in studies]
    pairs = [set(zip(table["algorithm"], table["environment"], strict=True)) for table in tables]
    if sum(map(len, pairs)) > len(set().union(*pairs)):
        tables = [
            table.assign(algorithm=[f"{name} ({study.name})" for name in table["algorithm"]])
            for table, study in zip(tables, studies, strict=True)
        ]
    return pd.concat(tables, ignore_index=True)


def weighed(
    *,
    studies: str | None = None,
    table: str | None = None,
    measure: Literal["score", "auc"] | None = None,
    tracking_uri: str | None = None,
    out: str = "outputs/reports/sensitivity.html",
    command: Annotated[str, NotAWord] = "",
) -> int:
    """Says how much of a score is owed to tuning: the score tuned for each environment minus that of the best setting
    for all of them, and how many hyperparameters have to be tuned (Adkins et al. 2024, arXiv 2412.07165). Writes a page
    with figure and tables, prints it in short.

    Args:
        studies: Studies that ran the same settings in several environments, [a,b], by name or run id; one study may
            have them all.
        table: Instead: a CSV file with a row a run and the columns environment, setting, seed, score; algorithm, if
            there are several. Hyperparameters are told by settings such as lr=1e-3 batch=512, or have columns of their
            own. Scores in a column normalized_score stay as they are; others are put on one scale.
        measure: Of studies: score, by default, or auc, the area under the learning curve.
        tracking_uri: The store that holds the studies; default: outputs/mlflow.db.
        out: The page; default: outputs/reports/sensitivity.html.
        command: What was typed.
    """
    if (studies is None) == (table is None):
        raise AnalysisError("give studies= or table=, and one of them alone.")
    if studies is None:
        assert table is not None, "one of them is given"
        if alone := [name for name, value in (("measure", measure), ("tracking_uri", tracking_uri)) if value]:
            raise AnalysisError(f"{alone[0]}= is of studies: a table has one score.")
        rows, source = _read_file(table)
    else:
        rows, source = _read_studies(studies, measure or "score", tracking_uri)
    found = page(sensitivity(rows, np.random.default_rng(SEED)), source, command)
    path = Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(found.html, encoding="utf-8")
    print("\n".join(found.lines))
    print(path.resolve())
    return 0


COMMAND = Command(
    "sensitivity",
    weighed,
    ("'studies=[a,b]'", "table=scores.csv"),
    "0 written. 2 there is no such study or file, it has one environment, or no setting was run in all.",
)


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    typed = shlex.join(["python", "analysis/sensitivity.py", *arguments])
    return COMMAND.exit_code(arguments, command=typed)


def _read_file(file: str) -> tuple[pd.DataFrame, str]:
    """A table of somebody's, and what it is called.

    Raises:
        AnalysisError: There is no such file, it is no CSV, or what it must have is missing.
    """
    path = Path(file).expanduser()
    try:
        found = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise AnalysisError(f"table={file}: cannot be read as CSV: {error}") from error
    return checked(found), path.name


def _read_studies(asked: str, measure: str, tracking_uri: str | None) -> tuple[pd.DataFrame, str]:
    """The runs of studies, and what these are called.

    Raises:
        AnalysisError: One of them is not there.
    """
    names = words_of(asked)
    if not names:
        raise AnalysisError("studies= names no study.")
    studies = [load_study(name, tracking_uri, metrics=[]) for name in names]
    return table_of(studies, measure), listed([study.experiment for study in studies])
