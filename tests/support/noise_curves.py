"""Estimates of |G|^2 and S over training, made by hand."""

import math

import numpy as np
import pandas as pd

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
