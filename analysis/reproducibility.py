"""How much a result depends on the seed, and how many seeds a difference needs: pure functions of a study's frames."""

import numpy as np
import pandas as pd

from analysis.convergence import by_seed, conclusive
from analysis.stats import CONFIDENCE, moderated_intervals, paired_differences, seeds_needed

_MANTISSAS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
_EFFECTS = (0.2, 3.0)
"""Differences worth a row, as multiples of their spread: below it takes hundreds of seeds, above it two or three."""


def seed_spread(runs: pd.DataFrame, measure: str = "score") -> pd.DataFrame:
    """How far the seeds of each configuration lie apart.

    Args:
        runs: As `analysis.load` gives them.
        measure: One of `convergence.MEASURES`.

    Returns:
        `config`, `num_seeds` with a value, `lowest`, `mean`, `highest`; `sd`, the standard deviation over the configuration's own seeds,
        and `sd_moderated`, averaged with the other configurations of the environment, on which its interval leans. NaN with a single seed.
    """
    frames = []
    for _, part in conclusive(runs).groupby("env", observed=True, sort=False):
        matrix = by_seed(part, measure).dropna(how="all")
        found = moderated_intervals(matrix.to_numpy(), "mean")
        columns = {"num_seeds": matrix.count(axis=1), "lowest": matrix.min(axis=1), "mean": matrix.mean(axis=1)}
        columns |= {"highest": matrix.max(axis=1), "sd": matrix.std(axis=1), "sd_moderated": found.se * np.sqrt(found.num_seeds)}
        frames.append(pd.DataFrame(columns))
    names = ["config", "num_seeds", "lowest", "mean", "highest", "sd", "sd_moderated"]
    table = pd.concat(frames).rename_axis("config").reset_index() if frames else pd.DataFrame(columns=names)
    table["config"] = pd.Categorical(table["config"], categories=runs["config"].cat.categories, ordered=True)
    return table.sort_values("config", ignore_index=True)


def typical_difference_spread(runs: pd.DataFrame, measure: str = "score") -> float:
    """Standard deviation over seeds of the difference between two configurations: the median over all pairs, variances moderated.

    Args:
        runs: As `analysis.load` gives them, of one environment.
        measure: One of `convergence.MEASURES`.

    Returns:
        In the measure's unit; NaN if no two configurations have two seeds in common.
    """
    values = by_seed(conclusive(runs), measure).dropna(how="all").to_numpy()
    _, _, found = paired_differences(values)
    spreads = (found.se * np.sqrt(found.num_seeds))[np.isfinite(found.se)]
    return float(np.median(spreads)) if len(spreads) else float("nan")


def seeds_to_see(spread: float, num_comparisons: int = 1) -> pd.DataFrame:
    """How many common seeds show a difference between two configurations with a chance of 80%, for round differences.

    Args:
        spread: Standard deviation over seeds of the difference.
        num_comparisons: Comparisons of the study that have to hold together.

    Returns:
        `difference`, ascending, in the spread's unit; `seeds`, for two configurations that were chosen before looking; and
        `seeds_among_all`, with the risk of a false difference shared by all comparisons (Bonferroni). Empty if the spread is unknown or 0.
    """
    if not spread > 0:
        return pd.DataFrame(columns=["difference", "seeds", "seeds_among_all"])
    low, high = (spread * effect for effect in _EFFECTS)
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    differences = [m * 10.0**decade for decade in decades for m in _MANTISSAS if low <= m * 10.0**decade <= high]
    alpha = 1 - CONFIDENCE
    rows = [(d, *(int(np.ceil(seeds_needed(d, spread, a))) for a in (alpha, alpha / max(1, num_comparisons)))) for d in differences]
    return pd.DataFrame(rows, columns=["difference", "seeds", "seeds_among_all"])
