"""How the best learning rate moves with the train batch, and where a larger batch stops paying.

Curves of a measure against the learning rate are described by a Gaussian process in log10(learning rate), not by a parabola: measured
curves rise slowly, are flat on top where the score saturates, and fall off a cliff where training diverges. Parabolas and cubics
through such curves gave intervals that were too narrow (`benchmarks/calibration_scaling.py` measures the coverage).

Larger is better within this module: env steps to target enter as minus their log10. A run that never reached the target counts at
its budget; a run that diverged (failed on a non-finite value) counts as the worst value of the study; other runs without a value
(crashed, missing, still running, exploratory) are left out and counted in `num_left_out`; repeats of a seed are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special
from scipy.interpolate import CubicSpline

from analysis import AnalysisError
from analysis.questions.convergence import replicates
from analysis.questions.labels import WORDS
from analysis.stats.seeds import CONFIDENCE, Array, moderated_intervals

RULES: Mapping[str, float] = {"constant": 0.0, "square root": 0.5, "linear": 1.0}
"""Exponents of the rules by which people scale the learning rate with the batch (Krizhevsky 2014; Malladi et al. 2205.10287; Goyal et
al. 1706.02677)."""

MEASURES = ("auc", "score", "env_steps_to_target")

# Priors of the curves. Lengths are decades of learning rate over which a curve bends; amplitudes are multiples of the spread of the
# measured means. Chosen, together with the prior seeds below, by the coverage found in simulation.
_LENGTHS_DECADES = (0.5, 0.8, 1.3, 2.0)
_AMPLITUDES = (0.5, 1.0, 2.0)
# How much a batch's curve may differ from the common one, as a share of its amplitude. Without this, intervals of the exponent cover as
# seldom as 40% when the curves' shapes differ a little between batches; with it they are wide where the shapes do differ.
_DEVIATIONS = (0.01, 0.02, 0.05, 0.2, 0.5)
_EXPONENTS: Array = np.linspace(-1.5, 2.5, 33)
# A variance of 3 seeds is too uncertain to weigh by: each is averaged with those at nearby learning rates in all batches (divergence is a
# matter of the learning rate), which weigh as that many more seeds.
_PRIOR_SEEDS = 2
_NOISE_DECADES = 0.4
_NOISE_FLOOR = 0.02
# Without replicates the noise is unknown: the shares of the spread's square that it may have.
_NOISE_OF_SINGLE_SEEDS = (0.02, 0.1, 0.4)
_FINE_POINTS = 81
_NUM_DRAWS = 4000


@dataclass(frozen=True)
class Exponent:
    """The exponent p of best learning rate ~ batch^p.

    Attributes:
        estimate: The posterior median; NaN if there is nothing to estimate from.
        low: Lower end of the 95% interval; NaN without an interval.
        high: Upper end.
        low_open: The interval reaches the smallest exponent that was considered: the true one may be smaller still.
        high_open: The same at the upper end.
        rejected: Per rule of `RULES`, whether the interval leaves it out.
        reference_batch: Geometric mean of the batches, env steps.
        reference_lr: Best learning rate at the reference batch under the common curve: the line to draw is
            reference_lr * (batch / reference_batch) ** estimate.
        num_batches: Batches in the fit.
        num_seeds: The largest number of seeds that one point of the fit rests on.
        measure: What "best" was judged by.
        can_tell: At least one rule is rejected, from at least three batches whose best learning rates are not all at one edge.
        reasons: What weakens the answer, each a clause.
        sentence: The answer for a report.
    """

    estimate: float
    low: float
    high: float
    low_open: bool
    high_open: bool
    rejected: Mapping[str, bool]
    reference_batch: float
    reference_lr: float
    num_batches: int
    num_seeds: int
    measure: str
    can_tell: bool
    reasons: tuple[str, ...]
    sentence: str


@dataclass(frozen=True)
class Tradeoff:
    """Env steps to target against updates to target, as the batch grows: (S / smin - 1) (E / emin - 1) = 1.

    Attributes:
        batches: A row a batch, ascending: the batch, `lr` (the best of the grid), `at_edge`, `env_steps_to_target` and
            `updates_to_target`, each with _low and _high (as `convergence.summarise` has them: runs that never reach count at their
            budget), `num_seeds`, `num_reached`, `num_left_out`.
        emin: Env steps to target as the batch goes to zero; NaN without a fit, as all below.
        emin_low: Lower end of the 95% interval; so below.
        emin_high: Upper end.
        smin: Updates to target as the batch goes to infinity.
        smin_low: Lower end.
        smin_high: Upper end.
        critical_batch: emin / smin, env steps: there a run takes twice emin env steps and twice smin updates.
        critical_batch_low: Lower end.
        critical_batch_high: Upper end.
        can_tell: The interval is narrower than the range of batches, or lies beyond it on one side.
        reasons: What weakens the answer, each a clause.
        sentence: The answer for a report.
    """

    batches: pd.DataFrame
    emin: float
    emin_low: float
    emin_high: float
    smin: float
    smin_low: float
    smin_high: float
    critical_batch: float
    critical_batch_low: float
    critical_batch_high: float
    can_tell: bool
    reasons: tuple[str, ...]
    sentence: str


def best_learning_rates(
    runs: pd.DataFrame, rng: np.random.Generator, measure: str = "auc", lr: str = "lr", batch: str = "train_batch_size_total"
) -> pd.DataFrame:
    """The best learning rate of each batch, between the grid's points too, with a 95% interval.

    Each batch has a curve of its own; how smooth curves are is learned from all batches. The estimate is the highest point of the
    curve's posterior mean, the interval holds 95% of the highest points of curves drawn from the posterior: where the leaders cannot be
    told apart it spans them. It reaches at least halfway to the neighbours of the best learning rate tried, and never leaves the grid: at
    an end that is `_open` the best learning rate may lie beyond.

    Args:
        runs: A study's runs, as `analysis.load` gives them.
        rng: Draws the curves.
        measure: One of `MEASURES`. The score saturates, so the area under the curve is the default.
        lr: Column of the learning rate.
        batch: Column of the batch.

    Returns:
        A row a batch, ascending: the batch, `best_lr`, `best_lr_low`, `best_lr_high` (NaN where there is no interval: no replicates, or
        fewer than three learning rates), `low_open`, `high_open`, `at_edge` ("", "low" or "high": on which edge of the grid the
        estimate lies), `grid_best_lr` (the best of those tried), `num_lrs`, `num_seeds` (the most at one learning rate), `num_left_out`.

    Raises:
        AnalysisError: There is no learning rate or batch to compare, other settings are searched too, or no run has a value.
    """
    data = _prepare(runs, measure, lr, batch)
    cells = _cells(data)
    fits = _fit_each(cells)
    rows = []
    for value, group in data.groupby("batch"):
        mine = cells.take(cells.batch == value)
        row = {batch: value, **_grid_best(mine), "num_lrs": len(mine.lr)}
        if value in fits:
            row.update(_no_finer_than_tried(_best_of(fits[value], cells.replicated, rng), np.log10(mine.lr), row["grid_best_lr"]))
        rows.append({**row, "num_seeds": int(mine.count.max(initial=0)), "num_left_out": int(group["value"].isna().sum())})
    return pd.DataFrame(rows).astype({batch: runs[batch].dtype})


def exponent(runs: pd.DataFrame, measure: str = "auc", lr: str = "lr", batch: str = "train_batch_size_total") -> Exponent:
    """The exponent p of best learning rate ~ batch^p, with a 95% interval, from all runs at once.

    The batches share one curve that shifts by p log10(batch); each batch adds a level and a deviation of its own. The posterior of p,
    flat before the data between -1.5 and 2.5, is summed over how smooth, how high and how different the curves are. A best learning
    rate need not be located by every batch alone: how its slopes line up with the others' tells as well.

    Args:
        runs: A study's runs, as `analysis.load` gives them.
        measure: One of `MEASURES`.
        lr: Column of the learning rate.
        batch: Column of the batch.

    Returns:
        The exponent. Where the data can't tell, it says so in `sentence`.

    Raises:
        AnalysisError: There is no learning rate or batch to compare, other settings are searched too, or no run has a value.
    """
    cells = _cells(_prepare(runs, measure, lr, batch))
    fits = _fit_each(cells)
    used = cells.take(np.isin(cells.batch, list(fits)))
    batches = np.unique(used.batch)
    if cells.spread == 0:
        return _no_exponent(cells, measure, [f"{measure} is the same at every learning rate"])
    left_out = [_number(b) for b in np.unique(cells.batch) if b not in fits]
    reasons = [f"batch {', '.join(left_out)} has fewer than three learning rates with a value"] if left_out else []
    if len(batches) < 2:
        return _no_exponent(used, measure, [*reasons, "fewer than two batches have a curve over the learning rate"])

    edges = {b: _edge(fit.grid, int(fit.mean.argmax())) for b, fit in fits.items()}
    at_edge = {side: [_number(b) for b, edge in edges.items() if edge == side] for side in ("low", "high")}
    for side, values in at_edge.items():
        if values:
            reasons.append(f"the best learning rate of batch {', '.join(values)} is at the {side} edge of the grid: widen it there")
    if len(batches) == 2:
        reasons.append("two batches give an exponent but cannot show that a power law holds")

    fine, weights, evidence = _exponent_posterior(used)
    cumulative = np.cumsum(weights)
    tail = (1 - CONFIDENCE) / 2
    low, estimate, high = (float(v) for v in np.interp([tail, 0.5, 1 - tail], cumulative, fine))
    low_open, high_open = bool(low < _EXPONENTS[0] + 0.1), bool(high > _EXPONENTS[-1] - 0.1)
    same_edge = any(len(values) == len(batches) for values in at_edge.values())
    if not used.replicated:
        reasons.append("one seed gives no interval")
        low = high = float("nan")
        low_open = high_open = False
    rejected = {name: bool(used.replicated and not same_edge and not low <= p <= high) for name, p in RULES.items()}
    can_tell = any(rejected.values()) and len(batches) > 2
    reference = float(np.exp(np.log(batches).mean()))
    return Exponent(
        estimate=estimate,
        low=low,
        high=high,
        low_open=low_open,
        high_open=high_open,
        rejected=rejected,
        reference_batch=reference,
        reference_lr=_reference_lr(used, estimate, evidence, reference),
        num_batches=len(batches),
        num_seeds=int(used.count.max()),
        measure=measure,
        can_tell=can_tell,
        reasons=tuple(reasons),
        sentence=_exponent_sentence(estimate, low, high, rejected, can_tell, reasons, measure, int(used.count.max())),
    )


def batch_tradeoff(
    runs: pd.DataFrame, rng: np.random.Generator, replays: bool = False, lr: str = "lr", batch: str = "train_batch_size_total"
) -> Tradeoff:
    """Where a larger batch stops paying: the critical batch, from env steps and updates to target at each batch's best learning rate.

    McCandlish et al. (1812.06162): E env steps and S updates to a goal obey (S / smin - 1) (E / emin - 1) = 1 as the batch varies.
    An update is a training batch, the counterpart of their optimiser step: gradient steps on fresh data. PPO's minibatches and
    epochs reuse one batch, and at a fixed minibatch their number per env step is the same whatever the batch, so counted in them there
    would be no trade-off. S is then E / batch, and the curve a straight line, E = emin (1 + batch / critical batch), fitted to the
    seeds' log E with common scatter. Runs that never reach enter by the chance of exceeding their budget (censored).

    Args:
        runs: A study's runs, as `analysis.load` gives them.
        rng: Draws from the posterior.
        replays: Whether the algorithm replays its data: the batch then does not tie updates to env steps.
        lr: Column of the learning rate.
        batch: Column of the batch, env steps.

    Returns:
        The trade-off. Where the data can't tell, it says so in `sentence`.

    Raises:
        AnalysisError: There is no learning rate or batch to compare, other settings are searched too, or no run has a value.
    """
    data = _prepare(runs, "env_steps_to_target", lr, batch, need_lrs=False)
    cells = data.assign(seed=data.groupby(["batch", "lr"]).cumcount()).pivot(index=["batch", "lr"], columns="seed", values="env_steps")
    longest = float(pd.to_numeric(runs["budget_env_steps"]).max())
    steps = moderated_intervals(cells.to_numpy(float), bounds=(0.0, longest))
    rows, chosen = [], []
    for value, group in data.groupby("batch"):
        best = _grid_best(_cells(_holding(group, runs)))
        lrs = sorted(group["lr"].unique())
        row = {batch: value, "lr": best["grid_best_lr"], "at_edge": _edge(np.array(lrs), lrs.index(best["grid_best_lr"]))}
        mine = group[(group["lr"] == best["grid_best_lr"]) & group["value"].notna()]
        chosen.append(mine)
        at = cells.index.get_loc((value, best["grid_best_lr"])) if len(mine) else None
        for name, divisor in (("env_steps_to_target", 1.0), ("updates_to_target", float(value))):
            for part, values in (("", steps.estimate), ("_low", steps.low), ("_high", steps.high)):
                row[name + part] = float(values[at]) / divisor if at is not None else np.nan
        counts = {"num_seeds": len(mine), "num_reached": int(mine["reached"].sum()), "num_left_out": int(group["value"].isna().sum())}
        rows.append({**row, **counts})
    table = pd.DataFrame(rows).astype({batch: runs[batch].dtype})

    if replays:
        table[[name for name in table if str(name).startswith("updates")]] = np.nan
        algorithms = ", ".join(sorted(runs["algorithm"].unique()))
        return _no_tradeoff(table, [f"{algorithms} replays its data: the batch does not tie updates to env steps"])
    reached = table.loc[table["num_reached"] > 0, batch]
    if len(reached) < 3:
        return _no_tradeoff(table, [f"only {len(reached)} of {len(table)} batches reach the target, and the curve needs three"])
    if table["num_seeds"].max() < 2:
        return _no_tradeoff(table, ["one seed shows no scatter to judge a fit by"])
    return _fit_tradeoff(table, pd.concat(chosen), batch, rng)


def slices(
    runs: pd.DataFrame, axes: Sequence[str], lr: str = "lr", batch: str = "train_batch_size_total"
) -> list[tuple[str, pd.DataFrame]]:
    """Split a study that searches other settings as well into parts in which only the learning rate and the batch differ.

    Args:
        runs: A study's runs.
        axes: The searched columns of `runs`.
        lr: Column of the learning rate.
        batch: Column of the batch.

    Returns:
        (label, runs) of each part, such as ("gamma=0.99", ...), in plan order; the whole with an empty label if nothing else is searched.
    """
    others = [a for a in axes if a not in (lr, batch) and a in runs and (runs.groupby([lr, batch])[a].nunique(dropna=False) > 1).any()]
    if not others:
        return [("", runs)]
    groups = runs.groupby(others, sort=False, dropna=False)
    return [(" ".join(f"{name}={value}" for name, value in zip(others, key, strict=True)), part) for key, part in groups]


# --- from runs to points of curves ---


@dataclass(frozen=True)
class _Cells:
    """Mean of a measure at each (learning rate, batch), larger is better; sorted by batch, then learning rate.

    Attributes:
        lr: (num_cells,) learning rates.
        batch: (num_cells,) batches, env steps.
        mean: (num_cells,) over seeds.
        count: (num_cells,) seeds.
        noise: (num_cells,) variance of the mean.
        replicated: Some cell has two seeds: the noise is known.
    """

    lr: Array
    batch: Array
    mean: Array
    count: npt.NDArray[np.int64]
    noise: Array
    replicated: bool

    def take(self, keep: npt.NDArray[np.bool_]) -> "_Cells":
        """Some of the cells."""
        return _Cells(self.lr[keep], self.batch[keep], self.mean[keep], self.count[keep], self.noise[keep], self.replicated)

    @property
    def x(self) -> Array:
        """(num_cells,) log10 learning rate."""
        return np.asarray(np.log10(self.lr))

    @property
    def z(self) -> Array:
        """(num_cells,) log10 batch."""
        return np.asarray(np.log10(self.batch))

    @property
    def spread(self) -> float:
        """Standard deviation of the means about their batch's, 0 if all are alike."""
        batches, index = np.unique(self.batch, return_inverse=True)
        free = len(index) - len(batches)
        centred = self.mean - (np.bincount(index, self.mean) / np.bincount(index))[index]
        spread = float(np.sqrt((centred**2).sum() / free)) if free > 0 else 0.0
        return spread if spread > 1e-9 * np.abs(self.mean).max(initial=0.0) else 0.0


