"""Which configuration to use, and how sure one can be: pure functions of a study's frames."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.evidence import SMALLER_IS_BETTER, Evidence, is_measured, once
from analysis.questions.convergence import bounds_of, by_seed, summarise
from analysis.questions.equivalence import delta_of, practically_best
from analysis.questions.failures import failures
from analysis.questions.machines import trials_by_kind
from analysis.questions.sequential import sequential_comparison
from analysis.stats.comparisons import leaders, seeds_needed
from analysis.stats.distributions import chi2_quantile
from analysis.stats.equivalence import seeds_for_equivalence
from analysis.stats.interval import CONFIDENCE, Interval
from analysis.stats.moderated import moderated_intervals, paired_differences
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
            `env_steps_per_s` where throughput was measured.
        saturated: Whether several configurations solve the environment and their scores
            are not significantly different.
        num_solving: How many these are.
        order: Configurations with a finished seed: the chosen one, then best first.
        leaders: Those of them that are not significantly different from the best one, or practically the same,
            in the same order.
        chosen: The leader to use; None if no trial finished.
        chosen_by: What singled it out: `rank` (nobody is about as good), `crashes`, `reliability`, `cost`, `auc`,
            `auc_of_kinds` (where seconds are not compared) or `processes`; `claim`, where another study recommended it;
            `value`, where single seeds say no more than their values.
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


def seeds_to_show(runs: pd.DataFrame) -> list[Shown]:
    """The best and the median seed, by score, of the configuration that is chosen for each environment;
    of an even number the lower one is the median. None where throughput was measured, which leaves no policy.

    Args:
        runs: As `analysis.load` gives them.
    """
    found = []
    concluding = Evidence(runs).concluding
    for decision in [] if is_measured(runs) else decisions_of(concluding):
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


def runs_of_chosen(runs: pd.DataFrame) -> set[str]:
    """Run ids of all trials of the configurations that are chosen, one for each environment;
    none where no trial finished.

    Args:
        runs: As `analysis.load` gives them.
    """
    chosen = {(decision.env, decision.chosen) for decision in decisions_of(Evidence(runs).concluding)}
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

    Where throughput was measured, it decides: of the configurations within a standard error of the fastest, the one
    with the fewest processes is chosen.

    Args:
        evidence: Of one environment.
    """
    return _by_speed(evidence) if evidence.is_measured else _by_score(evidence)


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
    near = _near(leading, logs, smallest=False)
    processes = _processes(finished)
    fewest = [c for c in near if processes[c] == min(processes[c] for c in near)]
    claim = evidence.claims.get(env)
    stands = claim is not None and claim.config in leading  # as long as none is faster
    chosen = claim.config if claim is not None and stands else next(c for c in order if c in fewest)
    order, leading = _first(chosen, order), _first(chosen, leading)
    runner_up = next((c for c in order if c != chosen), None)
    _, spread, df, common = _compare(logs, chosen, runner_up, 1.0)
    difference, telling = np.nan, (np.inf, np.inf)
    if runner_up is not None:
        means = np.exp(logs.loc[[chosen, runner_up]].mean(axis=1))
        difference = float(means[chosen] - means[runner_up])
        gap, alpha = float(np.log1p(_MATTERS_OF_SPEEDS)), (1 - CONFIDENCE) / max(1, len(order) - 1)
        telling = _least_and_most(lambda each: seeds_needed(gap, each, alpha), _likely(spread, df))
        telling = telling if runner_up in leading else (0.0, 0.0)
    alone = _single(speeds, order)
    by = "claim" if stands else "rank" if len(near) == 1 or len(fewest) == len(near) else "processes"
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


def _single(values: pd.DataFrame, order: Sequence[str]) -> tuple[str, ...]:
    """The configurations with a single value, in an order."""
    num = values.notna().sum(axis=1)
    return tuple(c for c in order if num[c] == 1)


def _first(chosen: str, order: Iterable[str]) -> list[str]:
    return [chosen, *(c for c in order if c != chosen)]


def _processes(finished: pd.DataFrame) -> Mapping[str, float]:
    """Runners and learners of each configuration."""
    counts = [name for name in ("num_env_runners", "num_learners") if name in finished]
    first = finished.drop_duplicates("config").set_index("config")
    return {str(config): float(first.loc[config, counts].fillna(0).sum()) for config in first.index}


