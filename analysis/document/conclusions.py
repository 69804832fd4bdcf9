"""The analysis at the end of a trial and of a study. It is imported when it is asked: a study begins without."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from experiments.contract.outcome import Outcome
from experiments.contract.words import labelled

if TYPE_CHECKING:
    import pandas as pd

    from analysis.document.answer import Answer
    from analysis.document.next_step import NextStep, StudyCommand
    from analysis.evidence import Evidence

Curves = Mapping[str, Sequence[tuple[float, float]]]
"""Metric to (env steps, value)."""


@dataclass(frozen=True)
class Conclusions:
    """The conclusions of a study, for MLflow and for the terminal.

    Attributes:
        problem: Why there are none; "" if there are.
        evidence: The trials that they rest on.
        found: The answer of each environment.
        steps: What to do next.
        exclusive: Whether trials ran alone.
    """

    problem: str = ""
    evidence: "Evidence | None" = None
    found: "Sequence[Answer]" = ()
    steps: "Sequence[NextStep]" = ()
    exclusive: bool = True

    @property
    def note(self) -> str:
        """The answers, as Markdown."""
        words = [f"**Answer.** {answer.markdown()}" for answer in self.found]
        return "\n\n".join([*words, *(f"**Next.** {step.sentence}\n\n`{step.command}`" for step in self.steps)])

    @property
    def answers(self) -> Sequence[str]:
        """What to use, a sentence for each environment."""
        return [answer.headline.replace("`", "") for answer in self.found]

    @property
    def recommended(self) -> Sequence[str]:
        """The recommended configurations; of those that were to be confirmed, the ones that were."""
        told = [answer.decision.chosen for answer in self.found if answer.confirmed is not False]
        return [config for config in told if config]

    @property
    def table(self) -> Mapping[str, Sequence[Any]]:
        """Column to values: how well each configuration did."""
        table = self._closing_table
        return dict(table.astype(object).where(table.notna(), None).to_dict("list"))

    @property
    def best(self) -> Mapping[str, float]:
        """The `best/*` metrics; empty unless there is one recommendation."""
        from analysis.document.answer import best_metrics

        return best_metrics(self._closing_table) if len(self.found) == len(self.recommended) == 1 else {}

    @property
    def _closing_table(self) -> "pd.DataFrame":
        from analysis.document.answer import closing_table

        assert self.evidence is not None, "there are conclusions"
        return closing_table(self.evidence)

    def lines(self, width: int) -> list[Any]:
        """The last lines on the terminal: the closing table, the answers, the next steps, or why there are none.

        Args:
            width: Columns of the terminal.
        """
        if self.problem:
            return [labelled("answer", f"none: {self.problem}")]
        try:
            return self._lines(width)
        except Exception as error:  # noqa: BLE001
            # a study that ran ends with its exit code, whatever becomes of its conclusions
            return [labelled("answer", f"none: {type(error).__name__}: {error}")]

    def _lines(self, width: int) -> list[Any]:
        from analysis.document.terminal import outcome_table, settings_table
        from analysis.questions.product import product_of

        lines: list[Any] = [outcome_table(self._closing_table, self.exclusive, width)]
        product = None if self.evidence is None else product_of(self.evidence)
        if product is not None:  # of one environment
            lines.append(settings_table(product, str(self.found[0].decision.chosen), width))
        for answer in self.found:
            lines += [labelled(word, line) for word, line in zip_longest(["answer"], answer.lines(), fillvalue="")]
        for step in self.steps:
            lines += [labelled("next", step.sentence.replace("`", "")), labelled("", step.command)]
        return lines


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


def conclude(record: Mapping[str, Any], outcomes: Sequence[Outcome]) -> Conclusions:
    """The conclusions of a study, which ran whatever becomes of them: without any, they say why.

    Args:
        record: What was to be run, as plan.json has it.
        outcomes: How each trial ended.
    """
    if not outcomes:
        return Conclusions("no trial has started")
    try:
        from analysis.document.answer import answers
        from analysis.document.next_step import StudyCommand

        evidence = evidence_of(record, outcomes)
        found = answers(evidence)
        asked = StudyCommand(record["named"], record["command"], record["concurrency"])
        steps = [step for step in steps_of(found, evidence.runs, asked) if step]
        return Conclusions("", evidence, found, steps, bool(evidence.concluding.runs["exclusive"].all()))
    except Exception as error:  # noqa: BLE001  # as it says
        return Conclusions(f"{type(error).__name__}: {error}")


def steps_of(found: "Sequence[Answer]", runs: "pd.DataFrame", asked: "StudyCommand") -> "list[NextStep | None]":
    """The next step of each answer: of several environments that take one command, with the first of them; none after a
    confirmation, which is the last word.

    Args:
        found: The answers of a study.
        runs: Its trials.
        asked: What ran it.
    """
    from analysis.document.next_step import next_step

    steps = [next_step(answer.decision, runs, asked) if answer.confirmed is None else None for answer in found]
    told: dict[str, NextStep] = {}
    for step in steps:
        if step is not None:
            same = told.get(step.command)
            told[step.command] = step if same is None else same.and_(step)
    return [None if step is None else told.pop(step.command, None) for step in steps]


def evidence_of(record: Mapping[str, Any], outcomes: Sequence[Outcome]) -> "Evidence":
    """The trials of a study, without what only MLflow knows.

    Args:
        record: What was to be run, as plan.json has it.
        outcomes: How each trial ended; at least one.
    """
    from analysis.evidence import Evidence
    from analysis.frames import TrialRow, claims_of, runs_frame

    runs = runs_frame(record, [TrialRow.of_outcome(outcome) for outcome in outcomes])
    return Evidence(runs, axes=tuple(record["axes"]), claims=claims_of(record))
