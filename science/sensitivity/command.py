"""How much tuning a result needed: sensitivity to hyperparameters over environments, of studies or of a table."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis import AnalysisError
from analysis.document.command_line import exit_code_of, settings_of, words_of
from analysis.load import Study, load_study
from analysis.questions.labels import listed
from science.sensitivity.page import page
from science.sensitivity.question import checked, of_runs, sensitivity

SEED = 0
"""Of the bootstrap: the same runs give the same page."""
_KEYS = ("studies", "table", "measure", "tracking_uri", "out")
_USAGE = "python analysis/sensitivity.py studies=[...] | table=... [measure=score|auc] [tracking_uri=...] [out=...]"
HELP = f"""\
Says how much of a score is owed to tuning: the score tuned for each environment minus that of the best setting for all of them, and how
many hyperparameters have to be tuned (Adkins et al. 2024, arXiv 2412.07165). Writes a page with figure and tables, prints it in short.

  {_USAGE}

  studies=          studies that ran the same settings in several environments, [a,b], by name or run id; one study may have them all
  table=            instead: a CSV file with a row a run and the columns environment, setting, seed, score; algorithm, if there are several.
                    Hyperparameters are told by settings such as lr=1e-3 batch=512, or have columns of their own. Scores in a column
                    normalized_score stay as they are; others are put on one scale
  measure=          of studies: score, by default, or auc, the area under the learning curve
  tracking_uri=     the store that holds the studies; default: outputs/mlflow.db
  out=              the page; default: outputs/reports/sensitivity.html

Exit codes: 0 written. 2 there is no such study or file, it has one environment, or no setting was run in all.
"""  # noqa: E501


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


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    return exit_code_of(arguments, HELP, lambda: _sensitivity(arguments))


def _sensitivity(arguments: Sequence[str]) -> int:
    given = settings_of(arguments, _KEYS, _USAGE)
    if ("studies" in given) == ("table" in given):
        raise AnalysisError(f"give studies= or table=, and one of them alone. Usage: {_USAGE}")
    table, source = _read_file(given) if "table" in given else _read_studies(given)
    found = page(
        sensitivity(table, np.random.default_rng(SEED)),
        source,
        shlex.join(["python", "analysis/sensitivity.py", *arguments]),
    )
    path = Path(given.get("out", "outputs/reports/sensitivity.html"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(found.html, encoding="utf-8")
    print("\n".join(found.lines))
    print(path.resolve())
    return 0


def _read_file(given: Mapping[str, str]) -> tuple[pd.DataFrame, str]:
    """A table of somebody's, and what it is called.

    Raises:
        AnalysisError: There is no such file, it is no CSV, or what it must have is missing.
    """
    if alone := [key for key in ("measure", "tracking_uri") if key in given]:
        raise AnalysisError(f"{alone[0]}= is of studies: a table has one score.")
    path = Path(given["table"]).expanduser()
    try:
        found = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise AnalysisError(f"table={given['table']}: cannot be read as CSV: {error}") from error
    return checked(found), path.name


def _read_studies(given: Mapping[str, str]) -> tuple[pd.DataFrame, str]:
    """The runs of studies, and what these are called.

    Raises:
        AnalysisError: One of them is not there, or the measure is none.
    """
    measure = given.get("measure", "score")
    if measure not in ("score", "auc"):
        raise AnalysisError(f"measure={measure}: must be score or auc.")
    names = words_of(given["studies"])
    if not names:
        raise AnalysisError("studies= names no study.")
    studies = [load_study(name, given.get("tracking_uri"), metrics=[]) for name in names]
    return table_of(studies, measure), listed([study.experiment for study in studies])
