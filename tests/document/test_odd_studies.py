"""What is said of studies that are easily told wrong, word by word: a change shows what becomes of all of them."""

import os
from pathlib import Path

from analysis.document.answer import answers
from analysis.document.caveats import caveats
from analysis.document.conclusions import steps_of
from analysis.document.next_step import StudyCommand
from tests.support.odd_studies import odd_studies

SAID = Path(__file__).parent / "odd_studies.txt"


def told() -> str:
    pages = []
    for name, evidence in odd_studies().items():
        found = answers(evidence)
        steps = steps_of(found, evidence.runs, StudyCommand("RUN", "python experiments/run.py"))
        lines = [line for answer in found for line in answer.lines()]
        lines += [f"Caveat: {caveat}" for caveat in caveats(evidence)]
        lines += [f"Next: {step.sentence} {step.command}" for step in steps if step]
        pages.append("\n".join([f"== {name} ==", *lines]))
    return "\n\n".join(pages) + "\n"


def test_they_are_told_as_they_were() -> None:
    """Written anew with RENEW=1; every line of the difference is to be read."""
    found = told()
    if os.environ.get("RENEW"):
        SAID.write_text(found)
    assert found == SAID.read_text()
