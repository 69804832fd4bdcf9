"""How well and how fast configurations learn: pure functions of a study's frames.

A configuration is compared with others on the same environment alone, and only trials that finished count; how many
they are stands beside every number. Where a seed was run several times, its first run counts: a repeat is no other
seed. Frames give an estimate `x` with its 95% interval as the columns `x`, `x_low`, `x_high`.
"""

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd

from analysis.evidence import MEASURES as MEASURES  # people have these two from here
from analysis.evidence import SMALLER_IS_BETTER, SPEEDS, conclusive, counted
from analysis.evidence import replicates as replicates
from analysis.stats.aggregates import optimality_gap
from analysis.stats.comparisons import holm, p_values, probability_of_improvement
from analysis.stats.interval import Array, Interval, antilog
from analysis.stats.moderated import UNBOUNDED, moderated_intervals, neighbour_weights, paired_differences
from analysis.stats.shares import share_interval
from analysis.stats.tolerance import median_interval
from experiments.contract import RETURN

WALL_POINTS = 60
"""Points of a curve over seconds, whose seeds have no common grid."""


def by_seed(runs: pd.DataFrame, measure: str | list[str]) -> pd.DataFrame:
    """A measure as a matrix, a row a configuration, a column a seed; NaN where there is no value.

    Args:
        runs: Of one environment.
        measure: A column of `runs`; of several there are as many matrices side by side, under their names.
    """
    configs = runs["config"].cat.remove_unused_categories().cat.categories
    return runs.pivot(index="config", columns="seed", values=measure).reindex(configs).astype(float)


def carried_on(curve: pd.DataFrame, budget: float) -> pd.DataFrame:
    """A curve of evaluations up to the budget: one of a trial that stopped early keeps its last value,
    as in the area under it.

    Args:
        curve: `env_steps` and others, in order, on the study's report grid.
        budget: Env steps of the trial.
    """
    last, every = curve.iloc[-1], int(np.diff(curve["env_steps"], prepend=0).min())
    later = [
        *range(int(last["env_steps"]) + every, int(budget), every),
        *([int(budget)] if last["env_steps"] < budget else []),
    ]
    more = pd.DataFrame([last] * len(later), columns=curve.columns).assign(env_steps=later)
    return pd.concat([curve, more.astype(curve.dtypes)], ignore_index=True) if later else curve


def speed_ratio(speeds: pd.DataFrame, config: str, other: str) -> tuple[Interval, int]:
    """How many times as fast as another configuration one is: the geometric mean over common seeds,
    with a Student t interval.

    Args:
        speeds: Env steps/s as `by_seed` gives them.
        config: One of its rows.
        other: The row that it is compared with.

    Returns:
        The ratio, NaN without a common seed, its ends without a spread, and the number of seeds.
    """
    logs = np.log((speeds.loc[config] / speeds.loc[other]).dropna().to_numpy(float))
    if not len(logs):
        return Interval(np.nan, np.nan, np.nan), 0
    found = moderated_intervals(logs[None, :])
    return Interval(*(float(antilog(end[0])) for end in (found.estimate, found.low, found.high))), len(logs)


