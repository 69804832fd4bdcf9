"""The tuning that a study on several environments needed, in words."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis import AnalysisError
from analysis.document.extension import Report
from analysis.document.parts import Drawn, figure_of
from analysis.evidence import Evidence, is_measured
from analysis.load import Study
from science.sensitivity import figure, page
from science.sensitivity import question as tuning


class SensitivityReport(Report):
    """Sentences and a figure over all environments."""

    def across(self, study: Study, runs: pd.DataFrame, rng: np.random.Generator) -> tuple[list[str], list[Drawn]]:
        """How much tuning the score needed."""
        needed = _tuning(runs, study.axes, rng)
        drawn = [Drawn("sensitivity", figure_of(figure.plot(page.points(needed))), _PLANE)] if needed else []
        return page.sentences(needed), drawn


_PLANE = (
    "The score tuned for each environment over what that tuning brought, a point an algorithm; "
    "scores from 0 to 1 between the 5th and the 95th percentile of all settings. 95% intervals: bootstrap over seeds."
)


def _tuning(runs: pd.DataFrame, axes: Sequence[str], rng: np.random.Generator) -> list[tuning.Sensitivity]:
    """How much tuning the score needed, of a fixed design on several environments; else nothing."""
    if runs["env"].nunique() < 2 or is_measured(runs):
        return []
    try:
        return tuning.sensitivity(tuning.of_runs(Evidence(runs).design.runs, axes), rng)
    except AnalysisError:  # of these runs it can't be said
        return []
