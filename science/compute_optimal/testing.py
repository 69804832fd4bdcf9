"""Simulated studies whose law is known, and the figure's frame, made by hand."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from science.compute_optimal import figure
from science.compute_optimal.flops import dqn_update, forward
from tests.support.study_frames import make_curves, make_runs

BEFORE = 1000
"""Env steps before the first update."""
AXES = ("update_to_data", "fcnet_hiddens", "train_batch_size_total")


def planted(updates: float, width: float, batch: float = 64) -> float:
    """Env steps to the target by the law of Fu et al.; a larger batch takes a tenth less."""
    return (6000 + 9000 * updates**-0.7 + 4000 * (width / 64) ** -0.8) * (0.9 if batch > 64 else 1.0)


def layers(width: int) -> list[tuple[int, int]]:
    """Of a network with six inputs, two hidden layers and three outputs."""
    return [(6, width), (width, width), (width, 3)]


def study(
    env_steps: Callable[[float, float, float], float] = planted,
    spread: float = 0.1,
    num_seeds: int = 3,
    updates: Sequence[float] = (0.25, 0.5, 1.0, 2.0),
    widths: Sequence[int] = (32, 64, 128),
    batches: Sequence[int] = (64, 256),
    budget: int = 200_000,
    seed: int = 0,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Runs and curves of a grid: env steps to the target are log-normal, and unknown beyond the budget.

    Args:
        env_steps: Of updates per env step, width and batch: those of the middle seed.
        spread: Standard deviation of their logarithm over seeds.
        num_seeds: Of each configuration.
        updates: Updates per env step.
        widths: Of both hidden layers.
        batches: Rows of an update.
        budget: Env steps of a trial.
        seed: Of what is drawn.
    """
    rng = np.random.default_rng(seed)
    points = {f"utd={u:g} h={w}x{w} b={b}": (u, w, b) for u, w, b in itertools.product(updates, widths, batches)}
    taken = {
        config: [round(env_steps(*point) * np.exp(spread * z)) for z in rng.standard_normal(num_seeds)]
        for config, point in points.items()
    }
    settings = {
        "update_to_data": {config: u for config, (u, _, _) in points.items()},
        "fcnet_hiddens": {config: f"[{w}, {w}]" for config, (_, w, _) in points.items()},  # as MLflow has it
        "train_batch_size_total": {config: b for config, (_, _, b) in points.items()},
        "update_flops": {config: dqn_update(layers(w), b, double_q=False) for config, (_, w, b) in points.items()},
        "action_flops": {config: forward(layers(w)) for config, (_, w, _) in points.items()},
    }
    runs = make_runs(
        {config: [-90.0] * num_seeds for config in points},
        env="acrobot",
        target=-100.0,
        score_range=(-500.0, 0.0),
        budget_env_steps=budget,
        params=settings,  # type: ignore[arg-type]
        env_steps_to_target={config: [s if s <= budget else np.nan for s in steps] for config, steps in taken.items()},
    )
    ends = {(config, s): min(steps, budget) for config, of_seeds in taken.items() for s, steps in enumerate(of_seeds)}
    curves = {
        (config, s): {"progress/updates": [(end, 1.0, points[config][0] * max(0, end - BEFORE))]}
        for (config, s), end in ends.items()
    }
    return runs, make_curves(runs, curves)


def frontier(study: Any) -> pd.DataFrame:
    """A configuration for each of a study's, three points of a frontier, and the best of them."""
    rows = [
        {
            "what": figure.MEASURED,
            "label": "",
            "censored": i == 1,
            "flops": 1e11 * 1.5**i,
            **study.with_interval("env_steps", 30_000.0 - 500 * i, 2000.0),
        }
        for i in range(len(study.names))
    ]
    for what, flops, label in (
        *((figure.PREDICTED, flops, "") for flops in (1e11, 1e12, 1e13)),
        (figure.BEST, 1e13, "4 updates per env step,\nwidth 256,\na batch of 64"),
    ):
        at = {"env_steps": 2e8 * flops**-0.35, "flops": flops}
        ends = {"env_steps_low": 0.8 * at["env_steps"], "env_steps_high": 1.2 * at["env_steps"]}
        rows.append({"what": what, "label": label, "censored": False, **at, **ends})
    return pd.DataFrame(rows)


FIGURES = {"compute_frontier": (figure.plot, frontier)}
UNITS = {"compute_frontier": ("compute to target (floating-point operations)", "env steps to target")}
"""Labels of the axes."""
