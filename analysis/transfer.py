"""Which settings carry over from one environment, budget or algorithm to another: over several studies."""

import sys
from pathlib import Path

if not __package__:  # run as a file: what is called like the suite's packages in other folders is not taken for them
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import shlex
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from analysis import AnalysisError
from analysis.document.command_line import words_of
from analysis.document.commands import Command, NotAWord
from analysis.document.transfer import page, source_of
from analysis.load import load_composed, load_studies
from analysis.questions.transfer import transfer
from experiments.contract.report_file import write_page

SEED = 0
"""Of draws and splits: the same studies give the same page."""


def carried(
    *,
    studies: str | None = None,
    measure: Literal["score", "auc"] = "score",
    tracking_uri: str | None = None,
    out: str = "outputs/reports/transfer.html",
    command: Annotated[str, NotAWord] = "",
) -> int:
    """Says which settings carry over from one environment, budget or algorithm to another: the rank correlation of
    their scores, what it costs each environment to use what the others choose, judged by seeds that chose nothing, and
    the setting to try first on a new one. Writes a page with tables, prints it in short.

    Settings are paired by their values, or by the multiples of what each environment starts from, where studies
    searched these (`distribution: multiples`); where both can be, it says which carries over better.

    Args:
        studies: Studies that searched the same settings in several environments, by several algorithms or with several
            budgets, [a,b], by name or run id; one study may have them all.
        measure: By which settings are compared: score, by default, or auc, the area under the learning curve.
        tracking_uri: The store that holds them; default: outputs/mlflow.db. Of studies in different stores one for
            each, [uri,uri].
        out: The page; default: outputs/reports/transfer.html.
        command: What was typed.
    """
    names = words_of(studies or "")
    if not names:
        raise AnalysisError(
            "studies= names no study: give two or more that searched the same settings, such as studies=[a,b], or one "
            "that ran in several environments."
        )
    loaded = load_studies(names, words_of(tracking_uri or ""), [])
    by_letter = {chr(ord("A") + i): study for i, study in enumerate(loaded)}
    sources = [source_of(letter, study, load_composed(study)) for letter, study in by_letter.items()]
    found = page(transfer(sources, measure, np.random.default_rng(SEED)), by_letter, measure, command)
    path = Path(out)
    write_page(path, found.html)
    print("\n".join(found.lines))
    print(path.resolve())
    return 0


COMMAND = Command(
    "transfer",
    carried,
    ("'studies=[a,b]'", "'studies=[a,b]' measure=auc"),
    "0 written. 2 there is no such study, one environment alone, or too few settings that all of them ran.",
)


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    typed = shlex.join(["python", "analysis/transfer.py", *arguments])
    return COMMAND.exit_code(arguments, command=typed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
