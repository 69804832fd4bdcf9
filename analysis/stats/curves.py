"""The curves of a trial that ran twice, compared to the bit: where they part."""

import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from experiments.contract import METRICS
from experiments.contract.words import plural as plural  # people have it from here

Curves = Mapping[str, Mapping[int, float]]
"""Metric to env steps of the report to value."""

_NAMED_AT_MOST = 3


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
        others = f" and {plural(more, 'more metric')}" if more > 0 else ""
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

    A metric that only one of the runs knows says nothing about the other, which another version of the suite may have
    logged: it is named, not counted. One that both know must be there at the same reports.

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
    missing, added = (
        tuple(_in_order(n for n in a if a[n] and not b.get(n))) for a, b in ((first, second), (second, first))
    )
    return CurveComparison(metrics, len(reports), missing, added, difference)


def _up_to(curves: Curves, until: int) -> Curves:
    return {
        name: {env_steps: value for env_steps, value in curve.items() if env_steps <= until}
        for name, curve in curves.items()
    }


def _in_order(names: Iterable[str]) -> list[str]:
    """As the contract lists them, unknown ones last."""
    order = {name: index for index, name in enumerate(METRICS)}
    return sorted(names, key=lambda name: (order.get(name, len(order)), name))


def _same(before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return before is after
    return (math.isnan(before) and math.isnan(after)) or struct.pack("<d", before) == struct.pack("<d", after)
