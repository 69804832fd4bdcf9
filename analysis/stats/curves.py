"""Whether a trial that ran twice came out the same, and where the two part."""

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import stats

from experiments.metrics import METRICS

Curves = Mapping[str, Mapping[int, float]]
"""Metric to env steps of the report to value."""

SEEDS_NEEDED = 3
"""Other seeds from which a prediction interval is drawn."""
CONFIDENCE = 0.95
_NAMED_AT_MOST = 3


class Verdict(StrEnum):
    """What a comparison came to."""

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
class Difference:
    """Where two curves part.

    Attributes:
        env_steps: Of the first report that differs.
        values: Metric to its value in the first run and in the second, None where it was not logged.
    """

    env_steps: int
    values: Mapping[str, tuple[float | None, float | None]]

    def __str__(self) -> str:
        names = list(self.values)
        more = len(names) - _NAMED_AT_MOST
        others = f" and {_plural(more, 'more metric')}" if more > 0 else ""
        return f"{', '.join(names[:_NAMED_AT_MOST])}{others} at {self.env_steps}"


@dataclass(frozen=True)
class CurveComparison:
    """Two sets of curves, side by side.

    Attributes:
        metrics: Those that both runs logged, and that were compared.
        reports: Reports that were compared.
        missing: Metrics that only the first run logged.
        added: Metrics that only the second logged.
        difference: The first; None if there is none.
    """

    metrics: tuple[str, ...]
    reports: int
    missing: tuple[str, ...]
    added: tuple[str, ...]
    difference: Difference | None


def compare_curves(first: Curves, second: Curves, until: int | None = None) -> CurveComparison:
    """Compare two sets of curves bit by bit; NaN equals NaN.

    A metric that only one of the runs knows says nothing about the other, which another version of the suite may have logged: it is
    named, not counted. One that both know must be there at the same reports.

    Args:
        first: Those that were logged.
        second: Those of the same trial, run again.
        until: Env steps beyond which nothing is compared, for a first run that was stopped there. None: all.
    """
    if until is not None:
        first, second = _up_to(first, until), _up_to(second, until)
    metrics = tuple(_in_order(name for name in first if first[name] and second.get(name)))
    reports = sorted({env_steps for name in metrics for env_steps in (*first[name], *second[name])})
    difference = None
    for env_steps in reports:
        pairs = {name: (first[name].get(env_steps), second[name].get(env_steps)) for name in metrics}
        if differing := {name: pair for name, pair in pairs.items() if not _same(*pair)}:
            difference = Difference(env_steps, differing)
            break
    missing, added = (tuple(_in_order(n for n in a if a[n] and not b.get(n))) for a, b in ((first, second), (second, first)))
    return CurveComparison(metrics, len(reports), missing, added, difference)


def _up_to(curves: Curves, until: int) -> Curves:
    return {name: {env_steps: value for env_steps, value in curve.items() if env_steps <= until} for name, curve in curves.items()}


def _in_order(names: Iterable[str]) -> list[str]:
    """As the contract lists them, unknown ones last."""
    order = {name: index for index, name in enumerate(METRICS)}
    return sorted(names, key=lambda name: (order.get(name, len(order)), name))


def _same(before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return before is after
    return (math.isnan(before) and math.isnan(after)) or struct.pack("<d", before) == struct.pack("<d", after)


def prediction_interval(scores: Sequence[float]) -> tuple[float, float]:
    """Where the score of one more seed lies with 95 % confidence, if scores are normal: mean +- t s sqrt(1 + 1/n).

    Args:
        scores: Of at least two seeds.
    """
    n = len(scores)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1) * np.std(scores, ddof=1) * math.sqrt(1 + 1 / n))
    mean = float(np.mean(scores))
    return mean - half, mean + half


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
    """What the comparison of two finished runs, or of the common part of them, comes to.

    Args:
        curves: Their curves.
        weights: Digest of the final weights of each; None where it was not recorded.
        score: Of the second run.
        other_scores: Of the other seeds of the same configuration in the first run's study.
        asynchronous: Whether the algorithm samples while it learns, or EnvPool samples: it promises a distribution, not bits.
    """
    if not curves.metrics:
        return Judgement(Verdict.UNDECIDED, "the two runs logged no metric in common")
    size = f"{_plural(len(curves.metrics), 'metric')} at {_plural(curves.reports, 'report')}"
    no_digest = None in weights
    if curves.difference is None and (no_digest or weights[0] == weights[1]):
        end = "; the final weights could not be compared, since one run recorded none" if no_digest else ", and so are the final weights"
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
            f"{promise}, and its study has {_plural(len(other_scores), 'other finished seed')} of this configuration to judge by: "
            f"{short} more needed",
        )
    low, high = prediction_interval(other_scores)
    verdict, lies = (Verdict.EQUIVALENT, "lies in") if low <= score <= high else (Verdict.DIFFERENT, "lies outside")
    return Judgement(
        verdict,
        f"{promise}; the score {score:.6g} {lies} the 95 % prediction interval of its {len(other_scores)} other seeds, "
        f"[{low:.6g}, {high:.6g}]",
    )


def _plural(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
