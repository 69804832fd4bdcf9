"""A study's outcome, configuration by configuration: what the closing table says."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.stats import Interval, mean_interval


@dataclass(frozen=True)
class TrialOutcome:
    """How one trial ended.

    Attributes:
        label: Its configuration.
        seed: Its seed.
        status: `finished`, `failed` or `interrupted`.
        final: Its `final/` metrics, if it finished.
        failure: Why it failed.
    """

    label: str
    seed: int
    status: str
    final: Mapping[str, float] = field(default_factory=dict)
    failure: str = ""


@dataclass(frozen=True)
class ConfigurationSummary:
    """One configuration over its seeds; None where no seed finished."""

    label: str
    finished: int
    seeds: int
    reached: int
    score: Interval | None
    auc: Interval | None
    env_steps_to_target: Interval | None
    env_steps_per_s: Interval | None


def summarise(outcomes: Sequence[TrialOutcome]) -> list[ConfigurationSummary]:
    """Configurations, best first: by score, ties (CartPole saturates) by the area under the curve.

    Args:
        outcomes: All trials of the study.
    """
    by_label: dict[str, list[TrialOutcome]] = {}
    for outcome in outcomes:
        by_label.setdefault(outcome.label, []).append(outcome)
    summaries = [_summary(label, trials) for label, trials in by_label.items()]
    return sorted(summaries, key=lambda s: (-_estimate(s.score), -_estimate(s.auc)))


def _summary(label: str, trials: Sequence[TrialOutcome]) -> ConfigurationSummary:
    finals = [t.final for t in trials if t.status == "finished"]
    reached = [f["final/env_steps_to_target"] for f in finals if "final/env_steps_to_target" in f]
    return ConfigurationSummary(
        label=label,
        finished=len(finals),
        seeds=len(trials),
        reached=len(reached),
        score=_interval(finals, "final/score"),
        auc=_interval(finals, "final/auc"),
        # A mean over the seeds that reached it would flatter: seeds that never did are missing from it.
        env_steps_to_target=mean_interval(reached) if reached and len(reached) == len(finals) else None,
        env_steps_per_s=_interval(finals, "final/env_steps_per_s"),
    )


def table(summaries: Sequence[ConfigurationSummary]) -> dict[str, list[Any]]:
    """The summary by column, for a table in MLflow; empty where there is no number."""
    columns: dict[str, list[Any]] = {"configuration": [s.label for s in summaries]}
    columns["seeds finished"] = [f"{s.finished}/{s.seeds}" for s in summaries]
    columns["seeds at target"] = [f"{s.reached}/{s.finished}" for s in summaries]
    for name in ("score", "auc", "env_steps_to_target", "env_steps_per_s"):
        intervals = [getattr(s, name) for s in summaries]
        columns[name] = [None if i is None else i.estimate for i in intervals]
        columns[f"{name} 95% low"] = [None if i is None or math.isnan(i.low) else i.low for i in intervals]
        columns[f"{name} 95% high"] = [None if i is None or math.isnan(i.high) else i.high for i in intervals]
    return columns


def _interval(finals: Sequence[Mapping[str, float]], name: str) -> Interval | None:
    values = [f[name] for f in finals if name in f]
    return mean_interval(values) if values else None


def _estimate(interval: Interval | None) -> float:
    return -math.inf if interval is None else interval.estimate
