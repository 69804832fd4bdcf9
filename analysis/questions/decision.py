"""Which configuration to use, and how sure one can be: pure functions of a study's frames."""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.evidence import SMALLER_IS_BETTER, Evidence, once
from analysis.questions.choosing import (
    choose,
    compare,
    crash_least,
    first,
    least_and_most,
    likely,
    near,
    processes,
    single,
    surest,
    undominated,
)
from analysis.questions.constraints import breaking, difference, limits_of
from analysis.questions.convergence import bounds_of, by_seed, summarise
from analysis.questions.equivalence import delta_of, practically_best
from analysis.questions.failures import failures
from analysis.questions.product import product_of
from analysis.questions.sequential import sequential_comparison
from analysis.stats.comparisons import leaders, seeds_needed
from analysis.stats.equivalence import seeds_for_equivalence
from analysis.stats.interval import CONFIDENCE, Interval
from analysis.stats.moderated import moderated_intervals
from analysis.stats.saturation import saturates, solving
from analysis.stats.shrinkage import shrunken

_MATTERS, _MATTERS_OF_SPEEDS = 0.2, 0.05
"""Share of env steps to target, and of env steps/s, from which on a difference matters to a person."""


@dataclass(frozen=True)
class Decision:
    """The answer for one environment.

    Attributes:
        env: The environment.
        measure: What decided: `score`; `env_steps_to_target` where scores saturate;
            `env_steps_per_s` where throughput was measured; or the objective that the study was given.
        saturated: Whether several configurations solve the environment and their scores
            are not significantly different.
        num_solving: How many these are.
        order: Configurations with a finished seed, of those that keep the constraints: the chosen one, then best first.
        leaders: Those of them that are not significantly different from the best one, or practically the same,
            in the same order.
        chosen: The leader to use; None if no trial finished.
        chosen_by: What singled it out: `rank` (nobody is about as good), `crashes`, `reliability`, `cost`, `auc`,
            `auc_of_kinds` (where seconds are not compared), `columns` (no worse in any column), `processes` or
            `product` (of env steps and throughput, over all trials of the search); `claim`, where another study
            recommended it; `value`, where single seeds say no more than their values.
        runner_up: The next best configuration that is not practically the same, of the leaders if there is one; None if
            there is no other configuration.
        difference: By how much the chosen one is better than the runner-up, on average over common seeds, in the
            measure's unit; negative if it was preferred for its cost.
        spread: Standard deviation of that difference over seeds, moderated; NaN with a single seed.
        num_seeds: Common seeds of the two.
        matters: The smallest difference that matters, in the measure's unit; of speeds a share. NaN where unknown.
        telling_seeds: How many common seeds show a difference of that size with a power of 80%: at least and at most,
            as few seeds say little about their spread (its 80% interval). Not a power of the difference that was seen,
            which says no more than its p value (Hoenig and Heisey 2001). 0 where theirs is significant, or they are
            practically the same; infinite where nothing is known of the spread.
        delta: The largest difference of scores that is practically none; NaN where something else decides.
        equivalent: The leaders that are practically the same as the best one, itself included, in the same order;
            empty if none is.
        equivalence_seeds: How many show the two to be practically the same, if they do not differ, likewise; 0 if that
            is shown, or nothing is practically the same.
        expected: The mean score that fresh seeds of the chosen one are to be expected to have: it was picked for its
            own, which is moved towards those of the other leaders (`shrunken`). None where there are no others, or
            scores do not decide.
        uncompared: Configurations with a single value, in the same order: nothing can be said of their differences.
            All of them, where none has more.
        free: The decision without the constraints of the study; None where it has none.
        forgone: By how much what that chooses is better: its difference from the chosen one in its measure, on average
            over common seeds; None where it is the same, or there is none.
    """

    env: str
    measure: str
    saturated: bool = False
    num_solving: int = 0
    order: tuple[str, ...] = ()
    leaders: tuple[str, ...] = ()
    chosen: str | None = None
    chosen_by: str = ""
    runner_up: str | None = None
    difference: float = np.nan
    spread: float = np.nan
    num_seeds: int = 0
    matters: float = np.nan
    telling_seeds: tuple[float, float] = (np.inf, np.inf)
    delta: float = np.nan
    equivalent: tuple[str, ...] = ()
    equivalence_seeds: tuple[float, float] = (0.0, 0.0)
    expected: Interval | None = None
    uncompared: tuple[str, ...] = ()
    free: "Decision | None" = None
    forgone: Interval | None = None


