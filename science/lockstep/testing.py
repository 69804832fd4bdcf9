"""The figure's frame, made by hand."""

import itertools
from typing import Any

import pandas as pd

from science.lockstep import figure


def ways(study: Any) -> pd.DataFrame:
    """Environments together and staggered, a number of them in the place of each batch."""
    rows = []
    for stagger, (i, _) in itertools.product((False, True), enumerate(study.batches)):
        shape = {"environments": 8 * 4**i, "fragment": 128 / 4**i, "stagger": stagger}
        rows.append({**shape, **study.with_interval("auc", -900.0 + 50 * i + 100 * stagger, 60.0)})
    return pd.DataFrame(rows)


FIGURES = {"lockstep": (figure.plot, ways)}
UNITS = {"lockstep": ("environments x fragment (env steps)", "area under the learning curve (mean return)")}
"""Labels of the axes."""