def summarise(runs: pd.DataFrame, axes: Sequence[str] = ()) -> pd.DataFrame:
    """A row a configuration, in the order of the plan.

    Args:
        runs: As `analysis.load` gives them, failed and missing trials included.
        axes: Columns of `runs` that say what a configuration is; one that is none is left out.

    Returns:
        `config`, `env`, the axes, `budget_env_steps`, `target`, `phase`; `num_planned`, `num_seeds` (finished or
        crashed: what the numbers rest on), `num_crashed` of them, `num_reached` (hold the target at some time),
        `num_at_end` (their score is at it); each of `MEASURES` with its interval, which a score has not where all seeds
        end at a bound: that is a count, of which `failures` knows the interval; `score_median` with the order
        statistics around it (`median_interval`), `score_min`, `score_max`, and `score_gap`, the mean shortfall from the
        target.
    """
    finished = counted(runs)
    planned = runs.drop_duplicates("config").set_index("config")
    table = planned[
        list(dict.fromkeys(["env", *(a for a in axes if a in runs), "budget_env_steps", "target", "phase"]))
    ].copy()
    grouped = finished.groupby("config", observed=True)
    table["num_planned"] = (
        replicates(runs).groupby("config", observed=True)["seed"].count().reindex(table.index).fillna(0).astype(int)
    )
    table["num_seeds"] = grouped["seed"].count().reindex(table.index).fillna(0).astype(int)
    table["num_crashed"] = grouped["crashed"].sum().reindex(table.index).fillna(0).astype(int)
    table["num_reached"] = grouped["reached"].sum().reindex(table.index).fillna(0).astype(int)
    at_end = (finished["score"] >= finished["target"]).groupby(finished["config"], observed=True).sum()
    table["num_at_end"] = at_end.reindex(table.index).fillna(0).astype(int)
    columns = {f"{measure}{end}": np.full(len(table), np.nan) for measure in MEASURES for end in ("", "_low", "_high")}
    for _, part in finished.groupby("env", observed=True, sort=False):
        matrices = by_seed(part, list(MEASURES))
        configs = matrices.index
        near = _without_crashed(neighbours(planned.loc[configs], axes), configs, part)
        rows = table.index.get_indexer(configs)
        for measure in MEASURES:
            logarithmic, matrix = measure in SPEEDS, matrices[measure].to_numpy()
            values = np.log(matrix) if logarithmic else matrix
            bounds = UNBOUNDED if logarithmic else bounds_of(measure, part)
            found = moderated_intervals(values, bounds, near)
            at_bound = measure == "score" and np.isin(found.estimate, bounds)
            for name, ends in found.columns(measure).items():
                shown = np.where(at_bound & (name != measure), np.nan, ends)
                columns[name][rows] = antilog(shown) if logarithmic else shown
    table = table.assign(**columns)
    scores = grouped["score"]
    medians = {config: median_interval(of.dropna().to_numpy())[0] for config, of in scores if of.notna().any()}
    for name in ("score_median", "score_median_low", "score_median_high"):
        known = {config: found.columns("score_median")[name] for config, found in medians.items()}
        table[name] = pd.Series(known, dtype=float).reindex(table.index)
    table["score_min"], table["score_max"] = scores.min(), scores.max()
    gaps = {c: optimality_gap(g["score"].dropna(), g["target"].iloc[0]) for c, g in grouped if g["score"].notna().any()}
    table["score_gap"] = pd.Series(gaps, dtype=float).reindex(table.index)
    return table.reset_index()


def _without_crashed(near: Array | None, configs: pd.Index, counted_runs: pd.DataFrame) -> Array | None:
    """Neighbours of whom nobody borrows from one that crashed: how it varies says nothing of others."""
    crashed = counted_runs.groupby("config", observed=True)["crashed"].any().reindex(configs).to_numpy(bool)
    if not crashed.any():
        return near
    return np.where(crashed, 0.0, np.ones((len(configs), len(configs))) if near is None else near)


def neighbours(configs: pd.DataFrame, axes: Sequence[str]) -> Array | None:
    """How much each configuration borrows of each other one's spread: those a step away on the grid most.

    Args:
        configs: A row a configuration.
        axes: The searched columns; one that is none is left out.

    Returns:
        (num_configurations, num_configurations); None where there is nothing by which they are ordered.
    """
    known = [a for a in axes if a in configs and configs[a].nunique() > 1]
    if not known:
        return None
    ordered = [pd.api.types.is_numeric_dtype(configs[a]) and not pd.api.types.is_bool_dtype(configs[a]) for a in known]
    places = [
        configs[a].rank(method="dense") if in_order else configs[a].astype(str).astype("category").cat.codes
        for a, in_order in zip(known, ordered, strict=True)
    ]
    return neighbour_weights(np.column_stack(places).astype(float), np.array(ordered))


