"""A study before it runs: every configuration resolved, built and checked."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from ray.tune import PlacementGroupFactory

from experiments.config.errors import ConfigurationError
from experiments.config.lr_rules import is_rule, names_of, rules_of
from experiments.config.schema import MAX_REPORTS, MAX_TRIALS, SuiteConfig, parse, with_report_grid
from experiments.config.space import Point, corners, group_choices, points
from experiments.config.trial_config import GROUPS, Compose, TrialConfig, apply_point, label_of, trial_config
from experiments.planning.facts import facts_of
from experiments.planning.resources import Cluster, Layout, check_fits, layout_of, settle, trials_at_once
from experiments.rllib.building import (
    build_algorithm_config,
    checkpoint_bytes,
    has_vector_entry_point,
    longest_episode,
    on_policy_batch,
    request_for,
)

CANONICAL_PARAMS = {"train_batch_size_per_learner": "train_batch_size_total", "lambda_": "lambda"}
"""RLlib's name to the parameter's name in MLflow, where they differ."""

_RULE = "_rule"
"""Ending of the parameter that says by which rule another one was set."""
_VECTORIZE = "env.vectorize_mode"
_TRAINING = "algorithm.training."
_TRAINING_PARAMS = (
    "lr",
    "actor_lr",
    "critic_lr",
    "minibatch_size",
    "num_epochs",
    "gamma",
    "lambda_",
    "clip_param",
    "entropy_coeff",
    "vf_loss_coeff",
    "grad_clip",
    "training_intensity",
)


@dataclass(frozen=True)
class Configuration:
    """One point of the space, ready to run with any seed.

    Attributes:
        label: What differs from the others, in words.
        point: As it was drawn.
        suite: The settings, settled.
        request: The processes of a trial.
        batch_env_steps: Of one training batch over all learners.
        checkpoint_bytes: Of one checkpoint, about.
        facts: What the analysis must know beside the parameters.
        rules: Setting of `training` to the rule that its number comes from.
    """

    label: str
    point: Point
    suite: SuiteConfig
    request: PlacementGroupFactory
    batch_env_steps: int
    checkpoint_bytes: int
    facts: Mapping[str, Any]
    rules: Mapping[str, str]

    @classmethod
    def of(cls, label: str, point: Point, suite: SuiteConfig, cluster: Cluster, rules: Mapping[str, str]) -> "Configuration":
        """Build a configuration whose counts, grid and checkpoints are settled, and check it.

        Raises:
            ConfigurationError: RLlib refuses it, or the cluster cannot hold it.
        """
        trial = trial_config(suite, suite.seeds[0], label)
        config = build_algorithm_config(trial)
        size = checkpoint_bytes(trial, config)
        request = request_for(config)
        check_fits(request, cluster, suite.hardware.name, config.num_env_runners)
        facts = facts_of(config, suite.env, suite.hardware, cluster)
        return cls(label, point, suite, request, config.total_train_batch_size, size, facts, rules)

    def trial(self, seed: int, repeat: int = 0, phase: str = "fixed") -> TrialConfig:
        """Its trial with a seed."""
        return trial_config(self.suite, seed, self.label, repeat, self.rules, phase)

    @property
    def layout(self) -> Layout:
        """The processes of a trial."""
        return layout_of(self.suite.algorithm)


@dataclass(frozen=True)
class Plan:
    """A checked study.

    Attributes:
        suite: The study's settings, common to all configurations.
        composed: The composed configuration, for the record.
        configurations: In the order in which they are run.
        searched: The paths of the space.
        cluster: What the study runs on.
        concurrency: Trials side by side.
        left_out: What the space asks for and the environment does not have, a clause each.
    """

    suite: SuiteConfig
    composed: Mapping[str, Any]
    configurations: Sequence[Configuration]
    searched: tuple[str, ...]
    cluster: Cluster
    concurrency: int
    left_out: tuple[str, ...] = ()

    @property
    def study(self) -> str:
        """The study's name."""
        return self.suite.study.name

    @property
    def possible(self) -> Sequence[Configuration]:
        """The configurations that may be run, as far as they are known."""
        return self.configurations

    @property
    def question(self) -> str:
        """What it asks."""
        return self.suite.study.question

    @property
    def seeds(self) -> tuple[int, ...]:
        """Replicates of each configuration."""
        return self.suite.seeds

    @property
    def algorithms(self) -> str:
        """The algorithms' names, joined by +."""
        return "+".join(dict.fromkeys(c.suite.algorithm["name"] for c in self.possible))

    @property
    def envs(self) -> str:
        """The environments' names, joined by +."""
        return "+".join(dict.fromkeys(c.suite.env.name for c in self.possible))

    @property
    def hardware(self) -> str:
        """The hardware profiles' names, joined by +."""
        return "+".join(dict.fromkeys(c.suite.hardware.name for c in self.possible))

    @property
    def experiment(self) -> str:
        """The MLflow experiment of the trials."""
        return f"{self.study}/{self.algorithms}-{self.envs}"

    @property
    def exclusive(self) -> bool:
        """Whether each trial has the machine to itself, so that throughput is comparable."""
        return self.concurrency == 1

    @property
    def trials(self) -> list[TrialConfig]:
        """All trials, in the order in which they are run: a study that is cut short has every configuration in it.

        Where throughput is measured, a seed is a block, its configurations in an order of its own, drawn at random: what changes on the
        machine with time falls on all of them alike (Fisher, The Design of Experiments, 1935).
        """
        blocks = [(repeat, seed) for repeat in range(self.repeats) for seed in self.seeds]
        return [self.configurations[i].trial(seed, repeat) for repeat, seed in blocks for i in self._order(repeat, seed)]

    def _order(self, repeat: int, seed: int) -> list[int]:
        indices = list(range(len(self.configurations)))
        return np.random.default_rng([repeat, seed]).permutation(indices).tolist() if self.is_measured else indices

    @property
    def is_measured(self) -> bool:
        """Whether trials measure their throughput, in place of training to a budget."""
        return self.suite.measurement is not None

    @property
    def phase(self) -> str:
        """The tag `phase` of its trials."""
        return "throughput" if self.is_measured else "fixed"

    @property
    def bundles(self) -> list[dict[str, float]] | None:
        """What every trial reserves, so that trials of different layouts can take turns in one process; None: each its own."""
        largest = max((c.request for c in self.possible), key=lambda r: (r.required_resources.get("CPU", 0), len(r.bundles)))
        serves_all = all(_holds(largest.bundles, c.request.bundles) for c in self.possible)
        return [dict(b) for b in largest.bundles] if self.is_measured and serves_all else None

    @property
    def repeats(self) -> int:
        """Times that each configuration and seed is run."""
        return self.suite.repeats

    @property
    def num_trials(self) -> int:
        """Trials that are run, at most."""
        return len(self.configurations) * len(self.seeds) * self.repeats

    @property
    def total_env_steps(self) -> int:
        """Env steps of the whole study."""
        return sum(c.suite.budget_env_steps for c in self.configurations) * len(self.seeds) * self.repeats

    @property
    def report_every_env_steps(self) -> int:
        """Spacing of the report grid."""
        return self.trials[0].report_every_env_steps

    @property
    def searched_params(self) -> list[str]:
        """The searched settings' names among a trial's parameters; of one that spans decades, its logarithm's."""
        return [f"log10_{_param_name(path)}" if path in self._wide else self._axis(path) for path in self.searched]

    def _axis(self, path: str) -> str:
        """The parameter by which the values of a searched path are told apart."""
        has_rules = any(is_rule(c.point.get(path)) for c in self.possible)
        return f"{_param_name(path)}{_RULE}" if has_rules else _param_name(path)

    @cached_property
    def _wide(self) -> frozenset[str]:
        """Searched paths whose values span a decade and more: MLflow's parallel coordinates have linear axes only."""

        def spans_decades(values: Sequence[Any]) -> bool:
            numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
            return 0 < len(numbers) == len(values) and min(numbers) > 0 and max(numbers) / min(numbers) >= 10

        return frozenset(p for p in self.searched if spans_decades([c.point[p] for c in self.possible if p in c.point]))

    def record(self) -> dict[str, Any]:
        """What the analysis must know of the plan: every configuration, also those that never get to start."""
        return {
            "study": self.study,
            "question": self.question,
            "seeds": list(self.seeds),
            "repeats": self.repeats,
            "axes": {self._axis(path): path for path in self.searched},
            "exclusive": self.exclusive,
            "phase": self.phase,
            "configurations": [
                {
                    "config": c.label,
                    "config_id": c.trial(self.seeds[0]).config_id,
                    "algorithm": c.suite.algorithm["name"],
                    "env": c.suite.env.name,
                    "hardware": c.suite.hardware.name,
                    "budget_env_steps": c.suite.budget_env_steps,
                    "target": c.suite.env.target,
                    "score_range": list(c.suite.env.score_range),
                    "point": dict(c.point),
                    "facts": dict(c.facts),
                    "params": {k: v for k, v in self.trial_params(c.trial(self.seeds[0])).items() if k != "seed"},
                }
                for c in self.configurations
            ],
        }

    @property
    def facts(self) -> Mapping[str, Mapping[str, Any]]:
        """Configuration to what is known of it beside its parameters."""
        return {c.label: c.facts for c in self.configurations}

    def summary(self) -> str:
        """The size of the study in a line."""
        configurations, seeds = len(self.configurations), len(self.seeds)
        repeated = f" x {self.repeats} repeats" if self.repeats > 1 else ""
        trials = plural(self.num_trials, "trial")
        if (how := self.suite.measurement) is not None:
            return (
                f"{plural(configurations, 'configuration')} x {plural(seeds, 'seed')}{repeated} = {trials}, one at a time, in random "
                f"order, each measured for {how.seconds:g} to {how.max_seconds:g} s after {how.warmup_s:g} s of warm-up"
            )
        return (
            f"{plural(configurations, 'configuration')} x {plural(seeds, 'seed')}{repeated} = {trials}, "
            f"{self.total_env_steps:,} env steps, reported every {self.report_every_env_steps:,}, {self.concurrency} at once"
        )

    def checkpoints(self) -> str:
        """When trials save themselves, and what that takes on disk, in a line."""
        if self.is_measured:
            return "none: a throughput that was interrupted is measured anew"
        spacings = sorted({c.trial(0).checkpoint.every_env_steps or c.suite.budget_env_steps for c in self.possible})
        spacing = " or ".join(f"{every:,}" for every in spacings)
        policy, sizes = self.suite.checkpoint, [c.checkpoint_bytes for c in self.possible]
        kept = policy.keep + policy.keep_best
        of_each = "the newest" if policy.keep == 1 else f"the newest {policy.keep}"
        total = sum(sizes) / len(sizes) * self.num_trials * kept
        return (
            f"every {spacing} env steps and at the end, {of_each}{' and the best' if policy.keep_best else ''} kept: "
            f"about {_mib(max(sizes))} each, {_mib(total)} in all"
        )

    def study_params(self) -> dict[str, Any]:
        """Parameters of the study's own run."""
        return {
            "search": self.suite.search.name,
            "scheduler": self.suite.scheduler.name,
            "configurations": len(self.configurations),
            "seeds": len(self.seeds),
            "repeats": self.repeats,
            "budget_env_steps": self.suite.budget_env_steps,
            "concurrency": self.concurrency,
            "cluster": str(self.cluster),
            **{f"space.{path}": values for path, values in self.suite.study.space.items()},
        }

    def trial_params(self, trial: TrialConfig) -> dict[str, Any]:
        """Parameters of a trial's run: the canonical ones it has, and whatever is searched."""
        training, layout = trial.algorithm["training"], layout_of(trial.algorithm)
        params = {
            "algorithm": trial.algorithm["name"],
            "env": trial.env.name,
            "seed": trial.seed,
            "budget_env_steps": trial.budget_env_steps,
            "train_batch_size_total": trial.total_train_batch_size,
            **{CANONICAL_PARAMS.get(k, k): training[k] for k in _TRAINING_PARAMS if training.get(k) is not None},
            "num_env_runners": layout.num_env_runners,
            "num_envs_per_env_runner": layout.num_envs_per_env_runner,
            "num_learners": layout.num_learners,
            "num_gpus_per_learner": layout.num_gpus_per_learner,
            "threads_per_process": trial.threads_per_process,
            "vectorize_mode": trial.env.vectorize_mode,
            **{f"{CANONICAL_PARAMS.get(name, name)}{_RULE}": rule for name, rule in trial.rules.items()},
        }
        mapping = trial.to_mapping()
        for path in self.searched:
            if path not in GROUPS and _param_name(path) not in params:
                node: Any = mapping
                for part in path.split("."):
                    node = node.get(part) if isinstance(node, dict) else None
                params[_param_name(path)] = node
        for path in self._wide:
            if params[_param_name(path)] is not None:
                params[f"log10_{_param_name(path)}"] = round(math.log10(params[_param_name(path)]), 4)
        return params


