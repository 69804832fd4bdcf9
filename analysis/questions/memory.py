"""The memory that trials took, beside what was predicted of them before they ran. Pure."""

from collections.abc import Mapping

import pandas as pd

WITHIN = 0.25
"""Share by which a measured peak may differ from its prediction without a word."""


def differing(runs: pd.DataFrame, predicted_mib: Mapping[str, float]) -> pd.DataFrame:
    """The configurations whose trials took other than predicted, by more than `WITHIN` of it.

    Args:
        runs: As in `Study.runs`.
        predicted_mib: Configuration to MiB that a trial of it was predicted to take.

    Returns:
        A row each, the largest difference first: config, predicted and measured (MiB, the largest of its trials),
        num_trials.
    """
    peaks = runs.dropna(subset="memory_mib").groupby("config", observed=True)["memory_mib"].agg(["max", "size"])
    rows = [
        {"config": config, "predicted": predicted_mib[config], "measured": peak, "num_trials": count}
        for config, peak, count in peaks.itertuples()
        if abs(peak / predicted_mib.get(config, peak) - 1) > WITHIN
    ]
    found = pd.DataFrame(rows, columns=["config", "predicted", "measured", "num_trials"])
    by_difference = (found["measured"] / found["predicted"] - 1).abs().sort_values(ascending=False, kind="stable").index
    return found.loc[by_difference].reset_index(drop=True)
