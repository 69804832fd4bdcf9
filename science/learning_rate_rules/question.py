"""By which rule the learning rate should follow the batch. Pure functions of frames."""

from collections.abc import Sequence

import pandas as pd

from analysis.evidence import conclusive
from analysis.questions.convergence import alike
from analysis.questions.rules import BATCH, MEASURES, RulesFound, compared

RULE = "lr_rule"
_WAYS = (RULE, BATCH, "num_learners")
"""The searched columns that one comparison spans: learners grow the batch as well."""
_OTHERS = ("num_envs_per_env_runner_rule", "minibatch_size_rule")
"""Columns of rules for other settings."""


def compare_rules(runs: pd.DataFrame, axes: Sequence[str]) -> list[RulesFound]:
    """Which rules the data reject: at the same batch, and on the same seeds, another one learns more.

    Args:
        runs: Of one environment, as `analysis.load` gives them.
        axes: The searched columns of `runs`.

    Returns:
        For each setting of the other axes, an answer by each of `MEASURES`; nothing where rules were not
        searched, or where the batch grows in several ways, of which the rule is a part.
    """
    finished = conclusive(runs)
    if RULE not in axes or finished.empty or any(other in axes for other in _OTHERS):
        return []
    return [
        compared(part, RULE, measure, settings)
        for settings, part in alike(finished, axes, _WAYS)
        for measure in MEASURES
    ]
