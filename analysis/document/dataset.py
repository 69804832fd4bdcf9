"""A study as files that anybody can read: its trials, its curves, its settings, and a card that says what they are."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.document.methods import methods_of
from analysis.load import Study

CARD = "README.md"
_ABOUT_PEOPLE = ["host"]
"""Columns that say whose machines they were; models of processors stay."""


@dataclass(frozen=True)
class Findings:
    """What a study came to, as its report says it.

    Attributes:
        answers: Lines, marks of Markdown left out.
        columns: Of the table of configurations.
        rows: Its cells, best first.
        caveats: Sentences of Markdown.
        provenance: What it was run with: name and value.
    """

    answers: Sequence[str]
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caveats: Sequence[str]
    provenance: Sequence[tuple[str, str]]


def write(study: Study, findings: Findings, settings: Mapping[str, Any], folder: Path) -> None:
    """Write a study's tables, settings and card.

    The card is a dataset card of Hugging Face's hub (https://huggingface.co/docs/hub/datasets-cards), and plain
    Markdown elsewhere.

    Args:
        study: Finished or not.
        findings: What it came to.
        settings: Configuration to the settings of its trials, in full.
        folder: May exist; files of earlier times are written anew.

    Raises:
        OSError: It cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    study.runs.drop(columns=_ABOUT_PEOPLE, errors="ignore").to_parquet(folder / "runs.parquet", index=False)
    study.curves.to_parquet(folder / "curves.parquet", index=False)
    recorded = {
        "study": study.name,
        "experiment": study.experiment,
        "run_id": study.run_id,
        "question": study.question,
        "command": study.command,
        "axes": dict(study.paths),
        "seeds": list(study.seeds),
        "commit": study.provenance.get("commit"),
        "versions": study.provenance.get("versions"),
        "configurations": settings,
    }
    (folder / "settings.json").write_text(json.dumps(recorded, indent=1, default=str) + "\n", encoding="utf-8")
    (folder / CARD).write_text(card(study, findings), encoding="utf-8", errors="replace")


def card(study: Study, findings: Findings) -> str:
    """What the files are, what the study came to, how it was run, and what to beware of."""
    files = (
        ("runs.parquet", f"{len(study.runs):,} trials, a row each: configuration, seed, status, settings, results"),
        ("curves.parquet", f"{len(study.curves):,} points: run, metric, env steps, seconds, value"),
        ("settings.json", "the settings of every configuration, in full, the command and the versions"),
    )
    parts = [
        "---\ntags: [reinforcement-learning, rllib]\nconfigs:\n"
        + "".join(f"- config_name: {name}\n  data_files: {name}.parquet\n" for name in ("runs", "curves"))
        + "---",
        f"# {study.experiment}",
        study.question or study.name,
        "\n".join(["```text", *findings.answers, "```"]),
        _table(findings.columns, findings.rows),
        "Means over seeds with 95% intervals; the recommended configuration stands first.",
        "## Files",
        _table(("file", "holds"), [(f"`{name}`", holds) for name, holds in files]),
        '```python\nimport pandas as pd\n\nruns = pd.read_parquet("runs.parquet")\n```',
        "## How it was run",
        "\n".join(["```text", study.command or "(the command was not recorded)", "```"]),
        _table(("", ""), findings.provenance),
    ]
    if beware := [*study.gaps(), *findings.caveats]:
        parts += ["## Beware", "\n".join(f"- {sentence}" for sentence in beware)]
    return "\n\n".join([*parts, "## Methods", *methods_of(study)]) + "\n"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
