"""Plans without a command: composed as Hydra does, with each choice of files read once in all tests,
which takes 0.2 s.
"""

import copy
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import hydra
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig

from experiments.config.choices import hydra_search_path
from experiments.config.compose import CONF, check_axes_are_free, composer, split_space, with_new_keys
from experiments.config.schema import parse
from experiments.config.trial_config import Compose
from experiments.planning.machines import Cluster, Node
from experiments.planning.plan import Plan, plan_study

GROUPS = sorted(folder.name for folder in CONF.iterdir() if folder.is_dir() and any(folder.glob("*.yaml")))
SEARCHED = tuple(hydra_search_path(None))


def compose(overrides: Sequence[str]) -> DictConfig:
    """As `hydra.compose`, where Hydra has the suite's files: it applies all overrides
    but the choices of files to a copy.
    """
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    values = [o for o in parsed if o.key_or_group not in GROUPS and o.package is None]
    config = copy.deepcopy(chosen(tuple(o.input_line for o in parsed if o not in values and o.input_line)))
    ConfigLoaderImpl._apply_overrides_to_config(values, config)
    return config


@functools.cache
def chosen(choices: tuple[str, ...]) -> DictConfig:
    """The configuration that consists of these files, to read only."""
    return hydra.compose("config", overrides=[*SEARCHED, *choices])


def plan_for(*overrides: str, cluster: Cluster | None = None) -> Plan:
    """Command-line overrides to a checked plan, as `run.py` makes it. By default for a machine of two CPUs."""
    return composed_for(*overrides, cluster=cluster)[0]


def composed_for(*overrides: str, cluster: Cluster | None = None) -> tuple[Plan, Compose]:
    """The same, with what it was composed with."""
    overrides = (*with_new_keys(overrides),)
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        start = composer(compose(split_space(overrides)[0]), [*SEARCHED, *overrides])
        check_axes_are_free(start({}), overrides)
        plan = plan_study(parse(start({})), start, cluster or Cluster((Node(2, 0),)))

    def again(choices: Mapping[str, str]) -> Mapping[str, Any]:
        with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
            return start(choices)

    return plan, again
