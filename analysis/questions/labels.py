"""Words for measures, configurations and trials in a sentence or a table's cell."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.stats.interval import Interval
from experiments.contract.words import some

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
    "minutes_to_target": "minutes to target",
    "cost_to_target": "cost to target",
    "score_in_minutes": "score in the minutes given",
}
"""A measure in words."""

FORMS = {
    "score": ".1f",
    "score_median": ".1f",
    "auc": ".1f",
    "env_steps_to_target": ",.0f",
    "seconds_to_target": ",.1f",
    "env_steps_per_s": ",.0f",
    "trained_steps_per_s": ",.0f",
    "train_s": ",.1f",
    "minutes_to_target": ",.3g",
    "cost_to_target": ",.3g",
    "score_in_minutes": ".1f",
}
"""How a measure is written."""


def code(config: str | None) -> str:
    """A configuration's name in Markdown."""
    return f"`{config}`"


def listed(words: Sequence[str]) -> str:
    """Words in a sentence: `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def named(configs: Sequence[str]) -> str:
    """Configurations in a sentence."""
    codes = [code(config) for config in configs]
    return some(codes, MOST_NAMED) if len(codes) > MOST_NAMED else listed(codes)


def seeds_finished(row: pd.Series, of: str = " of ") -> str:
    """`4 of 5`: seeds of a configuration that finished, and those that were planned.

    Args:
        row: Of a table as `convergence.summarise` gives it.
        of: What stands between the two.
    """
    return f"{row['num_seeds'] - row['num_crashed']}{of}{row['num_planned']}"


def trials_named(trials: pd.DataFrame) -> str:
    """Trials as their runs are named: `lr=1e-3 s=0, lr=1e-3 s=2 r=1 and 3 more`.

    Args:
        trials: `config`, `seed`, `repeat`.
    """
    keys = zip(trials["config"], trials["seed"], trials["repeat"], strict=True)
    names = [f"{config} s={seed}" + (f" r={repeat}" if repeat else "") for config, seed, repeat in keys]
    return some(names, MOST_TRIALS_NAMED)


def percent(share: float) -> str:
    """A share, without digits behind the point."""
    return f"{100 * share:.0f}%"


def shares(row: Mapping[str, Any], name: str) -> str:
    """A share of a frame's row with its interval: `20% [2%, 63%]`."""
    share, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    return f"{percent(share)} [{percent(low)}, {percent(high)}]" if math.isfinite(share) else "-"


def fails(row: Mapping[str, Any]) -> str:
    """The meaning of a failure of seeds: a verb, `end below 475 or crash`."""
    below = row["failure_below"]
    if not math.isfinite(below):
        return "crash"
    of_best = " (half-way down from the best)" if math.isnan(row["target"]) and not row["failure_is_given"] else ""
    return f"end below {below:.4g}{of_best} or crash"


def rough_time(seconds: float) -> str:
    """A duration that is an estimate: `under a minute`, `about 12 min`, `about 3.5 h`."""
    if seconds < 60:
        return "under a minute"
    return f"about {seconds / 60:.0f} min" if seconds < 2 * 3600 else f"about {seconds / 3600:.1f} h"


def interval_of(row: Mapping[str, Any], name: str) -> Interval:
    """A number of a frame's row with its interval: the columns `name`, `name_low` and `name_high`."""
    return Interval(*(float(row[f"{name}{end}"]) for end in ("", "_low", "_high")))


def shown(found: Interval, form: str) -> str:
    """`480.1 [470.0, 490.2]`; without brackets where there is no interval, a dash where there is no number.

    Args:
        found: The number and its interval.
        form: How numbers are written.
    """
    if math.isnan(found.estimate):
        return "-"
    ends = "" if math.isnan(found.low) else f" [{found.low:{form}}, {found.high:{form}}]"
    return f"{found.estimate:{form}}{ends}"


def time_shown(minutes: Interval) -> str:
    """Minutes in the unit that fits: `1.4 s [1.1, 1.8]`, `2.4 min [1.9, 3.0]`, `5.2 h [4.1, 6.6]`."""
    unit, times = ("s", 60.0) if minutes.estimate < 1.5 else ("min", 1.0) if minutes.estimate < 90 else ("h", 1 / 60)
    if math.isnan(minutes.estimate):
        return "-"
    numbers = [times * value for value in (minutes.estimate, minutes.low, minutes.high)]
    ends = [f"{number:.3g}" if number >= 10 else f"{number:#.2g}" for number in numbers]
    return f"{ends[0]} {unit}" + ("" if math.isnan(minutes.low) else f" [{ends[1]}, {ends[2]}]")


def in_its_unit(row: Mapping[str, Any], measure: str) -> str:
    """A measure of a frame's row; times to target in the unit that fits."""
    return time_shown(interval_of(row, measure)) if measure == "minutes_to_target" else with_interval(row, measure)


def with_name(row: Mapping[str, Any], measure: str) -> str:
    """A measure of a row with its name: `score 480.1 [470.0, 490.2]`; without, where its unit says what it is."""
    name = "" if measure == "minutes_to_target" else f"{WORDS[measure]} "
    return f"{name}{in_its_unit(row, measure)}"


def with_interval(row: Mapping[str, Any], measure: str) -> str:
    """A measure of a frame's row, as `shown` writes it."""
    return shown(interval_of(row, measure), FORMS[measure])
