"""Frames for the figure: curves with bands, as learning curves are."""

from typing import Any

import pandas as pd

from science.batch_invariance import figure


def bands(study: Any) -> pd.DataFrame:
    """Curves with intervals, a line a configuration."""
    frame: pd.DataFrame = study.bands()
    return frame


FIGURES = {"curve_gaps": (figure.plot, bands)}
UNITS = {"curve_gaps": ("env steps", "return minus the base batch's")}
"""Labels of the axes."""
