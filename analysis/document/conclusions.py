"""What the end of a trial and of a study ask of the analysis. Imports it when it is asked: a study begins without."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

Curves = Mapping[str, Sequence[tuple[float, float]]]
"""Metric to (env steps, value)."""


@dataclass(frozen=True)
class Conclusions:
    """What a study came to.

    Attributes:
        note: The answers, as Markdown.
        chosen: The recommended configurations, joined by commas.
        table: Column to values: how well each configuration did.
        best: The `best/*` metrics; empty unless there is one recommendation.
    """

    note: str
    chosen: str
    table: Mapping[str, Sequence[Any]]
    best: Mapping[str, float] = field(default_factory=dict)


def diagnose(planned: Mapping[str, Any], known: Mapping[str, Any], curves: Curves) -> dict[str, str]:
    """Tags of a trial: what it was bound by, and its health.

    Args:
        planned: Its parameters.
        known: What else is known of its configuration; wins.
        curves: Of the trial.
    """
    from analysis.questions.diagnosis import facts_of, tags

    return tags(curves, facts_of(planned, known))


def conclude(runs: "pd.DataFrame", axes: Sequence[str]) -> Conclusions | None:
    """What a study came to; None if no trial has started.

    Args:
        runs: As `analysis.load.Study.runs`.
        axes: Columns of it that the study varies.
    """
    from analysis.document.answer import answers, best_metrics, closing_table

    if runs.empty:
        return None
    found = answers(runs)
    table = closing_table(runs, list(axes))
    return Conclusions(
        note="\n\n".join(f"**Answer.** {answer.markdown()}" for answer in found),
        chosen=", ".join(answer.decision.chosen for answer in found if answer.decision.chosen),
        table=table.astype(object).where(table.notna(), None).to_dict("list"),
        best=best_metrics(table) if len(found) == 1 and found[0].decision.chosen else {},
    )
