"""How the best learning rate and the best batch change with the updates per env step, where samples are replayed.

Rybkin et al. (2502.04327) fit powers of the updates per env step (UTD) to both, over four tasks of Gym.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from analysis.questions.labels import WORDS, listed
from analysis.questions.learning_rate_batch import BATCH, learning_rate_axis, points, slices
from analysis.stats.gaussian_process import EXPONENTS, Cells, Curve, edge, exponent_posterior, fit_each
from analysis.stats.interval import Array, Interval, posterior_interval

UPDATES = "update_to_data"
"""Column of the updates per env step."""
PUBLISHED: Mapping[str, float] = {"learning rate": -0.285, "batch": -0.31}
"""Exponents of Rybkin et al., over tasks; -0.40 to +0.06 and -0.51 to -0.02 task by task."""


@dataclass(frozen=True)
class Law:
    """The exponent p of best setting ~ UTD^p.

    Attributes:
        setting: "learning rate" or "batch".
        column: Its column.
        exponent: The posterior's median with its 95% interval; NaN where there is nothing to estimate from.
        rules: Name to exponent of what the data are held against: no change, and what is published.
        rejected: Those of `rules` that the interval leaves out.
        num_seeds: The most at one point.
        sentence: The answer for a report.
    """

    setting: str
    column: str
    exponent: Interval
    rules: Mapping[str, float]
    rejected: tuple[str, ...]
    num_seeds: int
    sentence: str


def laws(runs: pd.DataFrame, axes: Sequence[str], measure: str = "auc") -> list[Law]:
    """The laws of the learning rate and of the batch, as far as they are searched together
    with the updates per env step.

    Where both are searched, each value of the other gives curves of its own, and the exponent is common to all: their
    posteriors are multiplied.

    Args:
        runs: A study's runs, as `analysis.load` gives them.
        axes: The searched columns of `runs`.
        measure: As `learning_rate_batch.exponent` takes it.

    Raises:
        AnalysisError: No run has a value, or another that `learning_rate_batch.points` says.
    """
    settings = {"learning rate": learning_rate_axis(axes), "batch": BATCH}
    return [
        _law(runs, axes, name, column, measure) for name, column in settings.items() if {column, UPDATES} <= set(axes)
    ]


def _law(runs: pd.DataFrame, axes: Sequence[str], setting: str, column: str, measure: str) -> Law:
    parts = [Cells.of(points(part, measure, column, UPDATES)) for _, part in slices(runs, axes, column, UPDATES)]
    rules = {"unchanged": 0.0, "published": PUBLISHED[setting]}
    num_seeds = max(int(cells.count.max(initial=0)) for cells in parts)
    known = [cells for cells in map(_with_curves, parts) if cells is not None]
    why = ""
    if not known:
        why = f"it takes three values of the {setting} at two of the updates, and curves that vary"
    elif not all(cells.replicated for cells in known):
        why = "one seed gives no interval"
    elif len(sides := {_side(curve) for cells in known for curve in fit_each(cells).values()}) == 1 and "" not in sides:
        why = f"the best {setting} is at the {sides.pop()} edge of the grid throughout: widen it there"
    if why:
        sentence = f"How the best {setting} changes with the updates per env step can't be told from these data: {why}."
        return Law(setting, column, Interval(np.nan, np.nan, np.nan), rules, (), num_seeds, sentence)
    found = _common(known)
    rejected = tuple(name for name, p in rules.items() if not found.low <= p <= found.high)
    return Law(
        setting,
        column,
        found,
        rules,
        rejected,
        num_seeds,
        _sentence(setting, measure, found, rules, rejected, num_seeds),
    )


def _with_curves(cells: Cells) -> Cells | None:
    """The values of the updates that have a curve; None with fewer than two of them."""
    kept = cells.take(np.isin(cells.batch, list(fit_each(cells))))
    return kept if len(np.unique(kept.batch)) > 1 else None


def _side(curve: Curve) -> str:
    """The edge on which a curve is highest."""
    return edge(curve.grid, int(curve.mean.argmax()))


def _common(parts: Sequence[Cells]) -> Interval:
    """The exponent that all parts share, flat before the data."""
    log_posterior: Array = np.zeros(1)
    for cells in parts:
        grid, weights, _ = exponent_posterior(cells)
        log_posterior = log_posterior + np.log(np.maximum(weights, np.finfo(float).tiny))
    return posterior_interval(grid, special.softmax(log_posterior))


def _sentence(
    setting: str, measure: str, p: Interval, rules: Mapping[str, float], rejected: Sequence[str], num_seeds: int
) -> str:
    text = f"By {WORDS[measure]} the best {setting} goes as (updates per env step)^{p.estimate:.2f}, "
    text += f"95% interval {p.low:.2f} to {p.high:.2f} over {num_seeds} seeds"
    if p.low < EXPONENTS[0] + 0.1 or p.high > EXPONENTS[-1] - 0.1:
        text += ", which ends where none were considered"
    words = {
        "unchanged": f"no change ({rules['unchanged']:g})",
        "published": f"the published {rules['published']:g} (Rybkin et al. 2025)",
    }
    out, kept = (
        [words[name] for name in rules if name in rejected],
        [words[name] for name in rules if name not in rejected],
    )
    verdicts = [
        f"{listed(names)} {'is' if len(names) == 1 else 'are'} {how}"
        for names, how in ((out, "rejected"), (kept, "not rejected"))
        if names
    ]
    return f"{text}: {', '.join(verdicts)}."
