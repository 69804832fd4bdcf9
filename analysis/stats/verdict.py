"""The judgement on a trial that ran twice: identical, equivalent or different."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from analysis.stats.curves import CurveComparison
from analysis.stats.interval import prediction_interval
from experiments.contract.words import plural

SEEDS_NEEDED = 3
"""Other seeds from which a prediction interval is drawn."""


class Verdict(StrEnum):
    """The result of a comparison."""

    IDENTICAL = "identical"
    """To the bit: curves and weights."""
    EQUIVALENT = "equivalent"
    """Within what an asynchronous algorithm, or EnvPool, can promise."""
    DIFFERENT = "different"
    UNDECIDED = "undecided"
    """There is not enough to judge by."""
    FAILED = "failed"
    """The trial failed when it ran again."""


@dataclass(frozen=True)
class Judgement:
    """A verdict and why.

    Attributes:
        verdict: The verdict.
        reason: In a sentence, without the verdict.
    """

    verdict: Verdict
    reason: str


def judge(
    curves: CurveComparison,
    weights: tuple[str | None, str | None],
    score: float | None,
    other_scores: Sequence[float],
    asynchronous: bool,
) -> Judgement:
    """The judgement on two finished runs, or on the common part of them.

    Args:
        curves: Their curves.
        weights: Digest of the final weights of each; None where it was not recorded.
        score: Of the second run.
        other_scores: Of the other seeds of the same configuration in the first run's study.
        asynchronous: Whether the algorithm samples while it learns, or EnvPool samples:
            it promises a distribution, not bits.
    """
    if not curves.metrics:
        return Judgement(Verdict.UNDECIDED, "the two runs logged no metric in common")
    size = f"{plural(len(curves.metrics), 'metric')} at {plural(curves.reports, 'report')}"
    no_digest = None in weights
    if curves.difference is None and (no_digest or weights[0] == weights[1]):
        end = (
            "; the final weights could not be compared, since one run recorded none"
            if no_digest
            else ", and so are the final weights"
        )
        return Judgement(Verdict.IDENTICAL, f"{size} are equal to the bit{end}")
    if not asynchronous:
        where = (
            f"first in {curves.difference} env steps"
            if curves.difference
            else f"{size} are equal to the bit, but the final weights are not"
        )
        return Judgement(Verdict.DIFFERENT, where)
    promise = "an asynchronous algorithm, or EnvPool, promises a distribution of scores, not bits"
    if score is None:
        return Judgement(Verdict.UNDECIDED, f"{promise}, and the second run has no score")
    if (short := SEEDS_NEEDED - len(other_scores)) > 0:
        return Judgement(
            Verdict.UNDECIDED,
            f"{promise}, and its study has {plural(len(other_scores), 'other finished seed')} of this configuration "
            f"to judge by: {short} more needed",
        )
    expected = prediction_interval(other_scores)
    verdict, lies = (
        (Verdict.EQUIVALENT, "lies in")
        if expected.low <= score <= expected.high
        else (Verdict.DIFFERENT, "lies outside")
    )
    return Judgement(
        verdict,
        f"{promise}; the score {score:.6g} {lies} the 95 % prediction interval of its {len(other_scores)} other seeds, "
        f"[{expected.low:.6g}, {expected.high:.6g}]",
    )
