"""A study before it runs: every configuration resolved, built and checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from ray.tune import PlacementGroupFactory

from experiments.config.errors import ConfigurationError
from experiments.config.fields import MAX_TRIALS
from experiments.config.schema import StartingPolicy, SuiteConfig, parse
from experiments.config.search_settings import CompareSearch, JointSearch
from experiments.config.space import Point, base_point, corners, group_choices, points
from experiments.config.trial_config import NUM_ENV_RUNNERS, VECTORIZE_MODE, Compose, TrialConfig
from experiments.contract import CONFIRM, FIXED, THROUGHPUT
from experiments.contract.words import plural
from experiments.limits.arithmetic import PORTABLE
from experiments.planning import emulated
from experiments.planning.axes import SearchedAxis, axis_params
from experiments.planning.configuration import Configuration, ResolvedPoint
from experiments.planning.machines import Cluster
from experiments.planning.memory import PastPeaks, with_memory
from experiments.planning.resolver import Resolver, distinct, report_grid
from experiments.planning.resources import DoesNotFitError, request_for_all, trials_at_once
from experiments.planning.search_design import SearchDesign
from experiments.rllib.algorithms import is_asynchronous
from experiments.rllib.building import build_algorithm_config, networks_of, takes_any_action, wrong_algorithm
from experiments.rllib.made_environments import has_vector_entry_point
from experiments.rllib.rehearsal import rehearse_each

AUTO = "auto"
"""The hardware profile that leaves all counts to the suite."""

Claimed = Mapping[str, Any]
"""What a study said of what it recommended, as the analysis gives it and reads it again: `study_run`, and `claims`, an
environment each."""


@dataclass(frozen=True)
class Plan:
    """A checked study: what may be run.

    Attributes:
        suite: The study's settings, common to all configurations.
        composed: The composed configuration, for the record.
        configurations: Configurations that are run, in order; of a search those that may be, as far as known.
        cluster: The machines that the study runs on.
        concurrency: Trials side by side.
        left_out: Points of the space that the environment does not have, or that are another one, a clause each.
        search: How the study chooses its trials as it goes; None if they are all known.
        command: The command line that runs the study; "": the one that started this process.
        notes: Remarks on its environments, a line each.
        confirms: What another study said of these configurations, which they are to confirm (`Claimed`).
    """

    suite: SuiteConfig
    composed: Mapping[str, Any]
    configurations: Sequence[Configuration]
    cluster: Cluster
    concurrency: int
    left_out: tuple[str, ...] = ()
    search: SearchDesign | None = None
    command: str = ""
    notes: tuple[str, ...] = ()
    confirms: Claimed | None = None

    @property
    def study(self) -> str:
        """The study's name."""
        return self.suite.study.name

    @property
    def question(self) -> str:
        """The study's question."""
        return self.suite.study.question

    @property
    def start(self) -> StartingPolicy | None:
        """The trained policy that all trials start from."""
        start = self.suite.study.start
        return start if isinstance(start, StartingPolicy) else None

    @property
    def seeds(self) -> tuple[int, ...]:
        """Replicates of each configuration."""
        return self.suite.seeds

    @property
    def algorithms(self) -> str:
        """The algorithms' names, joined by +."""
        return "+".join(dict.fromkeys(c.suite.algorithm["name"] for c in self.configurations))

    @property
    def envs(self) -> str:
        """The environments' names, joined by +."""
        return "+".join(dict.fromkeys(c.suite.env.name for c in self.configurations))

    @property
    def hardware(self) -> str:
        """The hardware profiles' names, joined by +."""
        return "+".join(dict.fromkeys(c.suite.hardware.name for c in self.configurations))

    @property
    def experiment(self) -> str:
        """The MLflow experiment of the trials."""
        return f"{self.study}/{self.algorithms}-{self.envs}"

    @property
    def exclusive(self) -> bool:
        """True if each trial has the machine to itself, so that throughput is comparable."""
        return self.concurrency == 1

    def runs_alone(self, trial: TrialConfig) -> bool:
        """True if a trial has the machine to itself: in a joint search those that measure or confirm."""
        return self.exclusive or (self.measures and trial.phase in (THROUGHPUT, CONFIRM))

    @property
    def ahead(self) -> int:
        """Trials of a search that are under way while another one is chosen: those that run,
        and one that waits for a free process.
        """
        return self.concurrency if self.suite.hardware.max_concurrent_trials else self.concurrency + 1

    @property
    def trials(self) -> list[TrialConfig]:
        """All trials that are known, in the order in which they are run:
        a study that is cut short has every configuration in it.

        Where throughput is measured, a seed is a block, its configurations in an order of its own, drawn at random:
        what changes on the machine with time falls on all of them alike (Fisher, The Design of Experiments, 1935).
        """
        if self.search:
            return []
        blocks = [(repeat, seed) for repeat in range(self.repeats) for seed in self.seeds]
        return [
            self.configurations[i].trial(seed, repeat, CONFIRM if self.confirms else FIXED)
            for repeat, seed in blocks
            for i in self._order(repeat, seed)
        ]

    def _order(self, repeat: int, seed: int) -> list[int]:
        indices = list(range(len(self.configurations)))
        return np.random.default_rng([repeat, seed]).permutation(indices).tolist() if self.is_measured else indices

    @property
    def is_measured(self) -> bool:
        """True if trials measure their throughput, in place of training to a budget."""
        return self.suite.measurement is not None

    @property
    def common_request(self) -> PlacementGroupFactory | None:
        """The resources that every trial reserves, so that trials of different layouts can take turns in one process;
        None: each its own. In a joint search of those that run alone.
        """
        return request_for_all([c.request for c in self.configurations]) if self.measures else None

    @property
    def measures(self) -> bool:
        """True if some trials measure their throughput."""
        return self.is_measured or isinstance(self.suite.search, JointSearch)

    @property
    def repeats(self) -> int:
        """Times that each configuration and seed is run."""
        return self.suite.repeats

    @property
    def num_trials(self) -> int:
        """Trials that are run, at most."""
        return self.search.num_trials if self.search else len(self.configurations) * len(self.seeds) * self.repeats

    def env_steps_in_all(self, unused: int = 0) -> int:
        """Env steps of the whole study, at most.

        Args:
            unused: Env steps that trials have left of their budgets, which they will not sample any more.
        """
        if self.search:
            return self.search.env_steps_in_all(unused)
        return sum(c.suite.budget_env_steps for c in self.configurations) * len(self.seeds) * self.repeats - unused

    @property
    def report_every_env_steps(self) -> int:
        """Spacing of the report grid."""
        grid = self.configurations[0].suite.report_every_env_steps
        assert grid is not None
        return grid

    @cached_property
    def axes(self) -> tuple[SearchedAxis, ...]:
        """The axes that the study searches."""
        shown = [c.settings.shown for c in self.configurations]
        params = axis_params(dict.fromkeys(path for of_one in shown for path in of_one))
        return tuple(
            SearchedAxis.of(path, param, [of_one[path] for of_one in shown if path in of_one])
            for path, param in params.items()
        )


