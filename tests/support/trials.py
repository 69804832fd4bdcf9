"""Trials in the test's own process: small ones, and what they say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.config.trial_config import TrialConfig
from experiments.contract import FAILED, METRICS, depends_on_clock
from experiments.trial.events import Ended, Reported
from experiments.trial.trainable import Trial
from experiments.trial.tune_keys import EVENTS, FOLDER, RECYCLE_PROCESS, TRIAL
from tests.support.suite import TINY, PlanOf

COUNT = ("env.id=tiny_envs:tiny/Count-v0", "env.vectorize_mode=sync")

SEQUENCES = ("algorithm.training.replay_buffer_config.type=EpisodeReplayBuffer", "algorithm.training.n_step=1")
"""What a recurrent DQN samples from."""
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

STEP, WEIGHTS, FAILURE, RESTARTS, REPRODUCIBLE = "report_env_steps", "weights", "failure", "restarts", "reproducible"
"""Keys of what a trial says in a step, beside its metrics."""

Make = Callable[..., Trial]


def step(trial: Trial) -> dict[str, Any]:
    """What a trial says in a step, flat: its metrics, and whatever else its events hold."""
    result = trial.train()
    said: dict[str, Any] = {RESTARTS: trial._restarts, REPRODUCIBLE: trial._reproducible}
    for event in result[EVENTS]:
        if isinstance(event, Reported):
            said |= {**event.metrics, STEP: event.env_steps}
        if isinstance(event, Ended):
            said |= {**event.metrics, STEP: event.env_steps, WEIGHTS: event.weights}
            said |= {FAILURE: event.reason, "diverged": event.diverged} if event.status == FAILED else {}
    return {**said, "done": result["done"], RECYCLE_PROCESS: result[RECYCLE_PROCESS]}


def run(trial: Trial) -> list[dict[str, Any]]:
    """All that a trial says, to its end."""
    said = [step(trial)]
    while not said[-1]["done"]:
        said.append(step(trial))
    return said


def learned(said: dict[str, Any]) -> dict[str, Any]:
    """What must not depend on the clock."""
    return {k: v for k, v in said.items() if k in METRICS and not depends_on_clock(k)}


def tiny(plan_of: PlanOf, *overrides: str) -> TrialConfig:
    # On two CPUs a trial samples in its own process, so that trials of one test do not compete for runners.
    return plan_of(*TINY, "seeds=[0]", "study.space={}", *overrides).trials[0]


def with_folder(config: TrialConfig, folder: Path) -> dict[str, Any]:
    return {TRIAL: {**config.to_mapping(), FOLDER: str(folder)}}
