"""From the points of a study's space to its configurations: parsed once, counted,
put on a common report grid, built once.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from experiments.config.errors import ConfigurationError
from experiments.config.lr_rules import is_rule, names_of, rules_of
from experiments.config.named_axes import settings_of
from experiments.config.schema import SuiteConfig, with_report_grid
from experiments.config.space import Point, corners, points
from experiments.config.trial_config import GROUPS, Compose, apply_point, is_own_setting, label_of
from experiments.contract import MAX_REPORTS, NAMED_AXES
from experiments.planning.configuration import Configuration, ResolvedPoint
from experiments.planning.machines import Cluster
from experiments.planning.resources import checked_algorithm, layout_of, with_counts
from experiments.rllib.algorithms import on_policy_batch
from experiments.rllib.made_environments import longest_episode

LEAST_REPORTS = 10
"""Of a trial, where nobody says how many and its batches allow it."""
MOST_NAMED = 3
"""Points that are another one, named each."""
CHECKPOINTS_PER_TRIAL = 4
"""Unless the configuration says otherwise: a kill costs a quarter of a trial at most."""


@dataclass(frozen=True)
class Resolver:
    """Turns points into configurations.

    Attributes:
        composed: Group choices, as sorted pairs, to the configuration that was composed with them.
        cluster: The machines to run on.
        report_every_env_steps: The study's report grid; None until it is chosen.
        axes: Paths of the study's space.
    """

    composed: Mapping[tuple[tuple[str, str], ...], Mapping[str, Any]]
    cluster: Cluster
    report_every_env_steps: int | None = None
    axes: tuple[str, ...] = ()

    def parsed(self, point: Point) -> ResolvedPoint:
        """A point's settings as they are given.

        Raises:
            ConfigurationError: A path leads nowhere, or a value is invalid.
        """
        composed = self.composed[tuple(sorted((k, v) for k, v in point.items() if k in GROUPS))]
        settings = settings_of(point, composed)
        return ResolvedPoint("", point, settings, apply_point(composed, settings.by_path))

    def counted(self, parsed: ResolvedPoint) -> ResolvedPoint:
        """The same with every runner and learner counted, numbers in place of rules, and a label that says them.

        Raises:
            ConfigurationError: The algorithm's settings are wrong.
        """
        rules = rules_of(parsed.suite.algorithm)
        suite = with_counts(parsed.suite, rules, self.cluster)
        names = names_of(suite.algorithm, rules)
        names |= {NAMED_AXES[axis]: names[first] for axis, first in parsed.settings.ruled.items()}
        shown = {
            p: names[NAMED_AXES.get(p, p.rpartition(".")[2])] if is_rule(v) and is_own_setting(p) else v
            for p, v in parsed.settings.shown.items()
        }
        return replace(
            parsed,
            label=label_of(shown, f"{suite.algorithm['name']}-{suite.env.name}", self.axes),
            suite=suite,
            rules=names,
        )

    def on_grid(self, counted: ResolvedPoint) -> ResolvedPoint:
        """The same on the study's report grid, with the spacing of its checkpoints.

        Raises:
            ConfigurationError: Something else does not fit that grid.
        """
        assert self.report_every_env_steps is not None
        return replace(
            counted, suite=with_checkpoint_spacing(with_report_grid(counted.suite, self.report_every_env_steps))
        )

    def configuration(self, point: Point) -> Configuration:
        """A point, ready to run.

        Raises:
            ConfigurationError: It is invalid, RLlib refuses it, or the cluster cannot hold it.
        """
        return Configuration.of(self.on_grid(self.counted(self.parsed(point))), self.cluster)


def check_first(suite: SuiteConfig, compose: Compose) -> None:
    """Check RLlib's settings of a study's first configuration, before anything is counted or built.

    One that varies a group is left alone.

    Raises:
        ConfigurationError: One is wrong.
    """
    space, composed = suite.study.space, compose({})
    if {*space} & {*GROUPS}:
        return
    first = next(iter(points(space, suite.search) or corners(space)), {})
    algorithm = apply_point(composed, settings_of(first, composed).by_path).algorithm
    checked_algorithm(algorithm, rules_of(algorithm))


def distinct(resolved: Iterable[ResolvedPoint]) -> tuple[list[ResolvedPoint], list[str]]:
    """The points of a study that are different configurations; of those that come out as one, a number of runners that
    is left to the suite and the one that it chooses, say, the one that says most.

    Returns:
        The points, and of those left out which they are, a clause each.

    Raises:
        ConfigurationError: Two configurations read the same, or differ only in how they are measured.
    """
    found: dict[str, ResolvedPoint] = {}
    same: list[str] = []
    for new in resolved:
        twin = found.setdefault(new.config_id, new)
        if twin.label == new.label:  # at their base batch, all rules are one configuration
            continue
        if replace(twin.trial(0), label=new.label) != new.trial(0):  # they differ in what is measured alone
            raise ConfigurationError(
                f"study.space: {new.label!r} and {twin.label!r} come out as the same configuration."
            )
        kept, other = (new, twin) if None in twin.point.values() else (twin, new)
        found[new.config_id] = kept
        same.append(f"{other.label}, which is {kept.label} here")
    labels = [point.label for point in found.values()]
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise ConfigurationError(
            f"study.space: two configurations read {twice!r} when their values are rounded for display."
        )
    more = len(same) - MOST_NAMED
    return list(found.values()), same[:MOST_NAMED] + ([f"{more} more that are another one here"] if more > 0 else [])


def with_checkpoint_spacing(suite: SuiteConfig) -> SuiteConfig:
    """The same with the spacing of its checkpoints: a quarter of the budget,
    but at least two whole episodes of each environment.

    Environments that cannot be saved are reset at a checkpoint: where they are reset too often,
    long episodes never end.

    Args:
        suite: The settings, with report grid and counts.
    """
    if suite.checkpoint.every_env_steps is not None:
        return suite
    grid = suite.report_every_env_steps
    assert grid is not None, "the report grid is chosen first"
    episodes = 2 * layout_of(suite.algorithm).total_envs * longest_episode(suite.env)
    least = max(suite.budget_env_steps / CHECKPOINTS_PER_TRIAL, episodes)
    every = min(suite.budget_env_steps, math.ceil(least / grid) * grid)
    return replace(suite, checkpoint=replace(suite.checkpoint, every_env_steps=every))


def report_grid(suites: Sequence[SuiteConfig]) -> int:
    """The report grid of a study: what was asked for, else the finest that each env's default and each batch allow.

    Where that makes fewer than `LEAST_REPORTS`, the env's default, which is for its own budget, gives way:
    a choice that rests on two evaluations is no choice.

    Raises:
        ConfigurationError: The study's trials ask for different ones, or a budget is too small for one report.
    """
    asked = {suite.report_every_env_steps for suite in suites if suite.report_every_env_steps is not None}
    if len(asked) > 1:
        raise ConfigurationError(
            f"report_every_env_steps differs between the trials of the study: {sorted(asked)}. Set it: "
            f"report_every_env_steps={max(asked)}."
        )
    if asked:
        return asked.pop()
    batch, budgets = max(on_policy_batch(suite.algorithm) for suite in suites), [s.budget_env_steps for s in suites]
    budget = math.gcd(*budgets)
    if batch > budget:
        raise ConfigurationError(
            f"budget_env_steps={budget} is less than the largest batch, of {batch} env steps, "
            f"so there would be no report. Try budget_env_steps={LEAST_REPORTS * batch}, or a smaller batch."
        )
    # of `budget` env steps, of which a trial has a multiple
    finest = budget // max(1, batch, math.ceil(max(budgets) / MAX_REPORTS))
    usual = min(finest, budget // max(suite.env.report_every_env_steps for suite in suites))
    least = math.ceil(LEAST_REPORTS * budget / min(budgets))
    wanted = (*range(usual, least - 1, -1), *range(max(usual, least), finest + 1), *range(finest, 0, -1))
    return budget // next((reports for reports in wanted if budget % reports == 0), 1)
