"""How far learning stays the same, as a function of env steps, when the batch shrinks or samples are old.

Pure functions of frames.

Everything is compared with the configuration at the largest batch that learns from fresh samples, on the same seeds,
policy by policy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.evidence import conclusive, replicates
from analysis.questions.claims import Verdict
from analysis.questions.convergence import by_seed, differences, turned
from analysis.stats.comparisons import beyond_p, holm
from analysis.stats.equivalence import equivalence_p
from analysis.stats.interval import CONFIDENCE
from analysis.stats.moderated import moderated_intervals, paired_differences

POLICY, BATCH, ADJUSTED, STALENESS = "proximal_policy", "train_batch_size_total", "adjusted", "staleness"
MEASURES = ("auc", "score")
"""The area under the curve is the mean height of the curve over env steps."""
SPREAD = 0.05
"""Of the range of returns: by how much the final normalised return differs from 256 environments to 1
with PPG-EWMA on Procgen (Hilton et al. 2022, arXiv 2110.00641, figure 2), and so what is tested for here."""

SMALLER, SMALLER_AS_IT_IS, STALE = (
    "smaller batches, settings adjusted",
    "smaller batches, settings as they are",
    "old samples",
)
"""The changes."""


@dataclass(frozen=True)
class Invariance:
    """How far learning is from that at the base.

    Attributes:
        policy: The proximal policy: `ewma` or `sampling`.
        change: What changes.
        measure: Of `MEASURES`.
        delta: A return: differences below it are within the published spread.
        differences: A row a configuration: `config`, `batch`, `staleness`; `difference` to the base, a return, with its
            95% interval; `p_equivalent` of two one-sided tests, `p_beyond` that it is larger than delta; `num_seeds`.
        answer: Holds, if all rows are within delta at 5% each, which errs in at most 5% of studies (intersection-union
            test, Berger 1982); does not hold, if one is beyond it at 5% over all rows (Holm).
    """

    policy: str
    change: str
    measure: str
    delta: float
    differences: pd.DataFrame
    answer: Verdict


def compare_with_base(runs: pd.DataFrame, axes: Sequence[str]) -> list[Invariance]:
    """How far learning is from that at the base batch, for each proximal policy, each change and each of `MEASURES`.

    Args:
        runs: Of one environment, as `analysis.load` gives them.
        axes: The searched columns of `runs`.

    Returns:
        Nothing where no proximal policy was searched, or the range of returns is not known.
    """
    finished = conclusive(runs)
    span = _span(finished)
    if POLICY not in axes or BATCH not in axes or not np.isfinite(span):
        return []
    rows = _changes(finished)
    found = []
    for measure in MEASURES:
        pairs = _pairs(finished, measure, SPREAD * span)
        for (policy, change), part in rows.groupby(["policy", "change"], sort=False):
            joined = part.merge(pairs, on=["config", "base"]).drop(columns=["policy", "change"])
            found.append(Invariance(str(policy), str(change), measure, SPREAD * span, joined, _answer(joined)))
    return found


def curve_gaps(curves: pd.DataFrame, runs: pd.DataFrame, metric: str = "eval/return_mean") -> pd.DataFrame:
    """How far curves are from that of the base, at every point that all seeds have.

    Args:
        curves: As `analysis.load` gives them.
        runs: Likewise, of one environment.
        metric: Which curve.

    Returns:
        `config`, `policy`, `change`, `env_steps`; `value`, the mean difference over common seeds,
        with its 95% interval; `num_seeds`.
    """
    finished = conclusive(runs)
    points = curves[(curves["metric"] == metric) & curves["run_id"].isin(replicates(finished)["run_id"])]
    table = points.pivot_table(index=["config", "seed"], columns="env_steps", values="value", observed=True).dropna(
        axis=1
    )
    rows = _changes(finished)
    of_config = {str(config): part.droplevel(0) for config, part in table.groupby(level=0, observed=True)}
    known = rows[[row.config in of_config and row.base in of_config for row in rows.itertuples()]]
    gaps = [of_config[row.config] - of_config[row.base] for row in known.itertuples()]
    if not gaps or table.empty:
        return pd.DataFrame(
            columns=["config", "policy", "change", "env_steps", "value", "value_low", "value_high", "num_seeds"]
        )
    seeds = sorted(set().union(*(gap.index for gap in gaps)))
    found = moderated_intervals(np.stack([gap.reindex(seeds).to_numpy() for gap in gaps]))
    parts = []
    for i, row in enumerate(known.itertuples()):
        columns = {name: values[i] for name, values in found.columns("value").items()}
        named = {"config": row.config, "policy": row.policy, "change": row.change, "env_steps": table.columns}
        parts.append(pd.DataFrame({**named, **columns, "num_seeds": found.num_seeds[i]}))
    return pd.concat(parts, ignore_index=True).astype({"config": runs["config"].dtype})


def _span(finished: pd.DataFrame) -> float:
    """From the lowest to the highest possible return; where one is not known, to the lowest or highest score."""
    if finished.empty:
        return np.nan
    low, high = finished["score_range_low"].iloc[0], finished["score_range_high"].iloc[0]
    scores = finished["score"]
    span = float(high if np.isfinite(high) else scores.max()) - float(low if np.isfinite(low) else scores.min())
    return span if span > 0 else np.nan


def _changes(finished: pd.DataFrame) -> pd.DataFrame:
    """A row a configuration that is no base: `config`, its `base`, `policy`, `change`, `batch`, `staleness`."""
    known = finished.drop_duplicates("config")
    rows = []
    for policy, part in known.groupby(POLICY, sort=False):
        stale = part[STALENESS].astype(float) if STALENESS in part else pd.Series(0.0, part.index)
        adjusted = (
            part[ADJUSTED].astype(str).str.lower() != "false" if ADJUSTED in part else pd.Series(True, part.index)
        )
        largest = part[BATCH] == part[BATCH].max()
        bases = part[largest & (stale == 0)]
        if bases.empty:
            continue
        for config, batch, old, follows, is_largest in zip(
            part["config"], part[BATCH], stale, adjusted, largest, strict=True
        ):
            if is_largest and not old:
                continue
            change = STALE if old else SMALLER if follows else SMALLER_AS_IT_IS
            row = {"config": str(config), "base": str(bases["config"].iloc[0]), "policy": policy, "change": change}
            rows.append({**row, "batch": int(batch), "staleness": int(old)})
    return pd.DataFrame(rows, columns=["config", "base", "policy", "change", "batch", "staleness"])


def _pairs(finished: pd.DataFrame, measure: str, delta: float) -> pd.DataFrame:
    """Every pair, both ways round: `config`, `base`, their difference, and what is tested of it."""
    matrix = by_seed(finished, measure).dropna(how="all")
    _, _, estimates = paired_differences(matrix.to_numpy())
    table = differences(matrix).assign(
        p_equivalent=equivalence_p(estimates, delta), p_beyond=beyond_p(estimates, delta)
    )
    both = pd.concat([table, turned(table, pd.Series(True, table.index))], ignore_index=True)
    both = both.rename(columns={"config_a": "config", "config_b": "base"}).astype({"config": str, "base": str})
    return both[
        ["config", "base", "difference", "difference_low", "difference_high", "p_equivalent", "p_beyond", "num_seeds"]
    ]


def _answer(rows: pd.DataFrame) -> Verdict:
    alpha = 1 - CONFIDENCE
    if len(rows) and (rows["p_equivalent"] <= alpha).all():
        return Verdict.HOLDS
    return Verdict.FAILS if (holm(rows["p_beyond"].to_numpy(dtype=float)) <= alpha).any() else Verdict.OPEN
