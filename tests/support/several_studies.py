"""Studies of learning rate and batch in several environments, made by hand, as comparisons of studies take them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from analysis.questions.shared_settings import Source
from tests.support.study_frames import BUDGET, make_runs

LR, BATCH = "algorithm.training.lr", "algorithm.training.train_batch_size_per_learner"
FACTORS = {"learning_rate": (0.1, 0.3, 1.0, 3.0, 10.0), "batch_size": (0.25, 1.0)}
AXES = {"learning_rate": ["training.lr"], "batch_size": ["training.train_batch_size_per_learner"], "update_to_data": []}
BASE = (3e-3, 2048)
Score = Callable[[float, int], float]


def composed(env: str, algorithm: str, base: tuple[float, int], space: dict[str, Any]) -> dict[str, Any]:
    training = {"lr": base[0], "train_batch_size_per_learner": base[1]}
    return {
        "study": {"space": space},
        "algorithm": {"name": algorithm, "axes": AXES, "training": training},
        "env": {"name": env},
    }


def source(
    letter: str,
    score: Score,
    env: str = "cartpole",
    *,
    base: tuple[float, int] = BASE,
    factors: Sequence[float] = FACTORS["learning_rate"],
    as_values: bool = False,
    algorithm: str = "ppo",
    num_seeds: int = 6,
    noise: float = 5.0,
    **of_runs: Any,
) -> Source:
    """A study of multiples of a base point.

    Args:
        letter: What it is called; the noise of its seeds is its own.
        score: Of a learning rate and a batch.
        env: The environment.
        base: Learning rate and batch that it starts from.
        factors: Of the learning rate.
        as_values: Whether its space lists the products themselves.
        algorithm: Its name.
        num_seeds: Of each setting.
        noise: Standard deviation of a score.
        of_runs: As for `make_runs`.
    """
    rng = np.random.default_rng(ord(letter))
    points = {
        f"{env} lr={base[0] * f:g} b={base[1] * g:g}": (float(f"{base[0] * f:.12g}"), round(base[1] * g))
        for f in factors
        for g in FACTORS["batch_size"]
    }
    scores = {name: score(*point) + rng.normal(0, noise, num_seeds) for name, point in points.items()}
    params = {
        "lr": {name: lr for name, (lr, _) in points.items()},
        "train_batch_size_total": {name: batch for name, (_, batch) in points.items()},
    }
    runs = make_runs(scores, env=env, params=params, **{"budget_env_steps": BUDGET, **of_runs})
    space = {
        "learning_rate": {"distribution": "multiples", "factors": list(factors)},
        "batch_size": {"distribution": "multiples", "factors": list(FACTORS["batch_size"])},
    }
    if as_values:
        space = {LR: sorted({*params["lr"].values()}), BATCH: sorted({*params["train_batch_size_total"].values()})}
    return Source(
        letter,
        runs.assign(algorithm=algorithm),
        {"lr": LR, "train_batch_size_total": BATCH},
        {name: {LR: lr, BATCH: batch} for name, (lr, batch) in points.items()},
        composed(env, algorithm, base, space),
    )


def peak(at: float, batch_matters: float = 50.0) -> Score:
    """A score that is best at one learning rate, worse by 150 each decade, and better with a small batch."""
    return lambda lr, batch: 470 - 150 * abs(np.log10(lr / at)) - batch_matters * (batch > 1000)
