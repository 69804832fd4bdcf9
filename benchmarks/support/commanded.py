"""The plans of the suite's own commands."""

from collections.abc import Sequence

import hydra

from experiments.config.compose import composer, composing, split_space
from experiments.config.schema import parse
from experiments.planning.machines import Cluster, local_machine
from experiments.planning.plan import Plan, plan_study


def plan_of_command(words: Sequence[str], cluster: Cluster | None = None) -> Plan:
    """What a command is about to run.

    Args:
        words: The overrides of `experiments/run.py`.
        cluster: What it runs on; None: this machine.
    """
    with composing():
        compose = composer(hydra.compose("config", overrides=split_space(words)[0]), words)
        suite = parse(compose({}))
        return plan_study(suite, compose, cluster or local_machine(suite.hardware))
