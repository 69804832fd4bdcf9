"""Whether the best learning rate carries over from one width of the networks to another. Pure functions of frames."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.evidence import conclusive, counted
from analysis.questions.claims import Verdict
from analysis.questions.convergence import alike, bounds_of
from analysis.questions.equivalence import delta_of
from analysis.questions.learning_rate_batch import best_learning_rates, learning_rate_axis, points
from analysis.stats.aggregates import known_means
from analysis.stats.comparisons import holm
from analysis.stats.distributions import t_tail
from analysis.stats.gaussian_process import Cells, edge, exponent_posterior, fit_each
from analysis.stats.interval import CONFIDENCE, Array, Interval, antilog, posterior_interval
from analysis.stats.moderated import moderated_intervals

HIDDEN, WAY, WIDTH = "fcnet_hiddens", "parametrization", "width"
"""Columns of the units of hidden layers, of the parametrization, and of the width that is read out of the first."""
STANDARD, MUP = "standard", "mup"
MEASURES = ("auc", "score")
"""The area under the curve sees a slower start too, where all scores end alike."""
RULES: Mapping[str, float] = {"unchanged": 0.0, "1 / width": -1.0}
"""Exponents of the best learning rate in the width that the data are held against."""
COST_ENV_STEPS = 10_000
"""Env steps whose seconds are told."""


@dataclass(frozen=True)
class Carried:
    """How the best learning rate depends on the width, and what is lost where it is kept.

    Attributes:
        way: The parametrization; "" where the study has one alone.
        measure: Of `MEASURES`.
        settings: Searched columns beside these to the value that all of these runs have.
        tuned_at: The width whose best learning rate is kept.
        rate: That learning rate, of those tried, by all seeds.
        levels: A row a width and learning rate: the measure with its 95% interval, `num_seeds`.
        best: As `best_learning_rates` gives it, a row a width.
        exponent: p of best learning rate ~ width^p, the posterior's median and 95% interval; NaN where the data have
            none.
        delta: A return: a loss that is below makes no practical difference.
        regrets: A row each other width: `regret`, what is lost with its 95% interval; `same`, whether the kept learning
            rate is the width's own best whichever seed is left out; `p_beyond`, that the loss is larger than delta;
            `num_seeds`.
        untried: Width whose best learning rate is the lowest or the highest of those tried there to `lower` or
            `higher`: on that side one that was not tried may be better, and the loss larger.
        answer: Holds, if no width is shown to lose more than delta, each at 2.5%, which errs in at most 2.5% of studies
            (intersection-union test, Berger 1982), and none is in `untried`; does not hold, if one loses more at 5%
            over all widths (Holm).
    """

    way: str
    measure: str
    settings: Mapping[str, object]
    tuned_at: float
    rate: float
    levels: pd.DataFrame
    best: pd.DataFrame
    exponent: Interval
    delta: float
    regrets: pd.DataFrame
    untried: Mapping[float, str]
    answer: Verdict


def carried(runs: pd.DataFrame, axes: Sequence[str], rng: np.random.Generator) -> list[Carried]:
    """Whether the best learning rate carries over, for each parametrization and each of `MEASURES`.

    Args:
        runs: Of one environment, as `analysis.load` gives them.
        axes: The searched columns of `runs`.
        rng: Draws the curves of the best learning rates.

    Returns:
        Nothing where widths and learning rates were not searched together.
    """
    lr = learning_rate_axis(axes)
    if not {HIDDEN, lr} <= set(axes):
        return []
    found: list[Carried] = []
    for settings, part in alike(with_width(runs), axes, (HIDDEN, WIDTH, WAY, lr)):
        by_way, tuned_at = ways(part)
        for way, of_way in by_way.items():
            answers = [_carried(of_way, way, measure, settings, lr, tuned_at, rng) for measure in MEASURES]
            found += [answer for answer in answers if answer is not None]
    return found


def seconds(runs: pd.DataFrame) -> pd.DataFrame:
    """The training seconds of env steps at each width and parametrization, over all learning rates.

    Args:
        runs: As `carried` takes them.

    Returns:
        `way`, `width`; `seconds` of `COST_ENV_STEPS`, geometric means over seeds with 95% intervals; `num_seeds`.
    """
    finished = conclusive(with_width(runs))
    finished["log"] = np.log(finished["train_s"] * COST_ENV_STEPS / finished["end_env_steps"])
    rows = []
    for way, part in ways(finished)[0].items():
        table = part.pivot_table(index=WIDTH, columns="seed", values="log")
        if len(table):
            found = moderated_intervals(table.to_numpy())
            columns = {name: antilog(values) for name, values in found.columns("seconds").items()}
            rows.append(pd.DataFrame({"way": way, WIDTH: table.index, **columns, "num_seeds": found.num_seeds}))
    names = ["way", WIDTH, "seconds", "seconds_low", "seconds_high", "num_seeds"]
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=names)


def with_width(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs with the column `width`, without those whose hidden layers have different widths."""
    layers = [set(json.loads(str(units))) for units in runs[HIDDEN]]
    width = [float(units.pop()) if len(units) == 1 else np.nan for units in layers]
    return runs.assign(**{WIDTH: width}).dropna(subset=WIDTH)


