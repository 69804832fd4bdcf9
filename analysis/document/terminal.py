"""What is shown on the terminal: a study's closing table, how a policy did, and paragraphs."""

import math
import textwrap
from collections.abc import Callable
from functools import partial

import pandas as pd
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from analysis.document.product import settings_named
from analysis.evidence import OF_OBJECTIVES
from analysis.questions.labels import (
    FORMS,
    WORDS,
    fails,
    in_its_unit,
    interval_of,
    seeds_finished,
    shares,
    shown,
    time_shown,
    with_interval,
)
from analysis.questions.product import LAYOUT, Product
from experiments.contract.words import LABEL_WIDTH, labelled

WIDTH = 80
"""Columns of a paragraph."""

_Columns = dict[str, Callable[[pd.Series], str]]

_LEARNING: _Columns = {
    "": lambda row: "*" if row["leader"] else "",
    "configuration": lambda row: str(row["config"]),
    "seeds": lambda row: seeds_finished(row, "/"),
    "score": lambda row: with_interval(row, "score"),
    "worst seed": lambda row: f"{row['score_min']:.1f}" if row["num_seeds"] else "-",
    "fails": lambda row: shares(row, "failure_probability"),
    "ever held": lambda row: _of_seeds(row, "num_reached"),
    "env steps to target": lambda row: _steps(row),
    "env steps/s": lambda row: with_interval(row, "env_steps_per_s"),
}
_SPEED: _Columns = {
    **{name: _LEARNING[name] for name in ("", "configuration", "seeds", "env steps/s")},
    "trained steps/s": lambda row: with_interval(row, "trained_steps_per_s"),
}
_SETTINGS: _Columns = {
    "layout": lambda row: str(row[LAYOUT]),
    "ever held": lambda row: f"{row['num_reached']:.0f}/{row['num_seeds']:.0f}",
    "env steps to target": lambda row: shown(interval_of(row, "env_steps"), FORMS["env_steps_to_target"]),
    "env steps/s": lambda row: with_interval(row, "env_steps_per_s"),
    "time to target": lambda row: time_shown(interval_of(row, "minutes")),
}
_FIRST_TO_GO = ("trained steps/s", "env steps/s", "ever held", "seeds", "worst seed", "env steps to target", "fails")
"""Columns that a narrow terminal does without: the first first. The report has all."""
_MEANING = {
    "score": "score: mean over seeds",
    "ever held": "ever held: seeds that hold the target in training",
    "time to target": "time to target: mean, starting included; a seed that never holds it has the longest",
    "env steps to target": "env steps to target: mean, seeds that never hold it counted with the budget (>=)",
}


def outcome_table(summary: pd.DataFrame, exclusive: bool, width: int) -> Table:
    """The closing table, with as many columns as there is room for.

    Args:
        summary: As `answer.closing_table` gives it.
        exclusive: Whether each trial ran alone.
        width: Of the terminal, in columns.
    """
    measured = bool((summary["phase"] == "throughput").all())
    columns = dict(_SPEED if measured else _LEARNING)
    for measure in OF_OBJECTIVES:
        if (summary["decided_by"] == measure).any():
            name = "time to target" if measure == "minutes_to_target" else WORDS[measure]  # in the unit that fits
            columns[name] = partial(_by_objective, measure=measure)
    return _fitting(columns, width, lambda kept: _table(summary, kept, measured, exclusive))


def settings_table(product: Product, chosen: str, width: int) -> Table:
    """What a search for the soonest knows of each learning setting, also where it was not confirmed.

    Args:
        product: Env steps times seconds an env step.
        chosen: The recommended configuration.
        width: Of the terminal, in columns.
    """
    notes = (
        "each learning setting in the layout, runners x environments of each, in which it is the soonest: predicted "
        "from the trials that learned and the throughput measured alone; 90% intervals"
    )
    recommended = product.row(chosen)

    def made(columns: _Columns) -> Table:
        table = Table(box=None, header_style="bold", pad_edge=False, caption=notes, caption_justify="left")
        table.add_column("learning settings", overflow="fold")
        for name in columns:
            table.add_column(name, justify="right", no_wrap=True)
        for _, row in product.of_settings().iterrows():
            is_chosen = recommended is not None and bool((row[product.axes] == recommended[product.axes]).all())
            cells = [settings_named(product, row), *(cell(row) for cell in columns.values())]
            table.add_row(*(Text(cell) for cell in cells), style="bold" if is_chosen else "")
        return table

    return _fitting(_SETTINGS, width, made)


