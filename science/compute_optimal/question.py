"""The frontier of data against compute of a study's trials, and the best point at a budget that was not run.

After Rybkin et al. (2502.04327), whose budget is compute C, data D, or C + delta D, and Fu et al. (2508.14881). Pure
functions of a study's frames.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from analysis import AnalysisError
from analysis.evidence import conclusive
from analysis.questions.convergence import by_seed
from analysis.questions.labels import listed
from analysis.stats.interval import Array
from analysis.stats.moderated import moderated_intervals
from science.compute_optimal.law import (
    FEWEST_WIDTHS,
    INTERVAL,
    Cells,
    HeldOut,
    Law,
    Trend,
    held_out,
    law_of,
    trend_of,
    why_not,
    why_rejected,
)

UPDATES, WIDTH, BATCH = "update_to_data", "fcnet_hiddens", "train_batch_size_total"
"""Columns of a study's runs: updates per env step, hidden layers, and rows of an update."""
LIMIT = 4.0
"""How many times the largest updates per env step, width or compute that was run a prediction may be."""

Kind = Literal["compute", "data", "price"]


@dataclass(frozen=True)
class Fit:
    """The law of the trials with one batch.

    Attributes:
        batch: Rows of an update.
        width: Units of a hidden layer; None where the law holds for all widths, or width was not searched.
        law: None where nothing is predicted.
        why: Why nothing is, a clause; "" where something is.
        held_out: The largest configuration, foretold from the others; None where there is no law to try.
        trend: Where no law holds, what updates per env step and width make of the env steps; None where too little
            is known for that.
    """

    batch: int
    width: int | None
    law: Law | None
    why: str
    held_out: HeldOut | None
    trend: Trend | None = None


@dataclass(frozen=True)
class Found:
    """What a study says of data and compute.

    Attributes:
        measured: A row a configuration: `config`, `updates`, `width` (0 where it was not searched), `batch`;
            `env_steps` to the target, the budget of seeds that did not reach it, a geometric mean with its 95%
            interval; `flops` by then, likewise without one; `num_seeds`, `num_reached`.
        fits: A law, or why there is none, for each batch, and for each width where there are fewer than three.
        points: A row for each point that is predicted: `updates`, `width`, `batch`; `env_steps` and `flops` to the
            target, each with its 90% interval for the geometric mean of `num_seeds` new seeds; `was_run`.
        num_seeds: Of most configurations.
        num_layers: Hidden layers of each network; 0 where width was not searched.
    """

    measured: pd.DataFrame
    fits: tuple[Fit, ...]
    points: pd.DataFrame
    num_seeds: int
    num_layers: int

    @property
    def frontier(self) -> pd.DataFrame:
        """The points that none beats in both data and compute, by compute."""
        ordered = self.points.sort_values(["flops", "env_steps"])
        return ordered[ordered["env_steps"] < ordered["env_steps"].cummin().shift(fill_value=np.inf)]

    @property
    def cheapest(self) -> pd.Series:
        """Of the configurations that were run and reached the target on all seeds, the one with the fewest operations,
        a row of `measured`; of all, where none did.
        """
        whole = self.measured["num_reached"] == self.measured["num_seeds"]
        return self.measured.loc[self.measured["flops"].where(whole | ~whole.any()).idxmin()]

    @property
    def most_flops(self) -> float:
        """Of the configurations that were run."""
        return float(self.measured["flops"].max())


def find(runs: pd.DataFrame, curves: pd.DataFrame, axes: Sequence[str], rng: np.random.Generator) -> Found | None:
    """The laws of a study, and what they predict.

    Args:
        runs: Of one environment, as `analysis.load` gives them.
        curves: Of the same trials, likewise.
        axes: The searched columns of `runs`.
        rng: For the bootstrap.

    Returns:
        None where updates per env step were not searched, or operations were not counted.

    Raises:
        AnalysisError: It can't be told of this study; says why.
    """
    finished = conclusive(runs)
    if UPDATES not in axes or "update_flops" not in finished or finished["update_flops"].isna().all():
        return None
    if others := [axis for axis in axes if axis not in (UPDATES, WIDTH, BATCH, "env")]:
        raise AnalysisError(
            f"{listed(others)} was searched as well: data and compute are told where updates per env step, "
            "width and batch alone differ."
        )
    if finished["target"].isna().any():
        raise AnalysisError("The environment has no target: set env.target.")
    num_layers = _num_layers(finished[WIDTH]) if WIDTH in axes else 0
    trials = _trials(finished, curves, num_layers)
    by = ["batch"] if trials["width"].nunique() >= FEWEST_WIDTHS else ["batch", "width"]
    fits, predicted = [], []
    for _, part in trials.groupby(by):
        fit = _fit(part, whole="width" not in by or not num_layers, rng=rng)
        fits.append(fit)
        if fit.law is not None:
            predicted.append(_points(fit.law, part, trials, rng))
    columns = ["updates", "width", "batch", "was_run", *_ends("env_steps"), *_ends("flops")]
    points = pd.concat(predicted, ignore_index=True) if predicted else pd.DataFrame(columns=columns, dtype=float)
    measured = _measured(trials)
    points = points[points["flops"] <= LIMIT * measured["flops"].max()].reset_index(drop=True)
    return Found(measured, tuple(fits), points, int(measured["num_seeds"].median()), num_layers)


