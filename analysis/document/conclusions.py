"""The analysis at the end of a trial and of a study. It is imported when it is asked: a study begins without."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from experiments.contract.outcome import Outcome
from experiments.contract.words import labelled

if TYPE_CHECKING:
    import pandas as pd

    from analysis.document.answer import Answer
    from analysis.document.next_step import NextStep
    from analysis.evidence import Evidence

Curves = Mapping[str, Sequence[tuple[float, float]]]
"""Metric to (env steps, value)."""


@dataclass(frozen=True)
class Conclusions:
    """The conclusions of a study.

    Attributes:
        note: The answers, as Markdown.
        answers: What to use, a sentence for each environment.
        chosen: The recommended configurations, joined by commas.
        recommended: The same, one by one.
        table: Column to values: how well each configuration did.
        best: The `best/*` metrics; empty unless there is one recommendation.
    """

    note: str
    chosen: str
    table: Mapping[str, Sequence[Any]]
    recommended: Sequence[str] = ()
    best: Mapping[str, float] = field(default_factory=dict)
    answers: Sequence[str] = ()


def diagnose(planned: Mapping[str, Any], known: Mapping[str, Any], curves: Curves) -> dict[str, str]:
    """Tags of a trial: what it was bound by, and its health.

    Args:
        planned: Its parameters.
        known: What else is known of its configuration; wins.
        curves: Of the trial.
    """
    from analysis.questions.diagnosis import facts_of, tags

    return tags(curves, facts_of(planned, known))


def prepare() -> None:
    """Import what a study's end takes, and what its report is drawn with."""
    from analysis import load  # noqa: F401
    from analysis.document import answer, next_step, terminal  # noqa: F401
    from analysis.plots import labels, learning_curves  # noqa: F401


def conclude(record: Mapping[str, Any], outcomes: Sequence[Outcome]) -> Conclusions | None:
    """The conclusions of a study; None if no trial has started.

    Args:
        record: What was to be run, as plan.json has it.
        outcomes: How each trial ended.
    """
    from analysis.document.answer import answers, best_metrics, closing_table

    if not outcomes:
        return None
    evidence = evidence_of(record, outcomes)
    found, table = answers(evidence), closing_table(evidence)
    words = [f"**Answer.** {answer.markdown()}" for answer in found]
    words += [f"**Next.** {step.sentence}\n\n`{step.command}`" for step in _next_steps(record, evidence.runs, found)]
    recommended = [answer.decision.chosen for answer in found if answer.decision.chosen]
    return Conclusions(
        note="\n\n".join(words),
        answers=[answer.headline.replace("`", "") for answer in found],
        chosen=", ".join(recommended),
        recommended=recommended,
        table=table.astype(object).where(table.notna(), None).to_dict("list"),
        best=best_metrics(table) if len(found) == 1 and found[0].decision.chosen else {},
    )


def closing_lines(record: Mapping[str, Any], outcomes: Sequence[Outcome], width: int) -> list[Any]:
    """The last lines on the terminal: the closing table, the answers, the next steps, or why there are none.

    Of a line the first twelve columns are for what it is about; commands begin with spaces alone.

    Args:
        record: As for `conclude`.
        outcomes: How each trial ended.
        width: Columns of the terminal.
    """
    if not outcomes:
        return [labelled("answer", "none: no trial has started")]
    try:
        from analysis.document.answer import answers, closing_table
        from analysis.document.terminal import outcome_table

        evidence = evidence_of(record, outcomes)
        found = answers(evidence)
        lines: list[Any] = [outcome_table(closing_table(evidence), record["exclusive"], width)]
        for answer in found:
            lines += [f"{word:<12}{line}" for word, line in zip_longest(["answer"], answer.lines(), fillvalue="")]
        for step in _next_steps(record, evidence.runs, found):
            lines += [labelled("next", f"{step.sentence.replace('`', '')}"), labelled("", f"{step.command}")]
        return lines
    except Exception as error:  # noqa: BLE001
        # a study that ran ends with its exit code, whatever becomes of its conclusions
        return [labelled("answer", f"none: {type(error).__name__}: {error}")]


def _next_steps(record: Mapping[str, Any], runs: "pd.DataFrame", found: "Sequence[Answer]") -> "list[NextStep]":
    from analysis.document.next_step import StudyCommand, next_step

    points = {entry["config"]: {**entry["point"], **entry["planned"]} for entry in record["configurations"]}
    asked = StudyCommand(
        record["study"], record["command"], points, [*record["seeds"], *runs["seed"]], record["concurrency"]
    )
    steps = (next_step(answer.decision, runs, asked) for answer in found)
    return [step for step in steps if step]


def evidence_of(record: Mapping[str, Any], outcomes: Sequence[Outcome]) -> "Evidence":
    """The trials of a study, without what only MLflow knows.

    Args:
        record: As for `conclude`.
        outcomes: Likewise; at least one.
    """
    from analysis.evidence import Evidence
    from analysis.frames import TrialRow, runs_frame

    runs = runs_frame(record, [TrialRow.of_outcome(outcome) for outcome in outcomes])
    return Evidence(runs, axes=tuple(record["axes"]))