def plan_study(suite: SuiteConfig, compose: Compose, cluster: Cluster, peaks: PastPeaks | None = None) -> Plan:
    """Resolve, build and check every configuration of a study; of one that chooses its trials as it goes,
    those that are known.

    Args:
        suite: The study's settings.
        compose: Composes the configuration with the given group choices.
        cluster: The machines to run on.
        peaks: What earlier trials took of the memory; a search, which comes to what its trials side by side make of it,
            goes by the prediction alone.

    Returns:
        A plan in which every trial can start.

    Raises:
        ConfigurationError: Anything is wrong.
    """
    space, composed = suite.study.space, compose({})
    base = base_point(space, composed) if chooses_trials(suite) else None
    joint = isinstance(suite.search, JointSearch)
    listed = points(space, suite.search)
    _check_number(len(listed), suite)

    def composed_with(**more: str) -> dict[tuple[tuple[str, str], ...], Mapping[str, Any]]:
        return {tuple(sorted(choice.items())): compose({**choice, **more}) for choice in group_choices(space)}

    resolver = Resolver(composed_with(), cluster, axes=tuple(space))
    wanted, left_out = [resolver.parsed(point) for point in listed or corners(space)], tuple[str, ...]()
    if base is None or joint:
        wanted, left_out = _possible(wanted)
    if suite.study.common_budget:
        budget = max(parsed.suite.budget_env_steps for parsed in wanted)
        # and with it what lasts as long: schedules
        resolver = replace(resolver, composed=composed_with(budget_env_steps=f"{budget}"))
        wanted = [resolver.parsed(parsed.point) for parsed in wanted]
    resolver, resolved, same, base = _resolved(suite, resolver, wanted, base)
    left_out += tuple(same)
    built, too_large = _built(resolved, cluster, joint)
    notes, memory = rehearse_each([(c.suite.env, takes_any_action(c.trial(0))) for c in built])
    configurations = with_memory(built, memory, cluster, peaks if base is None else None, may_leave_out=joint)
    left_out += (*too_large, *_without_memory(built, configurations, cluster))
    search = None if base is None else SearchDesign(suite, configurations, base, resolver)
    if search:
        search.check()
    concurrency = concurrency_of(suite, configurations, cluster)
    if suite.bits == PORTABLE:
        notes += tuple(emulated.try_each(c.suite.env for c in configurations))
    return Plan(suite, composed, configurations, cluster, concurrency, left_out, search, notes=notes)


