"""Which configurations differ in their env runners alone: pure functions of a study's frames."""

from collections.abc import Sequence

import pandas as pd

from analysis.evidence import conclusive
from analysis.questions.convergence import alike

RUNNERS, ENVS = "num_env_runners", "num_envs_per_env_runner"


def differ_in_runners(runs: pd.DataFrame, axes: Sequence[str]) -> list[tuple[dict[str, object], pd.DataFrame]]:
    """The configurations between which more runners, with as many environments in all, should change the speed alone.

    Args:
        runs: Of one environment, trained to a budget.
        axes: The searched columns of `runs`.

    Returns:
        The other searched columns with the values that all of a group have, and its finished trials: with as many
        environments in all, or else as many a runner. None where runners were not searched.
    """
    finished = conclusive(runs)
    if not {RUNNERS, ENVS} <= set(finished) or RUNNERS not in axes:
        return []
    found = []
    for settings, part in alike(finished, axes, (RUNNERS, ENVS)):
        whole = ENVS not in axes or total_envs(part).nunique() == 1
        found += [
            (settings, group)
            for group in ([part] if whole else [group for _, group in part.groupby(ENVS, observed=True)])
        ]
    return [(settings, group) for settings, group in found if group[RUNNERS].nunique() > 1]


def total_envs(runs: pd.DataFrame) -> pd.Series:
    """Environments of each trial."""
    return runs[RUNNERS].clip(lower=1) * runs[ENVS]
