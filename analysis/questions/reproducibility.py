"""How well a study comes out the same: to the bit with the same seed, and as well with other seeds.

Pure functions of its frames.
"""

from itertools import product
from math import comb
from typing import Any

import numpy as np
import pandas as pd

from analysis.evidence import conclusive
from analysis.questions.convergence import by_seed
from analysis.stats.comparisons import p_values, seeds_needed
from analysis.stats.curves import Curves, compare_curves
from analysis.stats.interval import CONFIDENCE
from analysis.stats.moderated import moderated_intervals, paired_differences
from experiments.contract import depends_on_clock
from experiments.contract.extensions import metrics as all_metrics

NUM_SPLITS = 2000
"""Draws of some seeds against as many others."""
MOST_IN_GROUP = 10
"""Seeds on either side of a split that are tried."""

_MANTISSAS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
_EFFECTS = (0.2, 3.0)
"""Differences worth a row, as multiples of their spread: below it takes hundreds of seeds, above it two or three."""


def seed_spread(runs: pd.DataFrame, measure: str = "score") -> pd.DataFrame:
    """How far the seeds of each configuration lie apart.

    Args:
        runs: As `analysis.load` gives them.
        measure: One of `convergence.MEASURES`.

    Returns:
        `config`, `num_seeds` with a value, `lowest`, `mean`, `highest`; `sd`, the standard deviation over the
        configuration's own seeds, and `sd_moderated`, averaged with the other configurations of the environment, on
        which its interval leans. NaN with a single seed.
    """
    frames = []
    for _, part in conclusive(runs).groupby("env", observed=True, sort=False):
        matrix = by_seed(part, measure).dropna(how="all")
        found = moderated_intervals(matrix.to_numpy())
        columns = {"num_seeds": matrix.count(axis=1), "lowest": matrix.min(axis=1), "mean": matrix.mean(axis=1)}
        columns |= {
            "highest": matrix.max(axis=1),
            "sd": matrix.std(axis=1),
            "sd_moderated": found.se * np.sqrt(found.num_seeds),
        }
        frames.append(pd.DataFrame(columns))
    names = ["config", "num_seeds", "lowest", "mean", "highest", "sd", "sd_moderated"]
    table = pd.concat(frames).rename_axis("config").reset_index() if frames else pd.DataFrame(columns=names)
    return table.astype({"config": runs["config"].dtype}).sort_values("config", ignore_index=True)


def typical_difference_spread(runs: pd.DataFrame, measure: str = "score") -> float:
    """Standard deviation over seeds of the difference between two configurations:
    the median over all pairs, variances moderated.

    Args:
        runs: As `analysis.load` gives them, of one environment.
        measure: One of `convergence.MEASURES`.

    Returns:
        In the measure's unit. Of a single configuration: as if another varied as much as it does, independently. NaN if
        no two configurations have two seeds in common.
    """
    values = by_seed(conclusive(runs), measure).dropna(how="all").to_numpy()
    if len(values) == 1 and np.isfinite(values).sum() > 1:
        return float(np.sqrt(2) * np.nanstd(values, ddof=1))
    _, _, found = paired_differences(values)
    spreads = (found.se * np.sqrt(found.num_seeds))[np.isfinite(found.se)]
    return float(np.median(spreads)) if len(spreads) else float("nan")


def seeds_to_see(spread: float, num_comparisons: int = 1) -> pd.DataFrame:
    """How many common seeds show a difference between two configurations with a chance of 80%, for round differences.

    Args:
        spread: Standard deviation over seeds of the difference.
        num_comparisons: Comparisons of the study that have to hold together.

    Returns:
        `difference`, ascending, in the spread's unit; `seeds`, for two configurations that were chosen before looking;
        and `seeds_among_all`, with the risk of a false difference shared by all comparisons (Bonferroni). Empty if the
        spread is unknown or 0.
    """
    if not spread > 0:
        return pd.DataFrame(columns=["difference", "seeds", "seeds_among_all"])
    low, high = (spread * effect for effect in _EFFECTS)
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    differences = [m * 10.0**decade for decade in decades for m in _MANTISSAS if low <= m * 10.0**decade <= high]
    alpha = 1 - CONFIDENCE
    rows = [
        (d, *(int(np.ceil(seeds_needed(d, spread, a))) for a in (alpha, alpha / max(1, num_comparisons))))
        for d in differences
    ]
    return pd.DataFrame(rows, columns=["difference", "seeds", "seeds_among_all"])


