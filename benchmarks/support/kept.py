"""Trials that are kept in a file one by one, so that a measurement of hours goes on where it was ended."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd


def kept(file: Path, columns: Sequence[str]) -> pd.DataFrame:
    """What was measured so far, by its columns."""
    return pd.read_csv(file) if file.exists() else pd.DataFrame(columns=list(columns))


def keep(rows: pd.DataFrame, file: Path, columns: Sequence[str], key: Sequence[str]) -> None:
    """Add trials to what was measured; a trial that was measured before is replaced.

    Args:
        rows: With the columns.
        file: CSV.
        columns: That are kept.
        key: Of them, what tells a trial from others.
    """
    known = kept(file, columns)
    table = pd.concat([known, rows[list(columns)]], ignore_index=True) if len(known) else rows[list(columns)]
    table = table.drop_duplicates(list(key), keep="last").sort_values(list(key))
    file.parent.mkdir(exist_ok=True)
    scratch = file.with_suffix(".new")
    table.to_csv(scratch, index=False)
    scratch.replace(file)
