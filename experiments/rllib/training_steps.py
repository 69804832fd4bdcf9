"""What is done after each training step of an algorithm: an iteration of one that replays has thousands."""

from collections.abc import Callable
from typing import Any

from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME

from experiments.fast.off_policy import FastOffPolicy


def call_after_training_steps(algorithm: Any, call: Callable[[float], None]) -> None:
    """Call something after each training step of an algorithm, after what was asked for before.

    Args:
        algorithm: RLlib's, built.
        call: Takes the env steps sampled in the algorithm's lifetime. What it changes in modules has to be changed in
            place.
    """
    if isinstance(algorithm, FastOffPolicy):
        earlier = algorithm.on_training_step

        def on_training_step(env_steps: float) -> None:
            earlier(env_steps)
            call(env_steps)

        algorithm.on_training_step = on_training_step
        return
    step = algorithm.training_step

    def training_step() -> None:
        step()
        call(float(algorithm.metrics.peek((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME), default=0)))

    algorithm.training_step = training_step
