"""What tests share of the suite: its root, a small study, and the types of the fixtures."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.planning.plan import Plan

ROOT = Path(__file__).resolve().parents[2]

ALGORITHMS = tuple(sorted(file.stem for file in (ROOT / "conf" / "algorithm").glob("*.yaml")))
"""Every algorithm, by the files that there are."""
PAIRS = [
    (algorithm, env.stem)
    for algorithm in ALGORITHMS
    for env in sorted((ROOT / "conf").glob("env/*.yaml"))
    if env.stem != "gym"  # which needs an id
]
"""Every algorithm on every environment, by the files that there are."""

PlanOf = Callable[..., "Plan"]
RunSuite = Callable[..., subprocess.CompletedProcess[str]]

TINY = (
    "study=smoke",
    "budget_env_steps=2048",
    "report_every_env_steps=1024",
    "evaluation.episodes=2",
    "evaluation.final_episodes=2",
    "algorithm.training.train_batch_size_per_learner=512",
)
RULES = (
    "study.space={learning_rate: [{rule: constant}, {rule: sqrt}, {rule: linear}], "
    "batch_size: {distribution: multiples, factors: [0.25, 0.5, 1, 2]}}"
)
"""A space in which the learning rate follows the batch by rules."""
