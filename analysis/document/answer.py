"""A study's answer in words: what to use, how sure that is, and what speaks against it."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.document import sequential
from analysis.document.repeats import sameness
from analysis.evidence import MEASURES, Evidence, once
from analysis.plots.text import level
from analysis.questions.decision import Decision, decision_of, decisions_of, summary_of
from analysis.questions.labels import WORDS, code, fails, named, shares, trials_named, with_interval
from analysis.questions.machines import trials_by_kind
from analysis.questions.sequential import sequential_comparison
from analysis.stats.interval import CONFIDENCE
from analysis.stats.shares import share_interval
from experiments.contract.words import plural

FEW_SEEDS = 5
"""Below it a report warns (Colas et al. 2018, arXiv 1806.08295; Henderson et al. 2017, arXiv 1709.06560)."""


@dataclass(frozen=True)
class Answer:
    """The answer for one environment, as Markdown sentences.

    Attributes:
        decision: What it rests on.
        headline: What to use, and whether anything else is as good.
        because: Its numbers.
        certainty: What is as good, and why this one; or the next best.
        compared: What a sequential comparison showed; empty in other studies.
        repeats: Whether it came out the same when it was run again; empty if each seed was run once.
    """

    decision: Decision
    headline: str
    because: str
    certainty: str
    compared: str = ""
    repeats: str = ""

    @property
    def _parts(self) -> list[str]:
        return [part for part in (self.headline, self.because, self.certainty, self.compared, self.repeats) if part]

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
        evidence: All its trials; without curves, repeats of a seed are compared by their final weights
            and final evaluations alone.
    """
    concluding = evidence.concluding
    if concluding.runs.empty:
        return [_unconfirmed(env) for env in evidence.of_envs]
    several = len(concluding.of_envs) > 1
    found = []
    for own in concluding.of_envs.values():
        same, compared, decided = sameness(own.runs, own.curves), sequential_comparison(own.runs), decision_of(own)
        confidence = CONFIDENCE if compared is None else 1 - compared.design.alpha
        table = summary_of(own).set_index("config")
        answer = _answer(decided, table, several, _rates(own.runs, decided.chosen), confidence)
        told = "" if compared is None else " ".join(sequential.sentences(compared))
        found.append(replace(answer, compared=told, repeats=same[0] if same else ""))
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
        practically the same; and `chosen`.
    """
    decided = decisions_of(evidence.concluding)
    ranks = {config: rank for rank, config in enumerate(config for d in decided for config in d.order)}
    table = summary_of(evidence.concluding)
    table = table.assign(
        leader=table["config"].isin([c for d in decided for c in d.leaders]),
        chosen=table["config"].isin([d.chosen for d in decided]),
    )
    rank = table["config"].astype(object).map(ranks).fillna(len(ranks)).astype(int)
    return table.iloc[np.argsort(rank, kind="stable")].reset_index(drop=True)


def best_metrics(table: pd.DataFrame) -> dict[str, float]:
    """The chosen configuration's numbers under the names by which MLflow's table of studies can be sorted.

    Args:
        table: A `closing_table` with one environment.
    """
    row = table[table["chosen"]].iloc[0]
    names = [f"{measure}{end}" for measure in (*MEASURES, "failure_probability") for end in ("", "_low", "_high")]
    values = {f"best/{name}": float(row[name]) for name in (*names, "score_min", "num_seeds", "num_reached")}
    return {name: value for name, value in values.items() if np.isfinite(value)}


def _answer(decision: Decision, summary: pd.DataFrame, several: bool, rates: str, confidence: float) -> Answer:
    where = f"On {decision.env}: " if several else ""
    if decision.chosen is None:
        why = "no trial finished" if summary["num_seeds"].eq(0).all() else "no trial ended with a finite score"
        return Answer(decision, f"{where}No answer: {why}.", "", "")
    numbers = _numbers(decision, summary)
    if len(decision.order) == 1:
        return Answer(
            decision, f"{where}{_missed(summary)}{code(decision.chosen)} is the only configuration.", numbers, ""
        )
    headline = f"{where}{_missed(summary)}Use {code(decision.chosen)}{rates}{_how_sure(decision, summary)}."
    return Answer(decision, headline, numbers, _others(decision, summary, confidence))


def _missed(summary: pd.DataFrame) -> str:
    """Where the target was held by no seed, a sentence that comes before everything else."""
    target = float(summary["target"].iloc[0])
    if np.isnan(target) or summary[["num_reached", "num_at_end"]].to_numpy().any():
        return ""
    return f"No seed of any configuration reaches the target of {target:g}. "


def _how_sure(decision: Decision, summary: pd.DataFrame) -> str:
    if decision.chosen in decision.uncompared:
        return f": by a single {_REPEAT[decision.measure]} each, which shows no difference"
    alone = len(decision.uncompared)
    among = decision.num_solving if decision.saturated else len(decision.order) - alone
    if len(decision.leaders) > 1:
        same, rivals, compared = len(_same(decision)), len(_rivals(decision)), len(decision.order) - 1 - alone
        same_as, different_from, others = str(same), str(rivals), f" of the {compared} others"
        if compared == 1:
            same_as, different_from, others = "the other", "the other", ""
        others += f" that {'was' if compared == 1 else 'were'} compared" if alone else ""
        words = [f"practically the same as {same_as}"] * bool(same) + [
            f"not significantly different from {different_from}"
        ] * bool(rivals)
        return f", {' and '.join(words)}{others} ({_seeds(summary.loc[decision.chosen])})"
    others, solve = (f"the {among - 1} others", " that solve it") if among > 2 else ("the other", " one that solves it")
    if among < 2:
        return ": no other has seeds enough to be compared"
    which = f" that {'was' if among == 2 else 'were'} compared" if alone else ""
    return f": significantly {_BETTER[decision.measure]} than {others}{solve if decision.saturated else which}"


_REPEAT = {"score": "seed", "env_steps_to_target": "seed", "env_steps_per_s": "measurement"}
"""What is one of several of a configuration, by a measure."""


_BETTER = {"score": "better", "env_steps_to_target": "sooner at the target", "env_steps_per_s": "faster"}
"""By a measure."""


def _numbers(decision: Decision, summary: pd.DataFrame) -> str:
    row = summary.loc[decision.chosen]
    if decision.measure == "env_steps_per_s":
        return f"It samples {with_interval(row, 'env_steps_per_s')} env steps/s (geometric mean of {_seeds(row)})."
    crashed = f", {row['num_crashed']} of which crashed" if row["num_crashed"] else ""
    worst = f"{crashed}, the worst {row['score_min']:.1f}" if row["num_seeds"] > 1 else crashed
    words = [f"Score {with_interval(row, 'score')} (interquartile mean of {_seeds(row)}{worst})"]
    words.append(f"a seed {fails(row)} with a probability of {shares(row, 'failure_probability')}")
    if not np.isnan(row["target"]):
        held = f"held at some time by {row['num_reached']} of {_seeds(row)}, at the end by {row['num_at_end']}"
        words.append(
            f"the target of {row['target']:g} is {held if row['num_reached'] or row['num_at_end'] else 'held by none'}"
        )
    if row["num_reached"]:
        at_least = "at least " if row["num_reached"] < row["num_seeds"] else ""
        steps, seconds = (with_interval(row, f"{unit}_to_target") for unit in ("env_steps", "seconds"))
        words.append(f"that takes {at_least}{steps} env steps, {seconds} s of training (means)")
    why = f" {decision.num_solving} configurations end at the target with scores that tie: env steps to target decide."
    return f"{'; '.join(words)}.{why if decision.saturated else ''}"


def _seeds(row: pd.Series) -> str:
    return plural(int(row["num_seeds"]), "seed")


def _others(decision: Decision, summary: pd.DataFrame, confidence: float) -> str:
    same, rivals = _same(decision), _rivals(decision)
    if decision.chosen in decision.uncompared:
        return (
            f"This one, because {_WHY_CHOSEN[decision.chosen_by].format(alike='about as good')}. "
            f"With a single {_REPEAT[decision.measure]} nothing is known of how they vary, and no difference is shown."
        )
    alone = f" Not compared, with a single {_REPEAT[decision.measure]}: {named(decision.uncompared)}."
    alone = alone if decision.uncompared else ""
    words = [f"Practically the same, within {decision.delta:.4g} of the best score: {named(same)}."] * bool(same)
    words += [f"Not significantly different: {named(rivals)}.{_to_equivalence(decision)}"] * bool(rivals)
    if words:
        why = _WHY_CHOSEN[decision.chosen_by].format(alike="practically the same" if same else "about as good")
        best = f"The best by {WORDS[decision.measure]}{' of those that solve it' if decision.saturated else ''}"
        words.append(
            f"This one, because {why}. {best} {'of those compared ' if alone else ''}is among these "
            f"{len(decision.leaders)} with {100 * confidence:g}% confidence.{alone}"
        )
        return " ".join(words)
    if decision.runner_up is None or decision.runner_up in decision.uncompared:
        return alone.strip()
    word, number = WORDS[decision.measure], with_interval(summary.loc[decision.runner_up], decision.measure)
    return f"Next best: {code(decision.runner_up)}, {word} {number}.{alone}"


_WHY_CHOSEN = {
    "rank": "no other is within a standard error of it",
    "value": "no other has a better value",
    "reliability": "among those {alike}, fewer of its seeds fail",
    "cost": "among those {alike} it is the cheapest in training seconds",
    "auc": "among those {alike} and as cheap it has the largest area under the learning curve",
    "auc_of_kinds": "among those {alike} it has the largest area under the learning curve (seconds of several kinds "
    "of machine are not compared)",
    "processes": "among those about as fast it takes the fewest processes",
}
"""`Decision.chosen_by` in words."""
_MOST_SEEDS = 1000
"""More than these are not counted."""


def _same(decision: Decision) -> list[str]:
    return [c for c in decision.equivalent if c != decision.chosen]


def _rivals(decision: Decision) -> list[str]:
    return [c for c in decision.leaders if c not in (decision.chosen, *decision.equivalent)]


def _to_equivalence(decision: Decision) -> str:
    """The seeds that would show the next best one to be practically the same: a sentence, after a space;
    "" where scores do not decide.
    """
    if not decision.equivalence_seeds:
        return ""
    seeds = decision.equivalence_seeds
    if not np.isfinite(seeds):
        return (
            f" {code(decision.runner_up)} does not look practically the same: the scores differ "
            f"by {decision.delta:.4g} or more."
        )
    number = plural(int(seeds), "more seed") if seeds <= _MOST_SEEDS else f"more than {_MOST_SEEDS:,} more seeds"
    return (
        f" To show that {code(decision.runner_up)} is practically the same, within {decision.delta:.4g}, "
        f"would take about {number} each."
    )


_LEAST = {"num_env_runners": 0.0, "num_learners": 0.0}
"""The smallest value of settings that are counted, where it is not 1: nothing lies beyond."""
_OTHERS_MOST = 25.0
"""Percent of a core that others may use beside a trial that runs alone: what a measurement of throughput allows
(conf/measurement/throughput.yaml)."""


def caveats(evidence: Evidence) -> list[str]:
    """Reasons not to take the answer at its word: Markdown sentences.

    Args:
        evidence: All trials. Of a search, those that confirm count; the others tell what was tried.
    """
    concluding = evidence.concluding
    runs, seeds = concluding.runs, concluding.replicates
    finished = seeds[seeds["status"] == "finished"]
    found: list[str] = []
    if finished.empty:
        return found
    fewest = int(finished.groupby("config", observed=True)["seed"].nunique().min())
    if fewest == 1:
        found.append(
            "A configuration has a single finished seed: it has no interval, and no difference "
            "from it can be significant."
        )
    elif fewest < FEW_SEEDS:
        found.append(
            f"{fewest} seeds are few. The intervals lean on the spread of all configurations together; "
            "one that fails now and then may not have shown it yet."
        )
    spread = finished.groupby("config", observed=True)["score"].agg(["nunique", "count"])
    if fewest > 1 and (spread["nunique"] == 1).all():
        low = 100 * float(share_interval(fewest, fewest)[0])
        found.append(
            "All seeds of a configuration end at the same score, so its interval cannot be estimated. "
            f"{fewest} of {fewest} still leave room for others: at least {low:.0f}% of seeds end there (Wilson, 95%)."
        )
    num_configs = finished["config"].nunique()
    if num_configs > 1 and (finished["phase"] == "confirm").all():
        found.append(
            f"The search never saw these seeds. The recommended configuration is still the best of {num_configs} "
            "on them, which flatters it a little. Fresh seeds tell."
        )
    elif len(runs["config"].unique()) > 1:
        found.append(
            "The recommended configuration was picked for its numbers on these seeds, "
            "so they flatter it. Fresh seeds tell."
        )
    censored = finished["target"].notna() & ~np.isfinite(finished["env_steps_to_target"].astype(float))
    if censored.any() and not censored.all():
        found.append(
            f"{int(censored.sum())} of {len(finished)} finished trials never hold the target. "
            "They count with their whole budget, so times to target of their configurations are lower bounds."
        )
    early = 0 if concluding.is_measured else int((finished["end_env_steps"] < finished["budget_env_steps"]).sum())
    if early:
        found.append(
            f"{early} of {len(finished)} finished trials ended at the target, before their budget: "
            "learning curves and the area under them keep their last return up to the budget."
        )
    if not finished["exclusive"].all():
        found.append(
            "Trials shared the machine: seconds and env steps/s compare configurations of this study roughly, "
            "and nothing beyond it. `hardware.max_concurrent_trials=1` measures them alone."
        )
    found += _contended(evidence)
    if len(kinds := trials_by_kind(runs)) > 1:
        found.append(
            f"Trials ran on {len(kinds)} kinds of machine ({'; '.join(kinds)}): their seconds and env steps/s "
            "are not compared, and the last bits of a result depend on the kind of CPU or GPU."
        )
    found += _disturbed(runs)
    if concluding.is_measured:
        disturbed = finished[finished["disturbed_share"] > 0]
        if len(disturbed):
            found.append(
                f"In {plural(len(disturbed), 'trial')} others used the machine while throughput was measured, "
                f"again and again: {trials_named(disturbed)}. Their speeds are too low. "
                "Measure them again on a quiet machine."
            )
    unclean = (
        0 if concluding.is_measured else finished.loc[~np.isfinite(finished["score"].astype(float)), "config"].nunique()
    )
    if unclean:
        found.append(
            f"{plural(int(unclean), 'configuration')} {'has' if unclean == 1 else 'have'} finished trials without a "
            "finite score; they count as crashed."
        )
    crashed = concluding.counted[concluding.counted["crashed"]]
    if len(crashed):
        found.append(
            f"{plural(len(crashed), 'trial')} crashed: {trials_named(crashed)}. "
            "A crash counts with the lowest score of the environment's range, or of any trial where it has none."
        )
    for decided in decisions_of(concluding):
        found += _edges(evidence, decided)
    return found


def _contended(evidence: Evidence) -> list[str]:
    """Which trials that ran alone had others on their machine: a Markdown sentence, or none."""
    runs, curves = evidence.replicates, evidence.curves
    if evidence.is_measured or curves is None:
        return []
    alone = runs[(runs["status"] == "finished") & runs["exclusive"].astype(bool)]
    used = curves[(curves["metric"] == "system/other_cpu_percent") & curves["run_id"].isin(alone["run_id"])]
    means = used.groupby("run_id", observed=True)["value"].mean()
    disturbed = alone[alone["run_id"].map(means) > _OTHERS_MOST]
    if disturbed.empty:
        return []
    return [
        f"Others used the machine beside {plural(len(disturbed), 'trial')} that ran alone, up to {means.max():.0f}% of "
        f"a core on average ({trials_named(disturbed)}): their seconds are not those of a quiet machine."
    ]


def without_episodes(evidence: Evidence) -> list[str]:
    """Which finished trials never ended an episode while they trained: a Markdown sentence, or none.

    Args:
        evidence: With the curves of `train/episodes`.
    """
    runs, curves = evidence.runs, evidence.curves
    if evidence.is_measured or curves is None:
        return []
    ended = curves.loc[(curves["metric"] == "train/episodes") & (curves["value"] > 0), "run_id"].unique()
    trials = runs[(runs["status"] == "finished") & ~runs["run_id"].isin(ended)]
    if trials.empty:
        return []
    return [
        f"In {plural(len(trials), 'trial')} no episode ended in training, so there is no `train/return_mean`: "
        f"{trials_named(trials)}. Episodes may be longer than the budget leaves them, or than the time between two "
        "checkpoints where environments are reset; an evaluation cuts them at the budget."
    ]


def _disturbed(runs: pd.DataFrame) -> list[str]:
    """Which trials did not run in one go, and which would not come out the same again."""
    again = runs[runs["restarts"] > 0]
    were = f"{plural(len(again), 'trial')} {'was' if len(again) == 1 else 'were'}"
    found = [f"{were} taken up again after a fault or an interruption: {trials_named(again)}."] if len(again) else []
    paused = runs[runs["paused_s"] > 0]
    if len(paused):
        least, most = (f"{seconds:,.0f}" for seconds in (paused["paused_s"].min(), paused["paused_s"].max()))
        found.append(
            f"{plural(len(paused), 'trial')} stood still, with the machine or alone, for "
            f"{least if least == most else f'{least} to {most}'} s: {trials_named(paused)}. "
            "That is left out of all seconds and env steps/s."
        )
    is_reproducible = runs["reproducible"].fillna(True).astype(bool)
    for algorithm, trials in runs[~is_reproducible].groupby("algorithm", sort=False):
        which = (
            f"{plural(len(trials), 'trial')} of {algorithm} ({trials_named(trials)}) "
            f"{'does' if len(trials) == 1 else 'do'}"
        )
        if not is_reproducible[runs["algorithm"] == algorithm].any():
            which = f"The trials of {algorithm} do"
        found.append(
            f"{which} not promise the same bits when run again: the algorithm is asynchronous, "
            "the environments are EnvPool's, something raised once and not again, or a trial went on without the state "
            "that its code had kept in its process."
        )
    return found


def _edges(evidence: Evidence, decision: Decision) -> list[str]:
    """The searched axes at whose end the chosen one is: better ones may lie beyond."""
    found = []
    part = evidence.of_envs[decision.env].runs
    for axis in evidence.axes:
        if decision.chosen is None or axis not in part or not pd.api.types.is_numeric_dtype(part[axis]):
            continue
        tried, at = part[axis].dropna(), part.loc[part["config"] == decision.chosen, axis].iloc[0]
        if at == tried.min() <= _LEAST.get(axis, 1.0 if axis.startswith("num_") else 0.0):
            continue
        if tried.nunique() > 2 and at in (tried.min(), tried.max()):
            end = "smallest" if at == tried.min() else "largest"
            found.append(f"{axis} = {at:g} is the {end} that was tried: a better one may lie beyond.")
    return found