def bounds_of(measure: str, runs: pd.DataFrame) -> tuple[float, float]:
    """The lowest and the highest possible value of a measure; infinite where there is no bound."""
    if measure in ("score", "auc", "score_in_minutes"):
        low, high = runs["score_range_low"].iloc[0], runs["score_range_high"].iloc[0]
        return (float(low) if pd.notna(low) else -np.inf, float(high) if pd.notna(high) else np.inf)
    high = float(runs["budget_env_steps"].max()) if measure == "env_steps_to_target" else np.inf
    return (0.0, high)


def curve_bands(
    curves: pd.DataFrame,
    runs: pd.DataFrame,
    metric: str = "eval/return_mean",
    x: str = "env_steps",
    axes: Sequence[str] = (),
) -> pd.DataFrame:
    """Curves over seeds: mean and interval at every point that all seeds of a configuration have.

    Seeds that failed or were interrupted are left out: a curve that lost its worst seeds on the way would rise by that
    alone. For the same reason a seed that ended at the target, before its budget, keeps its last return up to it; over
    seconds as far as the others go.

    Args:
        curves: As `analysis.load` gives them.
        runs: The trials of these curves, as `analysis.load` gives them.
        metric: Which curve.
        x: `env_steps`, the common report grid; or `wall_s`, seconds since the trial started,
            seeds interpolated between their reports.
        axes: As of `summarise`.

    Returns:
        `config`, x, `value`, `value_low`, `value_high`, `num_seeds`; empty where the metric was never logged.
    """
    shown = replicates(runs)
    shown = shown[shown["status"].isin(["finished", "running"]) & ~shown["exploratory"].astype(bool)]
    rows = []
    for env in shown["env"].unique():
        part = shown[shown["env"] == env]
        of_config = seed_curves(curves, part, metric, x)
        if not of_config:
            continue
        num_points = max(len(grid) for grid, _ in of_config.values())
        num_seeds = max(values.shape[0] for _, values in of_config.values())
        stacked = np.full((len(of_config), num_seeds, num_points), np.nan)
        for i, (_, values) in enumerate(of_config.values()):
            stacked[i, : values.shape[0], : values.shape[1]] = values
        bounds = bounds_of("score", part) if metric.endswith("return_mean") else UNBOUNDED
        first = part.drop_duplicates("config").set_index("config")
        found = moderated_intervals(stacked, bounds, neighbours(first.loc[list(of_config)], axes))
        for i, (config, (grid, values)) in enumerate(of_config.items()):
            size = slice(0, len(grid))
            columns = {name: values[i, size] for name, values in found.columns("value").items()}
            rows.append(pd.DataFrame({"config": config, x: grid, **columns, "num_seeds": values.shape[0]}))
    if not rows:
        return pd.DataFrame(columns=["config", x, "value", "value_low", "value_high", "num_seeds"])
    bands = pd.concat(rows, ignore_index=True).astype({"config": runs["config"].dtype})
    return bands.sort_values(["config", x], ignore_index=True)


def seed_curves(
    curves: pd.DataFrame, runs: pd.DataFrame, metric: str = RETURN, x: str = "env_steps"
) -> dict[str, tuple[Array, Array]]:
    """Curves of the seeds of each configuration, at every point that all of them have.

    A seed that ended at the target, before its budget, keeps its last return up to it; over seconds as far as the
    others go.

    Args:
        curves: As `analysis.load` gives them.
        runs: The trials that count, of one environment.
        metric: Which curve.
        x: As `curve_bands`.

    Returns:
        Configuration to x, (num_points,), and values, (num_seeds, num_points).
    """
    points = curves[(curves["metric"] == metric) & curves["run_id"].isin(runs["run_id"]) & np.isfinite(curves["value"])]
    early = runs[(runs["status"] == "finished") & (runs["end_env_steps"] < runs["budget_env_steps"])]
    budget_of = (
        dict(zip(early["run_id"], early["budget_env_steps"], strict=True)) if metric.endswith("return_mean") else {}
    )
    found = {}
    for config, group in points.groupby("config", observed=True, sort=False):
        seeds = [seed for _, seed in group.groupby("seed", sort=True)]
        found[str(config)] = _common_grid(seeds, [budget_of.get(seed["run_id"].iloc[0]) for seed in seeds], x)
    return found