def ways(runs: pd.DataFrame) -> tuple[dict[str, pd.DataFrame], float]:
    """The runs of each parametrization, and the width whose best learning rate is kept.

    At the base width both parametrizations are the same, and a study runs it once: these runs are of both. Without such
    a width the smallest is kept.

    Args:
        runs: With the column `width`.
    """
    smallest = float(runs[WIDTH].min())
    if WAY not in runs or runs[WAY].nunique() < 2:
        return {"": runs}, smallest
    standard, scaled = (runs[runs[WAY] == way] for way in (STANDARD, MUP))
    shared = standard[~standard[WIDTH].isin(scaled[WIDTH])]
    tuned_at = float(shared[WIDTH].min()) if len(shared) else smallest
    return {STANDARD: standard, MUP: pd.concat([shared, scaled])}, tuned_at


def _carried(
    runs: pd.DataFrame,
    way: str,
    measure: str,
    settings: Mapping[str, object],
    lr: str,
    tuned_at: float,
    rng: np.random.Generator,
) -> Carried | None:
    table = counted(runs).pivot_table(index=[WIDTH, lr], columns="seed", values=measure)
    widths, rates = (sorted(set(table.index.get_level_values(name))) for name in (WIDTH, lr))
    if tuned_at not in widths or len(widths) < 2 or len(rates) < 2:
        return None
    everywhere = table.reindex(pd.MultiIndex.from_product([widths, rates]))
    values = everywhere.to_numpy(dtype=float).reshape(len(widths), len(rates), -1)
    base = widths.index(tuned_at)
    means = moderated_intervals(table.to_numpy(dtype=float), bounds_of(measure, runs))
    levels = table.index.to_frame(index=False).assign(**means.columns(measure), num_seeds=means.num_seeds)
    delta = delta_of(runs)
    highest, regrets = _highest(values), _regrets(values, np.array(widths), base, delta)
    untried = _untried(values, highest, widths)
    return Carried(
        way=way,
        measure=measure,
        settings=settings,
        tuned_at=tuned_at,
        rate=float(rates[highest[base]]),
        levels=levels,
        best=best_learning_rates(runs, rng, measure, lr, WIDTH),
        exponent=_exponent(runs, measure, lr),
        delta=delta,
        regrets=regrets,
        untried=untried,
        answer=_answer(regrets, untried, delta),
    )


def _highest(values: Array) -> npt.NDArray[np.intp]:
    """Index of the learning rate with the highest mean at each width, (num_widths,).

    Args:
        values: (num_widths, num_rates, num_seeds), NaN where there is none.
    """
    means = known_means(values)
    highest: npt.NDArray[np.intp] = np.where(np.isfinite(means), means, -np.inf).argmax(axis=1)
    return highest


def _untried(values: Array, highest: npt.NDArray[np.intp], widths: Sequence[float]) -> dict[float, str]:
    """As of `Carried`.

    Args:
        values: As of `_highest`.
        highest: What it gives.
        widths: In the same order.
    """
    found = {}
    for width, best, of_width in zip(widths, highest, values, strict=True):
        tried = np.flatnonzero(np.isfinite(of_width).any(axis=1))
        if len(tried) and best in (tried[0], tried[-1]):
            found[width] = "lower" if best == tried[0] else "higher"
    return found


def _regrets(values: Array, widths: Array, base: int, delta: float) -> pd.DataFrame:
    """What is lost at each other width: every seed judges the learning rates that the other seeds choose.

    Args:
        values: As of `_highest`.
        widths: (num_widths,).
        base: Index of the width whose best learning rate is kept.
        delta: As of `Carried`.
    """
    num_widths, _, num_seeds = values.shape
    lost, same = np.full((num_widths, num_seeds), np.nan), np.full(num_widths, num_seeds > 2)
    for seed in range(num_seeds if num_seeds > 1 else 0):
        best = _highest(np.delete(values, seed, axis=2))
        lost[:, seed] = values[np.arange(num_widths), best, seed] - values[:, best[base], seed]
        same &= best == best[base]
    rows = pd.DataFrame({WIDTH: widths, "regret": known_means(lost), "same": same})
    rows = rows.assign(regret_low=np.nan, regret_high=np.nan, p_beyond=np.nan, num_seeds=np.isfinite(lost).sum(axis=1))
    # where it is the same learning rate throughout, nothing varies, of which the others must not borrow
    apart = np.flatnonzero(~same)
    if len(apart):
        found = moderated_intervals(lost[apart])
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = np.where(found.se > 0, t_tail((found.estimate - delta) / found.se, found.df), np.nan)
        rows.loc[apart, ["regret_low", "regret_high", "p_beyond"]] = np.column_stack([found.low, found.high, beyond])
    return rows.drop(index=base).reset_index(drop=True)


def _answer(regrets: pd.DataFrame, untried: Mapping[float, str], delta: float) -> Verdict:
    if not untried and np.isfinite(delta) and (regrets["same"] | (regrets["regret_high"] <= delta)).all():
        return Verdict.HOLDS
    beyond = holm(regrets["p_beyond"].to_numpy(dtype=float)) <= 1 - CONFIDENCE
    return Verdict.FAILS if beyond.any() else Verdict.OPEN


def _exponent(runs: pd.DataFrame, measure: str, lr: str) -> Interval:
    """As `learning_rate_batch.exponent`, in the width."""
    cells = Cells.of(points(runs, measure, lr, WIDTH))
    curves = fit_each(cells)
    known = cells.take(np.isin(cells.batch, list(curves)))
    sides = {edge(curve.grid, int(curve.mean.argmax())) for curve in curves.values()}
    if len(curves) < 2 or not known.replicated or (len(sides) == 1 and "" not in sides):
        return Interval(np.nan, np.nan, np.nan)
    grid, weights, _ = exponent_posterior(known)
    return posterior_interval(grid, weights)
