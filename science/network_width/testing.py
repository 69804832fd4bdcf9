"""The figure's frame, made by hand."""

import itertools
import math
from typing import Any

import pandas as pd

from science.network_width import figure


def levels(study: Any) -> pd.DataFrame:
    """A batch's place is that of a width: the wider the networks, the lower the best learning rate."""
    rows = []
    for (i, _), lr in itertools.product(enumerate(study.batches), study.lrs):
        value = 300.0 - 60 * math.log10(lr / 3e-3 * 2**i) ** 2
        rows.append({"width": 16 * 4**i, "lr": lr, **study.with_interval("auc", value, 20.0)})
    return pd.DataFrame(rows)


FIGURES = {"network_width": (figure.plot, levels)}
UNITS = {"network_width": ("learning rate", "area under the learning curve (mean return)")}
"""Labels of the axes."""