def best(found: Found, kind: Kind, amount: float) -> pd.Series:
    """The point that is predicted to be best at a budget, a row of `Found.points`.

    Args:
        found: What a study says.
        kind: `compute`: fewest env steps to the target with so many flops; `data`: fewest flops with so many env steps;
            `price`: fewest flops, where an env step costs as much as so many.
        amount: The budget.

    Raises:
        AnalysisError: No law holds, it is too far from what was run, or no point is predicted to do with it.
    """
    if found.points.empty:
        raise AnalysisError("nothing is predicted: no law holds of these trials.")
    if not 0 < amount < np.inf:
        raise AnalysisError(f"{kind}={amount:g}: must be a number above 0.")
    if kind == "compute" and amount > LIMIT * found.most_flops:
        raise AnalysisError(
            f"compute={amount:.3g}: more than {LIMIT:g} times the largest that was run, of which nothing is predicted. "
            f"Try compute={_rounded_down(LIMIT * found.most_flops):.3g}, or run larger points first."
        )
    points = found.points
    if kind == "price":
        cost = points["flops"] + amount * points["env_steps"]
    else:
        within, least = ("flops", "env_steps") if kind == "compute" else ("env_steps", "flops")
        if (points[within] > amount).all():
            raise AnalysisError(
                f"{kind}={amount:.3g}: no point within {LIMIT:g} times what was run is predicted to reach the target "
                f"with it; the least is {points[within].min():.3g}."
            )
        cost = points[least].where(points[within] <= amount)
    return points.loc[cost.idxmin()]


def at_edge(found: Found, point: pd.Series) -> list[str]:
    """Settings of a point that are as large as a prediction may be, in words: a larger one may be better."""
    words = {"updates": "updates per env step", "width": "width"}
    return [
        word
        for name, word in words.items()
        if found.points[name].nunique() > 1 and point[name] >= LIMIT * found.measured[name].max()
    ]


def _rounded_down(value: float) -> float:
    digit = 10.0 ** (np.floor(np.log10(value)) - 2)
    return float(np.floor(value / digit) * digit)


def _ends(name: str) -> list[str]:
    return [name, f"{name}_low", f"{name}_high"]


def _hidden(layers: object) -> list[int]:
    return [int(units) for units in re.findall(r"\d+", str(layers))]  # a parameter in MLflow is a text


def _num_layers(layers: pd.Series) -> int:
    shapes = [_hidden(value) for value in layers.unique()]
    if any(len(set(shape)) != 1 for shape in shapes) or len({len(shape) for shape in shapes}) != 1:
        raise AnalysisError(
            "Hidden layers must be as many in all networks, and of one width in each, such as [[64,64],[128,128]]."
        )
    return len(shapes[0])


def _trials(finished: pd.DataFrame, curves: pd.DataFrame, num_layers: int) -> pd.DataFrame:
    """A row a trial: the columns of `Found.measured` without intervals, `seed`, `reached`; operations `row_flops` of an
    update for each of its rows, and `action_flops`; `before`, env steps before the first update.
    """
    progress = curves[curves["metric"] == "progress/updates"]
    by_run = {run: part.sort_values("env_steps") for run, part in progress.groupby("run_id", observed=True)}
    env_steps = finished["env_steps_to_target"].to_numpy(dtype=float)
    updates = np.array([_at(by_run.get(run), steps) for run, steps in zip(finished["run_id"], env_steps, strict=True)])
    per_env_step = finished[UPDATES].to_numpy(dtype=float)
    flops = updates * finished["update_flops"].to_numpy(dtype=float) + env_steps * finished["action_flops"].to_numpy()
    if not np.isfinite(flops).all():
        raise AnalysisError("Some trials did not log their updates or operations: run these again.")
    return pd.DataFrame(
        {
            "config": finished["config"],
            "seed": finished["seed"],
            "updates": per_env_step,
            "width": [_hidden(value)[0] for value in finished[WIDTH]] if num_layers else 0,
            "batch": finished[BATCH].astype(int),
            "env_steps": env_steps,
            "reached": finished["reached"],
            "flops": flops,
            "row_flops": finished["update_flops"] / finished[BATCH],
            "action_flops": finished["action_flops"],
            "before": np.maximum(env_steps - updates / per_env_step, 0.0),
        }
    )


