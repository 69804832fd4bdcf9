"""The two tidy frames of a study, from what was planned and what the runs of its
trials hold (`analysis.load.Study`).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.questions.comparison import DESIGN
from analysis.stores.records import STATUS, Points, Run
from experiments.contract import Tag
from experiments.contract.extensions import metrics as all_metrics

_FINAL = "final/"

MISSING = "missing"
"""A trial that was planned but has no run: it was never started, or its run was deleted."""

_TEXTS = (Tag.CONFIG_ID, Tag.ALGORITHM, Tag.ENV, Tag.HARDWARE, Tag.PHASE)
_GIVEN = ("failure_below", "delta")
"""By what conclusions are drawn, of the study's settings."""
_PLACES = (Tag.HOST, Tag.CPU, Tag.GPU, Tag.NODE_TYPE)
_NON_FINITE = "NonFiniteError: "
"""What the failure of a trial that diverged begins with, where its run has no tag `diverged`:
the class of the error."""


def _as_planned(label: str, trial: Run) -> dict[str, Any]:
    """A configuration as plan.json has it, as far as a trial's run tells."""
    return {
        "config": label,
        **{name: trial.tags.get(name, "") for name in ("config_id", "algorithm", "env", "hardware")},
        "budget_env_steps": int(trial.params.get("budget_env_steps", 0)),
        "target": None,
        "score_range": [None, None],
        "params": trial.params,
    }


def _key(trial: Run) -> tuple[str, int, int]:
    """Configuration, seed and repeat of a trial's run."""
    seed = int(trial.tags.get(Tag.SEED, trial.params.get("seed", 0)))
    return trial.tags.get(Tag.CONFIG, trial.name), seed, int(trial.tags.get(Tag.REPEAT, 0))


def runs_frame(plan: Mapping[str, Any], trials: Sequence[Run]) -> pd.DataFrame:
    """The frame `Study.runs`.

    Args:
        plan: What was to be run, as plan.json has it.
        trials: The runs of trials, in the order of their start.
    """
    run_of = {_key(trial): trial for trial in trials}
    configurations = {entry["config"]: entry for entry in plan["configurations"]}
    chosen: dict[tuple[str, int, int], Mapping[str, Any]] = {}
    if "trials" in plan:  # a search chose them as it went
        chosen = {(trial["config"], trial["seed"], 0): trial for trial in plan["trials"]}
        planned = list(chosen)
    else:
        planned = [
            (label, seed, repeat)
            for repeat in range(plan.get("repeats", 1))
            for seed in plan["seeds"]
            for label in configurations
        ]
    for (label, _, _), trial in run_of.items():
        configurations.setdefault(label, _as_planned(label, trial))
    keys = list(dict.fromkeys([*planned, *run_of]))
    found = [run_of.get(key) for key in keys]
    exclusive = bool(plan["exclusive"])
    rows = [
        _row(
            {**configurations[key[0]], "phase": plan.get("phase", ""), **chosen.get(key, {})},
            key[1],
            key[2],
            run,
            exclusive,
        )
        for key, run in zip(keys, found, strict=True)
    ]
    given = {name: plan.get("report", {}).get(name) for name in _GIVEN}
    given |= {column: plan.get("comparison", {}).get(name) for column, name in DESIGN.items()}
    frame, finals = pd.DataFrame(rows).assign(**given), final_metrics(plan)
    params = [
        {
            **{name: str(value) for name, value in configurations[label]["params"].items()},
            **(run.params if run is not None else {}),
        }
        for (label, _, _), run in zip(keys, found, strict=True)
    ]
    texts_only = {
        name for entry in plan["configurations"] for name, value in entry["params"].items() if _is_text(value)
    }
    columns: dict[str, pd.Series] = {}
    for name in dict.fromkeys([*plan["axes"], *(name for of_run in params for name in of_run)]):
        if name not in frame and name not in finals and not name.startswith("log10_"):
            columns[name] = _typed([of_run.get(name) for of_run in params], name in texts_only)
    for column, metric in finals.items():
        values = [math.nan if run is None or metric not in run.latest else run.latest[metric].value for run in found]
        columns[column] = pd.Series(values, dtype="float64")
    frame = pd.concat([frame, pd.DataFrame(columns)], axis=1)
    texts = (
        "run_id",
        "status",
        "failure",
        "trial_id",
        "parent",
        "bottleneck",
        "health",
        "weights",
        "commit",
        *_TEXTS,
        *_PLACES,
    )
    numbers = dict.fromkeys(("target", "score_range_low", "score_range_high", *given), "float64")
    config = pd.CategoricalDtype(list(configurations), ordered=True)
    frame = frame.astype(
        {"config": config, **dict.fromkeys(texts, "str"), "reproducible": "boolean", "generation": "Int64", **numbers}
    )
    for column in ("started", "ended"):
        frame[column] = pd.to_datetime(pd.Series(frame[column], dtype="Int64"), unit="ms", utc=True)
    return frame


