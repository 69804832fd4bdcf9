"""Rules by which settings follow the batch, and other ways in which it grows: compared at each batch, on matched seeds.

Pure functions of frames.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from analysis.questions.convergence import by_seed, differences, turned
from analysis.stats.comparisons import holm
from analysis.stats.interval import CONFIDENCE
from experiments.contract import AT_BASE

BATCH = "train_batch_size_total"
MEASURES = ("auc", "score")
"""The area under the curve sees a slower start too, where all scores end alike."""
_DIFFERENCE = ("difference", "difference_low", "difference_high")


@dataclass(frozen=True)
class RulesFound:
    """Rules against each other, by one measure.

    Attributes:
        measure: Of `MEASURES`.
        settings: Searched columns beside rule and batch to the value that all of these runs have.
        pairs: A row a batch and pair of rules: `batch`, `better`, `worse`, `difference` (of the means, not negative)
            with its 95% interval, `p_adjusted` (Holm, over all rows), `num_seeds`.
        to_base: A row a batch and rule: `batch`, `rule`, `difference` to the base configuration
            with its interval, `num_seeds`.
        rejected: Rules that another one beats at some batch, at 5% over all pairs.
        kept: The others.
    """

    measure: str
    settings: Mapping[str, object]
    pairs: pd.DataFrame
    to_base: pd.DataFrame
    rejected: tuple[str, ...]
    kept: tuple[str, ...]


def compared(finished: pd.DataFrame, column: str, measure: str, settings: Mapping[str, object]) -> RulesFound:
    """The values of a column, compared at each batch.

    Args:
        finished: As `conclusive` gives them.
        column: Of these, with the rules, or whatever is compared; `AT_BASE` where all of them say the same.
        measure: Of `MEASURES`.
        settings: That all runs have in common.
    """
    known = finished.astype({"config": str}).drop_duplicates("config").set_index("config")
    all_pairs = differences(by_seed(finished, measure).dropna(how="all")).dropna(subset="difference")
    for side in ("a", "b"):
        own = known.loc[all_pairs[f"config_{side}"].astype(str)]
        all_pairs[f"rule_{side}"], all_pairs[f"batch_{side}"] = (
            own[column].to_numpy(),
            own[BATCH].to_numpy().astype(int),
        )
    pairs, to_base = _within_batches(all_pairs), _to_base(all_pairs)
    rejected = tuple(dict.fromkeys(pairs.loc[pairs["p_adjusted"] < 1 - CONFIDENCE, "worse"]))
    kept = tuple(rule for rule in known[column].unique() if rule not in (AT_BASE, *rejected))
    return RulesFound(measure, settings, pairs, to_base, rejected, kept)


def _within_batches(pairs: pd.DataFrame) -> pd.DataFrame:
    """Rules of the same batch, the better one first."""
    same = pairs[(pairs["batch_a"] == pairs["batch_b"]) & (pairs["rule_a"] != AT_BASE) & (pairs["rule_b"] != AT_BASE)]
    same = turned(same, same["difference"] < 0).assign(p_adjusted=holm(same["p"].to_numpy(dtype=float)))
    same = same.rename(columns={"batch_a": "batch", "rule_a": "better", "rule_b": "worse"})
    return same[["batch", "better", "worse", *_DIFFERENCE, "p_adjusted", "num_seeds"]].reset_index(drop=True)


def _to_base(pairs: pd.DataFrame) -> pd.DataFrame:
    """Every rule and batch against the base configuration."""
    own = pairs[(pairs["rule_a"] == AT_BASE) ^ (pairs["rule_b"] == AT_BASE)]
    own = turned(own, own["rule_a"] == AT_BASE).rename(columns={"batch_a": "batch", "rule_a": "rule"})
    return own[["batch", "rule", *_DIFFERENCE, "num_seeds"]].sort_values(["batch", "rule"], ignore_index=True)
