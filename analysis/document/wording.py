"""What the questions found, in Markdown sentences."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.plots.text import setting
from analysis.questions.bottleneck import UNKNOWN
from analysis.questions.diagnosis import by_configuration
from analysis.questions.health import HealthSignal
from analysis.questions.labels import code, named, trials_named


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
    told = ", ".join(f"{name} with {' and '.join(', '.join(map(str, those)).rsplit(', ', 1))}" for name, those in found)
    return f"The bottleneck as {units} are added: {told}."


def bottleneck_sentences(table: pd.DataFrame) -> list[str]:
    """What binds the configurations of a study: a Markdown sentence a bottleneck, the most frequent first, with the evidence for one.

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
    """What the health signals of a study say: a Markdown sentence for each key, warnings first, with the first trial's words.

    Args:
        table: As `of_study` gives it.
    """
    found = []
    for harmless in (False, True):
        keys = Counter(signal.key for signals in table["signals"] for signal in signals if signal.harmless == harmless)
        for key in keys:
            has = table["signals"].map(lambda signals, key=key, harmless=harmless: _signal(signals, key, harmless) is not None)
            trials = table[has]
            example = _signal(trials.iloc[0]["signals"], key, harmless)
            name = key.replace("_", " ").capitalize()
            shown = f"**{name}**" if not harmless else name
            words = example.sentence if example else ""
            found.append(f"{shown} in {len(trials)} of {len(table)} trials ({trials_named(trials)}). {words}".strip())
    return found


def _signal(signals: Sequence[HealthSignal], key: str, harmless: bool) -> HealthSignal | None:
    return next((signal for signal in signals if signal.key == key and signal.harmless == harmless), None)