@dataclass(frozen=True)
class Resolver:
    """Points of a space to settled, checked configurations.

    Attributes:
        composed: Group choices, as sorted pairs, to the configuration that was composed with them.
        cluster: What there is to run on.
        side_by_side: Trials that are to run, as far as the layout of one may depend on it.
        report_every_env_steps: The study's report grid, once it is known.
    """

    composed: Mapping[tuple[tuple[str, str], ...], Mapping[str, Any]]
    cluster: Cluster
    side_by_side: int
    report_every_env_steps: int | None = None

    def given(self, point: Point) -> SuiteConfig:
        """A point's settings, nothing settled.

        Raises:
            ConfigurationError: A path leads nowhere, or a value is invalid.
        """
        return apply_point(self.composed[tuple(sorted((k, v) for k, v in point.items() if k in GROUPS))], point)

    def settled(self, point: Point) -> SuiteConfig:
        """The same with its counts settled, and what follows from them.

        Raises:
            ConfigurationError: As `given`, or the cluster cannot hold it.
        """
        suite = settle(self.given(point), self.cluster, self.side_by_side)
        if self.report_every_env_steps is None:
            return suite
        return settle_checkpoints(with_report_grid(suite, self.report_every_env_steps))

    def configuration(self, point: Point) -> Configuration:
        """A point, ready to run; the report grid must be known.

        Raises:
            ConfigurationError: RLlib refuses it, or the cluster cannot hold it.
        """
        suite = self.settled(point)
        rules = names_of(suite.algorithm, rules_of(self.given(point).algorithm))
        shown = {path: rules.get(path.removeprefix(_TRAINING), value) if is_rule(value) else value for path, value in point.items()}
        label = label_of(shown, f"{suite.algorithm['name']}-{suite.env.name}")
        return Configuration.of(label, point, suite, self.cluster, rules)