def _row(planned: Mapping[str, Any], seed: int, repeat: int, run: Run | None, exclusive: bool) -> dict[str, Any]:
    tags = run.tags if run is not None else {}
    start = planned.get("start") or {}
    low, high = planned["score_range"]
    return {
        "run_id": run.run_id if run is not None else None,
        "config": planned["config"],
        **{name: tags.get(name, planned.get(name, "")) for name in _TEXTS},
        **{name: tags.get(name, "") for name in _PLACES},
        "seed": seed,
        "repeat": repeat,
        "status": STATUS[run.status] if run is not None else MISSING,
        "failure": tags.get(Tag.FAILURE, ""),
        "diverged": tags[Tag.DIVERGED] == "true"
        if Tag.DIVERGED in tags
        else tags.get(Tag.FAILURE, "").startswith(_NON_FINITE),
        "exclusive": tags[Tag.EXCLUSIVE] == "true" if Tag.EXCLUSIVE in tags else exclusive,
        "exploratory": tags[Tag.EXPLORATORY] == "true"
        if Tag.EXPLORATORY in tags
        else bool(planned.get("exploratory", False)),
        "parent": start.get("trial", ""),
        "copied": bool(start.get("copied", False)),
        "generation": planned.get("generation"),
        "start_env_steps": int(start.get("env_steps", 0)),
        "end_env_steps": max(
            [int(start.get("env_steps", 0)), *(last.step for last in run.latest.values())] if run is not None else [0]
        ),
        "trial_id": tags.get(Tag.TRIAL_ID, ""),
        "bottleneck": tags.get(Tag.BOTTLENECK, ""),
        "health": tags.get(Tag.HEALTH, ""),
        "weights": tags.get(Tag.WEIGHTS, ""),
        "restarts": int(tags.get(Tag.RESTARTS, 0)),
        "reproducible": tags[Tag.REPRODUCIBLE] == "true" if Tag.REPRODUCIBLE in tags else None,
        "started": run.started_ms if run is not None else None,
        "ended": run.ended_ms if run is not None else None,
        "budget_env_steps": int(planned["budget_env_steps"]),
        "target": planned["target"],
        "score_range_low": low,
        "score_range_high": high,
        "commit": tags.get(Tag.COMMIT, ""),
    }


def _is_text(value: Any) -> bool:
    """Whether a planned value is a text, as `"01"` is, and no number; JSON has infinities as texts."""
    return isinstance(value, str) and value not in ("inf", "-inf")


def _typed(values: Sequence[str | None], are_texts: bool) -> pd.Series:
    """MLflow's texts as numbers where all are, unless the plan says that they are texts;
    NA where a trial has no such parameter.
    """
    texts = pd.Series([None if value in (None, "None") else value for value in values], dtype="str")
    numbers = pd.to_numeric(texts, errors="coerce")
    return numbers if not are_texts and numbers.notna().eq(texts.notna()).all() and numbers.notna().any() else texts


def final_metrics(plan: Mapping[str, Any]) -> dict[str, str]:
    """Column of `Study.runs` to the metric it holds.

    Args:
        plan: As plan.json has it, which names the metrics that are neither the suite's nor of an extension
            that is here.
    """
    return {name.removeprefix(_FINAL): name for name in _metrics(plan) if name.startswith(_FINAL)}


def curve_metrics(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """The metrics of `Study.curves`.

    Args:
        plan: As above.
    """
    return tuple(name for name in _metrics(plan) if not name.startswith(_FINAL))


def _metrics(plan: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys([*all_metrics(), *plan.get("metrics", ())]))


CURVE_METRICS = curve_metrics({})
"""Those of the suite and of the extensions that are here."""


def curves_frame(points: Points, runs: pd.DataFrame, metrics: Sequence[str], known: Sequence[str]) -> pd.DataFrame:
    """The frame `Study.curves`.

    Args:
        points: Of the trials that have a run, in the order of `runs`.
        runs: As `runs_frame` gives them.
        metrics: Those that were read.
        known: All that there are, in their order.
    """
    with_run = runs[runs["run_id"].notna()]
    curve = points.run * len(metrics) + points.metric
    order = np.lexsort((points.at_ms, points.step, curve))
    curve, step = curve[order], points.step[order]
    last = np.ones(len(order), bool)
    last[:-1] = (curve[1:] != curve[:-1]) | (step[1:] != step[:-1])
    order, step = order[last], step[last]
    run, metric = points.run[order], points.metric[order]
    started_ms = with_run["started"].dt.as_unit("ms").astype("int64").to_numpy()
    config = with_run["config"].cat
    return pd.DataFrame(
        {
            "run_id": pd.Categorical.from_codes(run, categories=with_run["run_id"].tolist()),
            "config": pd.Categorical.from_codes(
                config.codes.to_numpy()[run], categories=config.categories, ordered=True
            ),
            "seed": with_run["seed"].to_numpy()[run],
            "repeat": with_run["repeat"].to_numpy()[run],
            "metric": pd.Categorical.from_codes(
                np.array([known.index(name) for name in metrics], np.int64)[metric], known
            ),
            "env_steps": step,
            "wall_s": (points.at_ms[order] - started_ms[run]) / 1000,
            "value": points.value[order],
        },
        copy=False,
    )
