"""How configurations and numbers read in a sentence or a table's cell. Light to import."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

MOST_NAMED = 4
"""Configurations named in a sentence."""

WORDS = {
    "score": "score",
    "auc": "area under the learning curve",
    "env_steps_to_target": "env steps to target",
    "seconds_to_target": "seconds to target",
    "env_steps_per_s": "env steps/s",
    "train_s": "training seconds",
}
"""A measure in words."""

FORMS = {
    "score": ".1f",
    "auc": ".1f",
    "env_steps_to_target": ",.0f",
    "seconds_to_target": ",.1f",
    "env_steps_per_s": ",.0f",
    "train_s": ",.1f",
}
"""How a measure is written."""


def code(config: str | None) -> str:
    """A configuration's name in Markdown."""
    return f"`{config}`"


def named(configs: Sequence[str]) -> str:
    """Configurations in a sentence."""
    shown = [code(c) for c in configs[:MOST_NAMED]]
    if len(configs) > MOST_NAMED:
        return f"{', '.join(shown)} and {len(configs) - MOST_NAMED} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def with_interval(row: Mapping[str, Any], measure: str) -> str:
    """`480.1 [470.0, 490.2]`; without brackets where there is no interval, a dash where there is no number."""
    values = [float(row[f"{measure}{end}"]) for end in ("", "_low", "_high")]
    if math.isnan(values[0]):
        return "-"
    form = FORMS[measure]
    numbers = [f"{v:{form}}" for v in values]
    return numbers[0] if math.isnan(values[1]) else f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"
