"""Which configurations are practically the same: pure functions of a study's frames."""

import numpy as np
import pandas as pd

from analysis.evidence import conclusive
from analysis.stats.comparisons import holm
from analysis.stats.equivalence import equivalence_p
from analysis.stats.interval import CONFIDENCE
from analysis.stats.moderated import paired_differences

FRACTION_OF_RANGE = 0.02
"""Of the range of scores, that makes no practical difference unless a study says otherwise: 10 of CartPole's 500."""


def delta_of(runs: pd.DataFrame) -> float:
    """The largest difference of scores that is practically none, a return.

    It is `delta` where the study has one. Else 2% of the range from the lowest to the highest possible return; an end
    that is not known is the lowest, or the highest, score of a finished seed.

    Args:
        runs: As `analysis.load` gives them, of one environment.

    Returns:
        NaN where no seed finished, or all scores are the same and the range is not known.
    """
    given = float(runs["delta"].iloc[0]) if "delta" in runs and len(runs) else np.nan
    if np.isfinite(given):
        return given
    scores = conclusive(runs)["score"]
    ends = [
        float(known) if np.isfinite(known) else float(seen)
        for known, seen in (
            (runs["score_range_low"].iloc[0], scores.min()),
            (runs["score_range_high"].iloc[0], scores.max()),
        )
    ]
    span = ends[1] - ends[0]
    return FRACTION_OF_RANGE * span if span > 0 else np.nan


def practically_best(scores: pd.DataFrame, delta: float, alpha: float = 1 - CONFIDENCE) -> list[str]:
    """The configurations whose mean score is shown to be within delta of the best one's, and the best one.

    Each is compared with the sample's best, paired by seed, by two one-sided t tests on moderated variances,
    with Holm's correction over the comparisons: in at most `alpha` of studies is one among them that differs
    by delta or more.

    Args:
        scores: As `convergence.by_seed` gives them, without rows that have no value.
        delta: The largest difference that is practically none; NaN: none is.
        alpha: Risk of any wrong one.

    Returns:
        In the order of the rows; empty where none is shown to be as good as the best.
    """
    if not np.isfinite(delta) or len(scores) < 2:
        return []
    best = int(np.argmax(scores.mean(axis=1).to_numpy()))
    first, second, pairs = paired_differences(scores.to_numpy())
    with_best = np.flatnonzero((first == best) | (second == best))
    others = np.where(first == best, second, first)[with_best]
    equivalent = others[holm(equivalence_p(pairs, delta)[with_best]) <= alpha]
    return [str(config) for i, config in enumerate(scores.index) if len(equivalent) and (i == best or i in equivalent)]