def resolver_of(compose: Compose, composed: Mapping[str, Any], cluster: Cluster, num_trials: int, known: Sequence[Point]) -> Resolver:
    """The resolver of a study, its report grid settled.

    Args:
        compose: Composes the configuration with the given group choices.
        composed: The same with none.
        cluster: What there is to run on.
        num_trials: Of the study, at most.
        known: Points that will run; the corners of the space count as well where it has distributions.

    Raises:
        ConfigurationError: A point is invalid, or there are too many trials.
    """
    suite = parse(composed)
    if num_trials > MAX_TRIALS:
        raise ConfigurationError(f"study.space, seeds and repeats make {num_trials:,} trials, more than {MAX_TRIALS:,}.")
    space = suite.study.space
    by_choice = {tuple(sorted(choice.items())): compose(choice) for choice in group_choices(space)}
    resolver = Resolver(by_choice, cluster, num_trials if suite.measurement is None else 1)
    extremes = [] if suite.search.name == "grid" else [point for point in corners(space) if point not in known]
    settled = [resolver.settled(point) for point in (*known, *extremes)]
    resolver = replace(resolver, report_every_env_steps=_report_grid(settled))
    for point in extremes:
        trial = trial_config(resolver.settled(point), suite.seeds[0], "corner")
        checkpoint_bytes(trial, build_algorithm_config(trial))
    return resolver


