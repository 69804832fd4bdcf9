"""A study's trials as its conclusions rest on them, and what is computed of them once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from analysis.stats.interval import Interval

MEASURES = (
    "score",
    "auc",
    "env_steps_to_target",
    "seconds_to_target",
    "env_steps_per_s",
    "trained_steps_per_s",
    "train_s",
    "minutes_to_target",
    "cost_to_target",
    "score_in_minutes",
)
"""Columns of `runs` that are compared, by their means over seeds: who collapses on a seed in five has to pay for it.
Times to target are restricted means: a seed that never holds the target counts with all that it was given, so that no
configuration gains by failing. Every seed is cut off at the same budget, and the restricted mean is then the area under
the Kaplan-Meier curve up to it (Royston and Parmar 2013); the mean itself is no less."""

_FINITE = (*MEASURES, "wall_s", "start_s", "price_per_hour")
"""Columns of which what is not finite is taken for unknown."""

SPEEDS = frozenset({"env_steps_per_s", "trained_steps_per_s"})
"""Measures that are taken on a logarithmic scale: speeds of one study range over decades, and vary by so many percent.
Means are geometric."""

TO_COME = ("missing", "running", "interrupted")
"""Status of a trial that may still end."""
OF_OBJECTIVES = ("minutes_to_target", "cost_to_target", "score_in_minutes")
"""Measures that are shown where a study was given them as its objective, and nowhere else."""

SMALLER_IS_BETTER = frozenset(
    {"env_steps_to_target", "seconds_to_target", "train_s", "minutes_to_target", "cost_to_target"}
)


def replicates(runs: pd.DataFrame) -> pd.DataFrame:
    """The trials that stand for their seeds: the first run of each, whatever became of it.

    A repeat is the same seed once more.

    Args:
        runs: As `analysis.load` gives them.
    """
    return runs[runs["repeat"] == 0]


def is_measured(runs: pd.DataFrame) -> bool:
    """True if trials measured their throughput, in place of training to a budget: they have no scores.

    Args:
        runs: As `analysis.load` gives them.
    """
    return bool((runs["phase"] == "throughput").all())


def conclusive(runs: pd.DataFrame) -> pd.DataFrame:
    """The trials from which conclusions are drawn: finished, at full budget, not exploratory, no repeats;
    times to target restricted.

    Args:
        runs: As `analysis.load` gives them.

    Returns:
        A copy with the column `reached`; in the times to target, seeds that never reached it have their budget,
        or their seconds; in minutes and cost to target the longest of any trial.
    """
    return _restricted(runs, ["finished"])


def counted(runs: pd.DataFrame) -> pd.DataFrame:
    """The same with the trials that crashed: who leaves them out recommends what crashes.

    A trial that failed, or has no finite score, counts with the lowest score: the lowest possible one where the
    environment has it, else the lowest of any trial. It never reached the target, and nothing is known of its seconds;
    minutes and cost to target are the most of any trial.
    A configuration of which no trial ended with a score has none.

    Args:
        runs: As `analysis.load` gives them.

    Returns:
        As `conclusive`, with the column `crashed`; where throughput was measured, or no score is finite, no more rows.
    """
    finished = conclusive(runs)
    if is_measured(runs) or finished["score"].isna().all():
        return finished.assign(crashed=False)
    found = _restricted(runs, ["finished", "failed"]) if (runs["status"] == "failed").any() else finished
    by_env = found.groupby("env", observed=True)
    # of a configuration that always crashes there is no score to compare
    some = found.groupby(["env", "config"], observed=True)["score"].transform("count") > 0
    crashed = found["score"].isna() & some
    columns: dict[str, Any] = {"reached": found["reached"] & ~crashed, "crashed": crashed}
    low = found["score_range_low"]
    for measure in ("score", "auc", "score_in_minutes"):
        if (unknown := found[measure].isna() & some).any():
            lowest = low.fillna(by_env[measure].transform("min")) if low.isna().any() else low
            columns[measure] = found[measure].mask(unknown, lowest)
    if (unreached := crashed & found["target"].notna()).any():
        budget = found["budget_env_steps"].astype(float)
        columns["env_steps_to_target"] = found["env_steps_to_target"].mask(unreached, budget)
        for measure in ("minutes_to_target", "cost_to_target"):
            columns[measure] = found[measure].mask(unreached, by_env[measure].transform("max"))
    return found.assign(**columns)[some]


def _restricted(runs: pd.DataFrame, statuses: Sequence[str]) -> pd.DataFrame:
    kept = replicates(runs)
    kept = kept[kept["status"].isin(statuses) & ~kept["exploratory"].astype(bool)]
    own = {name: kept[name].to_numpy(float, na_value=np.nan) for name in _FINITE if name in kept}
    found = {name: np.where(np.isfinite(values), values, np.nan) for name, values in own.items()}
    for name in ("start_s", "price_per_hour", "score_in_minutes"):
        found.setdefault(name, np.full(len(kept), np.nan))
    found["reached"] = ~np.isnan(found["env_steps_to_target"])
    unreached = kept["target"].notna().to_numpy() & ~found["reached"]
    found["env_steps_to_target"] = np.where(unreached, kept["budget_env_steps"], found["env_steps_to_target"])
    found["seconds_to_target"] = np.where(unreached, found["train_s"], found["seconds_to_target"])
    start_s = np.nan_to_num(found["start_s"])
    minutes = (start_s + found["seconds_to_target"]) / 60
    if unreached.any():
        # Who is fast must not gain by never reaching it: all are cut off at one time, the longest of any trial.
        trained = pd.Series((start_s + found["train_s"]) / 60)
        longest = trained.groupby(kept["env"].to_numpy(), observed=True).transform("max").to_numpy()
        minutes = np.where(unreached, longest, minutes)
    found["minutes_to_target"] = minutes
    found["cost_to_target"] = minutes / 60 * found["price_per_hour"]
    return kept.assign(**found)


@dataclass(frozen=True)
class Claim:
    """What a study said of the configuration that it recommends for an environment.

    Attributes:
        config: The configuration.
        measure: What decided.
        value: What it came to by that measure; where it was picked of several that are about as good,
            what was to be expected of fresh seeds.
        num_seeds: Seeds that this rests on.
        num_at_end: How many of them end at the target.
        beside: Configurations that run on the same fresh seeds, for a comparison.
    """

    config: str
    measure: str
    value: Interval
    num_seeds: int
    num_at_end: int
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Evidence:
    """Trials of a study; what is asked of them again and again is computed once.

    Attributes:
        runs: As `analysis.load` gives them.
        curves: Of these trials, as `analysis.load` gives them; None: unknown.
        axes: The searched columns of `runs`.
        claims: Environment to what another study said of it, where these trials are to confirm that.
        searched: Of trials that confirm what a search found, all trials of the search with them.
    """

    runs: pd.DataFrame
    curves: pd.DataFrame | None = None
    axes: tuple[str, ...] = ()
    claims: Mapping[str, Claim] = field(default_factory=dict)
    searched: "Evidence | None" = None
    _answers: dict[Any, Any] = field(init=False, repr=False, default_factory=dict)

    @cached_property
    def of_envs(self) -> dict[str, "Evidence"]:
        """Environment to its trials."""
        parts = {str(env): _trimmed(part) for env, part in self.runs.groupby("env", observed=True, sort=False)}
        if len(parts) == 1 and all(part["config"].dtype == self.runs["config"].dtype for part in parts.values()):
            return dict.fromkeys(parts, self)
        return {env: replace(self, runs=part) for env, part in parts.items()}

    @cached_property
    def concluding(self) -> "Evidence":
        """The trials on which conclusions rest, whatever became of them: of a search, those that confirm what it found.

        What a search has seen flatters what it chose.
        """
        exploratory = self.runs["exploratory"].astype(bool)
        if not exploratory.any():
            return self
        return replace(self, runs=_trimmed(self.runs[~exploratory]), searched=self)

    @cached_property
    def design(self) -> "Evidence":
        """The trials of a fixed design, every configuration with every seed, also where others confirm the best of
        them; none of a search.

        Seeds of the design may confirm: then those of the best configurations are of both.
        """
        runs, fixed = self.runs, self.runs[self.runs["phase"] == "fixed"]
        both = (runs["phase"] == "confirm") & runs["seed"].isin(fixed["seed"]) & runs["config"].isin(fixed["config"])
        return replace(self, runs=_trimmed(runs[(runs["phase"] == "fixed") | both].assign(exploratory=False)))

    @cached_property
    def comparing(self) -> "Evidence":
        """The trials that compare settings: where a fixed design was confirmed its own, else those on which conclusions
        rest.
        """
        design, concluding = self.design, self.concluding
        return concluding if len(design.runs) in (0, len(concluding.runs)) else design

    @cached_property
    def replicates(self) -> pd.DataFrame:
        """The trials that stand for their seeds."""
        return replicates(self.runs)

    @cached_property
    def conclusive(self) -> pd.DataFrame:
        """The trials from which conclusions are drawn."""
        return conclusive(self.runs)

    @cached_property
    def counted(self) -> pd.DataFrame:
        """The same, and those that crashed."""
        return counted(self.runs)

    @cached_property
    def is_measured(self) -> bool:
        """True if they measured their throughput, in place of training to a budget."""
        return is_measured(self.runs)


def _trimmed(runs: pd.DataFrame) -> pd.DataFrame:
    """Rows of a frame, without the configurations that have none."""
    return runs.assign(config=runs["config"].cat.remove_unused_categories())


Found = TypeVar("Found")


def once(question: Callable[[Evidence], Found]) -> Callable[[Evidence], Found]:
    """A question whose answer is kept with the evidence."""

    @wraps(question)
    def answered(evidence: Evidence) -> Found:
        kept: dict[Any, Found] = evidence._answers
        if question not in kept:
            kept[question] = question(evidence)
        return kept[question]

    return answered