def with_auto(plan: Plan, compose: Compose) -> Plan | None:
    """The same study with `hardware=auto`; None where that is what it has, or varies, or where it cannot run so.

    Args:
        plan: The study.
        compose: Composes its configuration.
    """
    if plan.suite.hardware.name == AUTO or "hardware" in plan.suite.study.space:
        return None

    def compose_auto(choices: Mapping[str, str]) -> Mapping[str, Any]:
        return compose({**choices, "hardware": AUTO})

    try:
        return plan_study(parse(compose_auto({})), compose_auto, plan.cluster)
    except ConfigurationError:
        return None


def _resolved(
    suite: SuiteConfig, resolver: Resolver, wanted: Sequence[ResolvedPoint], base: Point | None
) -> tuple[Resolver, list[ResolvedPoint], list[str], Point | None]:
    """The resolver with the study's report grid, and on it the points that are wanted and the base,
    each configuration once; which are another one, a clause each; and the base, as the space has it where that says
    the same in other words.

    Where a space has distributions, its corners are checked as well: if they are valid, so is what lies between.
    """
    own = [parsed.point for parsed in wanted]
    bases = [] if base is None or base in own or isinstance(suite.search, CompareSearch) else [base]
    extremes = (
        []
        if suite.search.name in ("grid", "joint")  # of lists alone
        else [point for point in corners(suite.study.space) if point not in (*own, *bases)]
    )
    counted = [resolver.counted(parsed) for parsed in (*wanted, *map(resolver.parsed, (*bases, *extremes)))]
    resolver = replace(resolver, report_every_env_steps=report_grid([point.suite for point in counted]))
    ready = [resolver.on_grid(point) for point in counted]
    first_extreme = len(own) + len(bases)
    for point in ready[first_extreme:]:
        trial = point.trial(suite.seeds[0])
        networks_of(trial, build_algorithm_config(trial))
    found, same = distinct(ready[: len(own)])
    by_id = {point.config_id: point for point in found}
    for point in ready[len(own) : first_extreme]:
        if point.config_id in by_id:
            base = by_id[point.config_id].point
        else:
            found.append(point)
    return resolver, found, same, base


def _check_number(num_points: int, suite: SuiteConfig) -> None:
    num_trials = num_points * len(suite.seeds) * suite.repeats
    if num_trials > MAX_TRIALS:
        raise ConfigurationError(
            f"study.space, seeds and repeats make {num_trials:,} trials, more than {MAX_TRIALS:,}."
        )


def chooses_trials(suite: SuiteConfig) -> bool:
    """True if a study chooses its trials as it goes."""
    limited = suite.max_env_steps is not None or suite.max_minutes is not None
    return suite.confirms or limited or isinstance(suite.search, CompareSearch)