_FINAL = {
    name.removeprefix("final/"): name
    for name in all_metrics()
    if name.startswith("final/") and not depends_on_clock(name)
}
"""Column of `runs` to its metric, of those that must come out the same."""


def compare_repeats(runs: pd.DataFrame, curves: pd.DataFrame | None = None) -> pd.DataFrame:
    """Each repeat, bit by bit, with the first finished run of its configuration and seed.

    All that was logged and does not depend on the clock is compared (`experiments.contract.depends_on_clock`),
    and the final weights.

    Args:
        runs: As `analysis.load` gives them.
        curves: Likewise. None: only what `runs` has is compared, the final evaluation and the final weights.

    Returns:
        A row for each repeat that finished, as did another run of its seed: `config`, `seed`, `repeat`; `against`, the
        one it is compared with; `promised`, whether the two must be the same; `num_values` compared; `has_weights`,
        whether both recorded a digest of their final weights; `identical`. If they are not: `env_steps` and `metric`
        where they part first (`weights`, where only these differ), `value_before` and `value` (NaN where it was not
        logged), and `num_parted`, metrics that part there.
    """
    finished = runs[(runs["status"] == "finished") & ~runs["exploratory"].astype(bool)]
    finished = finished.assign(promised=finished["reproducible"].fillna(True).astype(bool))
    logged = _logged(finished, curves)
    rows = []
    for (config, seed), trials in finished.sort_values("repeat").groupby(["config", "seed"], observed=True):
        first, *others = trials.to_dict("records")
        for trial in others:
            row = {"config": config, "seed": seed, "repeat": trial["repeat"], "against": first["repeat"]}
            row["promised"] = first["promised"] and trial["promised"]
            before, after = (logged.get((config, seed, t["repeat"]), {}) for t in (first, trial))
            rows.append({**row, **_parting(before, after, first["weights"], trial["weights"], trial["end_env_steps"])})
    columns = ["config", "seed", "repeat", "against", "promised", "num_values", "has_weights", "identical"]
    frame = pd.DataFrame(rows, columns=[*columns, "env_steps", "metric", "value_before", "value", "num_parted"])
    types = {"config": runs["config"].dtype, **dict.fromkeys(("promised", "has_weights", "identical"), bool)}
    return frame.astype({**types, "env_steps": "Int64", "num_parted": "Int64"})


def _logged(runs: pd.DataFrame, curves: pd.DataFrame | None) -> dict[tuple[Any, ...], dict[str, dict[int, float]]]:
    """(config, seed, repeat) to what must not differ between repeats."""
    trial = ["config", "seed", "repeat"]
    found: dict[tuple[Any, ...], dict[str, dict[int, float]]] = {}
    if curves is not None:
        points = curves[~curves["metric"].map(depends_on_clock).astype(bool)]
        for (*key, metric), of_metric in points.groupby([*trial, "metric"], observed=True):
            found.setdefault(tuple(key), {})[metric] = dict(
                zip(of_metric["env_steps"], of_metric["value"], strict=True)
            )
    for row, (column, metric) in product(runs.to_dict("records"), _FINAL.items()):
        if not np.isnan(row.get(column, np.nan)):  # not every trial logs all of them
            found.setdefault(tuple(row[name] for name in trial), {})[metric] = {row["end_env_steps"]: row[column]}
    return found


def _parting(before: Curves, after: Curves, weights_before: str, weights: str, end: int) -> dict[str, Any]:
    """The row of `compare_repeats` on two runs from what they logged; `end` is their last point."""
    compared = compare_curves(before, after)
    row = {
        "num_values": sum(map(len, before.values())),
        "has_weights": bool(weights_before and weights),
        "identical": False,
    }
    if compared.difference is not None:
        metric, (old, new) = next(iter(compared.difference.values.items()))
        where = {
            "env_steps": compared.difference.env_steps,
            "metric": metric,
            "num_parted": len(compared.difference.values),
        }
        return {**row, **where, "value_before": np.nan if old is None else old, "value": np.nan if new is None else new}
    if alone := [*compared.missing, *compared.added]:  # within one study, both runs must log the same
        metric = alone[0]
        step, value = next(iter((before.get(metric) or after[metric]).items()))
        values = (
            {"value_before": value, "value": np.nan}
            if metric in compared.missing
            else {"value_before": np.nan, "value": value}
        )
        return {**row, "env_steps": step, "metric": metric, "num_parted": len(alone), **values}
    if row["has_weights"] and weights != weights_before:
        return {**row, "env_steps": end, "metric": "weights", "num_parted": 1}
    return {**row, "identical": True}


