"""By which rule the learning rate should follow the batch: compared at each batch, on matched seeds. Pure functions of frames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.questions.convergence import by_seed, conclusive
from analysis.questions.labels import FORMS, WORDS, interval_of, shown
from analysis.stats.comparisons import holm, p_values
from analysis.stats.interval import CONFIDENCE
from analysis.stats.moderated import paired_differences

RULE, BATCH = "lr_rule", "train_batch_size_total"
AT_BASE = "base"
"""The rule of the configuration from which all of them start."""
MEASURES = ("auc", "score")
"""The area under the curve sees a slower start too, where all scores end alike."""
_WAYS = (RULE, BATCH, "num_learners")
"""The searched columns that one comparison spans: learners grow the batch as well."""


@dataclass(frozen=True)
class RulesFound:
    """Rules against each other, by one measure.

    Attributes:
        measure: Of `MEASURES`.
        settings: Searched columns beside rule and batch to the value that all of these runs have.
        pairs: A row a batch and pair of rules: `batch`, `better`, `worse`, `difference` (of the means, not negative) with its 95% interval,
            `p_adjusted` (Holm, over all rows), `num_seeds`.
        to_base: A row a batch and rule: `batch`, `rule`, `difference` to the base configuration with its interval, `num_seeds`.
        rejected: Rules that another one beats at some batch, at 5% over all pairs.
        sentence: The answer for a report.
    """

    measure: str
    settings: Mapping[str, object]
    pairs: pd.DataFrame
    to_base: pd.DataFrame
    rejected: tuple[str, ...]
    sentence: str


def compare_rules(runs: pd.DataFrame, axes: Sequence[str]) -> list[RulesFound]:
    """Which rules the data reject: at the same batch, and on the same seeds, another one learns more.

    Args:
        runs: Of one environment, as `analysis.load` gives them.
        axes: The searched columns of `runs`.

    Returns:
        For each setting of the other axes, an answer by each of `MEASURES`; nothing where rules were not searched.
    """
    finished = conclusive(runs)
    if RULE not in axes or finished.empty:
        return []
    others = [a for a in axes if a not in _WAYS and finished[a].nunique() > 1]
    found = []
    for values, part in finished.groupby(others, observed=True) if others else [((), finished)]:
        found += [_compared(part, measure, dict(zip(others, values, strict=True))) for measure in MEASURES]
    return found


def _compared(finished: pd.DataFrame, measure: str, settings: Mapping[str, object]) -> RulesFound:
    told = finished.assign(config=finished["config"].astype(str)).drop_duplicates("config").set_index("config")
    matrix = by_seed(finished, measure).dropna(how="all")
    first, second, differences = paired_differences(matrix.to_numpy())
    all_pairs = pd.DataFrame(
        {
            **{
                f"{name}_{side}": told.loc[matrix.index[which].astype(str), column].to_numpy()
                for side, which in (("a", first), ("b", second))
                for name, column in (("rule", RULE), ("batch", BATCH))
            },
            "difference": differences.estimate,
            "difference_low": differences.low,
            "difference_high": differences.high,
            "p": p_values(differences),
            "num_seeds": differences.num_seeds,
        }
    ).dropna(subset=["difference"])
    pairs, to_base = _within_batches(all_pairs), _to_base(all_pairs)
    rejected = tuple(dict.fromkeys(pairs.loc[pairs["p_adjusted"] < 1 - CONFIDENCE, "worse"]))
    rules = [rule for rule in told[RULE].unique() if rule != AT_BASE]
    return RulesFound(measure, settings, pairs, to_base, rejected, _sentence(measure, pairs, to_base, rejected, rules))


def _within_batches(pairs: pd.DataFrame) -> pd.DataFrame:
    """Rules of the same batch, the better one first."""
    same = pairs[(pairs["batch_a"] == pairs["batch_b"]) & (pairs["rule_a"] != AT_BASE) & (pairs["rule_b"] != AT_BASE)]
    swap = same["difference"] < 0
    sign = np.where(swap, -1.0, 1.0)
    return pd.DataFrame(
        {
            "batch": same["batch_a"].astype(int),
            "better": same["rule_b"].where(swap, same["rule_a"]),
            "worse": same["rule_a"].where(swap, same["rule_b"]),
            "difference": sign * same["difference"],
            "difference_low": np.where(swap, -same["difference_high"], same["difference_low"]),
            "difference_high": np.where(swap, -same["difference_low"], same["difference_high"]),
            "p_adjusted": holm(same["p"].to_numpy(dtype=float)),
            "num_seeds": same["num_seeds"],
        }
    ).reset_index(drop=True)


def _to_base(pairs: pd.DataFrame) -> pd.DataFrame:
    """Every rule and batch against the base configuration."""
    is_a, is_b = pairs["rule_a"] == AT_BASE, pairs["rule_b"] == AT_BASE
    own = pairs[is_a ^ is_b]
    swap = own["rule_a"] == AT_BASE
    return (
        pd.DataFrame(
            {
                "batch": own["batch_b"].where(swap, own["batch_a"]).astype(int),
                "rule": own["rule_b"].where(swap, own["rule_a"]),
                "difference": np.where(swap, -own["difference"], own["difference"]),
                "difference_low": np.where(swap, -own["difference_high"], own["difference_low"]),
                "difference_high": np.where(swap, -own["difference_low"], own["difference_high"]),
                "num_seeds": own["num_seeds"],
            }
        )
        .sort_values(["batch", "rule"])
        .reset_index(drop=True)
    )


def _sentence(measure: str, pairs: pd.DataFrame, to_base: pd.DataFrame, rejected: Sequence[str], rules: Sequence[str]) -> str:
    if pairs.empty or not np.isfinite(pairs["p_adjusted"]).any():
        return f"By {WORDS[measure]}, rules cannot be compared: it takes two of them at the same batch, with two seeds in common."
    seeds = int(pairs["num_seeds"].min())
    kept = [rule for rule in rules if rule not in rejected]
    clauses = []
    for rule in rejected:
        worst = pairs[(pairs["worse"] == rule) & (pairs["p_adjusted"] < 1 - CONFIDENCE)].sort_values("difference").iloc[-1]
        clauses.append(f"{rule} (at batch {worst['batch']:,} it is {_difference(worst, measure)} below {worst['better']})")
    told = f"the data reject {_listed(clauses)}" if clauses else "the data reject no rule"
    left = f", and not {_listed(kept)}" if clauses and kept else ""
    text = f"By {WORDS[measure]}, {told}{left} ({seeds} matched seeds; differences with 95% intervals; Holm over {len(pairs)} pairs, 5%)."
    if len(to_base):
        far = to_base.assign(far=to_base["difference"].abs()).sort_values("far").groupby("rule", sort=False).tail(1)
        shown = [
            f"{row['rule']} {_difference(row, measure, signed=True)} at {row['batch']:,}"
            for row in far.sort_values("rule").to_dict("records")
        ]
        text += f" Farthest from the base point: {'; '.join(shown)}."
    return text


def _difference(row: "pd.Series | dict[str, float]", measure: str, signed: bool = False) -> str:
    return shown(interval_of(row, "difference"), ("+" if signed else "") + FORMS[measure])


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
