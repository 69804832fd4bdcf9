"""How often seeds of a configuration fail: pure functions of a study's frames.

A mean over the seeds of one environment does not tell those that collapse from the rest (Patterson et al. 2023,
arXiv 2304.01315). Beside it stand how probable a failure is, the worst seed, and what most seeds reach at least.
"""

import numpy as np
import pandas as pd

from analysis.evidence import conclusive, is_measured, replicates
from analysis.stats.shares import jeffreys_interval
from analysis.stats.tolerance import lower_bound

FRACTION_OF_BEST = 0.5
"""Of what the best configuration brings: below it a seed fails, where there is no target."""


def failure_threshold(runs: pd.DataFrame) -> float:
    """The score below which a seed fails, a return.

    It is `failure_below` where the study has one, else the environment's target. Without a target it is half of what
    the best configuration brings above the lowest possible return; where that is unknown, half of it above or below 0.

    Args:
        runs: As `analysis.load` gives them, of one environment.

    Returns:
        NaN where nothing finished: then only a seed without an end fails.
    """
    given = _constant(runs, "failure_below")
    if np.isfinite(given):
        return given
    if np.isfinite(target := _constant(runs, "target")):
        return target
    scores = conclusive(runs).dropna(subset="score").groupby("config", observed=True)["score"]
    best = float(scores.mean().max())
    low = _constant(runs, "score_range_low")
    return best - FRACTION_OF_BEST * (best - low if best > low else abs(best))


def failures(runs: pd.DataFrame) -> pd.DataFrame:
    """How often seeds of each configuration fail: they end below the threshold, or without a score.

    Seeds that were interrupted, or still run, do not count.

    Args:
        runs: As `analysis.load` gives them, failed trials included.

    Returns:
        Indexed by configuration: `failure_below`, the threshold; `num_ended` and of these `num_failures`;
        `failure_probability`, that a seed fails, with Jeffreys' interval; `score_tolerance`, the score that at least
        90% of seeds reach with 95% confidence: NaN with fewer than 29 seeds, minus infinity where the bound is a seed
        without a score. NaN where throughput was measured.
    """
    rows = {}
    for _, part in runs.groupby("env", observed=True, sort=False):
        seeds = replicates(part)
        ended = seeds[seeds["status"].isin(["finished", "failed"]) & ~seeds["exploratory"].astype(bool)]
        measured = is_measured(part)
        threshold = np.nan if measured else failure_threshold(part)
        given = bool(np.isfinite(_constant(part, "failure_below")))
        for config in part["config"].unique():
            scores = ended.loc[ended["config"] == config, "score"].to_numpy(dtype=float)
            scores = np.where(np.isfinite(scores), scores, -np.inf)
            failed = (scores < threshold) | np.isneginf(scores)
            row = {
                "failure_below": threshold,
                "failure_is_given": given,
                "num_ended": len(scores),
                "num_failures": int(failed.sum()),
            }
            known = len(scores) > 0 and not measured
            low, high = jeffreys_interval(failed.sum(), len(scores)) if known else (np.nan, np.nan)
            row |= {
                "failure_probability": failed.mean() if known else np.nan,
                "failure_probability_low": float(low),
                "failure_probability_high": float(high),
            }
            rows[config] = {**row, "score_tolerance": lower_bound(scores) if known else np.nan}
    ends = [f"failure_probability{end}" for end in ("", "_low", "_high")]
    columns = ["failure_below", "failure_is_given", "num_ended", "num_failures", *ends, "score_tolerance"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def _constant(runs: pd.DataFrame, column: str) -> float:
    """A column that is the same in all trials; NaN where there is none."""
    return float(runs[column].iloc[0]) if column in runs and len(runs) else np.nan
