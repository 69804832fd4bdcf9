"""A report's table of configurations: its columns, and its cells as text."""

from typing import Any

import numpy as np
import pandas as pd

from analysis.evidence import OF_OBJECTIVES, SPEEDS
from analysis.questions.labels import FORMS, in_its_unit, percent, seeds_finished

_COLUMNS = {
    "score": "score",
    "auc": "area under curve",
    "env_steps_to_target": "env steps to target",
    "seconds_to_target": "seconds to target",
    "minutes_to_target": "time to target",
    "cost_to_target": "cost to target",
    "score_in_minutes": "score in the minutes given",
    "env_steps_per_s": "env steps/s",
    "trained_steps_per_s": "trained steps/s",
}


def cells_of(table: pd.DataFrame) -> dict[str, Any]:
    """The table of configurations, as text.

    Args:
        table: From `answer.closing_table`, best first.

    Returns:
        `columns`, names; `rows`, each with `mark` and `cells` of `text` and perhaps `below`; `differs`, whether more
        seeds end at the target than held it before.
    """
    scored = table["score"].notna().any()
    by = {*table["decided_by"]}
    measures = [m for m in _COLUMNS if table[m].notna().any() and (m not in OF_OBJECTIVES or m in by)]
    measures = [m for m in measures if m != "trained_steps_per_s"] if scored else [m for m in measures if m in SPEEDS]
    measures.sort(key=lambda m: (m not in by, m == "auc"))  # what decides stands first
    has_target = table["target"].notna().any() and scored
    rows = []
    for _, row in table.iterrows():
        cells = [{"text": str(row["config"])}, {"text": seeds_finished(row)}]
        if has_target:
            cells += [{"text": f"{row[name]} of {row['num_seeds']}"} for name in ("num_reached", "num_at_end")]
        for measure in measures:
            cells.append(_cell(row, measure))
            if measure == "score":
                cells += [{"text": _text(row["score_min"], ".1f")}, _share(row, "failure_probability")]
        mark = "chosen leader" if row["chosen"] else "leader" if row["leader"] else ""
        rows.append({"mark": mark, "cells": cells})
    differs = bool((table["num_at_end"] > table["num_reached"]).any()) if has_target else False
    names = ["configuration", "seeds", *(["at target in training", "at the end"] if has_target else [])]
    for measure in measures:
        names += [_COLUMNS[measure], *(["worst seed", "fails"] if measure == "score" else [])]
    return {"columns": names, "rows": rows, "differs": differs}


def _cell(row: pd.Series, measure: str) -> dict[str, str]:
    ends = [_text(row[f"{measure}{end}"], FORMS[measure]) for end in ("_low", "_high")]
    text = _text(row[measure], FORMS[measure])
    if measure.endswith("to_target") and row["num_seeds"]:
        if not row["num_reached"]:
            return {"text": "not reached"}
        if measure == "minutes_to_target":
            time, _, interval = in_its_unit(row, measure).partition(" [")
            return {"text": time, "below": f"[{interval}" if interval else ""}
        bound = row["num_reached"] < row["num_seeds"] and measure not in OF_OBJECTIVES
        text = f"\u2265 {text}" if bound else text
    return {"text": text, "below": f"[{ends[0]}, {ends[1]}]" if np.isfinite(row[f"{measure}_low"]) else ""}


def _share(row: pd.Series, name: str) -> dict[str, str]:
    share, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    return (
        {"text": percent(share), "below": f"[{percent(low)}, {percent(high)}]"}
        if np.isfinite(share)
        else {"text": "\u2013"}
    )


def _text(value: float, form: str) -> str:
    return f"{value:{form}}" if np.isfinite(value) else "\u2013"
