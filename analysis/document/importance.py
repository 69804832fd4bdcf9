"""The section on how much each searched setting matters."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.document.parts import Part, Section
from analysis.document.tables import Table
from analysis.plots.text import readable
from analysis.questions.importance import importance_of
from analysis.questions.labels import WORDS, listed, shares
from experiments.contract.words import plural


def importance(part: Part) -> Section:
    """How much each setting matters for what decides; without a sentence where settings are no full grid."""
    found = importance_of(part.evidence)
    if found.empty:
        return Section("importance", "")
    rows = [
        [(_name(row), ""), (str(row["num_values"]), ""), _cell(row, "main"), _cell(row, "total")]
        for row in found.to_dict("records")
    ]
    table = Table(("setting", "values", "by itself", "with its interactions"), rows)
    return Section("importance", "Which settings matter", (sentence(found), _method(found)), tables=(table,))


def sentence(found: pd.DataFrame) -> str:
    """Which settings are shown to matter, and which are not.

    Args:
        found: As `importance_of` gives it; a row at least.
    """
    rows, measure = found.to_dict("records"), WORDS[found["measure"].iloc[0]]
    matter, others = (
        [f"{_name(row)} ({shares(row, 'total')})" for row in rows if (row["total_low"] > 0) == shown]
        for shown in (True, False)
    )
    of = f"for {measure}, with shares of its variance between configurations"
    if not matter:
        return f"No setting is shown to matter {of}: {listed(others)}."
    return f"Shown to matter {of}: {listed(matter)}{f'; not shown to: {listed(others)}' if others else ''}."


def _method(found: pd.DataFrame) -> str:
    configurations, seeds = (int(found[f"num_{what}"].iloc[0]) for what in ("configurations", "seeds"))
    return (
        f"Shares of the variance between the means of all {plural(configurations, 'configuration')} of the grid over "
        f"{plural(seeds, 'seed')}, the noise of seeds left out: the functional analysis of variance (Hutter et al. "
        "2014), which is exact on a grid. Generalized 95% intervals (Weerahandi 1993), not corrected for several "
        "settings. By itself: how far means over all other settings differ. With its interactions: also how far its "
        "effect depends on the others, so that these shares may add up to more than 100%. They are of the values that "
        "were tried: a single bad one may make up most of a setting's share."
    )


def _name(row: Mapping[str, Any]) -> str:
    return readable(row["setting"]).partition(" (")[0]


def _cell(row: Mapping[str, Any], name: str) -> tuple[str, str]:
    share, _, ends = shares(row, name).partition(" ")
    return share, ends
