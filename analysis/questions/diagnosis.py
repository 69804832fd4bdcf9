"""The diagnosis of trials and studies: what limits the speed of each trial, and whether it is in good health. Pure."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.questions.advice import words_of
from analysis.questions.bottleneck import UNKNOWN, Bottleneck, bottleneck
from analysis.questions.facts import Facts
from analysis.questions.health import HealthSignal, Series, health, health_tag, points_of
from analysis.questions.measured_changes import MeasuredChanges
from experiments.contract import TIME_PARTS


def diagnose(curves: Series, facts: Facts) -> tuple[Bottleneck, list[HealthSignal]]:
    """Bottleneck and health of one run.

    Args:
        curves: Metric to (env steps, value).
        facts: Of the trial.
    """
    means = _means_over_time(curves, "time/", "system/", "throughput/")
    shares = {part: means[f"time/{part}_share"] for part in TIME_PARTS if f"time/{part}_share" in means}
    return bottleneck(shares, facts, means), health(curves, facts)


def tags(curves: Series, facts: Facts) -> dict[str, str]:
    """The tags `bottleneck` and `health` of a run: `env-bound`, and `ok` or the keys of its signals.

    Args:
        curves: Metric to (env steps, value).
        facts: Of the trial.
    """
    found, signals = diagnose(curves, facts)
    return {"bottleneck": found.name, "health": health_tag(signals, curves)}


def of_study(
    runs: pd.DataFrame,
    curves: pd.DataFrame,
    facts: Mapping[str, Mapping[str, Any]] | None = None,
    axes: Sequence[str] = (),
    **known: Any,
) -> pd.DataFrame:
    """Bottleneck and health of every trial of a study that has a run, failed ones too.

    Args:
        runs: As `analysis.load` gives them. Of `Facts` it holds what the trials logged as parameters.
        curves: Likewise, all metrics.
        facts: Configuration to other `Facts`, as a study records them. They win over the frame's.
        axes: The searched columns of `runs`: where a change that would be advised was measured,
            the advice says what came out.
        **known: Others that are the same for all trials, such as `num_cpus=8`. They win over both.

    Returns:
        `run_id`, `config`, `seed`, `repeat`, `bottleneck`, `share`, `evidence`, `advice`, `health` (as the tag),
        `signals` (a list).
    """
    with_run = runs[runs["run_id"].notna()]
    of_run = _series(curves)
    measured = MeasuredChanges(runs, axes)
    rows = []
    for row in with_run.to_dict("records"):
        series = of_run.get(row["run_id"], {})
        found, signals = diagnose(series, facts_of(row, {**(facts or {}).get(row["config"], {}), **known}))
        rows.append(
            {
                **{name: row[name] for name in ("run_id", "config", "seed", "repeat")},
                "bottleneck": found.name,
                "share": found.share,
                "evidence": found.evidence,
                "advice": words_of(measured.with_measurements(str(row["config"]), found.changes)),
                "health": health_tag(signals, series),
                "signals": signals,
            }
        )
    columns = ["run_id", "config", "seed", "repeat", "bottleneck", "share", "evidence", "advice", "health", "signals"]
    return pd.DataFrame(rows, columns=columns).astype({"config": runs["config"].dtype})


def by_configuration(table: pd.DataFrame) -> pd.DataFrame:
    """The bottleneck of most trials of a configuration.

    Args:
        table: As `of_study` gives it.

    Returns:
        `config`, `bottleneck` (the most frequent; of equals, the one with the larger share), `num_agree`, `num_trials`,
        `share` (median of those that agree), `evidence` and `advice` of the trial in their middle. Trials whose
        bottleneck is unknown count in `num_trials`.
    """
    rows = []
    for config, trials in table.groupby("config", observed=True):
        known = trials[trials["bottleneck"] != UNKNOWN]
        if known.empty:
            first = trials.iloc[0]
            rows.append((config, UNKNOWN, len(trials), len(trials), math.nan, first["evidence"], ""))
            continue
        counts = Counter(known["bottleneck"])
        name = max(counts, key=lambda n: (counts[n], known.loc[known["bottleneck"] == n, "share"].median()))
        agree = known[known["bottleneck"] == name].sort_values("share", kind="stable")
        middle = agree.iloc[(len(agree) - 1) // 2]
        rows.append(
            (config, name, len(agree), len(trials), agree["share"].median(), middle["evidence"], middle["advice"])
        )
    names = ["config", "bottleneck", "num_agree", "num_trials", "share", "evidence", "advice"]
    return pd.DataFrame(rows, columns=names).astype({"config": table["config"].dtype})


def facts_of(row: Mapping[Any, Any], known: Mapping[str, Any]) -> Facts:
    """The facts of a trial.

    Args:
        row: Of the frame `runs`, or the trial's parameters: as far as it tells.
        known: Others, which win.
    """
    counted = ("num_env_runners", "num_envs_per_env_runner", "num_learners")
    names = (*counted, "num_gpus_per_learner", "vectorize_mode", "exclusive", "target", "score", "kl_target")
    given = {name: row[name] for name in names if name in row and not pd.isna(row[name])}
    counts = {name: int(given[name]) for name in counted if name in given}
    if "train_batch_size_total" in row and not pd.isna(row["train_batch_size_total"]):
        counts["batch_env_steps"] = int(row["train_batch_size_total"])
    defaults = {"num_env_runners": 0, "num_envs_per_env_runner": 1}
    return Facts(**{**defaults, **given, **counts, **known})


def _series(curves: pd.DataFrame) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Run to metric to its points."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    columns = (curves[name].tolist() for name in ("run_id", "metric", "env_steps", "value"))
    for run_id, metric, env_steps, value in zip(*columns, strict=True):
        found.setdefault(str(run_id), {}).setdefault(str(metric), []).append((float(env_steps), value))
    return found


def _means_over_time(curves: Series, *groups: str) -> dict[str, float]:
    """Means over a trial of the metrics in some groups, reports weighed by their seconds;
    without the first of three or more, in which everything starts up.
    """
    at, wall_s = points_of(curves, "progress/wall_s")
    seconds = dict(zip(at.tolist(), np.diff(wall_s, prepend=0.0).tolist(), strict=True))
    means = {}
    for name in (name for name in curves if name.startswith(groups)):
        steps, values = points_of(curves, name)
        if len(values) >= 3:
            steps, values = steps[1:], values[1:]
        weights = np.array([max(0.0, seconds.get(step, 0.0)) for step in steps.tolist()])
        if not len(values):
            means[name] = math.nan
        elif (total := weights.sum()) > 0:
            means[name] = float((values * weights).sum() / total)
        else:
            means[name] = float(values.mean())
    return means
