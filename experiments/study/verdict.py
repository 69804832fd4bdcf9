"""Two runs of a trial compared: the verdict whether it came out the same, and its words."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analysis.stats.curves import CurveComparison, compare_curves
from analysis.stats.verdict import Judgement, Verdict, judge
from experiments.contract import SCORE, Tag
from experiments.tracking.archive import LoggedTrial
from experiments.tracking.provenance_changes import Change, changes

EXIT_CODES = {
    Verdict.IDENTICAL: 0,
    Verdict.EQUIVALENT: 0,
    Verdict.DIFFERENT: 1,
    Verdict.UNDECIDED: 1,
    Verdict.FAILED: 1,
}
MOST_TOLD = 8
"""Values and changes that are told in words; verdict.json has all."""


@dataclass(frozen=True)
class Reproduction:
    """A trial that was run again, beside its first run.

    Attributes:
        first: The run that was recorded.
        second: The new one; None if MLflow does not have it.
        curves: Their curves, compared.
        weights: Digests of their final weights.
        scores: Their scores.
        other_scores: Of the other seeds in the first run's study.
        judgement: The verdict.
        changed: What differs between what was recorded with both.
        remarks: What else one must know, in sentences.
    """

    first: LoggedTrial
    second: LoggedTrial | None
    curves: CurveComparison
    weights: tuple[str | None, str | None]
    scores: tuple[float | None, float | None]
    other_scores: Sequence[float]
    judgement: Judgement
    changed: Sequence[Change]
    remarks: Sequence[str]

    @property
    def as_promised(self) -> bool:
        """True if the trial came out as its algorithm promises."""
        return EXIT_CODES[self.judgement.verdict] == 0

    @property
    def first_difference(self) -> str:
        """Where the runs part first: `train/return_mean at 4096`; empty if they do not."""
        if self.curves.difference is not None:
            return str(self.curves.difference)
        return "final weights" if None not in self.weights and self.weights[0] != self.weights[1] else ""

    def lines(self) -> list[str]:
        """For the terminal."""
        return [f"{title:<11} {text}" for title, text in self._sentences()]

    def note(self) -> str:
        """For MLflow, as Markdown, with a link to the first run."""
        link = f"[{self.first.name}](#/experiments/{self.first.experiment_id}/runs/{self.first.run_id})"
        question = f"**Question.** Does {link} of {self.first.experiment} come out the same?"
        return "\n\n".join([question, *(f"**{title.capitalize()}.** {text}" for title, text in self._sentences())])

    def _sentences(self) -> list[tuple[str, str]]:
        found = [("verdict", f"{self.judgement.verdict}: {self.judgement.reason}")]
        if not self.as_promised:
            if (difference := self.curves.difference) is not None:
                values = [
                    f"{name} {_number(before)} -> {_number(after)}"
                    for name, (before, after) in difference.values.items()
                ]
                found.append(("difference", f"at {difference.env_steps} env steps: {_listed(values)}"))
            found.append(("changed", _listed([str(change) for change in self.changed]) or "nothing that was recorded"))
        return [*found, *(("remark", remark) for remark in self.remarks)]

    def to_mapping(self) -> dict[str, Any]:
        """Everything, as JSON takes it."""
        difference = self.curves.difference
        return {
            "verdict": self.judgement.verdict,
            "reason": self.judgement.reason,
            "exit_code": EXIT_CODES[self.judgement.verdict],
            "first": _identity(self.first),
            "second": _identity(self.second) if self.second is not None else None,
            "first_difference": None
            if difference is None
            else {
                "env_steps": difference.env_steps,
                "values": {name: list(pair) for name, pair in difference.values.items()},
            },
            "compared": {"metrics": list(self.curves.metrics), "reports": self.curves.reports},
            "only_in_first": list(self.curves.missing),
            "only_in_second": list(self.curves.added),
            "weights": list(self.weights),
            "scores": list(self.scores),
            "scores_of_other_seeds": list(self.other_scores),
            "changed": [asdict(change) for change in self.changed],
            "remarks": list(self.remarks),
        }


def conclude(
    first: LoggedTrial, second: LoggedTrial | None, failure: str, asynchronous: bool, other_scores: Sequence[float]
) -> Reproduction:
    """Compare two runs of a trial.

    Args:
        first: The run that was recorded.
        second: The new one; None if MLflow does not have it.
        failure: Why the new one failed; empty if it did not.
        asynchronous: Whether the trial promises a distribution, not bits.
        other_scores: Of the other seeds in the first run's study.
    """
    # the second has no scheduler that would stop it
    whole = first.status == "FINISHED" and Tag.STOPPED_AT not in first.tags
    curves = compare_curves(
        first.curves, second.curves if second is not None else {}, None if whole else first.last_env_steps
    )
    weights = first.tags.get("weights"), second.tags.get("weights") if second is not None else None
    scores = _score(first), _score(second)
    judgement = judge(curves, weights, scores[1], other_scores, asynchronous)
    if second is None:
        judgement = Judgement(Verdict.UNDECIDED, "MLflow did not take the second run")
    if failure:
        again = ", as the first run did" if failure == first.tags.get("failure") else ""
        judgement = Judgement(Verdict.FAILED, f"{failure}{again}")
    return Reproduction(
        first=first,
        second=second,
        curves=curves,
        weights=weights,
        scores=scores,
        other_scores=other_scores,
        judgement=judgement,
        changed=changes(first.provenance, second.provenance) if second is not None else [],
        remarks=_remarks(first, second, curves, asynchronous),
    )


def _remarks(first: LoggedTrial, second: LoggedTrial | None, curves: CurveComparison, asynchronous: bool) -> list[str]:
    remarks = []
    if first.status != "FINISHED" or Tag.STOPPED_AT in first.tags:
        what = f"is {first.status}" if first.status != "FINISHED" else "was stopped early by its study's scheduler"
        remarks.append(f"the first run {what}: what it logged is compared, up to {first.last_env_steps} env steps")
    for trial, which in ((first, "first"), (second, "second")):
        tags = trial.tags if trial is not None else {}
        if tags.get("restarts", "0") != "0":
            remarks.append(f"the {which} run was taken up again from a checkpoint, {tags['restarts']} time(s)")
        if tags.get("reproducible") == "false" and not asynchronous:
            remarks.append(
                f"the {which} run met a fault that did not recur, or went on without the state that its code had kept "
                "in its process: it depends on more than its seed"
            )
    if asynchronous and first.tags.get("exclusive") == "false":
        remarks.append(
            "the first run shared its machine with other trials, which an asynchronous algorithm may feel; "
            "the second had it alone"
        )
    for names, which in ((curves.missing, "first"), (curves.added, "second")):
        if names:
            remarks.append(f"only the {which} run logged {_listed(names)}, which therefore could not be compared")
    return remarks


def _score(trial: LoggedTrial | None) -> float | None:
    curve = trial.curves.get(SCORE, {}) if trial is not None else {}
    return curve[max(curve)] if curve else None


def _identity(trial: LoggedTrial) -> dict[str, Any]:
    return {
        "run_id": trial.run_id,
        "name": trial.name,
        "experiment": trial.experiment,
        "config_id": trial.tags.get("config_id"),
        "seed": trial.tags.get("seed"),
        "status": trial.status,
    }


def _number(value: float | None) -> str:
    return "not logged" if value is None else repr(value)


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - MOST_TOLD
    return "; ".join(texts[:MOST_TOLD]) + (f"; and {more} more (verdict.json has all)" if more > 0 else "")