def _fitting(columns: _Columns, width: int, made: Callable[[_Columns], Table]) -> Table:
    """The table of as many of some columns as there is room for."""
    kept, console = dict(columns), Console(width=1000)
    table = made(kept)
    for name in _FIRST_TO_GO:
        if Measurement.get(console, console.options, table).maximum <= width:
            break
        if kept.pop(name, None):
            table = made(kept)
    return table


def episodes_table(summary: pd.DataFrame, policy: str) -> Table:
    """How a policy did in each environment.

    Args:
        summary: A row for each: setting, num_episodes, return with `_low` and `_high`, return_std,
            return_min, return_max, length.
        policy: `deterministic` or `exploring`.
    """
    caption = (
        f"fresh episodes of the {policy} policy, the same env seeds in each row; mean return "
        "with a 95% interval over them (t)"
    )
    table = Table(box=None, header_style="bold", pad_edge=False, caption=caption, caption_justify="left")
    for name in ("environment", "episodes", "return", "sd", "min", "max", "env steps"):
        table.add_column(
            name, justify="left" if name == "environment" else "right", no_wrap=name != "environment", overflow="fold"
        )
    for row in summary.to_dict("records"):
        spread = [f"{row[name]:.4g}" for name in ("return_std", "return_min", "return_max")]
        cells = (
            str(row["setting"]),
            str(row["num_episodes"]),
            shown(interval_of(row, "return"), ".4g"),
            *spread,
            f"{row['length']:.4g}",
        )
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _table(summary: pd.DataFrame, columns: _Columns, measured: bool, exclusive: bool) -> Table:
    if measured:
        notes = ["geometric means over seeds", "95% intervals", "* not significantly different from the fastest"]
    else:
        notes = [_MEANING[name] for name in columns if name in _MEANING]
        notes += [
            f"fails: share of seeds that {word}" for word in summary.apply(fails, axis=1).unique() if "fails" in columns
        ]
        notes += ["95% intervals", "* the best is among these with 95% confidence"]
        notes += ["env steps/s with trials side by side"] if "env steps/s" in columns and not exclusive else []
    table = Table(box=None, header_style="bold", pad_edge=False, caption="; ".join(notes), caption_justify="left")
    for name in columns:
        is_text = name in ("", "configuration")
        table.add_column(name, justify="left" if is_text else "right", no_wrap=name != "configuration", overflow="fold")
    for _, row in summary.iterrows():
        # Text, since rich takes "[470.0, 490.2]" in a plain string for a style.
        table.add_row(*(Text(cell(row)) for cell in columns.values()), style="bold" if row["chosen"] else "")
    return table


def _by_objective(row: pd.Series, measure: str) -> str:
    missed = measure != "score_in_minutes" and row["num_seeds"] and not row["num_reached"]
    if missed:
        return "not reached"
    return in_its_unit(row, measure)


def _has_target(row: pd.Series) -> bool:
    return not math.isnan(row["target"]) and bool(row["num_seeds"])


def _of_seeds(row: pd.Series, count: str) -> str:
    return f"{row[count]}/{row['num_seeds']}" if _has_target(row) else "-"


def _steps(row: pd.Series) -> str:
    if not _has_target(row):
        return "-"
    if not row["num_reached"]:
        return f"not in {row['budget_env_steps']:,}"
    steps = with_interval(row, "env_steps_to_target")
    return f">= {steps}" if row["num_reached"] < row["num_seeds"] else steps


def wrapped(label: str, text: str) -> list[str]:
    """Markdown without its marks, in lines of at most `WIDTH` columns; the first begins with what it is about.

    Args:
        label: What it is about; "" where the paragraph before says it.
        text: One or more sentences.
    """
    plain = text.replace("`", "").replace("**", "").replace("\u2013", "-").replace("\u2265", ">=")
    return textwrap.wrap(
        labelled(label, plain), WIDTH, subsequent_indent=" " * LABEL_WIDTH, break_on_hyphens=False, drop_whitespace=True
    ) or [label]