@dataclass(frozen=True)
class Shown:
    """A seed of the chosen configuration that shows what it comes to.

    Attributes:
        run_id: Of its trial.
        config: The configuration.
        env: The environment.
        role: `best` or `median`.
    """

    run_id: str
    config: str
    env: str
    role: str


def seeds_to_show(evidence: Evidence) -> list[Shown]:
    """The best and the median seed, by score, of the configuration that is chosen for each environment;
    of an even number the lower one is the median. None where throughput was measured, which leaves no policy.

    Args:
        evidence: All trials of a study.
    """
    found = []
    concluding = evidence.concluding
    for decision in [] if evidence.is_measured else decisions_of(concluding):
        finished = concluding.of_envs[decision.env].conclusive
        own = finished[(finished["config"] == decision.chosen) & finished["score"].notna()]
        own = own.sort_values("score", ascending=False, kind="stable")
        places = {0: "best"} if len(own) < 2 else {0: "best", len(own) // 2: "median"}
        found += [
            Shown(str(own["run_id"].iloc[i]), str(decision.chosen), decision.env, role)
            for i, role in places.items()
            if len(own)
        ]
    return found


def runs_of_chosen(evidence: Evidence) -> set[str]:
    """Run ids of all trials of the configurations that are chosen, one for each environment;
    none where no trial finished.

    Args:
        evidence: All trials of a study.
    """
    runs = evidence.runs
    chosen = {(decision.env, decision.chosen) for decision in decisions_of(evidence.concluding)}
    own = [pair in chosen for pair in zip(runs["env"], runs["config"], strict=True)]
    return {str(run_id) for run_id in runs.loc[own, "run_id"].dropna()}


def decide(runs: pd.DataFrame) -> list[Decision]:
    """The decision of each environment.

    Args:
        runs: As `analysis.load` gives them; of a search, those that confirm what it found.
    """
    return decisions_of(Evidence(runs))


def decisions_of(evidence: Evidence) -> list[Decision]:
    """The decision of each environment."""
    return [decision_of(of_env) for of_env in evidence.of_envs.values()]


@once
def summary_of(evidence: Evidence) -> pd.DataFrame:
    """A row a configuration: `convergence.summarise` and `failures.failures` beside each other."""
    table, failing = summarise(evidence.runs, evidence.axes), failures(evidence.runs)
    return pd.concat([table, failing.reindex(table["config"].astype(object)).set_index(table.index)], axis=1)


@once
def decision_of(evidence: Evidence) -> Decision:
    """The decision of an environment.

    The score decides; a seed that crashed has the lowest one (`evidence.counted`). Where two or more configurations end
    at the env's target on average and their scores are not significantly different, the score has no more to say
    (CartPole ends at 500 for half of a sensible grid), and env steps to target decide among them. Among the leaders
    within a standard error of the best (Breiman's rule), those with the smallest share of seeds that fail are kept
    (`failures`: they end below the target, or far below the best where there is none, or crash); where
    env steps decide, this comes before the standard error. Of these the cheapest in training seconds is chosen, and
    among those within a standard error of the cheapest the one with the largest area under the learning curve.

    Seconds of several kinds of machine are not compared: there the area decides in place of the cost.

    Where configurations are shown to be practically the same as the best one, within `delta_of` the scores, the choice
    is among these instead, by failures, cost and area as before: what is given up for a lower cost is then bounded,
    with 95% confidence, whereas a standard error bounds it by what the seeds happened to show. One that is
    significantly worse by less than delta is among them: with enough seeds any difference is significant.

    Of a sequential comparison, those are leaders than which none was shown to have a higher score
    (`sequential_comparison`): its risk of a false difference counts all looks, which t tests know nothing of.

    A study that was given another objective goes by that alone: of those that are not significantly worse than the best
    by it, the ones with the fewest crashes and failures, and of these the best.

    Of a study with constraints it is a decision among the configurations that keep them.

    Where throughput was measured, it decides: of the configurations within a standard error of the fastest, the one
    with the fewest processes is chosen.

    Args:
        evidence: Of one environment.
    """
    if evidence.is_measured:
        return _by_speed(evidence)
    runs, free = evidence.runs, _decided(evidence, None)
    if not limits_of(runs):
        return free
    broken = breaking(runs)
    found = _decided(evidence, [str(config) for config in runs["config"].unique() if config not in broken])
    forgone = None
    if found.chosen and free.chosen and free.chosen != found.chosen:
        forgone = difference(evidence.counted, free.measure, free.chosen, found.chosen)
    return replace(found, free=free, forgone=forgone)


def _decided(evidence: Evidence, among: Collection[str] | None) -> Decision:
    """The decision among some configurations; None: all."""
    objective = objective_of(evidence.runs)
    return _by_score(evidence, among) if objective == "score" else _by_objective(evidence, objective, among)


def chosen_values(runs: pd.DataFrame, column: str, of_each: str) -> dict[float, float]:
    """The value of a column that the chosen configuration has among those with the same value of another.

    Args:
        runs: As `analysis.load` gives them, of one environment; both columns searched and numbers.
        column: For example the learning rate.
        of_each: For example the batch; values at which no trial finished are left out.
    """
    chosen = {value: decide(part)[0].chosen for value, part in runs.groupby(of_each)}
    values = runs.drop_duplicates("config").set_index("config")[column]
    return {float(value): float(values[config]) for value, config in chosen.items() if config is not None}


def _by_speed(evidence: Evidence) -> Decision:
    env, finished = str(evidence.runs["env"].iloc[0]), evidence.conclusive
    speeds = by_seed(finished, "env_steps_per_s").dropna(how="all")
    if speeds.empty:
        return Decision(env, "env_steps_per_s")
    logs = np.log(speeds)
    order = list(logs.mean(axis=1).sort_values(ascending=False, kind="stable").index)
    among = set(logs.index[leaders(logs.to_numpy(), larger_is_better=True)])
    leading = [c for c in order if c in among]
    close, counts = near(leading, logs, smallest=False), processes(finished)
    fewest = [c for c in close if counts[c] == min(counts[c] for c in close)]
    stands = _standing(evidence, env, leading)
    chosen = stands or next(c for c in order if c in fewest)
    order, leading = first(chosen, order), first(chosen, leading)
    runner_up = next((c for c in order if c != chosen), None)
    _, spread, df, common = compare(logs, chosen, runner_up, 1.0)
    difference, telling = np.nan, (np.inf, np.inf)
    if runner_up is not None:
        means = np.exp(logs.loc[[chosen, runner_up]].mean(axis=1))
        difference = float(means[chosen] - means[runner_up])
        gap, alpha = float(np.log1p(_MATTERS_OF_SPEEDS)), (1 - CONFIDENCE) / max(1, len(order) - 1)
        telling = least_and_most(lambda each: seeds_needed(gap, each, alpha), likely(spread, df))
        telling = telling if runner_up in leading else (0.0, 0.0)
    alone = single(speeds, order)
    by = "claim" if stands else "rank" if len(close) == 1 or len(fewest) == len(close) else "processes"
    return Decision(
        env,
        "env_steps_per_s",
        False,
        0,
        tuple(order),
        tuple(leading),
        chosen,
        "value" if chosen in alone and by == "rank" else by,
        runner_up,
        difference,
        spread,
        common,
        _MATTERS_OF_SPEEDS,
        telling,
        uncompared=alone,
    )


def _standing(evidence: Evidence, env: str, leading: list[str]) -> str | None:
    """What another study recommends, where these runs are to confirm that: it stands as long as none is better."""
    claim = evidence.claims.get(env)
    return claim.config if claim is not None and claim.config in leading else None


def _favoured(evidence: Evidence, objective: str, among: list[str]) -> str | None:
    """Of configurations about as good the one that the product favours, of a search that measured env steps and
    throughput apart: it rests on all of its trials, and not on few fresh seeds of each. None in other studies.
    """
    if evidence.searched is None or objective not in ("minutes_to_target", "cost_to_target"):
        return None
    product = product_of(evidence.searched)
    return None if product is None else next((c for c in product.table["config"] if c in among), None)


def objective_of(runs: pd.DataFrame) -> str:
    """What decides in a study, a column: `score`, unless it was given another objective."""
    return str(runs["objective"].iloc[0]) if "objective" in runs and len(runs) else "score"


def _by_objective(evidence: Evidence, objective: str, kept: Collection[str] | None) -> Decision:
    runs, table = evidence.runs, summary_of(evidence).set_index("config")
    env, values = str(runs["env"].iloc[0]), _values(evidence, objective, kept)
    if values.empty:
        return Decision(env, objective)
    sign = -1.0 if objective in SMALLER_IS_BETTER else 1.0
    counted = values[values.notna().sum(axis=1) >= min(2, values.notna().sum(axis=1).max())]
    among = {*counted.index[leaders(counted.to_numpy(), larger_is_better=sign > 0)]}
    means = sign * values.mean(axis=1)
    ranked = means.sort_values(ascending=False, kind="stable").index
    order = [*(c for c in ranked if c in among), *(c for c in ranked if c not in among)]
    leading = [c for c in order if c in among]
    sure, by = leading, "rank" if len(leading) == 1 else "value"
    for name, step in (("crashes", crash_least), ("reliability", surest)):
        if len(kept := step(sure, table)) < len(sure):
            sure, by = kept, name
    stands, favoured = _standing(evidence, env, leading), _favoured(evidence, objective, sure)
    chosen = stands or favoured or sure[0]
    by = "product" if chosen == favoured != sure[0] else by
    order, leading = first(chosen, order), first(chosen, leading)
    runner_up = next((c for c in order if c != chosen), None)
    difference, spread, df, common = compare(values, chosen, runner_up, sign)
    matters, alpha = _MATTERS * abs(float(means[chosen])), (1 - CONFIDENCE) / max(1, len(counted) - 1)
    telling = (np.inf, np.inf) if runner_up is None else (0.0, 0.0)
    if runner_up is not None and runner_up in leading:
        telling = least_and_most(lambda each: seeds_needed(matters, each, alpha), likely(spread, df))
    return Decision(
        env,
        objective,
        order=tuple(order),
        leaders=tuple(leading),
        chosen=chosen,
        chosen_by="claim" if stands else by,
        runner_up=runner_up,
        difference=difference,
        spread=spread,
        num_seeds=common,
        matters=matters,
        telling_seeds=telling,
        uncompared=single(values, order),
    )


def _values(evidence: Evidence, measure: str, among: Collection[str] | None) -> pd.DataFrame:
    """A measure by seed, of those of some configurations that have it; None: of all."""
    values = by_seed(evidence.counted, measure).dropna(how="all")
    return values if among is None else values[values.index.isin(list(among))]


def _by_score(evidence: Evidence, kept: Collection[str] | None) -> Decision:
    runs, finished, table = evidence.runs, evidence.counted, summary_of(evidence).set_index("config")
    env = str(runs["env"].iloc[0])
    scores = _values(evidence, "score", kept)
    if scores.empty:
        return Decision(env, "score")
    # A single seed is nobody's best where others have more: it would tie with everything.
    counted = scores[scores.notna().sum(axis=1) >= min(2, scores.notna().sum(axis=1).max())]
    compared = sequential_comparison(runs)
    among = (
        leaders(counted.to_numpy(), larger_is_better=True)
        if compared is None
        else ~counted.index.isin([pair.lower for pair in compared.differences if pair.higher in scores.index])
    )
    tied = counted.index[among]
    of_tied = table.loc[tied]
    solve = solving(of_tied["score"], of_tied["target"], of_tied["num_reached"])
    saturated = saturates(solve)
    measure = "env_steps_to_target" if saturated else "score"
    sign = -1.0 if measure in SMALLER_IS_BETTER else 1.0
    values = by_seed(finished, measure).reindex(scores.index)
    means = sign * values.mean(axis=1)
    delta = np.nan if saturated else delta_of(runs)
    same = practically_best(counted, delta)
    candidates = list(tied[solve] if saturated else counted.index[counted.index.isin([*tied, *same])])
    ranked = means[candidates].sort_values(ascending=False, kind="stable").index
    others = scores.mean(axis=1).drop(candidates).sort_values(ascending=False, kind="stable").index
    order = [*ranked, *others]
    leading, num_compared = list(ranked), len(counted)
    if saturated:
        soonest = leaders(values.loc[leading].to_numpy(), larger_is_better=False)
        leading, num_compared = [c for c, is_leader in zip(ranked, soonest, strict=True) if is_leader], len(ranked)
    chosen, chosen_by = choose(leading, same, values, saturated, finished, table)
    if (better := undominated(chosen, leading, table)) != chosen:
        chosen, chosen_by = better, "columns"
    if stands := _standing(evidence, env, leading):
        chosen, chosen_by = stands, "claim"
    order, leading = first(chosen, order), first(chosen, leading)
    alone = single(scores, order)
    rivals = [c for c in order if c != chosen]
    rivals = [c for c in rivals if c not in alone] or rivals
    runner_up = next((c for c in rivals if c not in same), rivals[0] if rivals else None)
    difference, spread, df, common = compare(values, chosen, runner_up, sign)
    matters = _MATTERS * abs(float(means[chosen])) if saturated else delta
    is_open = runner_up is not None and runner_up in leading and runner_up not in same
    alpha, spreads = (1 - CONFIDENCE) / max(1, num_compared - 1), likely(spread, df)
    telling = (np.inf, np.inf) if runner_up is None else (0.0, 0.0)
    to_equivalence = (0.0, 0.0)
    if is_open:
        telling = least_and_most(lambda each: seeds_needed(matters, each, alpha), spreads)
    if is_open and np.isfinite(delta):
        to_equivalence = least_and_most(lambda each: seeds_for_equivalence(0.0, each, delta, alpha), spreads)
    several = [c for c in leading if c not in alone and not table.loc[c, "num_crashed"]]
    expected = None
    if not saturated and chosen in several and len(several) > 1:
        expected = _expected(several, counted, table.loc[chosen], bounds_of("score", runs))
    return Decision(
        env,
        measure,
        saturated,
        int(solve.sum()),
        tuple(order),
        tuple(leading),
        chosen,
        "value" if chosen in alone and chosen_by == "rank" else chosen_by,
        runner_up,
        difference,
        spread,
        common,
        matters,
        telling,
        delta,
        tuple(c for c in leading if c in same),
        to_equivalence,
        expected,
        alone,
    )


def _expected(leading: list[str], counted: pd.DataFrame, row: pd.Series, bounds: tuple[float, float]) -> Interval:
    """The mean score of the first of the leaders, moved towards those of the others, with its interval."""
    found = moderated_intervals(counted.to_numpy())
    at = counted.index.get_indexer(leading)
    estimate = float(shrunken(found.estimate[at], found.se[at])[0])
    low, high = (float(row[f"score{end}"] + estimate - row["score"]) for end in ("_low", "_high"))
    return Interval(estimate, max(low, bounds[0]), min(high, bounds[1]))
