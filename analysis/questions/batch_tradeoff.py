"""Where a larger batch stops paying: the critical batch, from env steps and updates to target. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.questions.decision import chosen_values
from analysis.questions.learning_rate_batch import (
    BATCH,
    Exponent,
    best_learning_rates,
    exponent,
    grid_best,
    holding,
    points,
    rounded,
)
from analysis.stats import critical_batch
from analysis.stats.comparisons import p_values, unpaired
from analysis.stats.gaussian_process import Cells, edge
from analysis.stats.interval import CONFIDENCE, Interval
from analysis.stats.moderated import moderated_intervals


@dataclass(frozen=True)
class Tradeoff:
    """Env steps to target against updates to target, as the batch grows: (S / smin - 1) (E / emin - 1) = 1.

    Attributes:
        batches: A row a batch, ascending: the batch, `lr` (the best of those tried), `at_edge`, `env_steps_to_target`
            and `updates_to_target`, each with _low and _high (as `convergence.summarise` has them: runs that never
            reach count at their budget), `num_seeds`, `num_reached`, `num_left_out`.
        emin: Env steps to target as the batch goes to zero, with a 95% interval as those below; all NaN without a fit.
        smin: Updates to target as the batch goes to infinity.
        critical_batch: emin / smin, env steps: there a run takes twice emin env steps and twice smin updates.
        can_tell: The interval is narrower than the range of batches, or lies beyond it on one side.
        reasons: What weakens the answer, each a clause.
        sentence: The answer for a report.
    """

    batches: pd.DataFrame
    emin: Interval
    smin: Interval
    critical_batch: Interval
    can_tell: bool
    reasons: tuple[str, ...]
    sentence: str


@dataclass(frozen=True)
class LrBatch:
    """A part of a study in which only learning rate and batch differ.

    Attributes:
        label: What tells the part from the others; "" if it is the whole study.
        runs: Its rows.
        best: From `best_learning_rates`.
        exponent: By area under the curve.
        tradeoff: Env steps against updates to target.
    """

    label: str
    runs: pd.DataFrame
    best: pd.DataFrame
    exponent: Exponent
    tradeoff: Tradeoff


def lr_batch(label: str, runs: pd.DataFrame, rng: np.random.Generator, replays: bool, lr: str) -> LrBatch:
    """Learning rate and batch of a part of a study.

    Args:
        label: Tells the part from the others.
        runs: Its rows, as `learning_rate_batch.slices` gives them.
        rng: Draws from the posteriors.
        replays: Whether the algorithm replays its data.
        lr: Column of the learning rate.

    Raises:
        AnalysisError: There is nothing to compare.
    """
    best, found = best_learning_rates(runs, rng, lr=lr), exponent(runs, lr=lr)
    tradeoff = batch_tradeoff(runs, rng, replays, lr, chosen_values(runs, lr, BATCH))
    return LrBatch(label, runs, best, found, tradeoff)


def batch_tradeoff(
    runs: pd.DataFrame,
    rng: np.random.Generator,
    replays: bool = False,
    lr: str = "lr",
    lrs: Mapping[float, float] | None = None,
) -> Tradeoff:
    """Where a larger batch stops paying: the critical batch, from env steps and updates to target
    at each batch's best learning rate.

    McCandlish et al. (1812.06162): E env steps and S updates to a goal obey (S / smin - 1) (E / emin - 1) = 1 as the
    batch varies. An update is a training batch, the counterpart of their optimiser step: gradient steps on fresh data.
    PPO's minibatches and epochs reuse one batch, and at a fixed minibatch their number per env step is the same
    whatever the batch, so counted in them there would be no trade-off. S is then E / batch, and the curve a straight
    line, E = emin (1 + batch / critical batch), fitted to the seeds' log E with common scatter. Runs that never reach
    enter by the chance of exceeding their budget (censored).

    Args:
        runs: A study's runs, as `analysis.load` gives them.
        rng: Draws from the posterior.
        replays: Whether the algorithm replays its data: the batch then does not tie updates to env steps.
        lr: Column of the learning rate.
        lrs: Batch to its best learning rate, as the study's answer would choose it (`decision.chosen_values`); where it
            is missing, the one with the smallest geometric mean of env steps to target.

    Returns:
        The trade-off. Where the data can't tell, it says so in `sentence`.

    Raises:
        AnalysisError: There is no learning rate or batch to compare, other settings are searched too,
            or no run has a value.
    """
    data = points(runs, "env_steps_to_target", lr, need_lrs=False)
    cells = data.assign(seed=data.groupby(["batch", "lr"]).cumcount()).pivot(
        index=["batch", "lr"], columns="seed", values="env_steps"
    )
    longest = float(pd.to_numeric(runs["budget_env_steps"]).max())
    steps = moderated_intervals(cells.to_numpy(float), bounds=(0.0, longest))
    rows, chosen = [], []
    for value, group in data.groupby("batch"):
        best = (lrs or {}).get(value) or grid_best(Cells.of(holding(group, runs)))["grid_best_lr"]
        tried = sorted(group["lr"].unique())
        row = {BATCH: value, "lr": best, "at_edge": edge(np.array(tried), tried.index(best))}
        mine = group[(group["lr"] == best) & group["value"].notna()]
        chosen.append(mine)
        at = cells.index.get_loc((value, best)) if len(mine) else None
        for cost, divisor in (("env_steps_to_target", 1.0), ("updates_to_target", float(value))):
            for name, values in steps.columns(cost).items():
                row[name] = float(values[at]) / divisor if at is not None else np.nan
        counts = {
            "num_seeds": len(mine),
            "num_reached": int(mine["reached"].sum()),
            "num_left_out": int(group["value"].isna().sum()),
        }
        rows.append({**row, **counts})
    table = pd.DataFrame(rows).astype({BATCH: runs[BATCH].dtype})

    if replays:
        table[[name for name in table if str(name).startswith("updates")]] = np.nan
        algorithms = ", ".join(sorted(runs["algorithm"].unique()))
        return _no_tradeoff(table, [f"{algorithms} replays its data: the batch does not tie updates to env steps"])
    reached = table.loc[table["num_reached"] > 0, BATCH]
    if len(reached) < 3:
        return _no_tradeoff(
            table, [f"only {len(reached)} of {len(table)} batches reach the target, and the curve needs three"]
        )
    if table["num_seeds"].max() < 2:
        return _no_tradeoff(table, ["one seed shows no scatter to judge a fit by"])
    seeds = pd.concat(chosen)
    if falls := _falls_first(seeds):
        return _no_tradeoff(table, [falls])
    return _fit_tradeoff(table, seeds, rng)


def _falls_first(chosen: pd.DataFrame) -> str:
    """A clause that says so where a smaller batch takes significantly more env steps than a larger one, which the
    trade-off excludes; "" where none does.

    By unpaired t tests of logarithms against the batch with the fewest, at 5% over the smaller ones.
    """
    numbered = chosen.assign(seed=chosen.groupby("batch").cumcount(), log=np.log(chosen["env_steps"].astype(float)))
    logs = numbered.pivot(index="batch", columns="seed", values="log")
    found = moderated_intervals(logs.to_numpy())
    best = int(np.nanargmin(found.estimate))
    for smaller in range(best):
        apart = unpaired(found, smaller, best)
        if apart.estimate[0] > 0 and p_values(apart)[0] * best <= 1 - CONFIDENCE:
            more = float(np.exp(apart.estimate[0]))
            return (
                f"batch {rounded(logs.index[smaller])} takes {more:.2g} times the env steps of batch "
                f"{rounded(logs.index[best])}, which takes the fewest, where the trade-off expects it to take fewer"
            )
    return ""


def _fit_tradeoff(table: pd.DataFrame, chosen: pd.DataFrame, rng: np.random.Generator) -> Tradeoff:
    """Fit to the seeds at the best learning rates."""
    size = chosen["batch"].to_numpy(float)
    smallest, largest = float(size.min()), float(size.max())
    critical, emin, smin = critical_batch.fit(
        size, chosen["env_steps"].to_numpy(float), chosen["reached"].to_numpy(bool), rng
    )
    reasons = []
    missed = table.loc[table["num_reached"] < table["num_seeds"], BATCH]
    if len(missed):
        reasons.append(
            f"some seeds of batch {', '.join(rounded(b) for b in missed)} never reach the target "
            "and count as beyond the budget"
        )
    edges = table.loc[table["at_edge"] != "", BATCH]
    if len(edges):
        reasons.append(
            f"the best learning rate of batch {', '.join(rounded(b) for b in edges)} is at the edge of the grid"
        )
    span = f"from {rounded(smallest)} to {rounded(largest)}"
    low, middle, high = (rounded(value) for value in (critical.low, critical.estimate, critical.high))
    interval = f"95% interval {low} to {high}"
    can_tell = True
    if critical.low > largest:
        sentence = (
            f"The critical batch is above {low} (95%), beyond all batches tried: "
            "a larger one still pays in fewer updates."
        )
    elif critical.high < smallest:
        sentence = (
            f"The critical batch is below {high} (95%), under all batches tried: a smaller one takes fewer env steps."
        )
    elif critical.high / critical.low > largest / smallest:
        can_tell = False
        sentence = (
            f"Where a larger batch stops paying can't be told: the critical batch's {interval} is wider "
            f"than the batches, {span}."
        )
    else:
        sentence = (
            f"The critical batch is {middle} env steps ({interval}): beyond it more batch mostly costs env steps."
        )
    if reasons:
        sentence += f" Mind that {'; '.join(reasons)}."
    return Tradeoff(table, emin, smin, critical, can_tell, tuple(reasons), sentence)


def _no_tradeoff(table: pd.DataFrame, reasons: list[str]) -> Tradeoff:
    """Nothing to fit."""
    sentence = f"Where a larger batch stops paying can't be told: {'; '.join(reasons)}."
    unknown = Interval(np.nan, np.nan, np.nan)
    return Tradeoff(table, unknown, unknown, unknown, False, tuple(reasons), sentence)
