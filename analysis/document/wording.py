"""The answers to the questions, in Markdown sentences."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from analysis.evidence import conclusive
from analysis.plots.text import setting
from analysis.questions.bottleneck import UNKNOWN
from analysis.questions.convergence import by_seed, pairwise, speed_ratio, summarise
from analysis.questions.diagnosis import by_configuration
from analysis.questions.health import HealthSignal
from analysis.questions.labels import (
    FORMS,
    WORDS,
    code,
    interval_of,
    listed,
    named,
    percent,
    shown,
    trials_named,
    with_interval,
)
from analysis.questions.memory import differing
from analysis.questions.rules import RulesFound
from analysis.questions.runners import ENVS, RUNNERS, differ_in_runners, total_envs
from analysis.questions.scaling_laws import HeldOut, ScalingFit, units_of
from analysis.stats.interval import CONFIDENCE, Interval
from analysis.stats.law_posterior import LAWS
from analysis.stats.tolerance import CONTENT, fewest_seeds
from experiments.contract.words import plural


def settings_named(settings: Mapping[str, object]) -> str:
    """Settings of searched columns in a sentence: `learning rate 3e-4, train batch 4000 env steps`."""
    return ", ".join(setting(axis, value) for axis, value in settings.items())


def within(settings: Mapping[str, object]) -> str:
    """The beginning of a sentence about a part of a study; empty for the whole."""
    return f"With {settings_named(settings)}: " if settings else ""


def limits_sentence(table: pd.DataFrame, counts: Mapping[int, str], units: str) -> str:
    """The bottlenecks of configurations that differ in a count alone: a sentence; "" if that is unknown.

    Args:
        table: As `of_study` gives it.
        counts: Count to configuration.
        units: What is counted, such as `env runners`.
    """
    names = by_configuration(table).set_index("config")["bottleneck"]
    found: list[tuple[str, list[int]]] = []
    for count, config in sorted(counts.items()):
        name = str(names.get(config, UNKNOWN))
        if not found or found[-1][0] != name:
            found.append((name, []))
        found[-1][1].append(count)
    if all(name == UNKNOWN for name, _ in found):
        return ""
    told = ", ".join(f"{name} with {listed([str(count) for count in those])}" for name, those in found)
    return f"The bottleneck as {units} are added: {told}."


def bottleneck_sentences(table: pd.DataFrame) -> list[str]:
    """The bottlenecks of the configurations of a study: a Markdown sentence a bottleneck, the most frequent first,
    with the evidence for one.

    Args:
        table: As `of_study` gives it.
    """
    configs = by_configuration(table)
    found = []
    for name in configs["bottleneck"].value_counts(sort=True).index:
        mine = configs[configs["bottleneck"] == name]
        if name == UNKNOWN:
            found.append(f"What binds {named(list(mine['config']))} is unknown. {mine.iloc[0]['evidence']}")
            continue
        clearest = mine.sort_values("share", ascending=False, kind="stable").iloc[0]
        agree, trials = int(mine["num_agree"].sum()), int(mine["num_trials"].sum())
        head = f"**{name}** in {agree} of {trials} trials: {named(list(mine['config']))}."
        lead = f"{code(clearest['config'])}: " if len(mine) > 1 else ""
        found.append(f"{head} {lead}{clearest['evidence']} {clearest['advice']}".strip())
    return found


def health_sentences(table: pd.DataFrame) -> list[str]:
    """The health signals of a study: a Markdown sentence for each key, warnings first,
    with the first trial's words.

    Args:
        table: As `of_study` gives it.
    """
    found = []
    for harmless in (False, True):
        keys = Counter(signal.key for signals in table["signals"] for signal in signals if signal.harmless == harmless)
        for key in keys:
            has = table["signals"].map(
                lambda signals, key=key, harmless=harmless: _signal(signals, key, harmless) is not None
            )
            trials = table[has]
            example = _signal(trials.iloc[0]["signals"], key, harmless)
            name = key.replace("_", " ").capitalize()
            shown = f"**{name}**" if not harmless else name
            words = example.sentence if example else ""
            found.append(f"{shown} in {len(trials)} of {len(table)} trials ({trials_named(trials)}). {words}".strip())
    return found


def memory_sentences(runs: pd.DataFrame, predicted_mib: Mapping[str, float]) -> list[str]:
    """Where trials took other than the memory that was predicted of them, a Markdown sentence.

    Args:
        runs: As in `Study.runs`.
        predicted_mib: As in `Study.predicted_mib`.
    """
    found = differing(runs, predicted_mib)
    if found.empty:
        return []
    config, predicted, measured, count = found.iloc[0][["config", "predicted", "measured", "num_trials"]]
    others = f", and so {plural(len(found) - 1, 'other configuration')}" if len(found) > 1 else ""
    return [
        f"Memory: trials of {config} took up to {measured:,.0f} MiB (peak of {plural(count, 'trial')}), where "
        f"{predicted:,.0f} MiB were predicted{others}. The next grid of the same configurations in this store goes by "
        "what was measured."
    ]


def _signal(signals: Sequence[HealthSignal], key: str, harmless: bool) -> HealthSignal | None:
    return next((signal for signal in signals if signal.key == key and signal.harmless == harmless), None)


def rules_sentence(found: RulesFound, what: str = "rule") -> str:
    """Which rules, or whatever was compared at each batch, the data reject by a measure, and by how much."""
    form, pairs, words = FORMS[found.measure], found.pairs, WORDS[found.measure]
    if pairs.empty or not np.isfinite(pairs["p_adjusted"]).any():
        return (
            f"By {words}, {what}s cannot be compared: it takes two of them at the same batch, with two seeds in common."
        )
    told = (
        pairs[pairs["p_adjusted"] < 1 - CONFIDENCE]
        .sort_values("difference")
        .groupby("worse")
        .tail(1)
        .set_index("worse")
    )
    clauses = [
        f"{rule} (at batch {told.loc[rule, 'batch']:,} it is {shown(interval_of(told.loc[rule], 'difference'), form)} "
        f"below {told.loc[rule, 'better']})"
        for rule in found.rejected
    ]
    verdict = f"the data reject {listed(clauses)}" if clauses else f"the data reject no {what}"
    left = f", and not {listed(found.kept)}" if clauses and found.kept else ""
    rests = (
        f"{pairs['num_seeds'].min()} matched seeds; differences with 95% intervals; Holm over {len(pairs)} pairs, 5%"
    )
    text = f"By {words}, {verdict}{left} ({rests})."
    if found.to_base.empty:
        return text
    far = found.to_base.sort_values("difference", key=abs).groupby("rule", sort=False).tail(1).sort_values("rule")
    told_far = [
        f"{row['rule']} {shown(interval_of(row, 'difference'), '+' + form)} at {row['batch']:,}"
        for row in far.to_dict("records")
    ]
    return f"{text} Farthest from the base point: {'; '.join(told_far)}."


def same_learning(runs: pd.DataFrame, axes: Sequence[str]) -> list[tuple[Mapping[str, object], str]]:
    """The effect of more runners; nothing where runners were not searched.

    Configurations that differ in their runners alone are compared on their common seeds, by the area under the learning
    curve and by the score. With as many environments in all, more runners should change the speed alone.

    Args:
        runs: Of one environment, trained to a budget.
        axes: The searched columns of `runs`.

    Returns:
        The other searched columns with the values that all compared configurations have, and a paragraph.
    """
    return [(settings, _same_learning(trials)) for settings, trials in differ_in_runners(runs, axes)]


def _same_learning(trials: pd.DataFrame) -> str:
    totals, counts = total_envs(trials), ", ".join(map(str, sorted(trials[RUNNERS].astype(int).unique())))
    sentences = []
    for measure in ("auc", "score"):
        pairs = pairwise(trials, measure).dropna(subset="difference")
        if pairs.empty or not np.isfinite(pairs["p"]).any():
            continue
        widest = pairs.loc[pairs["difference"].abs().idxmax()]
        different = int((pairs["p_adjusted"] < 1 - CONFIDENCE).sum())
        told = (
            f"{different} of {len(pairs)} pairs are significantly different (Holm, 5%)"
            if different
            else "no two are significantly different"
        )
        sentences.append(
            f"By {WORDS[measure]}, {told}: the largest difference in {WORDS[measure]}, "
            f"between {code(widest['config_a'])} and {code(widest['config_b'])}, "
            f"is {shown(interval_of(widest, 'difference'), FORMS[measure])} over {widest['num_seeds']} seeds."
        )
    if not sentences:
        return f"Whether {counts} env runners learn alike cannot be tested with a single seed each."
    if trials["exclusive"].all():  # else speeds say little
        speeds = summarise(trials).set_index("config")
        slow, fast = (speeds.loc[at(speeds["env_steps_per_s"])] for at in (pd.Series.idxmin, pd.Series.idxmax))
        sentences.append(
            f"Throughput ranges from {with_interval(slow, 'env_steps_per_s')} env steps/s ({code(slow.name)}) to "
            f"{with_interval(fast, 'env_steps_per_s')} ({code(fast.name)})."
        )
    if totals.nunique() == 1:
        reading = f"{int(totals.iloc[0])} environments in all, whatever the runners"
        sentences.append(
            "Their fragments and their streams of random numbers differ all the same, "
            "so curves differ from seed to seed."
        )
    else:
        reading = f"{int(trials[ENVS].iloc[0])} environments a runner"
    return " ".join([f"{counts} env runners, {reading}.", *sentences])


def fit_sentence(fit: ScalingFit) -> str:
    """How throughput grows with a count, and where more of it stops paying."""
    (one, units), counts = units_of(fit.axis), fit.counts["num"]
    tried = ", ".join(f"{count:g}" for count in counts)
    text = (
        f"One {one} gives {_with_ends(fit.lam, _speed)} env steps/s (95% intervals, {plural(fit.num_seeds, 'seed')} "
        f"at {tried} {units}); the data {'need' if fit.law == 'usl' else 'do not reject'} {LAWS[fit.law]}, "
        f"with contention {_with_ends(fit.sigma, _small)} and coherency {_with_ends(fit.kappa, _small)}."
    )
    if not np.isfinite(fit.knee.estimate):
        least = f" (at least {_counted(fit.knee.low)})" if np.isfinite(fit.knee.low) else ""
        text += f" One more {one} brings at least half of what the first brought as far as can be seen{least}."
    else:
        beyond = ", beyond what was measured" if fit.knee.estimate > counts.iloc[-1] else ""
        text += (
            f" Up to {_with_ends(fit.knee, _counted)} {units} one more brings at least half of what "
            f"the first brought{beyond}."
        )
    if not np.isfinite(fit.peak.estimate):
        least = f": it is at {_counted(fit.peak.low)} {units} or more" if np.isfinite(fit.peak.low) else ""
        text += f" No peak is within sight{least}."
    else:
        height = _with_ends(fit.peak_env_steps_per_s, _speed)
        text += f" Throughput peaks at {_with_ends(fit.peak, _counted)} {units} with {height} env steps/s."
    if fit.reasons:
        head = "Mind that" if fit.can_tell else f"How many {units} are enough can't be told from these data:"
        text += f" {head} {'; '.join(fit.reasons)}."
    return text


def tolerance_sentence(summary: pd.DataFrame) -> str:
    """The score that most seeds of each configuration reach, or how many seeds it takes to say so.

    Args:
        summary: As `answer.closing_table` gives it; one row or more with seeds that ended.
    """
    share, most = percent(CONTENT), int(summary["num_ended"].max())
    known = summary[summary["score_tolerance"].notna()]
    if known.empty:
        needed = fewest_seeds()
        return (
            f"What {share} of seeds reach at least takes {needed} seeds to say ({percent(CONFIDENCE)} confidence); "
            f"these are {most}."
        )
    bounds = [
        f"{row['score_tolerance']:.1f} with {code(row['config'])} ({row['num_ended']} seeds)"
        if np.isfinite(row["score_tolerance"])
        else f"nothing with {code(row['config'])}, whose seeds crash too often ({row['num_ended']} seeds)"
        for row in known.to_dict("records")
    ]
    return (
        f"With {percent(CONFIDENCE)} confidence {share} of seeds reach at least {listed(bounds)}: "
        "distribution-free lower tolerance bounds."
    )


def own_process_sentence(runs: pd.DataFrame, own: str, best: str, axis: str) -> str:
    """How fast the trial's own process is, beside the fastest count of others.

    Args:
        runs: Of one environment.
        own: The configuration without any of what is counted.
        best: The fastest of those with one or more.
        axis: What was counted.
    """
    matrix = by_seed(conclusive(runs), "env_steps_per_s")
    ratio, num_seeds = speed_ratio(matrix, own, best)
    means = summarise(runs).set_index("config")
    one, units = units_of(axis)
    num = int(conclusive(runs).set_index("config").loc[[best], axis].iloc[0])
    return (
        f"Without {units}, in the trial's own process, it is {with_interval(means.loc[own], 'env_steps_per_s')} "
        f"env steps/s: {_with_ends(ratio, lambda value: f'{value:.2f}')} times the fastest count, "
        f"{num} {one if num == 1 else units} ({plural(num_seeds, 'common seed')}). It is no count: "
        "no law is fitted to it, and an efficiency it has none."
    )


def held_out_sentence(found: HeldOut) -> str:
    """The prediction of the count that was left out, and what was measured there."""
    predicted = Interval(found.env_steps_per_s, found.low, found.high)
    verdict = (
        f", {'inside' if found.inside else 'outside'} the 95% prediction interval" if np.isfinite(found.low) else ""
    )
    text = (
        f"Fitted up to {found.largest_fitted} {units_of(found.axis)[1]}, the laws predict "
        f"{_with_ends(predicted, _speed)} env steps/s at {found.num}; measured were {_speed(found.measured)} "
        f"({plural(found.num_seeds, 'seed')}): the prediction is {abs(found.error_percent):.1f}% too "
        f"{'high' if found.error_percent > 0 else 'low'}{verdict}."
    )
    return f"{text} This tells little: {'; '.join(found.reasons)}." if found.reasons else text


def _with_ends(found: Interval, form: Callable[[float], str]) -> str:
    ends = f" [{form(found.low)}, {form(found.high)}]" if found.low == found.low else ""
    return form(found.estimate) + ends


def _counted(value: float) -> str:
    return f"{value:,.0f}" if np.isfinite(value) else "beyond sight"


def _speed(value: float) -> str:
    if not np.isfinite(value):
        return "no limit"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _small(value: float) -> str:
    return f"{value:.2g}"
