"""Trials in the test's own process: small ones, and what they report."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.config.trial_config import TrialConfig
from experiments.metrics import METRICS, depends_on_clock
from experiments.trial.trainable import FOLDER, TRIAL, Trial
from tests.support.suite import TINY, PlanOf

COUNT = ("env.id=tiny_envs:tiny/Count-v0", "env.vectorize_mode=sync")

REPLAY = (
    "study=smoke",
    "budget_env_steps=400",
    "report_every_env_steps=100",
    "checkpoint.every_env_steps=200",
    "evaluation.episodes=2",
    "evaluation.final_episodes=2",
    "algorithm.training.num_steps_sampled_before_learning_starts=100",
)
"""Algorithms that learn from a replay buffer, and soon."""

Make = Callable[..., Trial]


def run(trial: Trial) -> list[dict[str, Any]]:
    reports = [trial.train()]
    while not reports[-1]["done"]:
        reports.append(trial.train())
    return reports


def learned(report: dict[str, Any]) -> dict[str, Any]:
    """What must not depend on the clock."""
    return {k: v for k, v in report.items() if k in METRICS and not depends_on_clock(k)}


def tiny(plan_of: PlanOf, *overrides: str) -> TrialConfig:
    # On two CPUs a trial samples in its own process, so that trials of one test do not compete for runners.
    return plan_of(*TINY, "seeds=[0]", "study.space={}", *overrides).trials[0]


def with_folder(config: TrialConfig, folder: Path) -> dict[str, Any]:
    return {TRIAL: {**config.to_mapping(), FOLDER: str(folder)}}
