"""Sentences on env steps to target times seconds an env step."""

import pandas as pd

from analysis.plots.text import short_setting
from analysis.questions.labels import code, interval_of, listed, percent, shown, time_shown
from analysis.questions.product import LAYOUT, STALENESS, Product
from analysis.questions.runners import RUNNERS
from analysis.stats.goodput import INTERVAL, NEAR
from experiments.contract.words import plural

SETTINGS = "learning settings, layout"
MORE_STEPS = 1.1
"""Times the env steps from which on they are named as the reason."""
_AS_FRESH = 0.1
"""Updates by which samples may be older than the freshest, and are called as fresh."""


def of_layouts(product: Product, chosen: str) -> str:
    """What the other layouts are predicted to take at the learning settings of a configuration, a sentence; "" where
    nothing is.
    """
    rows = product.beside(chosen)
    own, others = rows[rows["config"] == chosen], rows[rows["config"] != chosen]
    if own.empty or others.empty:
        return ""
    mine, fastest = own.iloc[0], rows.loc[rows["env_steps_per_s"].idxmax()]
    told = []
    if mine[RUNNERS] > rows[RUNNERS].min():
        simplest = rows[rows[RUNNERS] == rows[RUNNERS].min()].iloc[0]
        told.append(f"{_time(simplest)} with {simplest[LAYOUT]}")
    if fastest["config"] != chosen:
        times = float(fastest["env_steps"] / mine["env_steps"])
        why = f", since it needs {times:.2g} times the env steps" if times >= MORE_STEPS else _start(fastest)
        told.append(f"{_time(fastest)} with {fastest[LAYOUT]}, which samples fastest{why}")
    told = told or [f"{_time(row)} with {row[LAYOUT]}{_start(row)}" for _, row in others.head(2).iterrows()]
    return f"Other layouts (runners x environments of each) are predicted to take {listed(told)}."


def sentences(product: Product, chosen: str = "") -> list[str]:
    """What was learned and measured, what is the soonest by both, and whether that is borne out: Markdown.

    Args:
        product: Of a search.
        chosen: The configuration that is recommended; "": the soonest.
    """
    table = product.table
    best, near = table.iloc[0], table[table["is_near"]]
    several = f"; expected within {percent(NEAR)} of it: {len(near) - 1} more" if len(near) > 1 else ""
    learned = (
        f"Env steps to target are learned from {plural(product.num_learned, 'trial')}, throughput from "
        f"{plural(product.num_rounds, 'measurement')} of {plural(table[LAYOUT].nunique(), 'layout')}, alone. The time "
        f"to target is their product for all {len(table)} configurations."
    )
    own = product.row(chosen) if chosen else None
    return [
        f"The soonest by env steps to target times seconds an env step: {_named(product, best)}, {_time(best)} "
        f"({percent(INTERVAL)} interval), with a probability of {percent(float(best['p_best']))}{several}.",
        *_staleness(product, best if own is None else own),
        *_checks(product.checked),
        learned,
    ]


def _staleness(product: Product, row: pd.Series) -> list[str]:
    """How old the samples of a configuration are, and what that costs, a sentence; none where all are as old."""
    if STALENESS not in row:
        return []
    own, least = float(row[STALENESS]), float(row[f"least_{STALENESS}"])
    told = f"Samples of {_named(product, row)} are {own:.2g} updates old when they are learned from"
    if own - least < _AS_FRESH:
        return [f"{told}, as fresh as in any layout."]
    times, than = interval_of(row, "times_env_steps"), f"samples {least:.2g} updates old, as in the freshest layout"
    if times.low <= 1 <= times.high:
        return [
            f"{told}. What that costs is not known: {times.low:.2g} to {times.high:.2g} times the env steps of {than}."
        ]
    return [f"{told}, which takes {shown(times, '.2g')} times the env steps of {than}."]


def _checks(checked: pd.DataFrame) -> list[str]:
    if checked.empty:
        return []
    told = [
        f"{code(row['config'])} {_time(row)} predicted, {time_shown(interval_of(row, 'measured'))} measured"
        for row in checked.to_dict("records")
    ]
    failed = checked.loc[~checked["holds"], "config"].tolist()
    verdict = (
        f"For {listed([code(config) for config in failed])} that is more than chance: env steps or throughput depend "
        "on more than they are taken to here, and what was measured counts."
        if failed
        else "They differ by no more than chance."
    )
    return [f"Predicted without them, and then measured alone on fresh seeds: {'; '.join(told)}. {verdict}"]


def _start(row: pd.Series) -> str:
    """That most of the time is the start, a clause."""
    seconds = 60 * float(row["minutes"])
    return f", {row['start_s']:.2g} s of them to start its runners" if 2 * row["start_s"] > seconds else ""


def _time(row: pd.Series) -> str:
    return time_shown(interval_of(row, "minutes"))


def _named(product: Product, row: pd.Series) -> str:
    if row["config"]:
        return code(row["config"])
    return f"{settings_named(product, row)} in layout {row[LAYOUT]}"


def named_settings(product: Product) -> pd.DataFrame:
    """Every learning setting in its soonest layout, for a figure: `SETTINGS` names the rows."""
    rows = product.of_settings()
    return rows.assign(**{SETTINGS: [f"{settings_named(product, row)}\n{row[LAYOUT]}" for _, row in rows.iterrows()]})


def settings_named(product: Product, row: pd.Series) -> str:
    """The learning settings of a row of `product.table`: `lr 3e-3, batch 512`."""
    return ", ".join(short_setting(axis, row[axis]) for axis in product.axes)