def make_plan(compose: Compose, cluster: Cluster) -> Plan:
    """Resolve, build and check every configuration of a study.

    Args:
        compose: Composes the configuration with the given group choices.
        cluster: What there is to run on.

    Returns:
        A plan in which every trial can start.

    Raises:
        ConfigurationError: Anything is wrong.
    """
    composed = compose({})
    suite = parse(composed)
    drawn, left_out = _possible(compose, suite, points(suite.study.space, suite.search))
    resolver = resolver_of(compose, composed, cluster, len(drawn) * len(suite.seeds) * suite.repeats, drawn)
    in_order = distinct(resolver.configuration(point) for point in drawn)
    searched = tuple(suite.study.space)
    return Plan(suite, composed, in_order, searched, cluster, concurrency_of(suite, in_order, cluster), left_out)


def distinct(configurations: Iterable[Configuration]) -> tuple[Configuration, ...]:
    """The configurations of a study, once each.

    Raises:
        ConfigurationError: Two points come out as one configuration, or read the same.
    """
    found: dict[str, Configuration] = {}
    for configuration in configurations:
        config_id = configuration.trial(0).config_id
        if twin := found.get(config_id):
            if (twin.label, twin.rules) == (configuration.label, configuration.rules):  # where they start, all rules are one configuration
                continue
            raise ConfigurationError(f"study.space: {configuration.label!r} and {twin.label!r} come out as the same configuration.")
        found[config_id] = configuration
    _check_labels(list(found.values()))
    return tuple(found.values())