def _common_grid(seeds: Sequence[pd.DataFrame], budgets: Sequence[float | None], x: str) -> tuple[Array, Array]:
    """The x that all seeds have, and their values there (num_seeds, num_points).

    Args:
        seeds: The points of each.
        budgets: Of those that ended early, and keep their last value; None of the others.
        x: As `curve_bands`.
    """
    if x == "env_steps":
        seeds = [s if budget is None else carried_on(s, budget) for s, budget in zip(seeds, budgets, strict=True)]
        common = sorted(set.intersection(*(set(s["env_steps"]) for s in seeds)))
        values = [s.set_index("env_steps")["value"].reindex(common).to_numpy() for s in seeds]
        return np.asarray(common), np.asarray(values, dtype=float)
    lasts, going_on = [s[x].max() for s in seeds], [budget is None for budget in budgets]
    start, end = max(s[x].min() for s in seeds), min(compress(lasts, going_on)) if any(going_on) else max(lasts)
    # none where no second is common to all
    grid = np.linspace(start, end, WALL_POINTS if end > start else int(end == start))
    ordered = [s.sort_values(x) for s in seeds]
    return grid, np.asarray([np.interp(grid, s[x], s["value"]) for s in ordered])


def pairwise(runs: pd.DataFrame, measure: str = "score") -> pd.DataFrame:
    """Every pair of configurations of an environment, compared on their common seeds.

    Args:
        runs: As `analysis.load` gives them.
        measure: One of `MEASURES`.

    Returns:
        `config_a`, `config_b`; `difference` of the means, a minus b, with its interval, not corrected; `p`, two-sided,
        and `p_adjusted` (Holm, over all pairs); `probability_of_improvement`, the chance that a run of a is better than
        a run of b, with its interval; `num_seeds` in common.
    """
    sign, frames = (-1 if measure in SMALLER_IS_BETTER else 1), []
    for _, part in counted(runs).groupby("env", observed=True, sort=False):
        matrix = by_seed(part, measure).dropna(how="all")
        table, samples = (
            differences(matrix),
            {c: sign * row[np.isfinite(row)] for c, row in zip(matrix.index, matrix.to_numpy(), strict=True)},
        )
        better = [
            probability_of_improvement(samples[a], samples[b])
            for a, b in zip(table["config_a"], table["config_b"], strict=True)
        ]
        frames.append(table.join(pd.DataFrame([b.columns("probability_of_improvement") for b in better], table.index)))
    columns = ["config_a", "config_b", "difference", "difference_low", "difference_high", "p", "p_adjusted"]
    columns += [f"probability_of_improvement{end}" for end in ("", "_low", "_high")] + ["num_seeds"]
    frame = (pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()).reindex(columns=columns)
    frame["p_adjusted"] = holm(frame["p"].to_numpy(dtype=float))
    return frame.astype(dict.fromkeys(("config_a", "config_b"), runs["config"].dtype))


def differences(matrix: pd.DataFrame) -> pd.DataFrame:
    """Every pair of configurations by their common seeds: `config_a`, `config_b`,
    `difference` with its interval, none where both come to the same on every seed, `p`, `num_seeds`.

    Args:
        matrix: As `by_seed` gives it, without rows that have no value.
    """
    values = matrix.to_numpy()
    first, second, found = paired_differences(values)
    pairs = {"config_a": matrix.index[first], "config_b": matrix.index[second], **found.columns("difference")}
    table = pd.DataFrame({**pairs, "p": p_values(found), "num_seeds": found.num_seeds})
    apart = values[first] - values[second]
    same = ~np.isnan(apart).all(axis=1) & ((apart == 0) | np.isnan(apart)).all(axis=1)
    table.loc[same, ["difference_low", "difference_high"]] = np.nan
    return table


