"""The gain of staggered environments, and the gain to have more of them with shorter fragments:
at the same batch, on matched seeds.

Pure functions of a study's frames.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.evidence import conclusive
from analysis.questions.claims import Verdict
from analysis.questions.convergence import alike, by_seed, carried_on, differences, turned
from analysis.questions.runners import ENVS, total_envs
from analysis.stats.comparisons import holm
from analysis.stats.interval import CONFIDENCE, Interval
from analysis.stats.moderated import moderated_intervals

STAGGER, BATCH = "stagger", "train_batch_size_total"
TOTAL, FRAGMENT = "environments", "fragment"
"""Columns: environments of a trial, and env steps that each gives to a training batch."""
MEASURES = ("auc", "score")
IN_LOCKSTEP = 0.5
"""Phase diversity of a training batch below which environments are said to move in lockstep:
the middle of its range."""
PUBLISHED_SPEEDUP = (2.0, 3.0)
"""In how many times fewer env steps staggered environments learn, where they would move in lockstep
(Bharthulwar et al. 2511.21011)."""
LITTLE = 1.25
"""How many times fewer, or more, is little: what is published for other environments has no number."""
REACHED = 0.9
"""Share of the way from the first evaluations to the lower of two means over the end at which the env steps of both
are compared: where curves are flat, at the end itself, they are noise."""
END = 0.25
"""Share of the budget that is the end of a curve: a single evaluation has few episodes."""


@dataclass(frozen=True)
class LockstepFound:
    """Staggered environments against others, and many against few.

    Attributes:
        settings: Searched columns beside these two to the value that all of these runs have.
        levels: A row a configuration: `stagger`, `environments`, `fragment`, `diversity` (of the phases in a
            training batch, mean over the trial; NaN where it was not logged) and each of `MEASURES` (means), with
            their intervals, `num_seeds`.
        staggered: A row a measure and number of environments: `measure`, `environments`, `fragment`, `difference`
            that staggering makes, of the means, with its 95% interval, `p_adjusted` (Holm, over all of the measure in
            both frames), `num_seeds`.
        more: A row a measure and `stagger`: likewise, of the most environments to the fewest, whose number and fragment
            are `than` and `than_fragment`.
        speedups: A row a number of environments: `environments`, `fragment`, `speedup` with its interval: in how many
            times fewer env steps staggered ones reach the return `level`, NaN where nothing was learned; `in_lockstep`,
            whether the others are, None if unknown; `verdict` on what is published of both; `num_seeds`.
    """

    settings: Mapping[str, object]
    levels: pd.DataFrame
    staggered: pd.DataFrame
    more: pd.DataFrame
    speedups: pd.DataFrame


def compare(runs: pd.DataFrame, curves: pd.DataFrame, axes: Sequence[str]) -> list[LockstepFound]:
    """The gain of staggering, and of more environments at the same batch.

    Args:
        runs: Of one environment, as `analysis.load` gives them.
        curves: Of the same environment, as `analysis.load` gives them.
        axes: The searched columns of `runs`.

    Returns:
        An answer for each setting of the other axes; nothing where staggering was not searched.
    """
    finished = conclusive(runs)
    if STAGGER not in axes or finished.empty:
        return []
    finished[STAGGER] = finished[STAGGER].astype(str).str.lower() == "true"  # a parameter in MLflow is a text
    finished[TOTAL] = total_envs(finished).astype(int)
    finished[FRAGMENT] = finished[BATCH] / finished[TOTAL]
    return [_compared(part, curves, settings) for settings, part in alike(finished, axes, (STAGGER, ENVS))]


def _compared(runs: pd.DataFrame, curves: pd.DataFrame, settings: Mapping[str, object]) -> LockstepFound:
    own = curves[curves["run_id"].isin(runs["run_id"])]
    levels = _levels(runs, own)
    changes = [_changes(runs, measure) for measure in MEASURES]
    staggered, more = (pd.concat(parts, ignore_index=True) for parts in zip(*changes, strict=True))
    return LockstepFound(settings, levels, staggered, more, _speedups(runs, own, levels))


def _levels(runs: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    of_run = curves[curves["metric"] == "train/phase_diversity"].groupby("run_id", observed=True)["value"].mean()
    runs = runs.assign(diversity=runs["run_id"].map(of_run.to_dict()).astype(float))
    table = runs.astype({"config": str}).drop_duplicates("config").set_index("config")[[STAGGER, TOTAL, FRAGMENT]]
    for name, bounds in {"diversity": (0.0, 1.0), **dict.fromkeys(MEASURES, (-np.inf, np.inf))}.items():
        matrix = by_seed(runs, name)
        for column, values in moderated_intervals(matrix.to_numpy(), bounds).columns(name).items():
            table[column] = pd.Series(values, matrix.index.astype(str)).reindex(table.index)
    table["num_seeds"] = runs.groupby("config", observed=True)["seed"].nunique().rename(index=str).reindex(table.index)
    return table.sort_values([STAGGER, TOTAL], ignore_index=True)


def _changes(runs: pd.DataFrame, measure: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of `staggered` and `more` of a measure."""
    known = runs.astype({"config": str}).drop_duplicates("config").set_index("config")
    pairs = differences(by_seed(runs, measure).dropna(how="all")).dropna(subset="difference")
    for side in ("a", "b"):
        own = known.loc[pairs[f"config_{side}"].astype(str)]
        for column in (STAGGER, TOTAL, FRAGMENT):
            pairs[f"{column}_{side}"] = own[column].to_numpy()
    fewest, most = known[TOTAL].min(), known[TOTAL].max()
    same_number = pairs[f"{TOTAL}_a"] == pairs[f"{TOTAL}_b"]
    staggered = pairs[same_number & (pairs[f"{STAGGER}_a"] != pairs[f"{STAGGER}_b"])]
    ends = pairs[[f"{TOTAL}_a", f"{TOTAL}_b"]]
    more = pairs[
        (pairs[f"{STAGGER}_a"] == pairs[f"{STAGGER}_b"])
        & ~same_number
        & (ends.min(axis=1) == fewest)
        & (ends.max(axis=1) == most)
    ]
    staggered = turned(staggered, ~staggered[f"{STAGGER}_a"].astype(bool))
    more = turned(more, more[f"{TOTAL}_a"] < more[f"{TOTAL}_b"])
    adjusted = holm(np.concatenate([staggered["p"], more["p"]]).astype(float))
    staggered, more = (
        staggered.assign(p_adjusted=adjusted[: len(staggered)]),
        more.assign(p_adjusted=adjusted[len(staggered) :]),
    )
    names = {
        f"{TOTAL}_a": TOTAL,
        f"{FRAGMENT}_a": FRAGMENT,
        f"{TOTAL}_b": "than",
        f"{FRAGMENT}_b": "than_fragment",
        f"{STAGGER}_a": STAGGER,
    }
    common = ["measure", TOTAL, FRAGMENT, "difference", "difference_low", "difference_high", "p_adjusted", "num_seeds"]
    return (
        staggered.assign(measure=measure).rename(columns=names)[common].sort_values(TOTAL),
        more.assign(measure=measure)
        .rename(columns=names)[[*common, STAGGER, "than", "than_fragment"]]
        .sort_values(STAGGER),
    )