def _holding(group: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """The learning rates of one batch that end at the target, if any do: a time to target does not see a later collapse."""
    if not {"score", "target"} <= set(runs):
        return group
    ends = (runs["score"] - runs["target"]).reindex(group.index).groupby(group["lr"]).transform("mean") >= 0
    return group[ends] if ends.any() else group


def _prepare(runs: pd.DataFrame, measure: str, lr: str, batch: str, need_lrs: bool = True) -> pd.DataFrame:
    """Columns lr, batch, value (NaN: left out), env_steps and reached; a row a run.

    Raises:
        AnalysisError: As the public functions say.
    """
    if measure not in MEASURES:
        raise AnalysisError(f"measure {measure!r} is unknown; choose one of {', '.join(MEASURES)}")
    for name, what in ((lr, "learning rate"), (batch, "batch"), (measure, "measure")):
        if name not in runs:
            raise AnalysisError(f"the runs have no column {name!r} for the {what}; name the right one, or study one that has it")
    runs = replicates(runs)
    columns = {}
    for name, what in ((lr, "learning rate"), (batch, "batch")):
        columns[what] = pd.to_numeric(runs[name], errors="coerce").astype(float)
        positive = columns[what] > 0
        if not positive.all():
            raise AnalysisError(f"{name} is not a positive number in {int((~positive).sum())} of {len(runs)} runs; leave those out")
    if need_lrs and columns["learning rate"].nunique() < 2:
        raise AnalysisError(f"the study has one value of {lr} only; search several to compare them")
    if (runs.groupby([lr, batch])["config"].nunique() > 1).any():
        raise AnalysisError(
            f"several configurations have the same {lr} and {batch}; pass one part of learning_rate_batch.slices(runs, axes) at a time"
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
        raise AnalysisError(f"no run has a finite {measure}: {int((~finished).sum())} of {len(runs)} did not finish; see their failures")
    diverged = runs["status"].eq("failed") & runs["failure"].fillna("").astype(str).str.contains("finite", case=False)
    value = value.where(~diverged, value.min())
    if measure == "env_steps_to_target":
        steps = steps.where(~diverged, budget)
    return pd.DataFrame({"lr": columns["learning rate"], "batch": columns["batch"], "value": value, "env_steps": steps, "reached": reached})


def _cells(data: pd.DataFrame) -> _Cells:
    """Means over seeds, with their noise."""
    cells = data.dropna(subset="value").groupby(["batch", "lr"])["value"].agg(["mean", "count", "var"]).reset_index()
    lr, count = cells["lr"].to_numpy(float), cells["count"].to_numpy(np.int64)
    free, variance = count - 1, cells["var"].fillna(0.0).to_numpy(float)
    x = np.log10(lr)
    near = np.exp(-0.5 * ((x[:, None] - x) / _NOISE_DECADES) ** 2) + _NOISE_FLOOR
    pooled = near @ (free * variance) / np.maximum(near @ free, 1e-12)
    noise = (_PRIOR_SEEDS * pooled + free * variance) / (_PRIOR_SEEDS + free) / count
    return _Cells(lr, cells["batch"].to_numpy(float), cells["mean"].to_numpy(float), count, noise, bool(free.sum() > 0))


def _edge(grid: Array, index: int) -> str:
    """On which edge of the grid a point lies; a single point is no grid."""
    return "" if len(grid) < 2 else "low" if index == 0 else "high" if index == len(grid) - 1 else ""


def _grid_best(cells: _Cells) -> dict[str, object]:
    """The best of the learning rates tried in one batch, the middle one of equals; a row without a curve."""
    row: dict[str, object] = {"best_lr": np.nan, "best_lr_low": np.nan, "best_lr_high": np.nan, "low_open": False, "high_open": False}
    if not len(cells.lr):
        return {**row, "at_edge": "", "grid_best_lr": np.nan}
    equals = np.flatnonzero(np.isclose(cells.mean, cells.mean.max(), rtol=1e-12))
    index = int(equals[len(equals) // 2])
    best = float(cells.lr[index])
    return {**row, "best_lr": best, "at_edge": _edge(cells.lr, index), "grid_best_lr": best}


# --- one curve a batch ---


@dataclass(frozen=True)
class _Curve:
    """A batch's curve over a fine grid of log10 learning rate: a mixture of normal posteriors, one a prior.

    Attributes:
        grid: (num_points,)
        mean: (num_points,) of the mixture.
        means: (num_priors, num_points)
        roots: (num_priors, num_points, num_points) square roots of the covariances.
        weights: (num_priors,) adding to 1.
    """

    grid: Array
    mean: Array
    means: Array
    roots: Array
    weights: Array


def _noise_options(cells: _Cells) -> list[Array]:
    """The noise of the means, or what it may be when there are no replicates."""
    if cells.replicated:
        return [cells.noise]
    return [np.full(len(cells.lr), share * cells.spread**2) for share in _NOISE_OF_SINGLE_SEEDS]


def _kernel(differences: Array, length: float) -> Array:
    """Matern covariance, smoothness 7/2: a smoother one is too sure of what lies between the grid's points, a rougher one unsure."""
    r = np.sqrt(7) * np.abs(differences) / length
    return np.asarray((1 + r * (1 + r * (0.4 + r / 15))) * np.exp(-r))


def _fit_each(cells: _Cells) -> dict[float, _Curve]:
    """A curve for each batch with three learning rates or more, keyed by batch; none if the measure never varies."""
    batches = [b for b in np.unique(cells.batch) if (cells.batch == b).sum() >= 3]
    spread = cells.spread
    if spread == 0:
        return {}
    log_weights = []
    fitted: dict[float, list[tuple[Array, Array]]] = {b: [] for b in batches}
    grids = {b: np.linspace(cells.x[cells.batch == b][0], cells.x[cells.batch == b][-1], _FINE_POINTS) for b in batches}
    for noise, length, amplitude in product(_noise_options(cells), _LENGTHS_DECADES, _AMPLITUDES):
        evidence, height = 0.0, (amplitude * spread) ** 2
        for b in batches:
            at = cells.batch == b
            x, y, grid = cells.x[at], cells.mean[at] - cells.mean[at].mean(), grids[b]
            level = (100 * spread) ** 2
            inner = height * _kernel(x[:, None] - x, length) + level + np.diag(noise[at]) + 1e-6 * spread**2 * np.eye(len(x))
            cross = height * _kernel(grid[:, None] - x, length) + level
            gain = np.linalg.solve(inner, cross.T).T
            evidence += float(-0.5 * y @ np.linalg.solve(inner, y) - 0.5 * np.linalg.slogdet(inner)[1])
            covariance = height * _kernel(grid[:, None] - grid, length) + level - gain @ cross.T
            values, vectors = np.linalg.eigh(covariance)
            fitted[b].append((gain @ y, vectors * np.sqrt(np.maximum(values, 0.0))))
        log_weights.append(evidence)
    weights = special.softmax(np.array(log_weights))
    curves = {}
    for b in batches:
        means = np.stack([mean for mean, _ in fitted[b]])
        curves[b] = _Curve(grids[b], weights @ means, means, np.stack([root for _, root in fitted[b]]), weights)
    return curves


def _best_of(curve: _Curve, replicated: bool, rng: np.random.Generator) -> dict[str, object]:
    """Where the curve is highest, with the interval of the highest points of curves drawn from it."""
    index = int(curve.mean.argmax())
    best = {"best_lr": float(10 ** curve.grid[index]), "at_edge": _edge(curve.grid, index)}
    if not replicated:
        return best
    tops = []
    for number, mean, root in zip(rng.multinomial(_NUM_DRAWS, curve.weights), curve.means, curve.roots, strict=True):
        tops.append((mean + rng.standard_normal((number, len(mean))) @ root.T).argmax(axis=1))
    drawn = np.concatenate(tops)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(curve.grid[drawn], [tail, 1 - tail])
    low, high = min(low, curve.grid[index]), max(high, curve.grid[index])
    return {
        **best,
        "best_lr_low": float(10**low),
        "best_lr_high": float(10**high),
        "low_open": bool((drawn == 0).mean() > tail or index == 0),
        "high_open": bool((drawn == len(curve.grid) - 1).mean() > tail or index == len(curve.grid) - 1),
    }


def _no_finer_than_tried(best: dict[str, object], tried: Array, grid_best_lr: float) -> dict[str, object]:
    """The interval, not narrower than halfway to the neighbours of the best learning rate tried.

    What lies between two points is assumed, not seen: where the measure falls off a cliff, the curve's own interval is too narrow.
    """
    if "best_lr_low" not in best:
        return best
    at = int(np.abs(tried - np.log10(grid_best_lr)).argmin())
    below, above = tried[max(at - 1, 0)], tried[min(at + 1, len(tried) - 1)]
    halfway = 10 ** ((tried[at] + below) / 2), 10 ** ((tried[at] + above) / 2)
    ends = {"best_lr_low": min(best["best_lr_low"], halfway[0]), "best_lr_high": max(best["best_lr_high"], halfway[1])}
    return {**best, **ends}


# --- one curve for all batches, shifted ---


def _exponent_posterior(cells: _Cells) -> tuple[Array, Array, list[tuple[float, float, float, Array]]]:
    """The posterior of the exponent.

    Returns:
        A fine grid of exponents, their probabilities, and the priors (length, amplitude, deviation, noise), the likeliest first.
    """
    spread, level = cells.spread, (100 * cells.spread) ** 2
    same = (cells.batch[:, None] == cells.batch).astype(float)
    dx, dz = cells.x[:, None] - cells.x, cells.z[:, None] - cells.z
    shifted = dx - _EXPONENTS[:, None, None] * dz
    y = cells.mean - cells.mean.mean()
    priors, evidence = [], []
    for length in _LENGTHS_DECADES:
        common, own = _kernel(shifted, length), _kernel(dx, length) * same
        for noise, amplitude, deviation in product(_noise_options(cells), _AMPLITUDES, _DEVIATIONS):
            height = (amplitude * spread) ** 2
            covariance = height * (common + deviation**2 * own) + level * same + np.diag(noise) + 1e-6 * spread**2 * np.eye(len(y))
            root = np.linalg.cholesky(covariance)
            solved = np.linalg.solve(covariance, np.broadcast_to(y[:, None], (len(_EXPONENTS), len(y), 1)))[..., 0]
            evidence.append(-0.5 * solved @ y - np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1))
            priors.append((length, amplitude, deviation, noise))
    stacked = np.stack(evidence)
    log_posterior = special.logsumexp(stacked, axis=0)
    fine = np.linspace(_EXPONENTS[0], _EXPONENTS[-1], 1601)
    weights = special.softmax(CubicSpline(_EXPONENTS, log_posterior)(fine))
    order = np.argsort(-special.logsumexp(stacked, axis=1))
    return fine, weights, [priors[i] for i in order]


def _reference_lr(cells: _Cells, p: float, priors: list[tuple[float, float, float, Array]], reference: float) -> float:
    """Where the common curve is highest, at the reference batch, under the likeliest prior."""
    length, amplitude, deviation, noise = priors[0]
    spread, height = cells.spread, (amplitude * cells.spread) ** 2
    same = (cells.batch[:, None] == cells.batch).astype(float)
    aligned = cells.x - p * (cells.z - np.log10(reference))
    dx = cells.x[:, None] - cells.x
    covariance = height * (_kernel(aligned[:, None] - aligned, length) + deviation**2 * _kernel(dx, length) * same)
    covariance += (100 * spread) ** 2 * same + np.diag(noise) + 1e-6 * spread**2 * np.eye(len(dx))
    grid = np.linspace(aligned.min(), aligned.max(), 4 * _FINE_POINTS)
    curve = height * _kernel(grid[:, None] - aligned, length) @ np.linalg.solve(covariance, cells.mean - cells.mean.mean())
    return float(10 ** grid[curve.argmax()])


def _no_exponent(cells: _Cells, measure: str, reasons: list[str]) -> Exponent:
    """Nothing to estimate from."""
    nan = float("nan")
    rejected = dict.fromkeys(RULES, False)
    return Exponent(
        estimate=nan,
        low=nan,
        high=nan,
        low_open=False,
        high_open=False,
        rejected=rejected,
        reference_batch=nan,
        reference_lr=nan,
        num_batches=len(np.unique(cells.batch)),
        num_seeds=int(cells.count.max(initial=0)),
        measure=measure,
        can_tell=False,
        reasons=tuple(reasons),
        sentence=f"How the best learning rate changes with the batch can't be told from these data: {'; '.join(reasons)}.",
    )


def _exponent_sentence(
    estimate: float, low: float, high: float, rejected: Mapping[str, bool], can_tell: bool, reasons: list[str], measure: str, num_seeds: int
) -> str:
    """The exponent in words."""
    interval = f", 95% interval {low:.2f} to {high:.2f} over {num_seeds} seeds" if low == low else ""
    text = f"By {WORDS[measure]} the best learning rate goes as batch^{estimate:.2f}{interval}"
    out = [f"{name} ({RULES[name]:g})" for name, is_out in rejected.items() if is_out]
    kept = [f"{name} ({RULES[name]:g})" for name, is_out in rejected.items() if not is_out]
    if out:
        text += f": {_listed(out)} {'is' if len(out) == 1 else 'are'} rejected, {_listed(kept) if kept else 'none'} "
        text += f"{'is' if len(kept) == 1 else 'are'} not" if kept else "of the three rules is left"
    else:
        text += f": the data can't tell {_listed(kept)} apart"
    text += "."
    if reasons:
        text += f" {'Mind that' if can_tell else 'This rests on little:'} {'; '.join(reasons)}."
    return text


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _number(value: float) -> str:
    return f"{value:,.0f}"


# --- the critical batch ---


def _fit_tradeoff(table: pd.DataFrame, chosen: pd.DataFrame, batch: str, rng: np.random.Generator) -> Tradeoff:
    """Fit E = emin (1 + batch / critical) to the seeds at the best learning rates; flat priors on the logarithms of all three."""
    size, steps = chosen["batch"].to_numpy(float), np.log(chosen["env_steps"].to_numpy(float))
    censored = ~chosen["reached"].to_numpy(bool)
    smallest, largest = float(size.min()), float(size.max())
    critical = np.geomspace(smallest / 30, largest * 30, 121)
    residual = steps - np.log1p(size / critical[:, None])
    seen = residual[:, ~censored]
    num, centre = seen.shape[1], seen.mean(axis=1)[:, None, None]
    squares = ((seen - centre[..., 0]) ** 2).sum(axis=1)[:, None, None]
    scatter = np.geomspace(0.02, 2.0, 24)
    # log emin in units of the scatter, about its estimate from the runs that reach; the others can only raise it.
    away = np.linspace(-4 / np.sqrt(num), 4 / np.sqrt(num) + 2.0 * bool(censored.any()), 61)
    level = centre + away[:, None] * scatter
    log_posterior = -0.5 * (squares + num * (level - centre) ** 2) / scatter**2 - (num - 1) * np.log(scatter)
    for beyond in residual[:, censored].T:
        log_posterior += special.log_ndtr((level - beyond[:, None, None]) / scatter)
    posterior = special.softmax(log_posterior.ravel())
    i, j, k = np.unravel_index(rng.choice(posterior.size, _NUM_DRAWS, p=posterior), log_posterior.shape)
    # Spread over the grid's steps, so that quantiles are not stuck on its points.
    log_critical = np.log(critical[i]) + rng.uniform(-0.5, 0.5, _NUM_DRAWS) * np.log(critical[1] / critical[0])
    log_emin = level[i, j, k] + rng.uniform(-0.5, 0.5, _NUM_DRAWS) * (away[1] - away[0]) * scatter[k]
    tail = (1 - CONFIDENCE) / 2
    (c_low, c, c_high), (e_low, e, e_high), (s_low, s, s_high) = (
        tuple(float(v) for v in np.exp(np.quantile(draws, [tail, 0.5, 1 - tail])))
        for draws in (log_critical, log_emin, log_emin - log_critical)
    )
    reasons = []
    missed = table.loc[table["num_reached"] < table["num_seeds"], batch]
    if len(missed):
        reasons.append(f"some seeds of batch {', '.join(_number(b) for b in missed)} never reach the target and count as beyond the budget")
    edges = table.loc[table["at_edge"] != "", batch]
    if len(edges):
        reasons.append(f"the best learning rate of batch {', '.join(_number(b) for b in edges)} is at the edge of the grid")
    span = f"from {_number(smallest)} to {_number(largest)}"
    interval = f"95% interval {_number(c_low)} to {_number(c_high)}"
    can_tell = True
    if c_low > largest:
        sentence = (
            f"The critical batch is above {_number(c_low)} (95%), beyond all batches tried: a larger one still pays in fewer updates."
        )
    elif c_high < smallest:
        sentence = f"The critical batch is below {_number(c_high)} (95%), under all batches tried: a smaller one takes fewer env steps."
    elif c_high / c_low > largest / smallest:
        can_tell = False
        sentence = f"Where a larger batch stops paying can't be told: the critical batch's {interval} is wider than the batches, {span}."
    else:
        sentence = f"The critical batch is {_number(c)} env steps ({interval}): beyond it more batch mostly costs env steps."
    if reasons:
        sentence += f" Mind that {'; '.join(reasons)}."
    return Tradeoff(table, e, e_low, e_high, s, s_low, s_high, c, c_low, c_high, can_tell, tuple(reasons), sentence)


def _no_tradeoff(table: pd.DataFrame, reasons: list[str]) -> Tradeoff:
    """Nothing to fit."""
    sentence = f"Where a larger batch stops paying can't be told: {'; '.join(reasons)}."
    nan = float("nan")
    return Tradeoff(table, nan, nan, nan, nan, nan, nan, nan, nan, nan, False, tuple(reasons), sentence)