def turned(pairs: pd.DataFrame, which: pd.Series) -> pd.DataFrame:
    """Some pairs the other way round, b against a.

    Args:
        pairs: As `pairwise` or `differences` give them; other columns that end in _a or _b change places too.
        which: Of its rows.
    """
    places = {name: name[:-1] + {"a": "b", "b": "a"}[name[-1]] for name in pairs if name.endswith(("_a", "_b"))}
    other = pairs[which].rename(columns=places)
    for name, zero in (("difference", 0.0), ("probability_of_improvement", 1.0)):
        if name not in pairs:
            continue
        columns = [f"{name}{end}" for end in ("", "_low", "_high")]
        other[columns] = zero - other[[columns[0], columns[2], columns[1]]].to_numpy()  # no -0
    return pd.concat([pairs[~which], other])[list(pairs)].sort_index()


def alike(
    runs: pd.DataFrame, axes: Sequence[str], but: Sequence[str] = ()
) -> list[tuple[dict[str, object], pd.DataFrame]]:
    """The parts of a study in which configurations differ in some settings alone.

    Args:
        runs: Trials.
        axes: The searched columns of `runs`.
        but: Those in which the configurations of a part may differ.

    Returns:
        What the configurations of a part have in common, searched column to value, and its rows; the whole where
        nothing else differs.
    """
    others = [a for a in axes if a not in but and a in runs and runs[a].nunique() > 1]
    if not others:
        return [({}, runs)]
    return [(dict(zip(others, values, strict=True)), part) for values, part in runs.groupby(others, observed=True)]


def score_profile(runs: pd.DataFrame, num_thresholds: int = 101) -> pd.DataFrame:
    """Performance profiles: the share of a configuration's seeds whose score is above a threshold
    (Agarwal et al. 2021).

    Args:
        runs: As `analysis.load` gives them.
        num_thresholds: Evenly spaced over the scores seen.

    Returns:
        `config`, `threshold`, `share` with Wilson's pointwise interval, `num_seeds`.
    """
    return _shares(runs, "score", num_thresholds, lambda values, at: values > at, "threshold")


def target_profile(runs: pd.DataFrame, num_points: int = 101) -> pd.DataFrame:
    """Sample efficiency: the share of a configuration's seeds that hold the target by then.

    Args:
        runs: As `analysis.load` gives them.
        num_points: Evenly spaced up to the budget.

    Returns:
        `config`, `env_steps`, `share` with Wilson's pointwise interval, `num_seeds`; empty without a target.
    """
    return _shares(
        runs[runs["target"].notna()], "env_steps_to_target", num_points, lambda values, at: values <= at, "env_steps"
    )


def _shares(runs: pd.DataFrame, measure: str, num: int, holds: Callable[[Array, float], Any], x: str) -> pd.DataFrame:
    finished = conclusive(runs)
    rows = []
    if measure == "env_steps_to_target":  # a seed cut off at its budget did not reach it there
        finished[measure] = finished[measure].where(finished["reached"], np.inf)
    known = finished[finished[measure].notna()]
    if len(known):
        low, high = (
            (0.0, known["budget_env_steps"].max()) if x == "env_steps" else (known[measure].min(), known[measure].max())
        )
        grid = np.linspace(low, high, num)
        for config, group in known.groupby("config", observed=True, sort=True):
            values = group[measure].to_numpy(dtype=float)
            count = np.array([holds(values, at).sum() for at in grid])
            ends = share_interval(count, len(values))
            share = {"share": count / len(values), "share_low": ends[0], "share_high": ends[1]}
            rows.append(pd.DataFrame({"config": config, x: grid, **share, "num_seeds": len(values)}))
    if not rows:
        return pd.DataFrame(columns=["config", x, "share", "share_low", "share_high", "num_seeds"])
    return pd.concat(rows, ignore_index=True).astype({"config": runs["config"].dtype})