def change_verdict(row: Mapping[str, float]) -> Verdict:
    """True if a change of `staggered` or `more` makes things better, at 5% over all changes of the measure."""
    if not row["p_adjusted"] < 1 - CONFIDENCE:
        return Verdict.OPEN
    return Verdict.HOLDS if row["difference"] > 0 else Verdict.FAILS


def _speedups(runs: pd.DataFrame, curves: pd.DataFrame, levels: pd.DataFrame) -> pd.DataFrame:
    returns = curves[curves["metric"] == "eval/return_mean"]
    budget = float(runs["budget_env_steps"].max())
    rows, logs = [], []
    for (total, fragment), part in runs.groupby([TOTAL, FRAGMENT]):
        by_way = {way: _curves_by_seed(returns, part[part[STAGGER] == way]) for way in (False, True)}
        seeds = sorted(set(by_way[False]) & set(by_way[True]))
        if not seeds:
            continue
        first = np.mean([by_way[False][seed]["value"].iloc[0] for seed in seeds])
        level = first + REACHED * (
            min(np.mean([_end(by_way[way][seed], budget) for seed in seeds]) for way in (False, True)) - first
        )
        taken = np.array([[env_steps_to(by_way[way][seed], level, budget) for seed in seeds] for way in (False, True)])
        is_lockstep = _is_lockstep(levels[(levels[TOTAL] == total) & ~levels[STAGGER]])
        rows.append(
            {TOTAL: total, FRAGMENT: fragment, "level": level, "in_lockstep": is_lockstep, "num_seeds": len(seeds)}
        )
        ratio = np.log(taken[0] / taken[1]) if level > first else np.full(len(seeds), np.nan)  # nothing was learned
        logs.append(dict(zip(seeds, ratio, strict=True)))
    columns = [
        TOTAL,
        FRAGMENT,
        "level",
        "in_lockstep",
        "num_seeds",
        "speedup",
        "speedup_low",
        "speedup_high",
        "verdict",
    ]
    if not rows:
        return pd.DataFrame(columns=columns)
    ratios = moderated_intervals(pd.DataFrame(logs).to_numpy(dtype=float)).columns("speedup")
    frame = (
        pd.DataFrame(rows)
        .astype({"in_lockstep": object})
        .assign(**{name: np.exp(values) for name, values in ratios.items()})
    )
    found = zip(frame["speedup"], frame["speedup_low"], frame["speedup_high"], frame["in_lockstep"], strict=True)
    return frame.assign(verdict=[speedup_verdict(Interval(*ends), is_lockstep) for *ends, is_lockstep in found])[
        columns
    ]


