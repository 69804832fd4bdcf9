"""Steps by which one of several configurations is chosen, and how well two are told apart."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from analysis.questions.convergence import by_seed
from analysis.questions.machines import trials_by_kind
from analysis.stats.distributions import chi2_quantile
from analysis.stats.moderated import paired_differences


def crash_least(configs: list[str], table: pd.DataFrame) -> list[str]:
    """Those of which the smallest share of seeds crashes."""
    crashed = table.loc[configs, "num_crashed"] / table.loc[configs, "num_seeds"]
    return [c for c in configs if crashed[c] == crashed.min()]


def surest(configs: list[str], table: pd.DataFrame) -> list[str]:
    """Those of which the smallest share of seeds fails."""
    failing = table.loc[configs, "failure_probability"]
    return [c for c in configs if failing[c] == failing.min()]


def single(values: pd.DataFrame, order: Sequence[str]) -> tuple[str, ...]:
    """The configurations with a single value, in an order."""
    num = values.notna().sum(axis=1)
    return tuple(c for c in order if num[c] == 1)


def first(chosen: str, order: Iterable[str]) -> list[str]:
    """The order, with the chosen one put first."""
    return [chosen, *(c for c in order if c != chosen)]


def processes(finished: pd.DataFrame) -> Mapping[str, float]:
    """Runners and learners of each configuration."""
    counts = [name for name in ("num_env_runners", "num_learners") if name in finished]
    first = finished.drop_duplicates("config").set_index("config")
    return {str(config): float(first.loc[config, counts].fillna(0).sum()) for config in first.index}


def choose(
    leading: list[str],
    same: list[str],
    values: pd.DataFrame,
    saturated: bool,
    finished: pd.DataFrame,
    table: pd.DataFrame,
) -> tuple[str, str]:
    """The leader to use, and what singled it out: surest, then cheapest, then best all the way,
    as far as a standard error can tell.

    Where some are practically the same as the best, it is one of these.
    """
    left, by = [c for c in leading if c in same] or leading, "rank"
    steps: list[tuple[str, Callable[[list[str]], list[str]]]] = [
        ("crashes", partial(crash_least, table=table)),
        ("reliability", partial(surest, table=table)),
    ]
    if not same:
        # A time to target says nothing of a seed that loses it again: who ends there comes first.
        steps.insert(2 if saturated else 0, ("rank", partial(near, values=values, smallest=saturated)))
    for name, step in steps:
        if len(left) > 1:
            left, by = step(left), name
    if len(left) == 1:
        return left[0], by
    if len(trials_by_kind(finished)) > 1:
        return max(left, key=lambda c: (table.loc[c, "auc"], -left.index(c))), "auc_of_kinds"
    cost = "seconds_to_target" if table.loc[left, "seconds_to_target"].notna().all() else "train_s"
    cheap = near(left, by_seed(finished, cost), smallest=True)
    return max(cheap, key=lambda c: (table.loc[c, "auc"], -cheap.index(c))), "cost" if len(cheap) == 1 else "auc"


def near(configs: list[str], values: pd.DataFrame, smallest: bool) -> list[str]:
    """Those whose mean is less than a standard error off the best mean;
    one seed of n that collapses is off by exactly one.
    """
    means = values.reindex(configs).mean(axis=1) * (1 if smallest else -1)
    if means.isna().all():
        return configs
    best = str(means.idxmin())
    off, se = means - means[best], standard_errors(values.reindex(configs))[best].fillna(0.0)
    return [c for c in configs if c == best or off[c] == 0 or off[c] < (1 - 1e-9) * se[c]]


def standard_errors(values: pd.DataFrame) -> pd.DataFrame:
    """Of the mean differences between all configurations, a row and a column each; NaN on the diagonal."""
    first, second, pairs = paired_differences(values.to_numpy())
    errors = np.full((len(values), len(values)), np.nan)
    errors[first, second] = errors[second, first] = pairs.se
    return pd.DataFrame(errors, values.index, values.index)


def compare(values: pd.DataFrame, chosen: str, runner_up: str | None, sign: float) -> tuple[float, float, float, int]:
    """Mean difference, its spread over seeds with its degrees of freedom, and the number of common seeds."""
    if runner_up is None:
        return np.nan, np.nan, np.nan, 0
    difference = sign * (values.loc[chosen] - values.loc[runner_up])
    common = int(difference.notna().sum())
    first, second, pairs = paired_differences(values.to_numpy())
    i, j = sorted(values.index.get_indexer([chosen, runner_up]))
    (at,) = np.flatnonzero((first == i) & (second == j))
    return float(difference.mean()), float(pairs.se[at] * np.sqrt(common)), float(pairs.df[at]), common


def likely(spread: float, df: float) -> tuple[float, float]:
    """The 80% interval of a spread that was estimated."""
    low, high = (float(spread * np.sqrt(df / chi2_quantile(share, df))) for share in (0.9, 0.1))
    return low, high


def least_and_most(seeds: Callable[[float], float], spreads: tuple[float, float]) -> tuple[float, float]:
    """Whole seeds for a small and a large spread."""
    low, high = (float(np.ceil(seeds(spread))) for spread in spreads)
    return low, high


_HIGH = ("score", "score_min", "auc", "num_reached", "env_steps_per_s")
_LOW = ("failure_probability", "env_steps_to_target", "seconds_to_target", "train_s")
"""Columns of the tables, of which more is better, and less."""


def undominated(chosen: str, leading: Sequence[str], table: pd.DataFrame) -> str:
    """The chosen one, or a leader that is no worse in any column that people are shown, and better in one: nobody would
    understand why that one is not used.

    Args:
        chosen: One of the leaders.
        leading: The leaders, best first.
        table: As `summary_of` gives it, indexed by configuration.
    """
    shown = pd.concat([table.loc[list(leading), list(_HIGH)], -table.loc[list(leading), list(_LOW)]], axis=1)
    shown = shown.loc[:, shown.notna().all()].astype(float)
    found = chosen
    for other in leading:
        if (shown.loc[other] >= shown.loc[found]).all() and (shown.loc[other] > shown.loc[found]).any():
            found = other
    return found
