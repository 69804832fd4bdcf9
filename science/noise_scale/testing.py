"""Estimates of |G|^2 and S over training, and the figure's frame, made by hand."""

import math
from typing import Any

import numpy as np
import pandas as pd

from science.noise_scale import figure
from tests.support.study_frames import BUDGET


def curves_of(runs: pd.DataFrame, growth: float, spread: float = 0.1, square: float = 2.0) -> pd.DataFrame:
    """Ten reports a trial: |G|^2 as given, and S from 200 up by a factor from the first fifth to the last;
    each seed at its own level.
    """
    rows = []
    for run in runs.to_dict("records"):
        level = math.exp(spread * np.random.default_rng(run["seed"]).normal())
        for report in range(1, 11):
            noise = 200 * level * growth ** (((report + 1) // 2 - 1) / 4)
            for name, value in (("gradient_square", square), ("gradient_noise", noise)):
                rows.append(
                    (run["run_id"], run["config"], run["seed"], f"learner/{name}", report * BUDGET // 10, value)
                )
    return pd.DataFrame(rows, columns=["run_id", "config", "seed", "metric", "env_steps", "value"])


def noise(study: Any) -> pd.DataFrame:
    """Three networks over five windows, the last of which has no upper end; one seed gives no interval."""
    rows = []
    for i, network in enumerate(("all weights", "policy", "value")):
        for window in range(5):
            scale = 10.0 ** (1 + i) * 2**window
            low, high = (
                (math.nan, math.nan) if study.num_seeds < 2 else (scale / 2, math.inf if window == 4 else 2 * scale)
            )
            rows.append((network, 6_000.0 * (2 * window + 1), scale, low, high))
    return pd.DataFrame(rows, columns=["network", "env_steps", "noise_scale", "noise_scale_low", "noise_scale_high"])


FIGURES = {"noise_scale": (figure.plot, noise)}
UNITS = {"noise_scale": ("env steps", "gradient noise scale (rows)")}
"""Labels of the axes."""
