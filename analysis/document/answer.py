"""A study's answer in words: what to use, and how sure that is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.document import confirmation, constraints, sequential
from analysis.document.forecast import if_longer
from analysis.document.product import of_layouts
from analysis.document.repeats import sameness
from analysis.evidence import MEASURES, OF_OBJECTIVES, SPEEDS, TO_COME, Evidence, once
from analysis.plots.text import level
from analysis.questions.confirmation import confirmation_of, rivals_of
from analysis.questions.decision import Decision, decision_of, decisions_of, summary_of
from analysis.questions.equivalence import FRACTION_OF_RANGE
from analysis.questions.labels import (
    FORMS,
    WORDS,
    code,
    fails,
    in_its_unit,
    listed,
    named,
    shares,
    shown,
    with_interval,
    with_name,
)
from analysis.questions.product import product_of
from analysis.questions.sequential import sequential_comparison
from analysis.stats.interval import CONFIDENCE
from experiments.contract.words import plural


@dataclass(frozen=True)
class Answer:
    """The answer for one environment, as Markdown sentences.

    Attributes:
        decision: What it rests on.
        headline: What to use, what it comes to, and whether anything else is as good.
        because: More of its numbers.
        certainty: Why this one of those that are as good; or the next best.
        compared: What a sequential comparison showed; empty in other studies.
        constraints: How many configurations keep the constraints of the study, and what these cost; empty without any.
        layouts: What other layouts are predicted to take, of a search that measured them; empty in other studies.
        longer: What twice the env steps are expected to bring, where the return still rises; empty elsewhere.
        repeats: Whether it came out the same when it was run again; empty if each seed was run once.
        confirmed: Whether fresh seeds bear out what another study recommended; None where that was not asked.
    """

    decision: Decision
    headline: str
    because: str
    certainty: str
    compared: str = ""
    constraints: str = ""
    layouts: str = ""
    longer: str = ""
    repeats: str = ""
    confirmed: bool | None = None

    @property
    def _parts(self) -> list[str]:
        parts = (
            self.headline,
            self.constraints,
            self.layouts,
            self.because,
            self.certainty,
            self.compared,
            self.longer,
            self.repeats,
        )
        return [part for part in parts if part]

    def markdown(self) -> str:
        """All of it in one paragraph."""
        first, *others = self._parts
        return " ".join([f"**{first}**", *others])

    def lines(self) -> list[str]:
        """The same without marks, a line for each part."""
        return [part.replace("`", "") for part in self._parts]


def answers(evidence: Evidence) -> list[Answer]:
    """One answer for each environment of a study.

    Args:
        evidence: All its trials; without curves, nothing is said of more env steps, and repeats of a seed are
            compared by their final weights and final evaluations alone.
    """
    concluding = evidence.concluding
    if concluding.runs.empty:
        return [_unconfirmed(env) for env in evidence.of_envs]
    several = len(concluding.of_envs) > 1
    found = []
    for env, own in concluding.of_envs.items():
        product = product_of(evidence.of_envs[env])
        same, compared = sameness(own.runs, own.curves), sequential_comparison(own.runs)
        confidence = CONFIDENCE if compared is None else 1 - compared.design.alpha
        answer = _confirmed(own, several) or _answer(own, several, confidence)
        told = "" if compared is None else " ".join(sequential.sentences(compared))
        layouts = "" if product is None else of_layouts(product, str(answer.decision.chosen))
        repeats = same[0] if same else ""
        found.append(replace(answer, compared=told, layouts=layouts, longer=if_longer(own), repeats=repeats))
    return found


def _rates(runs: pd.DataFrame, config: str | None) -> str:
    """The learning rates of a configuration that is named by their common multiple:
    ` (actor_lr=1e-3, critic_lr=1e-3)`.
    """
    if config is None or "lr_multiple" not in runs:
        return ""
    row = runs[runs["config"] == config].iloc[0]
    rates = [f"{name}={level('lr', row[name])}" for name in runs if name == "lr" or str(name).endswith("_lr")]
    return f" ({', '.join(rates)})"


def _unconfirmed(env: str) -> Answer:
    return Answer(
        Decision(env, "score"), "No answer yet: nothing that the search found was confirmed on held-out seeds.", "", ""
    )


@once
def closing_table(evidence: Evidence) -> pd.DataFrame:
    """The summary of all configurations, the chosen one first, then best first, environments in turn.

    Args:
        evidence: All trials, or those that conclusions rest on.

    Returns:
        As `convergence.summarise` and `failures.failures`, with `leader`: not significantly different from the best, or
        practically the same; `chosen`; and `decided_by`, the measure.
    """
    decided = decisions_of(evidence.concluding)
    ranks = {config: rank for rank, config in enumerate(config for d in decided for config in _ranked(d))}
    table = summary_of(evidence.concluding)
    table = table.assign(
        leader=table["config"].isin([c for d in decided for c in d.leaders]),
        chosen=table["config"].isin([d.chosen for d in decided]),
        decided_by=table["env"].map({d.env: d.measure for d in decided}),
    )
    rank = table["config"].astype(object).map(ranks).fillna(len(ranks)).astype(int)
    return table.iloc[np.argsort(rank, kind="stable")].reset_index(drop=True)


def _ranked(decision: Decision) -> list[str]:
    """All configurations with a finished seed: after those that keep the constraints of a study the others."""
    return list(dict.fromkeys([*decision.order, *(decision.free.order if decision.free else ())]))


def best_metrics(table: pd.DataFrame) -> dict[str, float]:
    """The chosen configuration's numbers under the names by which MLflow's table of studies can be sorted.

    Args:
        table: A `closing_table` with one environment.
    """
    row = table[table["chosen"]].iloc[0]
    measures = [m for m in MEASURES if m not in OF_OBJECTIVES or m == row["decided_by"]]
    names = [f"{measure}{end}" for measure in (*measures, "failure_probability") for end in ("", "_low", "_high")]
    values = {f"best/{name}": float(row[name]) for name in (*names, "score_min", "num_seeds", "num_reached")}
    return {name: value for name, value in values.items() if np.isfinite(value)}


def _answer(own: Evidence, several: bool, confidence: float) -> Answer:
    decision, summary = decision_of(own), summary_of(own).set_index("config")
    where = f"On {decision.env}: " if several else ""
    lacking = _provisional(own)
    if decision.chosen is None and decision.free and decision.free.chosen:
        none = f"{where}{lacking}No answer: no configuration keeps the constraints, {constraints.at_most(own)}."
        return Answer(decision, none, "", "", constraints="" if lacking else constraints.cost(own, decision))
    if decision.chosen is None:
        why = "no trial finished" if summary["num_seeds"].eq(0).all() else "no trial ended with a finite score"
        return Answer(decision, f"{where}No answer: {why}.", "", "")
    row, name = summary.loc[decision.chosen], code(decision.chosen)
    first = f"{where}{lacking}{_missed(summary, own.is_measured, float(own.runs['score_range_low'].iloc[0]))}"
    alone = len(_ranked(decision)) == 1
    result, numbers = f"{_result(decision, row, alone)}.", _numbers(decision, row, alone)
    left = "" if decision.free is None else constraints.kept(own)
    if alone:
        only = "is the only configuration" if own.searched is None else "is the only one confirmed"
        return Answer(decision, f"{first}{name} {only}: {result}", numbers, "", constraints=left)
    word = "The best so far is" if lacking else _use(decision, row)
    use = f"{first}{word} {name}{_rates(own.runs, decision.chosen)}: {result}"
    if lacking:
        return Answer(decision, use, numbers, "", constraints=left)
    told = left and f"{left} {constraints.cost(own, decision)}"
    others = _others(decision, summary, confidence)
    return Answer(decision, f"{use} {_standing(decision, summary)}", numbers, others, constraints=told)


def _confirmed(own: Evidence, several: bool) -> Answer | None:
    """The answer of a study on fresh seeds: whether what another one recommended holds; None of other studies."""
    found = confirmation_of(own)
    if found is None:
        return None
    where = f"On {found.env}: " if several else ""
    told, row = f"{where}{_provisional(own)}{confirmation.sentence(found)}", summary_of(own).set_index("config").loc
    numbers = _numbers(decision_of(own), row[found.claim.config], alone=False) if found.num_seeds else ""
    return Answer(decision_of(own), told, numbers, "", confirmed=found.confirmed)


def _provisional(own: Evidence) -> str:
    """Of a study that is not whole, a sentence that comes before everything else; "" of others."""
    seeds = own.replicates
    if not seeds["status"].isin(TO_COME).any():
        return ""
    there = seeds[seeds["status"] == "finished"]
    configs = f"{there['config'].nunique()} of {plural(seeds['config'].nunique(), 'configuration')}"
    return f"Provisional, as {configs} and {len(there)} of {plural(len(seeds), 'trial')} have data. "


def _missed(summary: pd.DataFrame, measured: bool, lowest: float) -> str:
    """Where the target was held by no seed, a sentence that comes before everything else."""
    first = summary.iloc[0]
    if np.isnan(first["target"]) or measured or summary[["num_reached", "num_at_end"]].to_numpy().any():
        return ""
    learns = f"No seed of any configuration reaches the target of {first['target']:g}"
    near_lowest = float(summary["score"].max()) - lowest < FRACTION_OF_RANGE * (float(first["target"]) - lowest)
    return f"{learns}, and none of them learns: all score about as low as possible. " if near_lowest else f"{learns}. "


def _use(decision: Decision, row: pd.Series) -> str:
    """Words for the choice: one that a single seed speaks for, or that never comes to the target, is not to be used."""
    if decision.chosen in decision.uncompared:
        return "The best so far is"
    missed = (
        decision.measure == "score" and not np.isnan(row["target"]) and not (row["num_reached"] or row["num_at_end"])
    )
    return "The best is" if missed else "Use"


def _result(decision: Decision, row: pd.Series, alone: bool) -> str:
    """What a configuration comes to, a clause.

    One that has nobody to borrow spread from has its median, between order statistics; one that was picked of several
    that are about as good what is to be expected of it.
    """
    seeds, num_seeds = _seeds(row), row["num_seeds"]
    if decision.measure in OF_OBJECTIVES:
        return f"{_OBJECTIVE[decision.measure].format(in_its_unit(row, decision.measure))}, by {seeds}"
    if decision.measure == "env_steps_per_s":
        return f"{with_interval(row, 'env_steps_per_s')} env steps/s"
    if np.isnan(row["target"]) or not (row["num_reached"] or row["num_at_end"]):
        if alone:
            return f"median score {with_interval(row, 'score_median')} over {seeds}"
        if decision.expected is None:
            return f"{'score' if num_seeds == 1 else 'mean score'} {with_interval(row, 'score')} over {seeds}"
        return f"expected score {shown(decision.expected, FORMS['score'])}, by {seeds}"
    told = f"{row['num_at_end']} of {seeds} {'ends' if num_seeds == 1 else 'end'} at {row['target']:g} or above"
    if row["num_reached"] == num_seeds:
        return f"{told}, after {with_interval(row, 'env_steps_to_target')} env steps"
    return told if row["num_reached"] <= row["num_at_end"] else f"{told}, {row['num_reached']} held it in training"


def _standing(decision: Decision, summary: pd.DataFrame) -> str:
    """Whether anything else is as good, a sentence or two."""
    if decision.chosen in decision.uncompared:
        return f"With a single {_repeat(decision)} each, no difference is shown."
    same, crashed = _same(decision), [c for c in rivals_of(decision) if summary.loc[c, "num_crashed"]]
    rivals = [c for c in rivals_of(decision) if c not in crashed]
    if same or rivals or crashed:
        numbers = summary if len(same) + len(rivals) <= _MOST_WITH_NUMBERS else None
        told = [f"{_are(same, decision, numbers)} practically the same, within {decision.delta:.4g}."] if same else []
        told += [f"{_are(rivals, decision, numbers)} not significantly different."] if rivals else []
        told += [f"{listed([_crashes(c, summary.loc[c]) for c in crashed])}: not told apart."] if crashed else []
        return " ".join(told)
    if len(decision.order) == 1:
        return "It is the only one that keeps the constraints."
    among = decision.num_solving if decision.saturated else len(decision.order) - len(decision.uncompared)
    if among < 2:
        return "No other has seeds enough to be compared."
    one = among == 2
    others = "The other one" if one else f"The {among - 1} others"
    if decision.saturated:
        others += " that solves it" if one else " that solve it"
    elif decision.uncompared:
        others += " that was compared" if one else " that were compared"
    if decision.free:
        others += " within the constraints"
    return f"{others} {_WORSE[decision.measure][one]}."


def _are(configs: Sequence[str], decision: Decision, numbers: pd.DataFrame | None) -> str:
    """Configurations and their verb, with their numbers where there are few."""
    words = named(configs)
    if numbers is not None:
        words = listed([f"{code(c)} ({with_name(numbers.loc[c], decision.measure)})" for c in configs])
    return f"{words} {'is' if len(configs) == 1 else 'are'}"


def _repeat(decision: Decision) -> str:
    """What is one of several of a configuration."""
    return "measurement" if decision.measure in SPEEDS else "seed"


def _crashes(config: str, row: pd.Series) -> str:
    crashed = f"{row['num_crashed']} of {row['num_seeds']} seeds"
    return f"{code(config)} crashes on {crashed}, its best score {row['score_max']:.1f}"


_OBJECTIVE = {
    "minutes_to_target": "target in {}, starting included",
    "cost_to_target": "target for {}, starting included",
    "score_in_minutes": "score {} in the minutes given, starting included",
}
"""What a configuration comes to by an objective; evaluations and reports are left out of all of them."""


_WORSE = {
    "score": ("are significantly worse", "is significantly worse"),
    "env_steps_to_target": ("take significantly longer", "takes significantly longer"),
    "env_steps_per_s": ("are significantly slower", "is significantly slower"),
    "minutes_to_target": ("take significantly longer", "takes significantly longer"),
    "cost_to_target": ("cost significantly more", "costs significantly more"),
    "score_in_minutes": ("are significantly worse", "is significantly worse"),
}
"""By a measure; of several, of one."""


def _numbers(decision: Decision, row: pd.Series, alone: bool) -> str:
    if decision.measure == "env_steps_per_s":
        return f"Env steps/s are a geometric mean of {_seeds(row)}."
    crashed = f", {row['num_crashed']} of which crashed" if row["num_crashed"] else ""
    worst = f"{crashed}, the worst {row['score_min']:.1f}" if row["num_seeds"] > 1 else crashed
    score, name = ("score_median", "Median score") if alone else ("score", "Mean score")
    name = name if row["num_seeds"] > 1 else "Score"
    words = [f"{name} {with_interval(row, score)} ({_seeds(row)}{worst})"]
    if row["num_seeds"] > 1 and row["score_min"] == row["score"]:
        words = [f"All {row['num_seeds']} seeds score {row['score']:.1f}"]
    words.append(
        f"{row['num_failures']} of {_seeds(row)} {fails(row)}: {shares(row, 'failure_probability')} (Jeffreys)"
    )
    told = row["num_reached"] == row["num_at_end"] == row["num_seeds"]  # in the headline
    if not np.isnan(row["target"]) and not told:
        held = f"held in training by {row['num_reached']} of {_seeds(row)}, at the end by {row['num_at_end']}"
        words.append(
            f"the target of {row['target']:g} is {held if row['num_reached'] or row['num_at_end'] else 'held by none'}"
        )
    if row["num_reached"]:
        at_least = "at least " if row["num_reached"] < row["num_seeds"] else ""
        steps, seconds = (with_interval(row, f"{unit}_to_target") for unit in ("env_steps", "seconds"))
        if told:
            words.append(f"it takes {seconds} s of training (mean)")
        else:
            words.append(f"that takes {at_least}{steps} env steps, {seconds} s of training (means)")
    form = FORMS["score"]
    if decision.expected is not None and f"{decision.expected.estimate:{form}}" != f"{row['score']:{form}}":
        words[0] += (
            f"; fresh seeds are expected to score {decision.expected.estimate:.1f}, "
            f"since it was picked from {len(decision.leaders)} that are about as good (James-Stein)"
        )
    why = f" {decision.num_solving} configurations end at the target with scores that tie: env steps to target decide."
    return f"{'; '.join(words)}.{why if decision.saturated else ''}"


def _seeds(row: pd.Series) -> str:
    return plural(int(row["num_seeds"]), "seed")


def _others(decision: Decision, summary: pd.DataFrame, confidence: float) -> str:
    if decision.chosen in decision.uncompared:
        return f"This one, because {_WHY_CHOSEN[decision.chosen_by].format(alike='about as good')}."
    alone = f" Not compared, with a single {_repeat(decision)}: {named(decision.uncompared)}."
    alone = alone if decision.uncompared else ""
    if len(decision.leaders) > 1:
        same = _same(decision)
        why = _WHY_CHOSEN[decision.chosen_by].format(alike="practically the same" if same else "about as good")
        of = f"{' within the constraints' if decision.free else ''}{' of those compared' if alone else ''}"
        best = f" The best{of} by {WORDS[decision.measure]} is one of these "
        best += f"{len(decision.leaders)} with {100 * confidence:g}% confidence."
        some_are_out = len(decision.leaders) < len(decision.order) - len(decision.uncompared)
        return f"This one, because {why}.{best if some_are_out else ''}{_to_equivalence(decision)}{alone}"
    if decision.runner_up is None or decision.runner_up in decision.uncompared:
        return alone.strip()
    told = with_name(summary.loc[decision.runner_up], decision.measure)
    return f"Next best: {code(decision.runner_up)}, {told}.{alone}"


_WHY_CHOSEN = {
    "rank": "no other is within a standard error of it",
    "value": "no other has a better value",
    "crashes": "among those {alike}, fewer of its seeds crash",
    "reliability": "among those {alike}, fewer of its seeds fail",
    "cost": "among those {alike} it is the cheapest in training seconds",
    "auc": "among those {alike} and as cheap it has the largest area under the learning curve",
    "auc_of_kinds": "among those {alike} it has the largest area under the learning curve (seconds of several kinds "
    "of machine are not compared)",
    "product": "they tie, and over all trials of the search, not these seeds alone, it is the soonest",
    "columns": "no other is at least as good in every column of the table",
    "processes": "among those about as fast it takes the fewest processes",
}
"""`Decision.chosen_by` in words."""
_MOST_WITH_NUMBERS = 2
"""Configurations that are about as good, told with their numbers."""
_MOST_SEEDS = 1000
"""More than these are not told."""


def _same(decision: Decision) -> list[str]:
    return [c for c in decision.equivalent if c != decision.chosen]


def _to_equivalence(decision: Decision) -> str:
    """The seeds that would tell whether the next best one is practically the same: a sentence, after a space;
    "" where scores do not decide, it is shown, or that takes more than anybody would run.
    """
    fewest, most = decision.equivalence_seeds
    if not 0 < most <= _MOST_SEEDS:
        return ""
    number = f"{fewest:,.0f}" if fewest == most else f"{fewest:,.0f} to {most:,.0f}"
    within = f"within {decision.delta:.4g}"
    return f" To show that {code(decision.runner_up)} is {within} of it, if it is, takes {number} seeds of each."