def _by_score(evidence: Evidence) -> Decision:
    runs, finished, table = evidence.runs, evidence.counted, summary_of(evidence).set_index("config")
    env = str(runs["env"].iloc[0])
    scores = by_seed(finished, "score").dropna(how="all")
    if scores.empty:
        return Decision(env, "score")
    # A single seed is nobody's best where others have more: it would tie with everything.
    counted = scores[scores.notna().sum(axis=1) >= min(2, scores.notna().sum(axis=1).max())]
    compared = sequential_comparison(runs)
    among = (
        leaders(counted.to_numpy(), larger_is_better=True) if compared is None else counted.index.isin(compared.leaders)
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
    chosen, chosen_by = _choose(leading, same, values, saturated, finished, table)
    claim = evidence.claims.get(env)
    if claim is not None and claim.config in leading:  # a recommendation stands as long as none is better
        chosen, chosen_by = claim.config, "claim"
    order, leading = _first(chosen, order), _first(chosen, leading)
    alone = _single(scores, order)
    rivals = [c for c in order if c != chosen]
    rivals = [c for c in rivals if c not in alone] or rivals
    runner_up = next((c for c in rivals if c not in same), rivals[0] if rivals else None)
    difference, spread, df, common = _compare(values, chosen, runner_up, sign)
    matters = _MATTERS * abs(float(means[chosen])) if saturated else delta
    is_open = runner_up is not None and runner_up in leading and runner_up not in same
    alpha, likely = (1 - CONFIDENCE) / max(1, num_compared - 1), _likely(spread, df)
    telling = (np.inf, np.inf) if runner_up is None else (0.0, 0.0)
    to_equivalence = (0.0, 0.0)
    if is_open:
        telling = _least_and_most(lambda each: seeds_needed(matters, each, alpha), likely)
    if is_open and np.isfinite(delta):
        to_equivalence = _least_and_most(lambda each: seeds_for_equivalence(0.0, each, delta, alpha), likely)
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


def _choose(
    leading: list[str],
    same: list[str],
    values: pd.DataFrame,
    saturated: bool,
    finished: pd.DataFrame,
    table: pd.DataFrame,
) -> tuple[str, str]:
    """The leader to use, and what singled it out: surest, then cheapest, then best all the way,
    as far as a standard error can tell.

    Where some are practically the same as the best, it is one of these.
    """

    def near(configs: list[str]) -> list[str]:
        return _near(configs, values, smallest=saturated)

    def crash_least(configs: list[str]) -> list[str]:
        crashed = table.loc[configs, "num_crashed"] / table.loc[configs, "num_seeds"]
        return [c for c in configs if crashed[c] == crashed.min()]

    def surest(configs: list[str]) -> list[str]:
        failing = table.loc[configs, "failure_probability"]
        return [c for c in configs if failing[c] == failing.min()]

    left, by = [c for c in leading if c in same] or leading, "rank"
    steps = [("crashes", crash_least), ("reliability", surest)]
    if not same:
        # A time to target says nothing of a seed that loses it again: who ends there comes first.
        steps.insert(2 if saturated else 0, ("rank", near))
    for name, step in steps:
        if len(left) > 1:
            left, by = step(left), name
    if len(left) == 1:
        return left[0], by
    if len(trials_by_kind(finished)) > 1:
        return max(left, key=lambda c: (table.loc[c, "auc"], -left.index(c))), "auc_of_kinds"
    cost = "seconds_to_target" if table.loc[left, "seconds_to_target"].notna().all() else "train_s"
    cheap = _near(left, by_seed(finished, cost), smallest=True)
    return max(cheap, key=lambda c: (table.loc[c, "auc"], -cheap.index(c))), "cost" if len(cheap) == 1 else "auc"


def _near(configs: list[str], values: pd.DataFrame, smallest: bool) -> list[str]:
    """Those whose mean is less than a standard error off the best mean;
    one seed of n that collapses is off by exactly one.
    """
    means = values.reindex(configs).mean(axis=1) * (1 if smallest else -1)
    if means.isna().all():
        return configs
    best = str(means.idxmin())
    off, se = means - means[best], _standard_errors(values.reindex(configs))[best].fillna(0.0)
    return [c for c in configs if c == best or off[c] == 0 or off[c] < (1 - 1e-9) * se[c]]


def _standard_errors(values: pd.DataFrame) -> pd.DataFrame:
    """Of the mean differences between all configurations, a row and a column each; NaN on the diagonal."""
    first, second, pairs = paired_differences(values.to_numpy())
    errors = np.full((len(values), len(values)), np.nan)
    errors[first, second] = errors[second, first] = pairs.se
    return pd.DataFrame(errors, values.index, values.index)


def _compare(values: pd.DataFrame, chosen: str, runner_up: str | None, sign: float) -> tuple[float, float, float, int]:
    """Mean difference, its spread over seeds with its degrees of freedom, and the number of common seeds."""
    if runner_up is None:
        return np.nan, np.nan, np.nan, 0
    difference = sign * (values.loc[chosen] - values.loc[runner_up])
    common = int(difference.notna().sum())
    first, second, pairs = paired_differences(values.to_numpy())
    i, j = sorted(values.index.get_indexer([chosen, runner_up]))
    (at,) = np.flatnonzero((first == i) & (second == j))
    return float(difference.mean()), float(pairs.se[at] * np.sqrt(common)), float(pairs.df[at]), common


def _expected(leading: list[str], counted: pd.DataFrame, row: pd.Series, bounds: tuple[float, float]) -> Interval:
    """The mean score of the first of the leaders, moved towards those of the others, with its interval."""
    found = moderated_intervals(counted.to_numpy())
    at = counted.index.get_indexer(leading)
    estimate = float(shrunken(found.estimate[at], found.se[at])[0])
    low, high = (float(row[f"score{end}"] + estimate - row["score"]) for end in ("_low", "_high"))
    return Interval(estimate, max(low, bounds[0]), min(high, bounds[1]))


def _likely(spread: float, df: float) -> tuple[float, float]:
    """The 80% interval of a spread that was estimated."""
    low, high = (float(spread * np.sqrt(df / chi2_quantile(share, df))) for share in (0.9, 0.1))
    return low, high


def _least_and_most(seeds: Callable[[float], float], spreads: tuple[float, float]) -> tuple[float, float]:
    low, high = (float(np.ceil(seeds(spread))) for spread in spreads)
    return low, high
