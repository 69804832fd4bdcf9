"""Modules that explore with noise that lasts, and what they see."""

from typing import Any

import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns

from experiments.rllib.building import build_algorithm_config, environment_of
from experiments.rllib.made_environments import spaces
from tests.support.suite import PlanOf

ONE = ("study=smoke", "study.space={}", "seeds=[0]")


def module_of(plan_of: PlanOf, *overrides: str) -> Any:
    """The module of a trial on Pendulum with these overrides, from the same random numbers each time."""
    trial = plan_of(*ONE, "env=pendulum", *overrides).trials[0]
    torch.manual_seed(0)
    found = {DEFAULT_MODULE_ID: spaces(environment_of(trial))}
    return build_algorithm_config(trial).get_rl_module_spec(spaces=found).build()


def observations(rows: int) -> dict[str, torch.Tensor]:
    """A batch of Pendulum's."""
    return {Columns.OBS: torch.randn(rows, 3, generator=torch.Generator().manual_seed(0))}
