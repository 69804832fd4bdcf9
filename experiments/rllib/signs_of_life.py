"""What the processes of an algorithm call while they work: a training step of many env steps in a slow simulator,
or of many passes over pictures, takes longer than a process that hangs is waited for.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from experiments.rllib.training_steps import call_after_training_steps


def call_while_working(algorithm: Any, call: Callable[[], None]) -> None:
    """Call something after each training step of an algorithm, each step of its runners' environments
    and each minibatch of its learners, in the process that did it.

    Args:
        algorithm: RLlib's, built.
        call: Goes to the processes of runners and learners, unless these are in the algorithm's own.
    """
    call_after_training_steps(algorithm, lambda env_steps: call())
    algorithm.env_runner_group.foreach_env_runner(partial(_at_env_steps, call=call))
    algorithm.learner_group.foreach_learner(partial(_at_minibatches, call=call))


def _at_env_steps(runner: Any, call: Callable[[], None]) -> None:
    runner.on_step = call


def _at_minibatches(learner: Any, call: Callable[[], None]) -> None:
    # RLlib logs values at each. A method in place of `_update` would make a fast learner leave its updates to RLlib.
    log_value = learner.metrics.log_value

    def logged(*args: Any, **kwargs: Any) -> None:
        call()
        log_value(*args, **kwargs)

    learner.metrics.log_value = logged
    learner.on_minibatch = call  # a learner of experiments.fast logs the last ones