def _is_lockstep(together: pd.DataFrame) -> bool | None:
    """True if environments that start together move in lockstep; None if their phases are not known."""
    highest = together[["diversity", "diversity_high"]].max(axis=1)  # a single seed has no interval
    return None if highest.isna().any() else bool((highest < IN_LOCKSTEP).all())


def _curves_by_seed(returns: pd.DataFrame, runs: pd.DataFrame) -> dict[int, pd.DataFrame]:
    own = returns[returns["run_id"].isin(runs["run_id"])]
    budget_of = dict(zip(runs["seed"], runs["budget_env_steps"], strict=True))
    return {
        int(seed): carried_on(curve.sort_values("env_steps"), budget_of[seed]) for seed, curve in own.groupby("seed")
    }


def _end(curve: pd.DataFrame, budget: float) -> float:
    return float(curve.loc[curve["env_steps"] > (1 - END) * budget, "value"].mean())


def env_steps_to(curve: pd.DataFrame, level: float, budget: float) -> float:
    """Env steps at which a curve first is at a level, between two evaluations on the straight line;
    the budget if it never is.

    Args:
        curve: `env_steps`, `value`, in their order.
        level: A return.
        budget: Env steps of the trial.
    """
    steps, values = curve["env_steps"].to_numpy(dtype=float), curve["value"].to_numpy(dtype=float)
    above = np.flatnonzero(values >= level)
    if not len(above):
        return budget
    at = int(above[0])
    return float(steps[0] if at == 0 else np.interp(level, values[at - 1 : at + 1], steps[at - 1 : at + 1]))


def speedup_verdict(found: Interval, in_lockstep: bool | None) -> Verdict:
    """The verdict on what is published: at least two times fewer env steps in lockstep, about as many elsewhere.

    Args:
        found: In how many times fewer env steps.
        in_lockstep: Whether the environments move in lockstep unless they are staggered; None: unknown.
    """
    if np.isnan(found.low) or in_lockstep is None:
        return Verdict.OPEN
    low, high = (PUBLISHED_SPEEDUP[0], np.inf) if in_lockstep else (1 / LITTLE, LITTLE)
    if low <= found.low and found.high <= high:
        return Verdict.HOLDS
    return Verdict.FAILS if found.high < low or found.low > high else Verdict.OPEN
