"""On which kinds of machine the trials of a study ran: pure functions of its frame."""

import pandas as pd

from experiments.contract import Tag


def machine_kinds(runs: pd.DataFrame) -> pd.Series:
    """The kind of machine that each trial ran on: its CPU's model, and its GPU's if it had one;
    "" if that was not recorded.

    Args:
        runs: As `analysis.load` gives them.
    """
    return runs["cpu"].str.cat(runs["gpu"].where(runs["gpu"] == "", " with " + runs["gpu"]))


def are_portable(runs: pd.DataFrame) -> bool:
    """Whether all trials were to learn what they would on any other x86-64 processor with AVX2 and FMA, to the bit.

    Args:
        runs: As `analysis.load` gives them.
    """
    # a native trial has no parameter of that name
    return Tag.BITS in runs and bool(runs.loc[runs["run_id"].notna(), Tag.BITS].notna().all())


def trials_by_kind(runs: pd.DataFrame) -> dict[str, int]:
    """How many trials ran on each kind of machine, as far as that was recorded, the commonest kind first."""
    kinds = machine_kinds(runs[runs["run_id"].notna()])
    return {str(kind): int(number) for kind, number in kinds[kinds != ""].value_counts().items()}
