"""The plan of a study that chooses its trials as it goes."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from experiments.config.errors import ConfigurationError
from experiments.config.lr_rules import is_rule
from experiments.config.schema import Fifo, OptunaSearch, Pbt, RacingSearch, SuiteConfig, parse, searching_seeds
from experiments.config.space import Choice, Point, base_point, corners, parse_space, points
from experiments.config.trial_config import Compose, Start, TrialConfig
from experiments.planning.plan import Configuration, Plan, Resolver, concurrency_of, distinct, make_plan, plural, resolver_of
from experiments.planning.resources import Cluster
from experiments.search.optuna_search import Suggested
from experiments.search.population import Population
from experiments.search.racing import Racing
from experiments.search.strategy import CONFIRM, FIXED, SEARCH, Ask, Confirming, Listed, Strategy
from experiments.search.trial_queue import Limits

GENERATIONS = 5
"""Of a population, unless the configuration says otherwise."""
_ANY_OBJECTIVE = ("score",)
"""Of a search that asks for a list, whatever comes out: what its results are ranked by."""


@dataclass(frozen=True)
class SearchPlan(Plan):
    """A study that chooses its trials as it goes: `configurations` and `trials` grow.

    Attributes:
        resolver: Points to configurations.
        known: Those that may be run; of an endless space its corners, and the base.
        base: The point that the study starts from.
        asked: The trials so far, in order.
    """

    resolver: Resolver = field(kw_only=True)
    known: Sequence[Configuration] = field(kw_only=True)
    base: Point = field(kw_only=True)
    asked: list[TrialConfig] = field(default_factory=list)

    def take(self, ask: Ask, parent: TrialConfig | None = None) -> TrialConfig:
        """A trial that was asked for, from now on one of the plan.

        Args:
            ask: By the strategy.
            parent: Whose weights it starts from.

        Raises:
            ConfigurationError: Its configuration is refused.
        """
        generation = ask.note.get("generation")
        alike = (c for c in (*self.configurations, *self.known) if c.point == ask.point and _generation_of(c) == generation)
        if (ready := next(alike, None)) is None:
            ready = self.resolver.configuration(ask.point)
            if generation is not None:
                ready = self._until(ready, generation, ask.note["until"])
        self.add(ready)
        trial = replace(ready.trial(ask.seed, phase=ask.phase), exploratory=self.suite.confirms and ask.phase != CONFIRM)
        if parent is not None:
            trial = replace(trial, start=Start(parent.folder_name, ask.note["from"], ask.note["copied"]))
        self.asked.append(trial)
        return trial

    def _until(self, configuration: Configuration, generation: int, end: int) -> Configuration:
        """One that trains to the end of a generation of a population, where its checkpoint is what the next one starts from."""
        suite = configuration.suite
        checkpoint = replace(suite.checkpoint, every_env_steps=self.generation_ends()[0])
        suite = replace(suite, budget_env_steps=end, checkpoint=checkpoint, scheduler=Fifo())
        return replace(configuration, label=f"{configuration.label} g={generation}", suite=suite)

    def generation_ends(self) -> list[int]:
        """Env steps at which the generations of a population end; the last one at the budget."""
        scheduler, budget, grid = self.suite.scheduler, self.suite.budget_env_steps, self.report_every_env_steps
        assert isinstance(scheduler, Pbt)
        every = scheduler.interval_env_steps or math.ceil(budget / GENERATIONS / grid) * grid
        return [*range(every, budget, every), budget]

    def add(self, configuration: Configuration) -> None:
        """Let a configuration be one of the plan's."""
        assert isinstance(self.configurations, list)
        if configuration.label not in self.facts:
            self.configurations.append(configuration)

    def strategy(self, storage: Path | None = None) -> Strategy:
        """What chooses the trials.

        Args:
            storage: SQLite file for Optuna's study; None keeps it in memory.
        """
        suite, search, seeds = self.suite, self.suite.search, searching_seeds(self.suite)
        own = [c.point for c in self.known]  # of rules at their base, one stands for all
        listed = [point for point in points(suite.study.space, search) if point in own]
        if not suite.confirms:
            return Listed(listed, seeds, _ANY_OBJECTIVE, FIXED)
        proposals: Strategy
        if isinstance(pbt := suite.scheduler, Pbt):
            axes, ends = parse_space(suite.study.space), self.generation_ends()
            first = first_generation(listed, pbt.population, pbt.seed)
            population = Population(axes, first, seeds, ends, pbt.quantile, pbt.resample_probability, pbt.seed)
            return Confirming(population, self.base, suite.confirmation.top, suite.confirmation.seeds)
        if isinstance(search, OptunaSearch) or (isinstance(search, RacingSearch) and search.proposals == "optuna"):
            axes = parse_space(suite.study.space)
            proposals = Suggested(axes, search.num_samples, seeds, search.objective, search.sampler, search.seed, storage)
        elif isinstance(search, RacingSearch):
            proposals = Listed(listed, seeds[:1], search.objective)
        else:
            proposals = Listed(listed, seeds, _ANY_OBJECTIVE, SEARCH if suite.is_search else FIXED)
        found = Racing(proposals, seeds, search.max_trials) if isinstance(search, RacingSearch) else proposals
        return Confirming(found, self.base, suite.confirmation.top, suite.confirmation.seeds)

    @cached_property
    def outline(self) -> Strategy:
        """A strategy that nobody runs: what it may come to."""
        return self.strategy()

    def limits(self) -> Limits:
        """What the study may cost."""
        return Limits(max(c.suite.budget_env_steps for c in self.possible), self.suite.max_env_steps, self.suite.max_minutes)

    @property
    def ahead(self) -> int:
        """Trials under way while another one is chosen: those that run, and one that waits for the first process to be free."""
        return self.concurrency if self.suite.hardware.max_concurrent_trials else self.concurrency + 1

    @property
    @override
    def trials(self) -> list[TrialConfig]:
        return self.asked

    @property
    @override
    def possible(self) -> Sequence[Configuration]:
        return self.known

    @property
    @override
    def num_trials(self) -> int:
        limits, most = self.limits(), self.outline.most_trials
        return most if limits.max_env_steps is None else min(most, limits.max_env_steps // limits.trial_env_steps)

    @property
    @override
    def total_env_steps(self) -> int:
        limits, strategy = self.limits(), self.outline
        total = self.num_trials * limits.trial_env_steps
        if isinstance(self.suite.scheduler, Pbt) and isinstance(strategy, Confirming):  # a generation of a member is a trial
            total = (self.suite.scheduler.population + strategy.num_confirming) * limits.trial_env_steps
        return total if limits.max_env_steps is None else min(total, limits.max_env_steps)

    @property
    @override
    def report_every_env_steps(self) -> int:
        assert self.resolver.report_every_env_steps is not None
        return self.resolver.report_every_env_steps

    @override
    def record(self) -> dict[str, Any]:
        trials = [
            {
                **{"config": t.label, "seed": t.seed, "phase": t.phase, "exploratory": t.exploratory},
                **({"start": asdict(t.start)} if t.start else {}),
            }
            for t in self.asked
        ]
        base = next((c.label for c in self.known if c.point == self.base), "")
        objectives = list(self.outline.objectives)
        how = {"base": base, "objectives": objectives} if self.suite.confirms else {}
        return {**super().record(), **how, "trials": trials, "phase": SEARCH if self.suite.is_search else FIXED}

    @override
    def study_params(self) -> dict[str, Any]:
        endless = not all(isinstance(axis, Choice) for axis in parse_space(self.suite.study.space).values())
        return {**super().study_params(), "configurations": "endless" if endless else len(self.known)}

    @override
    def summary(self) -> str:
        strategy, limits = self.outline, self.limits()
        size = (
            f"at most {plural(self.num_trials, 'trial')}, {self.total_env_steps:,} env steps, reported every "
            f"{self.report_every_env_steps:,}, {self.concurrency} at once"
        )
        bounds = [f"{limits.max_minutes:g} minutes"] if limits.max_minutes else []
        size += "".join(f", within {bound}" for bound in bounds)
        if not isinstance(strategy, Confirming):
            return f"{plural(len(self.known), 'configuration')} x {plural(len(self.seeds), 'seed')}: {size}"
        confirmed = f"the {strategy.top} best and the base on {plural(len(self.suite.confirmation.seeds), 'held-out seed')}"
        how = " ".join(f"{group}={name}" for group, name in self._how().items())
        searching = plural(strategy.search.most_trials, "trial") + (" that search" if self.suite.is_search else "")
        return f"{how}: {searching}, then {confirmed}: {size}"

    def _how(self) -> Mapping[str, str]:
        names = {"search": self.suite.search.name, "scheduler": self.suite.scheduler.name}
        return {group: name for group, name in names.items() if name != "fifo"}


def first_generation(listed: Sequence[Point], population: int, seed: int) -> list[Point]:
    """A point for each member: all different, as far as there are enough.

    Args:
        listed: To take from.
        population: Members.
        seed: Of the draw.
    """
    order = np.random.default_rng(seed).permutation(len(listed))
    return [listed[order[member % len(listed)]] for member in range(population)]


def _generation_of(configuration: Configuration) -> int | None:
    found = re.search(r" g=(\d+)$", configuration.label)
    return int(found[1]) if found else None


def _check_population(suite: SuiteConfig, plan: SearchPlan) -> None:
    """Make sure that a population can vary what the study searches.

    Raises:
        ConfigurationError: It cannot.
    """
    if not plan.searched:
        raise ConfigurationError("scheduler=pbt needs a study.space whose settings it may vary; this study has none.")
    for path, axis in parse_space(suite.study.space).items():
        if not path.startswith("algorithm.training."):
            raise ConfigurationError(
                f"scheduler=pbt: {path} cannot change while a member trains. Give it a study.space of algorithm.training settings alone."
            )
        if isinstance(axis, Choice) and any(is_rule(value) for value in axis.values):
            raise ConfigurationError(f"scheduler=pbt: {path} has rules, and a population varies numbers. Give it a list of numbers.")
    grid, every = plan.report_every_env_steps, plan.generation_ends()[0]
    if every % grid:
        raise ConfigurationError(
            f"scheduler.interval_env_steps={every} is not a multiple of report_every_env_steps={grid}. "
            f"Try scheduler.interval_env_steps={max(1, round(every / grid)) * grid}."
        )


def plan_study(compose: Compose, cluster: Cluster) -> Plan:
    """Resolve, build and check a study, of either kind: `make_plan` for one whose trials are known, else what it may come to.

    Args:
        compose: Composes the configuration with the given group choices.
        cluster: What there is to run on.

    Raises:
        ConfigurationError: Anything is wrong.
    """
    composed = compose({})
    suite = parse(composed)
    if not is_chosen(suite):
        return make_plan(compose, cluster)
    space = suite.study.space
    base = base_point(space, composed)
    listed = points(space, suite.search)
    resolver = resolver_of(compose, composed, cluster, max(1, len(listed)) * len(suite.seeds), [*listed, base])
    known = distinct(resolver.configuration(point) for point in (listed or corners(space)))
    known = (*known, *(c for c in [resolver.configuration(base)] if c.trial(0).config_id not in {k.trial(0).config_id for k in known}))
    concurrency = concurrency_of(suite, known, cluster)
    plan = SearchPlan(suite, composed, [], tuple(space), cluster, concurrency, resolver=resolver, known=known, base=base)
    limits = plan.limits()
    if limits.max_env_steps is not None and limits.max_env_steps < limits.trial_env_steps:
        raise ConfigurationError(
            f"max_env_steps={limits.max_env_steps} is less than a trial's budget_env_steps={limits.trial_env_steps}: nothing could run. "
            f"Try max_env_steps={10 * limits.trial_env_steps}."
        )
    if isinstance(suite.scheduler, Pbt):
        _check_population(suite, plan)
    return plan


def is_chosen(suite: SuiteConfig) -> bool:
    """Whether a study chooses its trials as it goes."""
    return suite.confirms or suite.max_env_steps is not None or suite.max_minutes is not None
