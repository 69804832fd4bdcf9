"""The two tidy frames of a study, from what was planned and what the runs of its
trials hold (`analysis.load.Study`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from analysis.evidence import Claim
from analysis.questions.constraints import LIMITS
from analysis.questions.sequential import DESIGN
from analysis.stats.interval import Interval
from analysis.stores.records import STATUS, Points, Run
from experiments.contract import FINISHED, PRUNED, Tag
from experiments.contract.extensions import metrics as all_metrics
from experiments.contract.outcome import Outcome

_FINAL = "final/"

MISSING = "missing"
"""A trial that was planned but has no run: it was never started, or its run was deleted."""

_GIVEN = ("failure_below", "delta")
"""By what conclusions are drawn, of the study's settings."""
_PLANNED = (Tag.CONFIG_ID, Tag.ALGORITHM, Tag.ENV, Tag.HARDWARE, Tag.PHASE)
"""Texts of a trial that its plan has as well."""
_PLACES = (Tag.HOST, Tag.CPU, Tag.GPU, Tag.NODE_TYPE)
_FOUND = (Tag.FAILURE, Tag.TRIAL_ID, Tag.BOTTLENECK, Tag.HEALTH, Tag.WEIGHTS, Tag.REUSED_FROM)
_NON_FINITE = "NonFiniteError: "
"""The beginning of the failure of a trial that diverged, where its run has no tag `diverged`:
the class of the error."""


@dataclass(frozen=True)
class TrialRow:
    """A trial as far as it is known beside its plan: columns of `analysis.load.Study.runs`, None where unknown.

    Attributes:
        metrics: Name to its last value.
        params: Name to value, as MLflow has them.
        env_steps: Of the last report; 0 before the first.
        started_ms: Since the epoch.
        ended_ms: Since the epoch.
    """

    config: str
    seed: int
    repeat: int
    status: str = MISSING
    run_id: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    env_steps: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    restarts: int = 0
    diverged: bool = False
    exclusive: bool | None = None
    exploratory: bool | None = None
    reproducible: bool | None = None
    config_id: str | None = None
    algorithm: str | None = None
    env: str | None = None
    hardware: str | None = None
    phase: str | None = None
    host: str = ""
    cpu: str = ""
    gpu: str = ""
    node_type: str = ""
    failure: str = ""
    trial_id: str = ""
    bottleneck: str = ""
    health: str = ""
    weights: str = ""
    reused_from: str = ""
    commit: str = ""

    @property
    def key(self) -> tuple[str, int, int]:
        """Configuration, seed and repeat."""
        return self.config, self.seed, self.repeat

    @classmethod
    def of_run(cls, run: Run) -> "TrialRow":
        """From a run in MLflow, whose tags and parameters are texts."""
        tags = run.tags

        def flag(name: str) -> bool | None:
            return tags[name] == "true" if name in tags else None

        diverged = flag(Tag.DIVERGED)
        return cls(
            config=tags.get(Tag.CONFIG, run.name),
            seed=int(tags.get(Tag.SEED, run.params.get("seed", 0))),
            repeat=int(tags.get(Tag.REPEAT, 0)),
            status=STATUS[run.status],
            run_id=run.run_id,
            metrics={name: last.value for name, last in run.latest.items()},
            params=run.params,
            env_steps=max((last.step for last in run.latest.values()), default=0),
            started_ms=run.started_ms,
            ended_ms=run.ended_ms,
            restarts=int(tags.get(Tag.RESTARTS, 0)),
            diverged=tags.get(Tag.FAILURE, "").startswith(_NON_FINITE) if diverged is None else diverged,
            exclusive=flag(Tag.EXCLUSIVE),
            exploratory=flag(Tag.EXPLORATORY),
            reproducible=flag(Tag.REPRODUCIBLE),
            commit=tags.get(Tag.COMMIT, ""),
            **{name: tags[name] for name in (*_PLANNED, *_PLACES, *_FOUND) if name in tags},
        )

    @classmethod
    def of_outcome(cls, outcome: Outcome) -> "TrialRow":
        """From what the driver knows at the end of a study."""
        return cls(
            config=outcome.label,
            seed=outcome.seed,
            repeat=outcome.repeat,
            status=FINISHED if outcome.status == PRUNED else outcome.status,
            run_id=f"{outcome.label} s={outcome.seed} r={outcome.repeat}",
            metrics=outcome.final,
            env_steps=outcome.env_steps,
            restarts=outcome.restarts,
            diverged=outcome.diverged,
            exploratory=outcome.exploratory,
            reproducible=outcome.reproducible,
            phase=outcome.phase,
            failure=outcome.failure,
            weights=outcome.weights,
            reused_from=outcome.reused_from,
            exclusive=False if outcome.reused_from else None,
        )


def _as_planned(trial: TrialRow) -> dict[str, Any]:
    """A configuration as plan.json has it, as far as a trial tells."""
    return {
        "config": trial.config,
        "budget_env_steps": int(trial.params.get("budget_env_steps", 0)),
        "target": None,
        "score_range": [None, None],
        "params": trial.params,
    }