def _possible(compose: Compose, suite: SuiteConfig, drawn: Sequence[Point]) -> tuple[list[Point], tuple[str, ...]]:
    """The points without those whose environment is to bring a vector implementation and has none, where others are left of it."""
    kept, lacking = [], []
    for point in drawn:
        chosen = {k: v for k, v in point.items() if k in GROUPS}
        asked = point.get(_VECTORIZE) == "vector_entry_point"
        env = apply_point(compose(chosen), {**point, _VECTORIZE: "sync"}).env if asked else None
        if env is None or has_vector_entry_point(env):
            kept.append(point)
        else:
            lacking.append(f"{_VECTORIZE}=vector_entry_point, which {env.name} does not have")
    return (kept, tuple(dict.fromkeys(lacking))) if kept else (list(drawn), ())


def concurrency_of(suite: SuiteConfig, configurations: Sequence[Configuration], cluster: Cluster) -> int:
    """How many trials of a study run side by side; throughput is measured one at a time."""
    trials = len(configurations) * len(suite.seeds) * suite.repeats
    limit = 1 if suite.measurement is not None else min(trials, suite.hardware.max_concurrent_trials or trials)
    return min(trials_at_once(c.request, cluster, limit) for c in configurations)


def _holds(bundles: Sequence[Mapping[str, float]], others: Sequence[Mapping[str, float]]) -> bool:
    """Whether processes that ask for `others` find their place in `bundles`."""
    own, asked = ([(b.get("GPU", 0.0), b.get("CPU", 0.0)) for b in group] for group in (bundles, others))
    pairs = zip(sorted(own, reverse=True), sorted(asked, reverse=True), strict=False)
    return len(own) >= len(asked) and all(has[0] >= needs[0] and has[1] >= needs[1] for has, needs in pairs)


CHECKPOINTS_PER_TRIAL = 4
"""Unless the configuration says otherwise: a kill costs a quarter of a trial at most."""


def settle_checkpoints(suite: SuiteConfig) -> SuiteConfig:
    """The same with the spacing of its checkpoints settled: a quarter of the budget, but at least two whole episodes of each environment.

    Environments are reset at a checkpoint: where they are reset too often, long episodes never end.

    Args:
        suite: With its report grid and its counts settled.
    """
    if suite.checkpoint.every_env_steps is not None:
        return suite
    grid = suite.report_every_env_steps
    assert grid is not None, "the plan chooses the report grid first"
    episodes = 2 * layout_of(suite.algorithm).total_envs * (longest_episode(suite.env) or 0)
    least = max(suite.budget_env_steps / CHECKPOINTS_PER_TRIAL, episodes)
    every = min(suite.budget_env_steps, math.ceil(least / grid) * grid)
    return replace(suite, checkpoint=replace(suite.checkpoint, every_env_steps=every))


def _check_labels(configurations: Sequence[Configuration]) -> None:
    labels = [c.label for c in configurations]
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise ConfigurationError(f"study.space: two configurations read {twice!r} when their values are rounded for display.")


def _report_grid(suites: Sequence[SuiteConfig]) -> int:
    """The report grid of a study: what was asked for, else the finest that each env's default and each batch allow."""
    asked = {suite.report_every_env_steps for suite in suites if suite.report_every_env_steps is not None}
    if len(asked) > 1:
        raise ConfigurationError(
            f"report_every_env_steps differs between the trials of the study: {sorted(asked)}. Set it: report_every_env_steps={max(asked)}."
        )
    if asked:
        return asked.pop()
    least = max(max(suite.env.report_every_env_steps, on_policy_batch(suite.algorithm)) for suite in suites)
    budget = math.gcd(*(suite.budget_env_steps for suite in suites))
    if least > budget:
        raise ConfigurationError(
            f"budget_env_steps={budget} is less than one report of {least} env steps: the env's report grid, or the largest batch. "
            f"Try budget_env_steps={least} or report_every_env_steps={max(1, budget // 10)}."
        )
    most = min(MAX_REPORTS, budget // least)
    return budget // next(reports for reports in range(most, 0, -1) if budget % reports == 0)


def _param_name(path: str) -> str:
    leaf = path.rsplit(".", 1)[-1]
    return CANONICAL_PARAMS.get(leaf, leaf)


def _mib(size: float) -> str:
    return f"{size / 2**20:.1f} MiB" if size < 2**30 else f"{size / 2**30:.1f} GiB"


def plural(number: int, what: str) -> str:
    """`1 trial`, `2 trials`."""
    return f"{number} {what}" + ("" if number == 1 else "s")