def _possible(wanted: list[ResolvedPoint]) -> tuple[list[ResolvedPoint], tuple[str, ...]]:
    """The points without those that their environment or algorithm does not have, where others are left of it."""
    lacking = [_lacking(parsed) for parsed in wanted]
    kept = [parsed for parsed, why in zip(wanted, lacking, strict=True) if not why]
    return (kept, tuple(dict.fromkeys(why for why in lacking if why))) if kept else (wanted, ())


def _lacking(parsed: ResolvedPoint) -> str:
    """The setting that a point asks for and cannot have; "" if there is none."""
    env, algorithm = parsed.suite.env, parsed.suite.algorithm
    if parsed.point.get(VECTORIZE_MODE) == "vector_entry_point" and not has_vector_entry_point(env):
        return f"{VECTORIZE_MODE}=vector_entry_point, which {env.name} does not have"
    runners = next((path for path in (NUM_ENV_RUNNERS, "hardware.num_env_runners") if parsed.point.get(path) == 0), "")
    if runners and is_asynchronous(algorithm):
        return f"{runners}=0, since {algorithm['name']} samples while it learns and needs a runner actor"
    return wrong_algorithm(algorithm, env) if "algorithm" in parsed.point else ""


def _built(
    resolved: Sequence[ResolvedPoint], cluster: Cluster, may_leave_out: bool
) -> tuple[tuple[Configuration, ...], tuple[str, ...]]:
    """Points, built; and if they may be left out, the layouts that do not fit the machines, in a clause."""
    found, needed, last = [], dict[int, int](), None
    for point in resolved:
        try:
            found.append(Configuration.of(point, cluster))
        except DoesNotFitError as error:
            if not may_leave_out:
                raise
            last = error
            needed[point.layout.num_env_runners] = int(error.request.required_resources.get("CPU", 0))
    if last is not None and not found:
        raise last
    return tuple(found), _too_many(needed, cluster)


def _without_memory(
    built: Sequence[Configuration], configurations: Sequence[Configuration], cluster: Cluster
) -> tuple[str, ...]:
    """Which layouts were left out for their memory, in a clause."""
    have = {c.label for c in configurations}
    lacking = dict.fromkeys(c.layout for c in built if c.label not in have)
    named = ", ".join(f"{layout.num_env_runners} x {layout.num_envs_per_env_runner}" for layout in lacking)
    return (f"runners x envs {named}, whose memory is not there: {cluster}",) if named else ()


def _too_many(needed: Mapping[int, int], cluster: Cluster) -> tuple[str, ...]:
    """That layouts do not fit the machines, by the CPUs that their numbers of runners need; nothing if all do."""
    if not needed:
        return ()
    fewest = min(needed)
    which = "which" if len(needed) == 1 else f"of which {fewest}"
    runners = f"{', '.join(map(str, sorted(needed)))} runner{'' if [*needed] == [1] else 's'}"
    return (f"{runners}, {which} need {plural(needed[fewest], 'CPU')}: {cluster}",)


def concurrency_of(suite: SuiteConfig, configurations: Sequence[Configuration], cluster: Cluster) -> int:
    """How many trials of a study run side by side; throughput is measured one at a time."""
    trials = len(configurations) * len(suite.seeds) * suite.repeats
    limit = 1 if suite.measurement is not None else min(trials, suite.hardware.max_concurrent_trials or trials)
    if isinstance(suite.search, JointSearch):  # those of fewest processes learn side by side, the others run alone
        fewest = min(c.layout.num_env_runners for c in configurations)
        configurations = [c for c in configurations if c.layout.num_env_runners == fewest]
        if not suite.hardware.max_concurrent_trials:  # by CPUs that there are: more may be declared, for the layouts
            of_each = max(c.request.required_resources.get("CPU", 1) for c in configurations)
            limit = min(limit, max(1, int(configurations[0].facts["num_cpus"] // of_each)))
    requests = {str((c.request.strategy, c.request.bundles)): c.request for c in configurations}  # mostly one
    return min(trials_at_once(request, cluster, limit) for request in requests.values())
