"""Which configurations keep the constraints of a study, and what these cost: pure functions of its frames."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.evidence import conclusive
from analysis.questions.choosing import compare
from analysis.questions.convergence import by_seed
from analysis.questions.failures import failures
from analysis.stats.distributions import t_quantile
from analysis.stats.interval import CONFIDENCE, Interval
from experiments.contract import CONSTRAINTS

LIMITS = {f"constraint_{name}": name for name in CONSTRAINTS}
"""Columns of `runs` with the most that a recommendation may come to, to what they limit; NaN where nothing does."""


def limits_of(runs: pd.DataFrame) -> dict[str, float]:
    """The constraints that a study was given, of `CONSTRAINTS`, by name; empty of others.

    Args:
        runs: As `analysis.load` gives them.
    """
    known = {name: float(runs[column].iloc[0]) for column, name in LIMITS.items() if column in runs and len(runs)}
    return {name: limit for name, limit in known.items() if np.isfinite(limit)}


def uses(runs: pd.DataFrame) -> pd.DataFrame:
    """What configurations come to of all that can be limited.

    Args:
        runs: As `analysis.load` gives them, of one environment, failed trials included.

    Returns:
        Indexed by configuration: `failure_probability`, the share of its seeds that failed; `memory_gib`, `hours` and
        `cost`, the most of any of its finished trials. NaN where nothing is known.
    """
    finished, failing = conclusive(runs), failures(runs)["failure_probability"]
    hours = (finished["start_s"].fillna(0.0) + finished["train_s"]) / 3600
    memory_gib = finished["memory_mib"].astype(float) / 1024
    known = finished.assign(memory_gib=memory_gib, hours=hours, cost=hours * finished["price_per_hour"])
    most = known.groupby("config", observed=True)[["memory_gib", "hours", "cost"]].max()
    most.index = most.index.astype(object)
    return pd.concat([failing, most.reindex(failing.index)], axis=1)


def breaking(runs: pd.DataFrame) -> dict[str, Mapping[str, float]]:
    """The configurations that break a constraint of their study, each with what it comes to of those that it breaks;
    NaN of what is not known, which may be anything.

    Args:
        runs: As `uses` takes them.
    """
    limits = limits_of(runs)
    if not limits:
        return {}
    broken = {
        str(config): {name: float(row[name]) for name, limit in limits.items() if not row[name] <= limit}
        for config, row in uses(runs).iterrows()
    }
    return {config: amounts for config, amounts in broken.items() if amounts}


def difference(counted: pd.DataFrame, measure: str, config: str, other: str) -> Interval:
    """The mean difference of two configurations over their common seeds, the first minus the second, with its interval.

    Args:
        counted: As `evidence.counted` gives them, of one environment.
        measure: A column of it.
        config: The first.
        other: The second.
    """
    mean, spread, df, num_seeds = compare(by_seed(counted, measure), config, other, 1.0)
    half = float(t_quantile((1 + CONFIDENCE) / 2, df)) * spread / np.sqrt(num_seeds) if spread > 0 else np.nan
    return Interval(mean, mean - half, mean + half)
