"""A trial's facts and curves, and a small study of them, to diagnose."""

import math
from typing import Any

import numpy as np
import pandas as pd

from analysis.questions.facts import Facts
from experiments.contract import TIME_PARTS
from tests.support.study_frames import make_curves, make_runs

Curves = dict[str, list[tuple[float, float]]]

LAPTOP = Facts(
    num_env_runners=2,
    num_envs_per_env_runner=4,
    vectorize_mode="sync",
    num_cpus=8,
    max_entropy=math.log(2),
    target=475.0,
)


def facts(**changes: Any) -> Facts:
    return Facts(**{**vars(LAPTOP), **changes})


def logged(values: dict[str, np.ndarray]) -> Curves:
    return {name: [(4000.0 * (i + 1), float(v)) for i, v in enumerate(series)] for name, series in values.items()}


def reports(count: int = 12, **shares: float) -> Curves:
    """Reports with the shares given; the first is warm-up, in which everything is learning."""
    warm_up = {"learn": 1.0}
    series = {
        f"time/{part}_share": np.array([warm_up.get(part, 0.0), *[shares.get(part, 0.0)] * (count - 1)])
        for part in TIME_PARTS  # as they are logged: all of them
    }
    return logged({**series, "progress/wall_s": 10.0 * np.arange(1, count + 1)})


def diagnosed_study() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two configurations of three seeds: `one` is env-bound in all, `two` learner-bound in two
    and never logged a thing in the last.
    """
    counts = {"num_env_runners": {"one": 1, "two": 2}, "num_envs_per_env_runner": {"one": 4, "two": 4}}
    runs = make_runs({"one": [480, 490, 500], "two": [480, 490, 100]}, params=counts)
    trials = {("one", seed): reports(env_step=0.7 + 0.05 * seed, learn=0.2) for seed in range(3)}
    trials |= {("two", seed): reports(env_step=0.3, learn=0.6) for seed in range(2)}
    trials["two", 1] |= logged({"learner/staleness_updates": np.full(12, 5.0)})
    points = {
        key: {m: [(int(x), x / 1000, v) for x, v in p] for m, p in series.items()} for key, series in trials.items()
    }
    return runs, make_curves(runs, points)
