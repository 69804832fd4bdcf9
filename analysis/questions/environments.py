"""How well settings do over several environments. Pure functions of frames."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.evidence import conclusive
from analysis.stats.aggregates import iqms
from analysis.stats.bootstrap import stratified_bootstrap
from analysis.stats.interval import Array


def over_environments(runs: pd.DataFrame, axes: Sequence[str], rng: np.random.Generator) -> pd.DataFrame:
    """Scores of a setting over several environments, with stratified bootstrap intervals (Agarwal et al. 2021).

    A score is normalised to 0 at the environment's lowest possible return and 1 at its target; environments without
    either are left out.

    Args:
        runs: As `analysis.load` gives them.
        axes: The searched columns of `runs`; all but `env` make a setting.
        rng: For the bootstrap.

    Returns:
        A row a setting that ran on two environments or more: `setting`; `iqm`, `mean`, `median` (of the environments'
        means) and `optimality_gap` of the normalised scores, each with its interval; `num_envs`; `num_seeds`, the
        fewest on any of them.
    """
    finished = conclusive(runs)
    span = finished["target"] - finished["score_range_low"]
    finished["normalised"] = (finished["score"] - finished["score_range_low"]) / span.where(span > 0)
    others = [axis for axis in axes if axis != "env" and axis in runs]
    finished, rows = finished.dropna(subset="normalised"), []
    for values, part in finished.groupby(others, sort=False, dropna=False) if others else [((), finished)]:
        name = " ".join(f"{a}={v}" for a, v in zip(others, values, strict=True)) or "all"
        strata = [of_env["normalised"].to_numpy() for _, of_env in part.groupby("env", sort=False)]
        if len(strata) < 2:
            continue
        row: dict[str, Any] = {"setting": name}
        for measure, statistic in _aggregates(np.array([len(s) for s in strata])).items():
            row |= stratified_bootstrap(strata, statistic, rng).columns(measure)
        rows.append({**row, "num_envs": len(strata), "num_seeds": min(map(len, strata))})
    return pd.DataFrame(rows)


def _aggregates(sizes: npt.NDArray[np.int64]) -> dict[str, Callable[[Array], Array]]:
    """Aggregates as in rliable, of draws (num_draws, num_values) whose strata of these sizes stand side by side."""
    starts = np.cumsum(sizes) - sizes

    def env_means(draws: Array) -> Array:
        return np.asarray(np.add.reduceat(draws, starts, axis=1) / sizes)

    return {
        "iqm": iqms,
        "mean": lambda draws: np.asarray(env_means(draws).mean(axis=1)),
        "median": lambda draws: np.asarray(np.median(env_means(draws), axis=1)),
        "optimality_gap": lambda draws: np.asarray(1 - np.minimum(draws, 1).mean(axis=1)),
    }