def bit_exactness(runs: pd.DataFrame, curves: pd.DataFrame | None = None) -> pd.DataFrame:
    """How many repeats of each configuration come out the same to the bit.

    Args:
        runs: As `analysis.load` gives them.
        curves: Likewise; see `compare_repeats`.

    Returns:
        A row for each configuration with repeats: `config`; `num_seeds` of which repeats were compared; `num_pairs`,
        repeats that must be the same as the first run of their seed, and `num_identical`, those that are; `num_values`
        compared in them; `has_weights`, whether all of these recorded their final weights; `num_unpromised`, repeats
        that need not be the same: the algorithm is asynchronous, the environments are EnvPool's, or something raised
        once and not again; `num_left_out`, repeats without a finished partner, or that did not finish; and of the pair
        that parts first `seed`, `repeat`, `against`, `env_steps`, `metric`, `value_before`, `value` and `num_parted`,
        NA where none does.
    """
    planned = runs[runs["repeat"] > 0].groupby("config", observed=True).size()
    pairs = compare_repeats(runs, curves)
    rows = []
    for config, number in planned.items():
        mine = pairs[pairs["config"] == config]
        promised = mine[mine["promised"]]
        parted = promised[~promised["identical"]].sort_values(["env_steps", "seed", "repeat"], kind="stable")
        row = {
            "config": config,
            "num_seeds": mine["seed"].nunique(),
            "num_pairs": len(promised),
            "num_identical": len(promised) - len(parted),
            "num_values": int(promised["num_values"].sum()),
            "has_weights": bool(promised["has_weights"].all()),
            "num_unpromised": len(mine) - len(promised),
            "num_left_out": number - len(mine),
        }
        rows.append({**row, **(parted[_PARTING].iloc[0].to_dict() if len(parted) else dict.fromkeys(_PARTING, pd.NA))})
    columns = [
        "config",
        "num_seeds",
        "num_pairs",
        "num_identical",
        "num_values",
        "has_weights",
        "num_unpromised",
        "num_left_out",
    ]
    return pd.DataFrame(rows, columns=[*columns, *_PARTING]).astype({"config": runs["config"].dtype})


_PARTING = ["seed", "repeat", "against", "env_steps", "metric", "value_before", "value", "num_parted"]


def repeat_differences(runs: pd.DataFrame, measure: str = "score") -> pd.DataFrame:
    """By how much the later runs of a seed differ from its first: what an algorithm that does not promise bits
    can still be held to.

    Args:
        runs: As `analysis.load` gives them.
        measure: A column of `runs`.

    Returns:
        A row for each configuration of which two seeds or more ran several times to the end: `config`; `num_seeds`;
        `difference`, the mean over seeds of the later runs' mean minus the first run, with its interval (Student t over
        seeds, variances moderated); `sd_repeats`, the standard deviation between the runs of one seed, and `sd_seeds`,
        between the first runs of the seeds.
    """
    finished = runs[
        (runs["status"] == "finished") & ~runs["exploratory"].astype(bool) & np.isfinite(runs[measure].astype(float))
    ]
    frames = []
    for _, part in finished.groupby("env", observed=True, sort=False):
        wide = part.set_index(["config", "seed", "repeat"])[measure].unstack("repeat").astype(float)
        wide = wide[wide[0].notna() & (wide.notna().sum(axis=1) > 1)] if 0 in wide else wide.iloc[:0]
        later = (wide.drop(columns=0).mean(axis=1) - wide[0]).unstack("seed") if len(wide) else pd.DataFrame()
        later = later[later.notna().sum(axis=1) > 1]
        if later.empty:
            continue
        found = moderated_intervals(later.to_numpy())
        of_config = wide.groupby("config", observed=True)
        columns = {"num_seeds": found.num_seeds, **found.columns("difference")}
        columns["sd_repeats"] = np.sqrt(wide.var(axis=1).groupby("config", observed=True).mean()).reindex(later.index)
        columns["sd_seeds"] = of_config[0].std().reindex(later.index)
        frames.append(pd.DataFrame(columns, index=later.index).rename_axis("config").reset_index())
    names = ["config", "num_seeds", "difference", "difference_low", "difference_high", "sd_repeats", "sd_seeds"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=names)


