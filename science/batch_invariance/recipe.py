"""In which way a training batch should grow: by more environments or longer fragments, into more minibatches
or larger ones. Pure.

Ways are compared at each batch, on matched seeds and at equal env steps, as rules for the learning
rate are (`analysis.questions.rules`).
"""

from collections.abc import Sequence

import pandas as pd

from analysis.evidence import conclusive
from analysis.questions.claims import Verdict
from analysis.questions.convergence import alike
from analysis.questions.rules import BATCH, MEASURES, RulesFound, compared
from experiments.contract import AT_BASE

WAYS = {
    "num_envs_per_env_runner_rule": {"linear": "more environments", "constant": "longer fragments"},
    "minibatch_size_rule": {"constant": "more minibatches", "linear": "larger minibatches"},
    "lr_rule": {"constant": "constant rate", "sqrt": "square-root rate", "linear": "linear rate"},
}
"""Searched column to rule to what it means."""
RECIPE = "more environments in more minibatches at constant rate"
"""Beukman et al. 2026, arXiv 2603.06009, section 5: more environments, and "increase the number of minibatches
while keeping the learning rate and minibatch size fixed"."""


def has_ways(axes: Sequence[str]) -> bool:
    """True if a study grows its batch in several ways.

    Args:
        axes: The searched columns.
    """
    return any(axis in axes for axis in list(WAYS)[:2])


def compare_ways(runs: pd.DataFrame, axes: Sequence[str]) -> list[RulesFound]:
    """Which ways of growing the batch the data reject: at the same batch, and on the same seeds,
    another one learns more.

    Args:
        runs: Of one environment, as `analysis.load` gives them.
        axes: The searched columns of `runs`.

    Returns:
        For each setting of the other axes, an answer by each of `MEASURES`, whose rules are ways;
        nothing where none were searched.
    """
    finished = conclusive(runs)
    if not has_ways(axes) or finished.empty:
        return []
    finished["way"] = [
        _way({column: row.get(column) for column in WAYS if column in axes}) for row in finished.to_dict("records")
    ]
    return [
        compared(part, "way", m, settings) for settings, part in alike(finished, axes, (*WAYS, BATCH)) for m in MEASURES
    ]


def recipe_holds(found: RulesFound) -> Verdict:
    """It holds where more environments in more minibatches at a constant rate is the only way that is not
    rejected; it does not hold where this one is rejected.
    """
    if RECIPE in found.rejected:
        return Verdict.FAILS
    return Verdict.HOLDS if found.kept == (RECIPE,) and found.rejected else Verdict.OPEN


def _way(rules: dict[str, object]) -> str:
    if AT_BASE in rules.values():
        return AT_BASE
    words = {column: WAYS[column].get(str(rule), f"{column}={rule}") for column, rule in rules.items()}
    way = " in ".join(words[column] for column in list(WAYS)[:2] if column in words)
    return f"{way} at {words['lr_rule']}" if "lr_rule" in words else way
