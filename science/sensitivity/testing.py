"""The figure's frame, made by hand."""

from typing import Any

import pandas as pd

from science.sensitivity import figure


def plane(study: Any) -> pd.DataFrame:
    """An algorithm in the place of each configuration."""
    rows = [
        {
            "algorithm": name,
            **study.with_interval("tuned", 1.0 + 0.3 * (i % 3) / 3 + 0.01 * i, 0.05),
            **study.with_interval("difference", 0.05 + 0.02 * i, 0.02),
        }
        for i, name in enumerate(study.names[:5])
    ]
    return study.frame(rows, "algorithm")


FIGURES = {"sensitivity_plane": (figure.plot, plane)}
UNITS = {"sensitivity_plane": ("sensitivity: tuned minus best common setting", "score tuned for each environment")}
"""Labels of the axes."""
