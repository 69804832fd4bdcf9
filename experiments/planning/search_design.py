"""How a study that chooses its trials as it goes chooses them, and what it may come to."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from analysis.stats.sequential import Design
from experiments.config.errors import ConfigurationError
from experiments.config.lr_rules import is_rule
from experiments.config.objective_settings import ObjectiveSettings
from experiments.config.schema import SuiteConfig
from experiments.config.search_settings import (
    CompareSearch,
    Fifo,
    GridSearch,
    JointSearch,
    OptunaSearch,
    Pbt,
    RacingSearch,
    RandomSearch,
    searching_seeds,
)
from experiments.config.space import Choice, Point, corners, num_samples, parse_space, points
from experiments.config.trial_config import LAYOUT, TRAINING
from experiments.contract import FIXED, NAMED_AXES, is_work
from experiments.planning.configuration import Configuration
from experiments.planning.resolver import Resolver
from experiments.rllib.algorithms import updates_of_batch
from experiments.search.comparing import Comparing
from experiments.search.confirmation_race import RacedConfirmation
from experiments.search.informed import Informed
from experiments.search.joint import STALENESS, Candidate, Joint
from experiments.search.population import Population
from experiments.search.prior import Prior
from experiments.search.racing import Racing
from experiments.search.strategy import Confirming, Listed, Strategy, key_of
from experiments.search.trial_queue import Limits

GENERATIONS = 5
"""Of a population, unless the configuration says otherwise."""
MOST_COMPARED = 20
"""Configurations of a sequential comparison: 190 pairs."""


@dataclass(frozen=True)
class SearchDesign:
    """How a study chooses its trials.

    Attributes:
        suite: The study's settings.
        known: The configurations that may be run, the base among them; of an endless space its corners.
        base: The point that the study starts from.
        resolver: Resolves the points that the search will ask for.
        prior: What earlier studies found, as it was when the study began; None: it starts from nothing.
    """

    suite: SuiteConfig
    known: Sequence[Configuration]
    base: Point
    resolver: Resolver
    prior: Prior | None = None

    def strategy(self, storage: Path | None = None) -> Strategy:
        """The strategy that chooses the trials.

        Args:
            storage: SQLite file for Optuna's study; None keeps it in memory.
        """
        suite, search, seeds = self.suite, self.suite.search, searching_seeds(self.suite)
        listed = self._listed
        if isinstance(search, CompareSearch):
            return Comparing(listed, seeds, Design(search.seeds_per_look, search.looks, search.alpha))
        if not suite.confirms:
            return Listed(listed, seeds, suite.objectives, FIXED)
        proposals: Strategy
        if isinstance(search, JointSearch):
            own = len(suite.seeds)
            joint = Joint(
                self._candidates,
                self.base,
                seeds[:own],
                search.rounds,
                seeds[own:],
                suite.objectives,
                updates_of_batch(suite.algorithm),
            )
            return Confirming(joint, self.base, suite.confirmation.top, suite.confirmation.seeds, alone=True)
        if isinstance(pbt := suite.scheduler, Pbt):
            axes, ends = parse_space(suite.study.space), self.generation_ends()
            first = first_generation(listed, pbt.population, pbt.seed)
            population = Population(axes, first, seeds, ends, pbt.quantile, pbt.resample_probability, pbt.seed)
            return Confirming(population, self.base, suite.confirmation.top, suite.confirmation.seeds)
        if isinstance(search, OptunaSearch) or (isinstance(search, RacingSearch) and search.proposals == "optuna"):
            axes = parse_space(suite.study.space)
            # with Optuna and its database, for the searches that ask it
            from experiments.search.optuna_search import Suggested

            proposals = Suggested(
                axes,
                num_samples(search, axes),
                seeds,
                suite.objectives,
                search.sampler,
                search.seed,
                storage,
                self.prior,
            )
        elif isinstance(search, RacingSearch):
            proposals = self._to_race(seeds[0])
        elif suite.is_search:
            proposals = Listed(listed, seeds, suite.objectives)
        else:
            shared = [seed for seed in seeds if seed in suite.confirmation.seeds]
            proposals = Listed(listed, [seed for seed in seeds if seed not in shared], suite.objectives, FIXED)
            return Confirming(proposals, self.base, suite.confirmation.top, suite.confirmation.seeds, listed, shared)
        found = Racing(proposals, seeds, search.max_trials) if isinstance(search, RacingSearch) else proposals
        confirming = RacedConfirmation if suite.confirmation.rule == "race" else Confirming
        return confirming(found, self.base, suite.confirmation.top, suite.confirmation.seeds)

    def _to_race(self, seed: int) -> Strategy:
        """The points that a race is about, each with its first seed."""
        if self.prior is None:
            return Listed(self._listed, [seed], self.suite.objectives)
        return Informed(self._listed, seed, self.suite.objectives, self.prior)

    @cached_property
    def _listed(self) -> list[Point]:
        """The points that are known before it starts; of rules that say the same at their base, one."""
        own = [c.point for c in self.known]
        return [point for point in points(self.suite.study.space, self.suite.search) if point in own]

    @cached_property
    def _candidates(self) -> list[Candidate]:
        """What a joint search chooses from."""
        by_point = {key_of(c.point): c for c in self.known if c.is_plain}
        return [
            Candidate(
                point,
                tuple(math.log10(value) for path, value in point.items() if path not in LAYOUT),
                (c := by_point[key_of(point)]).layout.total_envs,
                c.batch_env_steps,
                " ".join(f"{path}={value}" for path, value in point.items() if path not in LAYOUT and is_work(path)),
                f"{c.layout.num_env_runners} x {c.layout.num_envs_per_env_runner} {c.suite.env.vectorize_mode}",
                c.layout.num_env_runners,
                c.suite.budget_env_steps,
            )
            for point in self._listed
        ]

    def measured(self, configuration: Configuration) -> Configuration:
        """A configuration as a joint search measures its throughput."""
        assert isinstance(self.suite.search, JointSearch)
        suite = configuration.suite
        hardware = replace(suite.hardware, max_concurrent_trials=1)
        plain = replace(suite, search=GridSearch(), objective=ObjectiveSettings(), hardware=hardware)
        label = f"{configuration.label}, speed"
        return replace(configuration, label=label, suite=replace(plain, measurement=self.suite.search.measurement))

    def delayed(self, configuration: Configuration, staleness: int) -> Configuration:
        """A configuration as a joint search trains it on older samples.

        Args:
            configuration: Of an algorithm whose training batches can wait.
            staleness: Batches for which they wait, beside those for which they do.
        """
        algorithm = configuration.suite.algorithm
        training = algorithm["training"]
        waits = {STALENESS: training.get(STALENESS, 0) + staleness}
        suite = replace(configuration.suite, algorithm={**algorithm, "training": {**training, **waits}})
        label = f"{configuration.label} {STALENESS}={waits[STALENESS]}"
        return replace(configuration, label=label, suite=suite, staleness=staleness)

    @property
    def num_compared(self) -> int:
        """Configurations that a comparison runs."""
        return len(self._listed)

    @cached_property
    def outline(self) -> Strategy:
        """A strategy that is not run, to count what it may ask for."""
        return self.strategy()

    def limits(self) -> Limits:
        """The limits of the study's cost."""
        return Limits(
            max(c.suite.budget_env_steps for c in self.known), self.suite.max_env_steps, self.suite.max_minutes
        )

    def generation_ends(self) -> list[int]:
        """Env steps at which the generations of a population end; the last one at the budget."""
        scheduler, budget, grid = (
            self.suite.scheduler,
            self.suite.budget_env_steps,
            self.resolver.report_every_env_steps,
        )
        assert isinstance(scheduler, Pbt) and grid is not None
        every = scheduler.interval_env_steps or math.ceil(budget / GENERATIONS / grid) * grid
        return [*range(every, budget, every), budget]

    @property
    def is_endless(self) -> bool:
        """True if the space holds more configurations than can be listed."""
        return not all(isinstance(axis, Choice) for axis in parse_space(self.suite.study.space).values())

    @cached_property
    def grid_size(self) -> int | None:
        """Configurations of the grid of this space, of rules that say the same one;
        None if the space has ranges, and so no grid.
        """
        search = self.suite.search
        if self.is_endless:
            return None
        all_of_it, known = corners(self.suite.study.space), [c.point for c in self.known]
        if isinstance(search, RandomSearch) or (isinstance(search, RacingSearch) and search.proposals == "random"):
            return len(all_of_it)  # of which draws alone are known
        return sum(point in known for point in all_of_it)

    @property
    def env_steps_a_configuration(self) -> float:
        """Of every configuration with the study's seeds, on average."""
        return len(self.suite.seeds) * sum(c.suite.budget_env_steps for c in self.known) / len(self.known)

    @property
    def grid_env_steps(self) -> float:
        """Env steps of the grid at the study's seeds; infinite if there is none."""
        return math.inf if self.grid_size is None else self.grid_size * self.env_steps_a_configuration

    @property
    def paying_seeds(self) -> int | None:
        """From how many seeds on the search takes fewer env steps than the grid at as many, if ever."""
        strategy, num_seeds = self.outline, len(self.suite.seeds)
        of_seeds = 0  # env steps that are spent again for each further seed
        if isinstance(strategy, Confirming) and isinstance(strategy.search, Listed):
            of_seeds = strategy.search.most_trials * self.limits().trial_env_steps
        saved = (self.grid_env_steps - of_seeds) / num_seeds
        return math.floor((self.env_steps_in_all() - of_seeds) / saved) + 1 if saved > 0 else None

    @property
    def base_label(self) -> str:
        """The label of the configuration that the study starts from."""
        return next((c.label for c in self.known if c.point == self.base), "")

    @property
    def num_trials(self) -> int:
        """Trials that it runs, at most."""
        limits, most = self.limits(), self.outline.most_trials
        if limits.max_env_steps is None or self._may_end_early:  # then there may be more of them
            return most
        return min(most, limits.max_env_steps // limits.trial_env_steps)

    @property
    def least_learning(self) -> tuple[int, int]:
        """Trials that learn, at least: that search, and that confirm; 0 where a scheduler or a limit may end them."""
        limits, strategy = self.limits(), self.outline
        if not isinstance(self.suite.scheduler, Fifo) or limits.max_env_steps or limits.max_minutes:
            return 0, 0
        return strategy.least_learning, strategy.least_confirming if isinstance(strategy, Confirming) else 0

    @property
    def _may_end_early(self) -> bool:
        """True if trials may end before they have sampled a whole budget."""
        return self.suite.stop_at_target or not isinstance(self.suite.scheduler, Fifo)

    def env_steps_in_all(self, unused: int = 0) -> int:
        """Env steps of all trials, at most.

        Args:
            unused: Env steps that trials have left of their budgets: under a limit others may have them.
        """
        limits, strategy = self.limits(), self.outline
        total = self.num_trials * limits.trial_env_steps
        if isinstance(strategy, Confirming) and isinstance(joint := strategy.search, Joint):  # rounds sample a little
            total = (joint.num_learning + strategy.num_confirming) * limits.trial_env_steps
        # a generation of a member is a trial
        if isinstance(self.suite.scheduler, Pbt) and isinstance(strategy, Confirming):
            total = (self.suite.scheduler.population + strategy.num_confirming) * limits.trial_env_steps
        return total - unused if limits.max_env_steps is None else min(total - unused, limits.max_env_steps)

    def check(self) -> None:
        """Make sure that the search can run what it may cost, and a population vary what the study searches.

        Raises:
            ConfigurationError: It cannot.
        """
        limits = self.limits()
        if isinstance(self.suite.search, JointSearch):
            self._check_joint()
        if isinstance(self.outline, Comparing):
            self._check_comparison(self.outline.design)
        if limits.max_env_steps is not None and limits.max_env_steps < limits.trial_env_steps:
            raise ConfigurationError(
                f"max_env_steps={limits.max_env_steps} is less than a trial's "
                f"budget_env_steps={limits.trial_env_steps}: nothing could run. "
                f"Try max_env_steps={10 * limits.trial_env_steps}."
            )
        if isinstance(self.suite.scheduler, Pbt):
            self._check_population()

    def _check_joint(self) -> None:
        axes = self.suite.study.space
        of_learning = [path for path in axes if path not in LAYOUT]
        if not of_learning or len(of_learning) == len(axes):
            raise ConfigurationError(
                "search=joint chooses learning settings and layouts together, and study.space has "
                f"{'no layout' if of_learning else 'no setting of learning'}. Try study=joint, whose space has both."
            )
        for path in of_learning:
            values = {point[path] for point in self._listed if path in point}
            wrong = [v for v in values if isinstance(v, bool) or not isinstance(v, int | float) or v <= 0]
            if wrong or any(path not in point for point in self._listed):
                raise ConfigurationError(
                    f"study.space: {path} with search=joint has to be a list of positive numbers, of every "
                    "configuration: what lies between them is learned as well. Try search=racing."
                )

    def _check_comparison(self, design: Design) -> None:
        number = self.num_compared
        if number < 2:
            raise ConfigurationError(
                "search=compare compares two configurations or more, and study.space has one. "
                "Give it a list of two values, for example 'study.space={algorithm.training.lr:[1e-3,3e-3]}'."
            )
        if number > MOST_COMPARED:
            raise ConfigurationError(
                f"search=compare compares each pair, of {MOST_COMPARED} configurations at most, "
                f"and study.space has {number}. Leave some out, or try search=racing, which looks for the best."
            )
        if not design.can_decide:
            raise ConfigurationError(
                f"search.seeds_per_look={design.seeds_per_look} search.looks={design.looks}: whatever the scores, "
                f"a permutation test of so few seeds shows no difference at search.alpha={design.alpha:g}. "
                "Try search.seeds_per_look=5, or a larger alpha."
            )

    def _check_population(self) -> None:
        axes = parse_space(self.suite.study.space)
        if not axes:
            raise ConfigurationError(
                "scheduler=pbt needs a study.space whose settings it may vary; this study has none."
            )
        for path, axis in axes.items():
            if not path.startswith(TRAINING) and path not in NAMED_AXES:
                raise ConfigurationError(
                    f"scheduler=pbt: {path} cannot change while a member trains. Give it a study.space "
                    f"of {TRAINING[:-1]} settings alone."
                )
            if isinstance(axis, Choice) and any(is_rule(value) for value in axis.values):
                raise ConfigurationError(
                    f"scheduler=pbt: {path} has rules, and a population varies numbers. Give it a list of numbers."
                )
        grid, every = self.resolver.report_every_env_steps, self.generation_ends()[0]
        assert grid is not None
        if every % grid:
            raise ConfigurationError(
                f"scheduler.interval_env_steps={every} is not a multiple of report_every_env_steps={grid}. "
                f"Try scheduler.interval_env_steps={max(1, round(every / grid)) * grid}."
            )


def first_generation(listed: Sequence[Point], population: int, seed: int) -> list[Point]:
    """A point for each member: all different, as far as there are enough.

    Args:
        listed: The points to take from.
        population: Members.
        seed: Random seed of the draw.
    """
    order = np.random.default_rng(seed).permutation(len(listed))
    return [listed[order[member % len(listed)]] for member in range(population)]
