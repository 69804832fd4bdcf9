"""What earlier studies of a store found, trial by trial, for a search that starts from it."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pandas as pd

from analysis import AnalysisError
from analysis.evidence import replicates
from analysis.load import Study, load_study
from analysis.stores.executions import opened
from experiments.contract import FAILED, FINISHED, INDEX_EXPERIMENT, THROUGHPUT

MOST_FOUND = 10
"""Studies that are found, the latest: each is read whole."""
_VALUES = ("score", "auc", "env_steps_to_target")
"""What a trial came to, of columns of `runs`: of what goes by the clock nothing."""


def earlier_studies(names: Sequence[str], tracking_uri: str, algorithm: str, env: str) -> list[dict[str, Any]]:
    """What studies found.

    Args:
        names: Names or run ids, of a name the latest execution; empty: the latest studies of the algorithm, of the same
            environment if there are any, else of others.
        tracking_uri: The store that holds them.
        algorithm: Of the study that is to start from them.
        env: Its environment.

    Returns:
        For each study, environment and algorithm `name`, `run`, `env`, `algorithm`, and `trials`: each its `point`,
        dotted path to value, its `seed`, and its `outcome`, as `experiments.search.strategy.Outcome` has it.

    Raises:
        AnalysisError: There is no such study, or the store cannot be read.
    """
    if names:
        studies = [load_study(name, tracking_uri, metrics=()) for name in names]
    else:
        studies = []
        for run_id in _runs_of(algorithm, env, tracking_uri):
            with suppress(AnalysisError):  # none of its trials has started, or its record is gone
                studies.append(load_study(run_id, tracking_uri, metrics=()))
    distinct = {study.run_id: study for study in studies}.values()
    return [part for study in distinct for part in _parts(study)]


def _runs_of(algorithm: str, env: str, tracking_uri: str) -> list[str]:
    """Run ids of the latest studies of an algorithm: of an environment, if there are any."""
    _, store = opened(tracking_uri)
    latest_first = sorted(store.runs(INDEX_EXPERIMENT), key=lambda run: run.started_ms, reverse=True)
    alike = [run for run in latest_first if run.name.rpartition("/")[2].startswith(f"{algorithm}-")]
    same = [run for run in alike if run.name.endswith(f"/{algorithm}-{env}")]
    return [run.run_id for run in (same or alike)[:MOST_FOUND]]


def _parts(study: Study) -> Iterator[dict[str, Any]]:
    """What a study found in each environment by each algorithm; one without trials, if none has ended."""
    ended = _whole(replicates(study.runs))
    parts = [*ended.groupby(["env", "algorithm"], sort=False, observed=True)]
    named = {"name": study.experiment, "run": study.run_id}
    if not parts:
        first = study.runs.iloc[0]
        yield {**named, "env": str(first["env"]), "algorithm": str(first["algorithm"]), "trials": []}
    for (env, algorithm), runs in parts:
        trials = [
            {
                "point": dict(study.points.get(str(run["config"]), {})),
                "seed": int(run["seed"]),
                "outcome": _outcome(run),
            }
            for run in runs.to_dict("records")
        ]
        yield {**named, "env": str(env), "algorithm": str(algorithm), "trials": trials}


def _whole(runs: pd.DataFrame) -> pd.DataFrame:
    """The trials that trained to their end, or failed: none that a scheduler stopped, and none of a population."""
    at_end = (runs["end_env_steps"] >= runs["budget_env_steps"]) | runs["env_steps_to_target"].notna()
    ended = ((runs["status"] == "finished") & at_end) | (runs["status"] == "failed")
    return runs[ended & (runs["phase"] != THROUGHPUT) & runs["generation"].isna()]


def _outcome(run: dict[Any, Any]) -> dict[str, Any]:
    """What a trial came to; env steps to a target that was never held are its budget."""
    if run["status"] == "failed":
        return {"status": FAILED}
    target, reached = float(run["target"]), pd.notna(run["env_steps_to_target"])
    values = {name: float(run[name]) for name in _VALUES if pd.notna(run[name])}
    if pd.notna(target) and not reached:
        values["env_steps_to_target"] = float(run["budget_env_steps"])
    return {"status": FINISHED, "values": values, "target": target, "reached": bool(reached)}
