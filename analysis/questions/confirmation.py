"""Whether what a study recommended holds on seeds that its choice has not seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.evidence import SMALLER_IS_BETTER, SPEEDS, Claim, Evidence
from analysis.questions.constraints import breaking
from analysis.questions.convergence import by_seed
from analysis.questions.decision import Decision, decision_of, summary_of
from analysis.questions.labels import interval_of
from analysis.stats.interval import CONFIDENCE, Interval, antilog, difference_of_intervals
from analysis.stats.moderated import paired_differences

LEADERS, RUNNER_UP, BASE = "leaders", "runner_up", "base"
"""What may run beside a recommendation, by the part that it had in the study."""


@dataclass(frozen=True)
class Confirmation:
    """What fresh seeds say of a recommendation. Of speeds, differences are ratios.

    Attributes:
        env: The environment.
        claim: What the study said.
        fresh: The same number on fresh seeds; NaN where none finished.
        num_seeds: How many these are.
        num_at_end: How many of them end at the target.
        target: The return that this is; NaN without one.
        change: Fresh minus claimed.
        others: What ran beside it, to the recommended one's number minus its own, over common fresh seeds.
        confirmed: Whether it holds: the fresh number is not significantly worse than the claimed one, nor than that of
            any of the others, and it keeps the constraints of the study.
        broken: Of those that do not keep them, what they come to (`analysis.questions.constraints.breaking`).
    """

    env: str
    claim: Claim
    fresh: Interval
    num_seeds: int
    num_at_end: int
    target: float
    change: Interval
    others: dict[str, Interval]
    confirmed: bool
    broken: Mapping[str, Mapping[str, float]]


def claim_of(decision: Decision, summary: pd.DataFrame, beside: Sequence[str]) -> Claim:
    """What a study says of the configuration that it recommends for an environment.

    Args:
        decision: Of the environment; something was chosen.
        summary: As `summary_of` gives it.
        beside: Configurations that are to run beside it.
    """
    assert decision.chosen is not None
    row = summary.set_index("config").loc[decision.chosen]
    value = decision.expected or interval_of(row.to_dict(), decision.measure)
    return Claim(decision.chosen, decision.measure, value, int(row["num_seeds"]), int(row["num_at_end"]), tuple(beside))


def confirmation_of(evidence: Evidence) -> Confirmation | None:
    """Whether the claim about an environment holds; None where there is none.

    What was claimed and what came out have an interval each, of seeds that have nothing to do with each other: the
    interval of their difference is theirs put together (`difference_of_intervals`). What ran beside it has the same
    fresh seeds, and is compared in pairs, at 5% for all of them together (Bonferroni).

    Args:
        evidence: Of one environment, of the study on fresh seeds.
    """
    env = str(evidence.runs["env"].iloc[0])
    claim = evidence.claims.get(env)
    if claim is None:
        return None
    summary = summary_of(evidence).set_index("config")
    row = summary.loc[claim.config]
    fresh, num_seeds = interval_of(row.to_dict(), claim.measure), int(row["num_seeds"])
    relative = claim.measure in SPEEDS
    change = difference_of_intervals(fresh, num_seeds, claim.value, claim.num_seeds, relative)
    finished = evidence.conclusive if evidence.is_measured else evidence.counted
    values = by_seed(finished, claim.measure)
    others = {other: _difference(values, claim, other, len(claim.beside)) for other in claim.beside}
    compared = [difference for difference in (change, *others.values()) if np.isfinite(difference.estimate)]
    broken = breaking(evidence.runs)
    worse = any(is_worse(difference, claim.measure) for difference in compared)
    holds = np.isfinite(fresh.estimate) and not worse and claim.config not in broken
    at_end, target = int(row["num_at_end"]), float(row["target"])
    return Confirmation(env, claim, fresh, num_seeds, at_end, target, change, others, bool(holds), broken)


def _difference(values: pd.DataFrame, claim: Claim, other: str, comparisons: int) -> Interval:
    if not {claim.config, other} <= {*values.index}:
        return Interval(np.nan, np.nan, np.nan)
    pair = values.loc[[claim.config, other]].to_numpy(float)
    relative = claim.measure in SPEEDS
    _, _, found = paired_differences(np.log(pair) if relative else pair, 1 - (1 - CONFIDENCE) / comparisons)
    ends = [float(antilog(end[0]) if relative else end[0]) for end in (found.estimate, found.low, found.high)]
    return Interval(*ends)


def is_worse(difference: Interval, measure: str) -> bool:
    """True where a difference is significantly to the bad."""
    return difference.low > _same(measure) if measure in SMALLER_IS_BETTER else difference.high < _same(measure)


def is_better(difference: Interval, measure: str) -> bool:
    """True where a difference is significantly to the good."""
    return difference.high < _same(measure) if measure in SMALLER_IS_BETTER else difference.low > _same(measure)


def _same(measure: str) -> float:
    """What a difference is where two are alike: a ratio of speeds 1, a difference of anything else 0."""
    return 1.0 if measure in SPEEDS else 0.0


def beside_of(evidence: Evidence, base: str, asked: Sequence[str]) -> list[str]:
    """The configurations of an environment that are asked for by name, or by the part that they have in a study.

    Args:
        evidence: Of the environment.
        base: What the study's search starts from; "" without one.
        asked: `leaders`, `runner_up`, `base`, or names.

    Returns:
        Each once, without the recommended one.

    Raises:
        ValueError: The study has no such one; says what it has.
    """
    decision, found = decision_of(evidence), list[str]()
    known = [str(config) for config in evidence.runs["config"].unique()]
    for name in asked:
        if name == LEADERS:
            found += rivals_of(decision)
        elif name == RUNNER_UP and decision.runner_up is not None:
            found.append(decision.runner_up)
        elif name == BASE and base:
            found.append(base)
        elif name in known:
            found.append(name)
        else:
            parts = [LEADERS, *([RUNNER_UP] if decision.runner_up else []), *([BASE] if base else [])]
            raise ValueError(f"{name} is none of {', '.join(parts)}, nor of its configurations: {', '.join(known)}")
    return [config for config in dict.fromkeys(found) if config != decision.chosen]


def rivals_of(decision: Decision) -> list[str]:
    """The leaders that are neither the chosen one, nor shown to be practically the same."""
    return [c for c in decision.leaders if c not in (decision.chosen, *decision.equivalent)]
