"""How the best learning rate moves with the train batch.

Curves of a measure against the learning rate are described by a Gaussian process in log10(learning rate), not by a
parabola: measured curves rise slowly, are flat on top where the score saturates, and fall off a cliff where training
diverges. Parabolas and cubics through such curves gave intervals that were too narrow
(`benchmarks/calibration/learning_rate_batch.py` measures the coverage).

Larger is better within this module: env steps to target enter as minus their log10. A run that never reached the target
counts at its budget; a run that diverged (failed on a non-finite value) counts as the worst value of the study; other
runs without a value (crashed, missing, still running, exploratory) are left out and counted in `num_left_out`; repeats
of a seed are left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from analysis import AnalysisError
from analysis.evidence import replicates
from analysis.questions.labels import WORDS, listed
from analysis.stats.gaussian_process import EXPONENTS, Cells, best_of, edge, exponent_posterior, fit_each, reference_lr
from analysis.stats.interval import CONFIDENCE, Array, posterior_interval

RULES: Mapping[str, float] = {"constant": 0.0, "square root": 0.5, "linear": 1.0}
"""Exponents of the rules by which people scale the learning rate with the batch (Krizhevsky 2014;
Malladi et al. 2205.10287; Goyal et al. 1706.02677)."""

_FEWEST_TO_BEND = 4
"""Batches from which on two halves have an exponent each."""
MEASURES = ("auc", "score", "env_steps_to_target")
BATCH = "train_batch_size_total"


@dataclass(frozen=True)
class Exponent:
    """The exponent p of best learning rate ~ batch^p.

    Attributes:
        num_batches: Batches in the fit.
        num_seeds: The largest number of seeds that one point of the fit rests on.
        measure: What "best" was judged by.
        reasons: What weakens the answer, each a clause.
        sentence: The answer for a report.
        estimate: The posterior median; NaN if there is nothing to estimate from.
        low: Lower end of the 95% interval; NaN without an interval.
        high: Upper end.
        low_open: The interval reaches the smallest exponent that was considered: the true one may be smaller still.
        high_open: The same at the upper end.
        rejected: Per rule of `RULES`, whether the interval leaves it out.
        reference_batch: Geometric mean of the batches, env steps.
        reference_lr: Best learning rate at the reference batch under the common curve: the line to draw is
            reference_lr * (batch / reference_batch) ** estimate.
        can_tell: At least one rule is rejected, from at least three batches whose best learning rates
            are not all at one edge.
    """

    num_batches: int
    num_seeds: int
    measure: str
    reasons: tuple[str, ...]
    sentence: str
    estimate: float = np.nan
    low: float = np.nan
    high: float = np.nan
    low_open: bool = False
    high_open: bool = False
    rejected: Mapping[str, bool] = field(default_factory=lambda: dict.fromkeys(RULES, False))
    reference_batch: float = np.nan
    reference_lr: float = np.nan
    can_tell: bool = False


def learning_rate_axis(axes: Iterable[str]) -> str:
    """The column that holds the learning rate: itself, or its multiple where several are moved together."""
    return "lr_multiple" if "lr_multiple" in axes else "lr"


def best_learning_rates(
    runs: pd.DataFrame, rng: np.random.Generator, measure: str = "auc", lr: str = "lr", batch: str = BATCH
) -> pd.DataFrame:
    """The best learning rate of each batch, between the grid's points too, with a 95% interval.

    Each batch has a curve of its own; how smooth curves are is learned from all batches. The estimate is the highest
    point of the curve's posterior mean, the interval holds 95% of the highest points of curves drawn from the
    posterior: where the leaders do not differ significantly it spans them. It reaches at least halfway to the
    neighbours of the best learning rate tried, and never leaves the grid: at an end that is `_open` the best learning
    rate may lie beyond.

    Args:
        runs: A study's runs, as `analysis.load` gives them.
        rng: Draws the curves.
        measure: One of `MEASURES`. The score saturates, so the area under the curve is the default.
        lr: Column of the learning rate, or of what else is best somewhere.
        batch: Column of the batch, or of what else it may depend on.

    Returns:
        A row a batch, ascending: the batch, `best_lr`, `best_lr_low`, `best_lr_high` (NaN where there is no interval:
        no replicates, or fewer than three learning rates), `low_open`, `high_open`, `at_edge` ("", "low" or "high": on
        which edge of the grid the estimate lies), `grid_best_lr` (the best of those tried), `num_lrs`, `num_seeds` (the
        most at one learning rate), `num_left_out`.

    Raises:
        AnalysisError: There is no learning rate or batch to compare, other settings are searched too,
            or no run has a value.
    """
    data = points(runs, measure, lr, batch)
    cells = Cells.of(data)
    fits = fit_each(cells)
    rows = []
    for value, group in data.groupby("batch"):
        mine = cells.take(cells.batch == value)
        row = {batch: value, **grid_best(mine), "num_lrs": len(mine.lr)}
        if value in fits:
            row.update(
                _no_finer_than_tried(
                    best_of(fits[value], cells.replicated, rng), np.log10(mine.lr), row["grid_best_lr"]
                )
            )
        rows.append(
            {**row, "num_seeds": int(mine.count.max(initial=0)), "num_left_out": int(group["value"].isna().sum())}
        )
    return pd.DataFrame(rows).astype({batch: runs[batch].dtype})


def exponent(runs: pd.DataFrame, measure: str = "auc", lr: str = "lr") -> Exponent:
    """The exponent p of best learning rate ~ batch^p, with a 95% interval, from all runs at once.

    The batches share one curve that shifts by p log10(batch); each batch adds a level and a deviation of its own. The
    posterior of p, flat before the data between -1.5 and 2.5, is summed over how smooth, how high and how different
    the curves are. A best learning rate need not be located by every batch alone: how its slopes line up with the
    others' tells as well.

    Args:
        runs: A study's runs, as `analysis.load` gives them.
        measure: One of `MEASURES`.
        lr: Column of the learning rate.

    Returns:
        The exponent. Where the data can't tell, it says so in `sentence`.

    Raises:
        AnalysisError: There is no learning rate or batch to compare, other settings are searched too,
            or no run has a value.
    """
    cells = Cells.of(points(runs, measure, lr))
    fits = fit_each(cells)
    used = cells.take(np.isin(cells.batch, list(fits)))
    batches = np.unique(used.batch)
    if cells.spread == 0:
        return _no_exponent(cells, measure, [f"{measure} is the same at every learning rate"])
    left_out = [rounded(b) for b in np.unique(cells.batch) if b not in fits]
    reasons = [f"batch {', '.join(left_out)} has fewer than three learning rates with a value"] if left_out else []
    if len(batches) < 2:
        return _no_exponent(used, measure, [*reasons, "fewer than two batches have a curve over the learning rate"])

    edges = {b: edge(fit.grid, int(fit.mean.argmax())) for b, fit in fits.items()}
    at_edge = {side: [rounded(b) for b, lies in edges.items() if lies == side] for side in ("low", "high")}
    for side, values in at_edge.items():
        if values:
            reasons.append(
                f"the best learning rate of batch {', '.join(values)} is at the {side} edge of the grid: widen it there"
            )
    if len(batches) == 2:
        reasons.append("two batches give an exponent but cannot show that a power law holds")

    fine, weights, evidence = exponent_posterior(used)
    p = posterior_interval(fine, weights)
    estimate, low, high = p.estimate, p.low, p.high
    low_open, high_open = bool(low < EXPONENTS[0] + 0.1), bool(high > EXPONENTS[-1] - 0.1)
    same_edge = any(len(values) == len(batches) for values in at_edge.values())
    if not used.replicated:
        reasons.append("one seed gives no interval")
        low = high = float("nan")
        low_open = high_open = False
    rejected = {
        name: bool(used.replicated and not same_edge and not low <= power <= high) for name, power in RULES.items()
    }
    bends = _bend(used)
    reasons += [bends] if bends else []
    can_tell = any(rejected.values()) and len(batches) > 2 and not bends
    reference = float(np.exp(np.log(batches).mean()))
    return Exponent(
        estimate=estimate,
        low=low,
        high=high,
        low_open=low_open,
        high_open=high_open,
        rejected=rejected,
        reference_batch=reference,
        reference_lr=reference_lr(used, estimate, evidence, reference),
        num_batches=len(batches),
        num_seeds=int(used.count.max()),
        measure=measure,
        can_tell=can_tell,
        reasons=tuple(reasons),
        sentence=_exponent_sentence(estimate, low, high, rejected, can_tell, reasons, measure, int(used.count.max())),
    )


def _bend(cells: Cells) -> str:
    """A clause that says so where the smaller batches have another exponent than the larger ones; "" where they may
    have the same, or are too few to tell.

    The posteriors of both halves, of which the middle one of an odd number is in both, are compared at 95%.
    """
    batches = np.unique(cells.batch)
    if not cells.replicated or len(batches) < _FEWEST_TO_BEND:
        return ""
    size = -(-len(batches) // 2)
    fine, lower, _ = exponent_posterior(cells.take(np.isin(cells.batch, batches[:size])))
    _, upper, _ = exponent_posterior(cells.take(np.isin(cells.batch, batches[-size:])))
    falls = float(upper @ (1 - np.cumsum(lower) + lower / 2))
    if min(falls, 1 - falls) > (1 - CONFIDENCE) / 2:
        return ""
    below, above = (float(np.interp(0.5, np.cumsum(half), fine)) for half in (lower, upper))
    return (
        f"it bends: batch^{below:.2f} up to batch {rounded(batches[size - 1])} and batch^{above:.2f} from "
        f"{rounded(batches[-size])} on, so that no single power holds"
    )


def slices(
    runs: pd.DataFrame, axes: Sequence[str], lr: str = "lr", batch: str = BATCH
) -> list[tuple[str, pd.DataFrame]]:
    """Split a study that searches other settings as well into parts in which only the learning rate
    and the batch differ.

    Args:
        runs: A study's runs.
        axes: The searched columns of `runs`.
        lr: Column of the learning rate.
        batch: Column of the batch.

    Returns:
        (label, runs) of each part, such as ("gamma=0.99", ...), in plan order; the whole with an empty label if nothing
        else is searched.
    """
    others = [
        a
        for a in axes
        if a not in (lr, batch) and a in runs and (runs.groupby([lr, batch])[a].nunique(dropna=False) > 1).any()
    ]
    if not others:
        return [("", runs)]
    groups = runs.groupby(others, sort=False, dropna=False)
    return [
        (" ".join(f"{name}={value}" for name, value in zip(others, key, strict=True)), part) for key, part in groups
    ]


# --- from runs to points of curves ---


def holding(group: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """The learning rates of one batch that end at the target, if any do:
    a time to target does not see a later collapse.
    """
    if not {"score", "target"} <= set(runs):
        return group
    ends = (runs["score"] - runs["target"]).reindex(group.index).groupby(group["lr"]).transform("mean") >= 0
    return group[ends] if ends.any() else group


def points(runs: pd.DataFrame, measure: str, lr: str, batch: str = BATCH, need_lrs: bool = True) -> pd.DataFrame:
    """Columns lr, batch, value (larger is better; NaN: left out), env_steps and reached; a row a run.

    Raises:
        AnalysisError: As the public functions say.
    """
    if measure not in MEASURES:
        raise AnalysisError(f"measure {measure!r} is unknown; choose one of {', '.join(MEASURES)}")
    for name, what in ((lr, "learning rate"), (batch, "batch"), (measure, "measure")):
        if name not in runs:
            raise AnalysisError(
                f"the runs have no column {name!r} for the {what}; name the right one, or study one that has it"
            )
    runs = replicates(runs)
    columns = {}
    for name, what in ((lr, "learning rate"), (batch, "batch")):
        columns[what] = pd.to_numeric(runs[name], errors="coerce").astype(float)
        positive = columns[what] > 0
        if not positive.all():
            raise AnalysisError(
                f"{name} is not a positive number in {int((~positive).sum())} of {len(runs)} runs; leave those out"
            )
    if need_lrs and columns["learning rate"].nunique() < 2:
        raise AnalysisError(f"the study has one value of {lr} only; search several to compare them")
    if (runs.groupby([lr, batch])["config"].nunique() > 1).any():
        raise AnalysisError(
            f"several configurations have the same {lr} and {batch}; pass one part "
            "of learning_rate_batch.slices(runs, axes) at a time"
        )

    finished = runs["status"].eq("finished") & ~runs["exploratory"].astype(bool)
    raw = pd.to_numeric(runs[measure], errors="coerce").astype(float)
    raw = raw.where(np.isfinite(raw) & finished)
    steps, reached = raw, raw.notna()
    if measure == "env_steps_to_target":
        budget = pd.to_numeric(runs["budget_env_steps"], errors="coerce").astype(float)
        if "target" in runs and runs["target"].isna().all():
            raise AnalysisError("the environment has no target; judge by measure='auc' instead")
        steps = raw.where(reached, budget.where(finished))
        value = -np.log10(steps)
    else:
        value = raw
    if value.notna().sum() == 0:
        raise AnalysisError(
            f"no run has a finite {measure}: {int((~finished).sum())} of {len(runs)} did not finish; see their failures"
        )
    diverged = runs["status"].eq("failed") & runs["diverged"].astype(bool)
    value = value.where(~diverged, value.min())
    if measure == "env_steps_to_target":
        steps = steps.where(~diverged, budget)
    return pd.DataFrame(
        {
            "lr": columns["learning rate"],
            "batch": columns["batch"],
            "value": value,
            "env_steps": steps,
            "reached": reached,
        }
    )


def grid_best(cells: Cells) -> dict[str, object]:
    """The best of the learning rates tried in one batch, the middle one of equals; a row without a curve."""
    row: dict[str, object] = {
        "best_lr": np.nan,
        "best_lr_low": np.nan,
        "best_lr_high": np.nan,
        "low_open": False,
        "high_open": False,
    }
    if not len(cells.lr):
        return {**row, "at_edge": "", "grid_best_lr": np.nan}
    equals = np.flatnonzero(np.isclose(cells.mean, cells.mean.max(), rtol=1e-12))
    index = int(equals[len(equals) // 2])
    best = float(cells.lr[index])
    return {**row, "best_lr": best, "at_edge": edge(cells.lr, index), "grid_best_lr": best}


def _no_finer_than_tried(best: dict[str, object], tried: Array, grid_best_lr: float) -> dict[str, object]:
    """The interval, not narrower than halfway to the neighbours of the best learning rate tried.

    What lies between two points is assumed, not seen: where the measure falls off a cliff,
    the curve's own interval is too narrow.
    """
    if "best_lr_low" not in best:
        return best
    at = int(np.abs(tried - np.log10(grid_best_lr)).argmin())
    below, above = tried[max(at - 1, 0)], tried[min(at + 1, len(tried) - 1)]
    halfway = 10 ** ((tried[at] + below) / 2), 10 ** ((tried[at] + above) / 2)
    ends = {"best_lr_low": min(best["best_lr_low"], halfway[0]), "best_lr_high": max(best["best_lr_high"], halfway[1])}
    return {**best, **ends}


# --- in words ---


def _no_exponent(cells: Cells, measure: str, reasons: list[str]) -> Exponent:
    """Nothing to estimate from."""
    return Exponent(
        num_batches=len(np.unique(cells.batch)),
        num_seeds=int(cells.count.max(initial=0)),
        measure=measure,
        reasons=tuple(reasons),
        sentence=(
            f"How the best learning rate changes with the batch can't be told from these data: {'; '.join(reasons)}."
        ),
    )


def _exponent_sentence(
    estimate: float,
    low: float,
    high: float,
    rejected: Mapping[str, bool],
    can_tell: bool,
    reasons: list[str],
    measure: str,
    num_seeds: int,
) -> str:
    """The exponent in words."""
    interval = f", 95% interval {low:.2f} to {high:.2f} over {num_seeds} seeds" if low == low else ""
    text = f"By {WORDS[measure]} the best learning rate goes as batch^{estimate:.2f}{interval}"
    out = [f"{name} ({RULES[name]:g})" for name, is_out in rejected.items() if is_out]
    kept = [f"{name} ({RULES[name]:g})" for name, is_out in rejected.items() if not is_out]
    if out:
        text += f": {listed(out)} {'is' if len(out) == 1 else 'are'} rejected, {listed(kept) if kept else 'none'} "
        text += f"{'is' if len(kept) == 1 else 'are'} not" if kept else "of the three rules is left"
    else:
        text += f": the data can't tell {listed(kept)} apart"
    text += "."
    if reasons:
        text += f" {'Mind that' if can_tell else 'This rests on little:'} {'; '.join(reasons)}."
    return text


def rounded(value: float) -> str:
    """To the unit: `12,345`."""
    return f"{value:,.0f}"