def _at(progress: pd.DataFrame | None, env_steps: float) -> float:
    """Updates by then."""
    if progress is None:
        return np.nan
    after = int(np.searchsorted(progress["env_steps"].to_numpy(), env_steps, side="right"))
    return float(progress["value"].iloc[after - 1]) if after else np.nan


def _measured(trials: pd.DataFrame) -> pd.DataFrame:
    settings = {name: (name, "first") for name in ("updates", "width", "batch")}
    table = trials.groupby("config", observed=True).agg(
        **settings, flops=("flops", _geometric_mean), num_seeds=("seed", "size"), num_reached=("reached", "sum")
    )
    table.index = table.index.astype(str)
    steps = by_seed(trials, "env_steps")
    for column, values in moderated_intervals(np.log(steps.to_numpy())).columns("env_steps").items():
        table[column] = pd.Series(np.exp(values), steps.index.astype(str)).reindex(table.index)
    return table.reset_index()


def _geometric_mean(values: pd.Series) -> float:
    return float(np.exp(np.log(values).mean()))


def _fit(trials: pd.DataFrame, whole: bool, rng: np.random.Generator) -> Fit:
    batch, width = int(trials["batch"].iloc[0]), None if whole else int(trials["width"].iloc[0])
    cells = _cells(trials)
    if why := why_not(cells):
        return Fit(batch, width, None, why, None)
    tried = None
    if not (why := why_rejected(cells)):
        tried = held_out(cells, rng)
        if tried is None:
            why = "too few configurations are left to foretell the largest one from"
        elif not tried.holds:
            why = "from the others the law does not foretell the largest configuration"
    if why:
        return Fit(batch, width, None, why, tried, trend_of(cells))
    return Fit(batch, width, law_of(cells, rng), "", tried)


def _cells(trials: pd.DataFrame) -> Cells:
    configs = list(trials.groupby("config", observed=True))
    most = max(len(part) for _, part in configs)
    env_steps, reached = np.full((len(configs), most), np.nan), np.zeros((len(configs), most), dtype=np.bool_)
    for i, (_, part) in enumerate(configs):
        env_steps[i, : len(part)], reached[i, : len(part)] = part["env_steps"], part["reached"]
    updates, width = (np.array([float(part[name].iloc[0]) for _, part in configs]) for name in ("updates", "width"))
    # Where width was not searched any will do.
    return Cells(updates, np.maximum(width, 1.0), env_steps, reached)


def _points(law: Law, trials: pd.DataFrame, every: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Rows of `Found.points`: values that were run, and doubled from there up to the limit.

    Args:
        law: Of these trials.
        trials: Of one batch.
        every: All trials of the study, which tell what networks of each width take.
        rng: For what seeds do.
    """
    batch, num_seeds = int(trials["batch"].iloc[0]), int(trials.groupby("config", observed=True).size().median())
    own = trials["width"]
    widths = _doubled(own) if own.nunique() >= FEWEST_WIDTHS else sorted(own.unique())
    updates, width = np.array(list(itertools.product(_doubled(trials["updates"]), widths)), dtype=float).T
    row_flops, action_flops = (_of_width(every, name, width) for name in ("row_flops", "action_flops"))
    before = float(every["before"].median())
    units = np.maximum(width, 1.0)
    estimate, draws = law.env_steps(updates, units), law.drawn(updates, units, num_seeds, rng)

    def flops(env_steps: Array) -> Array:
        updating = np.maximum(env_steps - before, 0.0) * updates * batch * row_flops
        return np.asarray(updating + env_steps * action_flops)

    low, high = np.quantile(draws, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2], axis=0)
    ends = (estimate, np.minimum(low, estimate), np.maximum(high, estimate))
    run = set(zip(trials["updates"], trials["width"], strict=True))
    return pd.DataFrame(
        {
            "updates": updates,
            "width": width.astype(int),
            "batch": batch,
            "was_run": [point in run for point in zip(updates, width, strict=True)],
            **dict(zip(_ends("env_steps"), ends, strict=True)),
            **dict(zip(_ends("flops"), map(flops, ends), strict=True)),  # flops grow with env steps
        }
    )


def _doubled(values: pd.Series) -> list[float]:
    largest = float(values.max())
    doubled = (largest * 2.0**i for i in range(1, int(np.log2(LIMIT)) + 1))
    return [*sorted(map(float, values.unique())), *doubled]


def _of_width(trials: pd.DataFrame, name: str, width: Array) -> Array:
    """Operations with networks of these widths: a polynomial of degree 2, since layers between hidden ones have
    width x width weights, and the first and the last layer width x inputs and width x outputs.
    """
    known = trials.groupby("width")[name].first()
    degree = min(2, len(known) - 1)
    of_width = np.polyfit(known.index.to_numpy(dtype=float), known.to_numpy(dtype=float), degree)
    return np.asarray(np.polyval(of_width, width))