def false_differences(
    runs: pd.DataFrame, rng: np.random.Generator, group: int = 5, measure: str = "score"
) -> pd.DataFrame:
    """How often some seeds against as many others of the same configuration would have come out as a difference.

    Seeds are drawn at random and split in two. The halves are compared as the study compares two configurations: paired
    (the order is drawn too), by t tests on variances that are averaged over the study, as if each half were a
    configuration of its own.

    A right test calls 5% of them different. The splits of one study share its seeds, so that no interval of the share
    can be had from their number: in simulated studies of one configuration with 10 normal scores it lies between 2% and
    7% in 95 of 100. A larger one belongs to a configuration that is less steady than the others, with whose its
    variance is averaged; one near 0 to seeds that collapse now and then, which a t test seldom tells apart. How far the
    halves lie apart is the noise that a difference has to exceed.

    Args:
        runs: As `analysis.load` gives them.
        rng: Draws the splits.
        group: Seeds on either side.
        measure: One of `convergence.MEASURES`.

    Returns:
        A row for each configuration with twice as many seeds or more: `config`, `group`, `num_seeds` (as many as all of
        these have in common on the environment), `num_splits` drawn, `num_ways` to choose the two sides, `share` of the
        splits called different at 5%; `gap_median` and `gap_95`: the means of half of the splits, and of 95% of them,
        lie no more than this apart.
    """
    rows = []
    for _, part in conclusive(runs).groupby("env", observed=True, sort=False):
        matrix = by_seed(part, measure)
        matrix = matrix[matrix.notna().sum(axis=1) >= 2 * group]
        if matrix.empty:
            continue
        num_seeds, size = int(matrix.notna().sum(axis=1).min()), len(matrix)
        values = np.array([row[np.isfinite(row)][:num_seeds] for row in matrix.to_numpy()])
        drawn = rng.permuted(np.tile(np.arange(num_seeds), (NUM_SPLITS, 1)), axis=1)[:, : 2 * group]
        halves = [values[:, drawn[:, side]].swapaxes(1, 2) for side in (slice(group), slice(group, None))]
        gap, different = (np.empty((size, NUM_SPLITS)) for _ in range(2))
        # in pieces: all pairs of all splits would not fit in memory
        for splits in np.array_split(np.arange(NUM_SPLITS), 20):
            first, second, found = paired_differences(np.concatenate([half[..., splits] for half in halves]))
            own = second - first == size
            gap[:, splits], different[:, splits] = np.abs(found.estimate[own]), p_values(found)[own] <= 1 - CONFIDENCE
        common = {"group": group, "num_seeds": num_seeds, "num_splits": NUM_SPLITS}
        common["num_ways"] = comb(num_seeds, group) * comb(num_seeds - group, group) // 2
        rows += [
            {
                "config": config,
                **common,
                "share": d.mean(),
                "gap_median": np.median(g),
                "gap_95": np.quantile(g, CONFIDENCE),
            }
            for config, g, d in zip(matrix.index, gap, different, strict=True)
        ]
    columns = ["config", "group", "num_seeds", "num_splits", "num_ways", "share", "gap_median", "gap_95"]
    return pd.DataFrame(rows, columns=columns).astype({"config": runs["config"].dtype})


def group_gaps(runs: pd.DataFrame, rng: np.random.Generator, measure: str = "score") -> pd.DataFrame:
    """`false_differences` for two seeds against two others, three against three, and so on,
    as far as a configuration's seeds go.

    Args:
        runs: As `analysis.load` gives them.
        rng: Draws the splits.
        measure: One of `convergence.MEASURES`.
    """
    num_seeds = conclusive(runs).groupby("config", observed=True)[measure].count()
    groups = range(2, min(MOST_IN_GROUP, num_seeds.max() // 2 if len(num_seeds) else 0) + 1)
    return pd.concat([false_differences(runs, rng, group, measure) for group in groups or (2,)], ignore_index=True)
