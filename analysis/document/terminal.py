"""The closing table of a study on the terminal."""

import math

import pandas as pd
from rich.table import Table
from rich.text import Text

from analysis.questions.labels import with_interval


def outcome_table(summary: pd.DataFrame, exclusive: bool) -> Table:
    """The closing table.

    Args:
        summary: As `answer.closing_table` gives it.
        exclusive: Whether each trial ran alone.
    """
    if (summary["phase"] == "throughput").all():
        return _speed_table(summary)
    table = Table(
        box=None,
        header_style="bold",
        pad_edge=False,
        caption="score: interquartile mean over seeds; env steps to target: mean, seeds that never hold it counted with the budget (>=); "
        "95% intervals; * not significantly different from the best" + ("" if exclusive else "; env steps/s with trials side by side"),
        caption_justify="left",
    )
    for name in ("", "configuration", "seeds", "score", "at target", "env steps to target", "env steps/s"):
        table.add_column(name, justify="left" if name in ("", "configuration") else "right", no_wrap=True)
    for _, row in summary.iterrows():
        at_target = not math.isnan(row["target"]) and row["num_seeds"]
        steps = with_interval(row, "env_steps_to_target")
        if not row["num_reached"]:
            steps = f"not in {row['budget_env_steps']:,}"
        elif row["num_reached"] < row["num_seeds"]:
            steps = f">= {steps}"
        table.add_row(
            "*" if row["leader"] else "",
            str(row["config"]),
            f"{row['num_seeds']}/{row['num_planned']}",
            # Text, since rich takes "[470.0, 490.2]" in a plain string for a style.
            Text(with_interval(row, "score")),
            f"{row['num_reached']}/{row['num_seeds']}" if at_target else "-",
            Text(steps if at_target else "-"),
            Text(with_interval(row, "env_steps_per_s")),
            style="bold" if row["chosen"] else "",
        )
    return table


def _speed_table(summary: pd.DataFrame) -> Table:
    """The closing table of a study of throughput."""
    caption = "geometric means over seeds, 95% intervals; * not significantly different from the fastest"
    table = Table(box=None, header_style="bold", pad_edge=False, caption=caption, caption_justify="left")
    for name in ("", "configuration", "seeds", "env steps/s", "trained steps/s"):
        table.add_column(name, justify="left" if name in ("", "configuration") else "right", no_wrap=True)
    for _, row in summary.iterrows():
        speeds = [Text(with_interval(row, name)) for name in ("env_steps_per_s", "trained_steps_per_s")]
        counts = f"{row['num_seeds']}/{row['num_planned']}"
        table.add_row("*" if row["leader"] else "", str(row["config"]), counts, *speeds, style="bold" if row["chosen"] else "")
    return table
