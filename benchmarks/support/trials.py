"""The trials of the suite's own commands."""

from collections.abc import Sequence

import hydra

from experiments.config.compose import composer, composing, split_space
from experiments.config.schema import parse
from experiments.config.trial_config import TrialConfig
from experiments.planning.machines import local_machine
from experiments.planning.plan import plan_study


def trial_of_command(words: Sequence[str], seed: int) -> TrialConfig:
    """The trial of a command's first configuration on this machine.

    Args:
        words: The overrides of `experiments/run.py`.
        seed: The trial's.
    """
    with composing():
        compose = composer(hydra.compose("config", overrides=split_space(list(words))[0]), list(words))
        suite = parse(compose({}))
        return plan_study(suite, compose, local_machine(suite.hardware)).configurations[0].trial(seed)