def claims_of(plan: Mapping[str, Any]) -> dict[str, Claim]:
    """Environment to what another study said of it, which a study is to confirm; empty of others.

    Args:
        plan: As plan.json has it.
    """
    found = {}
    for env, claim in plan.get("confirms", {}).get("claims", {}).items():
        ends = {name: math.nan if end is None else end for name, end in claim["value"].items()}
        found[env] = Claim(**{**claim, "value": Interval(**ends), "beside": tuple(claim["beside"])})
    return found


def runs_frame(plan: Mapping[str, Any], trials: Sequence[TrialRow]) -> pd.DataFrame:
    """The frame `Study.runs`.

    Args:
        plan: What was to be run, as plan.json has it.
        trials: Those that were started, in the order of their start.
    """
    of_key = {trial.key: trial for trial in trials}
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
    for trial in of_key.values():
        configurations.setdefault(trial.config, _as_planned(trial))
    found = [of_key.get(key, TrialRow(*key)) for key in dict.fromkeys([*planned, *of_key])]
    whole = {"phase": plan.get("phase", ""), "exclusive": bool(plan["exclusive"])}
    rows = [_row({**configurations[trial.config], **whole, **chosen.get(trial.key, {})}, trial) for trial in found]
    given = {name: plan.get("report", {}).get(name) for name in _GIVEN}
    given |= {"objective": plan.get("objective", "score")}
    given |= {column: plan.get("comparison", {}).get(name) for column, name in DESIGN.items()}
    given |= {column: plan.get("constraints", {}).get(name) for column, name in LIMITS.items()}
    frame, finals = pd.DataFrame(rows).assign(**given), final_metrics(plan)
    params = [
        {**{name: str(value) for name, value in configurations[trial.config]["params"].items()}, **trial.params}
        for trial in found
    ]
    texts_only = {
        name for entry in plan["configurations"] for name, value in entry["params"].items() if _is_text(value)
    }
    columns: dict[str, pd.Series] = {}
    for name in dict.fromkeys([*plan["axes"], *(name for of_trial in params for name in of_trial)]):
        if name not in frame and name not in finals and not name.startswith("log10_"):
            columns[name] = _typed([of_trial.get(name) for of_trial in params], name in texts_only)
    for column, metric in finals.items():
        columns[column] = pd.Series([trial.metrics.get(metric, math.nan) for trial in found], dtype="float64")
    frame = pd.concat([frame, pd.DataFrame(columns)], axis=1)
    texts = ("run_id", "status", "parent", "commit", "objective", *_PLANNED, *_PLACES, *_FOUND)
    known_numbers = ("target", "score_range_low", "score_range_high", "price_per_hour", *given)
    numbers = {name: "float64" for name in known_numbers if name != "objective"}
    config = pd.CategoricalDtype(list(configurations), ordered=True)
    frame = frame.astype(
        {"config": config, **dict.fromkeys(texts, "str"), "reproducible": "boolean", "generation": "Int64", **numbers}
    )
    for column in ("started", "ended"):
        frame[column] = pd.to_datetime(pd.Series(frame[column], dtype="Int64"), unit="ms", utc=True)
    return frame


def _row(planned: Mapping[str, Any], trial: TrialRow) -> dict[str, Any]:
    start = planned.get("start") or {}
    began = int(start.get("env_steps", 0))
    low, high = planned["score_range"]

    def known(name: str, otherwise: Any) -> Any:
        own = getattr(trial, name)
        return planned.get(name, otherwise) if own is None else own

    return {
        "run_id": trial.run_id,
        "config": trial.config,
        **{name: known(name, "") for name in _PLANNED},
        **{name: getattr(trial, name) for name in _PLACES},
        "seed": trial.seed,
        "repeat": trial.repeat,
        "status": trial.status,
        "failure": trial.failure,
        "diverged": trial.diverged,
        "exclusive": known("exclusive", False),
        "exploratory": bool(known("exploratory", False)),
        "parent": start.get("trial", ""),
        "copied": bool(start.get("copied", False)),
        "generation": planned.get("generation"),
        "start_env_steps": began,
        "end_env_steps": 0 if trial.status == MISSING else max(began, trial.env_steps),
        "trial_id": trial.trial_id,
        "bottleneck": trial.bottleneck,
        "health": trial.health,
        "weights": trial.weights,
        "reused_from": trial.reused_from,
        "restarts": trial.restarts,
        "reproducible": trial.reproducible,
        "started": trial.started_ms,
        "ended": trial.ended_ms,
        "budget_env_steps": int(planned["budget_env_steps"]),
        "target": planned["target"],
        "score_range_low": low,
        "score_range_high": high,
        "price_per_hour": planned.get("price_per_hour"),
        "commit": trial.commit,
    }


def _is_text(value: Any) -> bool:
    """True if a planned value is a text, as `"01"` is, and no number; JSON has infinities as texts."""
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
        plan: As plan.json has it.
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
