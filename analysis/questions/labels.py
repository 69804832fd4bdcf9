"""What measures, configurations and trials are called in a sentence or a table's cell. Light to import."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

MOST_NAMED = 4
"""Configurations named in a sentence."""
MOST_TRIALS_NAMED = 12
"""Trials named in a sentence."""

WORDS = {
    "score": "score",
    "auc": "area under the learning curve",
    "env_steps_to_target": "env steps to target",
    "seconds_to_target": "seconds to target",
    "env_steps_per_s": "env steps/s",
    "trained_steps_per_s": "trained steps/s",
    "train_s": "training seconds",
}
"""A measure in words."""

FORMS = {
    "score": ".1f",
    "auc": ".1f",
    "env_steps_to_target": ",.0f",
    "seconds_to_target": ",.1f",
    "env_steps_per_s": ",.0f",
    "trained_steps_per_s": ",.0f",
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


def trials_named(trials: "pd.DataFrame") -> str:
    """Trials as their runs are named: `lr=1e-3 s=0, lr=1e-3 s=2 r=1 and 3 more`.

    Args:
        trials: `config`, `seed`, `repeat`.
    """
    keys = zip(trials["config"], trials["seed"], trials["repeat"], strict=True)
    names = [f"{config} s={seed}" + (f" r={repeat}" if repeat else "") for config, seed, repeat in keys]
    more = len(names) - MOST_TRIALS_NAMED
    return ", ".join(names[:MOST_TRIALS_NAMED]) + (f" and {more} more" if more > 0 else "")


def percent(share: float) -> str:
    """A share, without digits behind the point."""
    return f"{100 * share:.0f}%"


def with_interval(row: Mapping[str, Any], measure: str, form: str = "") -> str:
    """`480.1 [470.0, 490.2]`; without brackets where there is no interval, a dash where there is no number.

    Args:
        row: Has `<measure>`, `<measure>_low` and `<measure>_high`.
        measure: A column.
        form: How numbers are written; the measure's own by default.
    """
    values = [float(row[f"{measure}{end}"]) for end in ("", "_low", "_high")]
    if math.isnan(values[0]):
        return "-"
    form = form or FORMS[measure]
    numbers = [f"{v:{form}}" for v in values]
    return numbers[0] if math.isnan(values[1]) else f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"
