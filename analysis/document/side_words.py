"""Words on studies beside each other: a comparison in a sentence and in a table's cell,
a setting's values, a machine.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.document.command_line import hydra_value
from analysis.load import Study
from analysis.questions.decision import decisions_of, summary_of
from analysis.questions.labels import FORMS, WORDS, interval_of, listed, shown, with_interval
from analysis.questions.side_by_side import Side
from analysis.stats.interval import CONFIDENCE
from experiments.contract.words import plural, some

_MOST_VALUES = 6
"""Of a setting, shown of a study."""


def chosen_of(study: Study) -> dict[str, str]:
    """Environment to the configuration that a study recommends; without those for which it has no answer."""
    return {d.env: d.chosen for d in decisions_of(study.evidence.concluding) if d.chosen is not None}


def row_of(study: Study, config: str) -> pd.Series:
    """A configuration in a study's summary."""
    return summary_of(study.evidence.concluding).set_index("config").loc[config]


def in_words(row: Mapping[str, Any]) -> str:
    """A comparison by one measure; "" where there is nothing to say."""
    if row["obstacles"]:
        return ""
    measure, a, b = str(row["measure"]), row["a"], row["b"]
    number = row["difference"]
    if not np.isfinite(number):
        return f"By {WORDS[measure]} they cannot be compared: a value is missing."
    if is_same(row):
        seeds = plural(int(row["num_common"]), "common seed")
        return (
            f"{WORDS[measure].capitalize()}: the same in {a} and {b} seed for seed, {seeds}; "
            "it is one configuration to the last setting."
        )
    how = f"{_test(row)}; {_rests(row)}"
    if measure == "env_steps_per_s":
        return f"{a} samples {shown(interval_of(row, 'difference'), '.2f')} times as many env steps/s as {b}: {how}."
    word = f"mean {WORDS[measure]}"
    return f"{a} minus {b} in {word}: {shown(interval_of(row, 'difference'), '+' + FORMS[measure])}, {how}."


def _test(row: Mapping[str, Any]) -> str:
    p = row["p_adjusted"]
    if not np.isfinite(p):
        return "no test: too few seeds, or none of them vary"
    return f"{'significantly different' if p < 1 - CONFIDENCE else 'not significantly different'} ({_p(p)})"


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def _rests(row: Mapping[str, Any]) -> str:
    if row["paired"]:
        return f"{plural(int(row['num_common']), 'common seed')}, paired"
    return f"{plural(int(row['num_a']), 'seed')} against {int(row['num_b'])}, unpaired"


def refused(compared: pd.DataFrame) -> list[str]:
    """Comparisons that are not made, and why: a sentence for each pair of studies and reason."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for (a, b, measure), part in compared.groupby(["a", "b", "measure"], sort=False):
        reasons = dict.fromkeys(reason for obstacles in part["obstacles"] for reason in obstacles)
        if reasons:
            some = "" if part["obstacles"].map(bool).all() else " of some configurations"
            found.setdefault((a, b, "; ".join(reasons)), []).append(WORDS[measure] + some)
    return [
        f"**Not compared** between {a} and {b}: {listed(measures)}, since {why}."
        for (a, b, why), measures in found.items()
    ]


def machine(side: Side) -> str:
    """A study's machine: its processor, CPUs, GPUs and nodes."""
    if not side.host:
        return "unknown"
    parts = [str(side.host.get("cpu") or "a CPU")]
    parts += [
        f"{count} {what}"
        for count, what in ((side.host.get("cpu_count"), "CPUs"), (len(side.host.get("gpus") or ()), "GPUs"))
        if count
    ]
    return ", ".join([*parts, *([f"{side.num_nodes} nodes"] if side.num_nodes > 1 else [])])


def commit(study: Study) -> str:
    """The commit that a study ran, in short."""
    return (
        f"{str(study.provenance.get('commit') or 'unknown')[:8]}"
        f"{' with uncommitted changes' if study.provenance.get('dirty') else ''}"
    )


def values_of(values: Sequence[Any]) -> str:
    """The values of a setting in one study."""
    return some([hydra_value(value) for value in values], _MOST_VALUES) or "\u2013"


def has(row: pd.Series, measure: str) -> bool:
    """True if a configuration has a number by a measure; where throughput was measured, there is no other."""
    return bool(np.isfinite(row[measure])) and (row["phase"] != "throughput" or measure == "env_steps_per_s")


def cell(row: pd.Series, measure: str) -> tuple[str, str]:
    """A number of a study's table, and its interval."""
    if not has(row, measure):
        return "\u2013", ""
    if measure == "env_steps_to_target" and not row["num_reached"]:
        return "not reached", f"in {int(row['budget_env_steps']):,}"
    number, _, ends = with_interval(row, measure).partition(" ")
    is_bound = measure == "env_steps_to_target" and row["num_reached"] < row["num_seeds"]
    return f"\u2265 {number}" if is_bound else number, ends


def difference(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A comparison in three cells: the difference and its interval, p, and the seeds that it rests on."""
    if row["obstacles"]:
        return [("not compared", ""), ("\u2013", ""), ("\u2013", "")]
    if not np.isfinite(row["difference"]):
        return [("\u2013", "")] * 3
    form = ".2f" if row["measure"] == "env_steps_per_s" else "+" + FORMS[row["measure"]]
    number, _, ends = shown(interval_of(row, "difference"), form).partition(" ")
    if is_same(row):
        number, ends = "0", "the same seed for seed"
    p = _p(row["p_adjusted"]).removeprefix("p = ").removeprefix("p ") if np.isfinite(row["p_adjusted"]) else "\u2013"
    seeds = f"{int(row['num_common'])} common" if row["paired"] else f"{int(row['num_a'])} and {int(row['num_b'])}"
    return [
        (number, ends),
        (p, "significant" if row["p_adjusted"] < 1 - CONFIDENCE else ""),
        (seeds, "paired" if row["paired"] else "unpaired"),
    ]


def is_same(row: Mapping[str, Any]) -> bool:
    """True if it is one configuration, to the last setting, that came out the same in both studies
    with every common seed.
    """
    return bool(row["same_id"] and row["num_common"] and row["num_equal"] == row["num_common"])
