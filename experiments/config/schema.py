"""Our own knobs as frozen dataclasses with range checks.

RLlib's settings are not restated here: the sections of `conf/algorithm` stay plain mappings and are checked by RLlib's own builder
methods (`experiments/rllib/building.py`).
"""

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Annotated, Any, Literal
from urllib.parse import urlparse

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, StrictInt, StrictStr, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from experiments.config.errors import ConfigurationError

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)

MAX_REPORTS = 320
"""Points of a curve that MLflow's UI draws without sampling."""
MAX_TRIALS = 100_000
"""Of one study: more is a slip of the keyboard, and would only be found out after hours of checking each."""


LEAST_BLOCK_S = 0.1
"""Seconds: Linux counts CPU time in hundredths."""
LEAST_BLOCKS = 4
"""Of a measurement: fewer say nothing of how sure it is."""

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""What goes into run names, experiment names, folders and MLflow's filters."""


def _check_address(address: str) -> str:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address != "auto" and not (host and not re.search(r"\s", host) and port.isdecimal() and 0 < int(port) < 2**16):
        raise ValueError("must be auto or host:port, with a port of at most 65535; null starts Ray on this machine")
    return address


def _check_uri(uri: str) -> str:
    try:
        parsed = urlparse(uri)
        has_host = bool(parsed.hostname) and parsed.port != 0  # a port that is no number from 0 to 65535 raises
    except ValueError as error:
        raise ValueError(f"is not an address: {error}") from None
    if not parsed.scheme or (parsed.scheme in ("http", "https") and not has_host):
        raise ValueError("must be http://host:port, https://... or sqlite:////absolute/path.db; null is the embedded store")
    return uri


_Number = Annotated[float, Field(strict=True)]
_Name = Annotated[StrictStr, Field(pattern=NAME)]
_Count = Annotated[StrictInt, Field(ge=0)]
_Positive = Annotated[StrictInt, Field(ge=1)]


@dataclass(frozen=True, config=_STRICT)
class EnvSettings:
    """One environment: what `conf/env/*.yaml` holds.

    Attributes:
        name: The word used in run names and in `conf/env`.
        id: Gymnasium id; `module:Id` imports the module first.
        env_config: Keyword arguments of `gymnasium.make`.
        vectorize_mode: How RLlib vectorises it: `sync`, `async` or `vector_entry_point`.
        budget_env_steps: Env steps a trial may sample, by default.
        report_every_env_steps: Spacing of the common report grid, by default.
        target: The return at which the environment counts as solved; `None` if nobody agreed on one.
        score_range: Lowest and highest possible return, where they are known.
        extra: The optional-dependency group of this project that installs it; `None` if the core does.
        backend: What trials train on: Gymnasium's environment, or EnvPool's of the same id. Evaluations are Gymnasium's.
    """

    name: _Name
    id: StrictStr
    env_config: dict[str, Any]
    vectorize_mode: Literal["sync", "async", "vector_entry_point"]
    budget_env_steps: _Positive
    report_every_env_steps: _Positive
    target: _Number | None
    score_range: tuple[_Number | None, _Number | None]
    extra: StrictStr | None = None
    backend: Literal["gymnasium", "envpool"] = "gymnasium"

    def __post_init__(self) -> None:
        low = -math.inf if self.score_range[0] is None else self.score_range[0]
        high = math.inf if self.score_range[1] is None else self.score_range[1]
        if not low < high:
            raise ConfigurationError(f"env.score_range={list(self.score_range)}: its first number must be below its second.")
        if self.target is not None and not low <= self.target <= high:
            raise ConfigurationError(f"env.target={self.target:g} lies outside env.score_range={list(self.score_range)}: it cannot be met.")


@dataclass(frozen=True, config=_STRICT)
class HardwareSettings:
    """What the study may use of a machine or a cluster: what `conf/hardware/*.yaml` holds.

    Attributes:
        name: The profile.
        address: A running Ray cluster to join (`auto` or `host:port`); `None` starts Ray on this machine.
        num_cpus: CPUs to schedule on; `None` takes what is there. A larger number declares logical CPUs.
        num_gpus: GPUs to schedule on; `None` takes what is there. 0 puts every learner on the CPU.
        oversubscribe: Logical CPUs for each one that is there, where `num_cpus` is `None` and Ray is started here.
        total_envs: Environments of one trial that `auto` spreads over the runners.
        num_env_runners: Runner actors of a trial; `None` lets the suite choose, 0 samples in the trial's own process.
        num_envs_per_env_runner: Environments of a runner; `None` lets the suite choose.
        vectorize_mode: How the environments of a runner are vectorised; `None` leaves it to the environment's file.
        num_learners: Learner actors of a trial; `None` lets the suite choose, 0 learns in the trial's own process.
        num_gpus_per_learner: GPUs of a learner, fractions allowed; `None` lets the suite choose.
        threads_per_process: Torch and BLAS threads of each process of a trial. Part of what a result depends on.
        max_concurrent_trials: Trials side by side; `None` takes as many as fit.
    """

    name: _Name
    address: Annotated[StrictStr, AfterValidator(_check_address)] | None = None
    num_cpus: _Positive | None = None
    num_gpus: _Count | None = None
    oversubscribe: _Positive = 1
    total_envs: _Positive = 16
    num_env_runners: _Count | None = None
    num_envs_per_env_runner: _Positive | None = None
    vectorize_mode: Literal["sync", "async", "vector_entry_point"] | None = None
    num_learners: _Count | None = None
    num_gpus_per_learner: Annotated[_Number, Field(ge=0)] | None = None
    threads_per_process: _Positive = 1
    max_concurrent_trials: _Positive | None = None


@dataclass(frozen=True, config=_STRICT)
class EvaluationSettings:
    """The deterministic policy on held-out env seeds.

    Attributes:
        episodes: Episodes of each evaluation on the way.
        final_episodes: Episodes of the final evaluation, whose mean return is the score.
        every_env_steps: Spacing of the evaluations, a multiple of the report grid; `None` evaluates at every report.
    """

    episodes: _Positive
    final_episodes: _Positive
    every_env_steps: _Positive | None = None


@dataclass(frozen=True, config=_STRICT)
class CheckpointSettings:
    """When a trial saves itself, and what is kept.

    Attributes:
        every_env_steps: Spacing of the checkpoints, a multiple of the report grid; `None` lets the suite choose
            (`resolver.with_checkpoint_spacing`). Environments are reset at each, so it is part of what a result depends on.
        keep: Checkpoints kept of each trial, the newest ones.
        keep_best: Whether the one with the highest evaluation return is kept as well.
    """

    every_env_steps: _Positive | None = None
    keep: _Positive = 1
    keep_best: StrictBool = False


@dataclass(frozen=True, config=_STRICT)
class FaultSettings:
    """What a trial may survive.

    Attributes:
        max_restarts: How often a trial is taken up again from its last checkpoint, after an exception or a killed process.
        stall_after_s: A trial without a sign of life for so long is ended; `None` waits for ever. A trial gives one at every training
            iteration and every evaluation.
    """

    max_restarts: _Count = 3
    stall_after_s: Annotated[_Number, Field(gt=0)] | None = 600.0


@dataclass(frozen=True, config=_STRICT)
class MeasurementSettings:
    """How the throughput of a trial is measured, in place of training to a budget.

    Attributes:
        warmup_s: Seconds that are left out at the start, two training batches at least.
        seconds: Least seconds that count.
        max_seconds: Most seconds after the warm-up: a measurement that is not precise enough, or was disturbed, goes on up to here.
        precision: The half-width of the throughput's 95% interval over blocks, relative to it, at which a measurement ends.
        block_s: Seconds of a block, of which each has a throughput; a training batch that takes longer is a block.
        max_other_cpu_percent: CPU that others may use on the machine while a block is measured, 100 is one core. A block with more is
            measured again.
    """

    warmup_s: Annotated[_Number, Field(ge=0)] = 1.0
    seconds: Annotated[_Number, Field(gt=0)] = 2.0
    max_seconds: Annotated[_Number, Field(gt=0)] = 5.0
    precision: Annotated[_Number, Field(gt=0, lt=1)] = 0.05
    block_s: Annotated[_Number, Field(gt=0)] = 0.25
    max_other_cpu_percent: Annotated[_Number, Field(gt=0)] = 25.0

    def __post_init__(self) -> None:
        if self.block_s < LEAST_BLOCK_S:
            raise ConfigurationError(
                f"measurement.block_s={self.block_s:g}: shorter blocks than {LEAST_BLOCK_S:g} s measure the clock. "
                f"Try measurement.block_s={LEAST_BLOCK_S:g} or more."
            )
        if self.seconds < LEAST_BLOCKS * self.block_s:
            raise ConfigurationError(
                f"measurement.seconds={self.seconds:g} is less than {LEAST_BLOCKS} blocks of measurement.block_s={self.block_s:g} s: too "
                f"short to mean anything. Try measurement.seconds={LEAST_BLOCKS * self.block_s:g} or more."
            )
        if self.max_seconds < self.seconds:
            raise ConfigurationError(
                f"measurement.max_seconds={self.max_seconds:g} is less than measurement.seconds={self.seconds:g}. "
                f"Try measurement.max_seconds={2 * self.seconds:g}."
            )


@dataclass(frozen=True, config=_STRICT)
class GridSearch:
    """Every combination of the lists in the study's space."""

    name: Literal["grid"] = "grid"


@dataclass(frozen=True, config=_STRICT)
class RandomSearch:
    """Draws from lists and distributions alike.

    Attributes:
        num_samples: Configurations.
        seed: Of the draw.
    """

    name: Literal["random"]
    num_samples: Annotated[_Positive, Field(le=MAX_TRIALS)]
    seed: _Count


Objective = Literal["score", "auc", "env_steps_to_target", "seconds_to_target", "train_s", "env_steps_per_s"]
"""What a search aims at: a trial's `final/` metric of that name."""
_CLOCK: tuple[Objective, ...] = ("seconds_to_target", "train_s", "env_steps_per_s")
_TARGET: tuple[Objective, ...] = ("env_steps_to_target", "seconds_to_target")


@dataclass(frozen=True, config=_STRICT)
class OptunaSearch:
    """Configurations that Optuna suggests, each with one seed.

    Attributes:
        num_samples: Trials.
        seed: Of the sampler.
        sampler: Optuna's: `tpe`, `gp` or `random`.
        objective: What is aimed at; two make a Pareto front.
    """

    name: Literal["optuna"]
    num_samples: Annotated[_Positive, Field(le=MAX_TRIALS)]
    seed: _Count
    sampler: Literal["tpe", "gp", "random"]
    objective: Annotated[tuple[Objective, ...], Field(min_length=1, max_length=2)]


@dataclass(frozen=True, config=_STRICT)
class RacingSearch:
    """One seed for every configuration, more for those that lead, until they are told apart.

    Attributes:
        proposals: What races: the `grid`, so many `random` draws, or what `optuna` suggests.
        num_samples: Of random draws and of Optuna's suggestions.
        seed: Of them.
        sampler: Optuna's.
        objective: What is aimed at; one.
        max_seeds: That a configuration may have: the study's, and then the next whole numbers.
        max_trials: Of the race; None: half as many again as there are configurations.
    """

    name: Literal["racing"]
    proposals: Literal["grid", "random", "optuna"]
    num_samples: Annotated[_Positive, Field(le=MAX_TRIALS)]
    seed: _Count
    sampler: Literal["tpe", "gp", "random"]
    objective: Annotated[tuple[Objective, ...], Field(min_length=1, max_length=1)]
    max_seeds: Annotated[_Positive, Field(ge=2, le=MAX_TRIALS)]
    max_trials: _Positive | None


SearchSettings = Annotated[GridSearch | RandomSearch | OptunaSearch | RacingSearch, Field(discriminator="name")]
"""How configurations are taken from the study's space: what `conf/search/*.yaml` holds."""


@dataclass(frozen=True, config=_STRICT)
class Fifo:
    """Every trial has its whole budget."""

    name: Literal["fifo"] = "fifo"


@dataclass(frozen=True, config=_STRICT)
class Asha:
    """At each rung of env steps only the best share of the trials goes on (Li et al. 2020, arXiv 1810.05934).

    Attributes:
        grace_env_steps: The first rung; None: a sixteenth of the budget.
        reduction_factor: One of so many goes on, and the next rung is so many times as far.
    """

    name: Literal["asha"]
    grace_env_steps: _Positive | None
    reduction_factor: Annotated[_Number, Field(gt=1)]


@dataclass(frozen=True, config=_STRICT)
class Median:
    """A trial ends where its best is below the median of the others' means up to there (Golovin et al. 2017, "Google Vizier").

    Attributes:
        grace_env_steps: Before which none ends; None: a quarter of the budget.
        min_trials: That have come as far, before one ends.
    """

    name: Literal["median"]
    grace_env_steps: _Positive | None
    min_trials: Annotated[_Positive, Field(ge=2)]


@dataclass(frozen=True, config=_STRICT)
class Pbt:
    """A population that trains in step; now and then the worst take over weights and settings of the best, and vary the settings
    (Jaderberg et al. 2017, arXiv 1711.09846).

    Attributes:
        population: Members.
        interval_env_steps: After which they are compared; None: a fifth of the budget.
        quantile: Share that is replaced, and share that is copied.
        resample_probability: That a setting is drawn anew instead of moved to a neighbouring value.
        seed: Of the first settings and of what varies them.
    """

    name: Literal["pbt"]
    population: Annotated[StrictInt, Field(ge=2, le=MAX_TRIALS)]
    interval_env_steps: _Positive | None
    quantile: Annotated[_Number, Field(gt=0, le=0.5)]
    resample_probability: Annotated[_Number, Field(ge=0, le=1)]
    seed: _Count


SchedulerSettings = Annotated[Fifo | Asha | Median | Pbt, Field(discriminator="name")]
"""Which trials may stop early: what `conf/scheduler/*.yaml` holds."""


@dataclass(frozen=True, config=_STRICT)
class ConfirmationSettings:
    """How what a search found is confirmed.

    Attributes:
        top: Configurations, the best by the search; the study's base configuration comes on top.
        seeds: That the search never sees.
        always: Whether a fixed design is confirmed as well: every configuration with every seed, and then the best with these.
    """

    top: _Positive = 3
    seeds: tuple[_Count, ...] = (1000, 1001, 1002, 1003, 1004)
    always: StrictBool = False


@dataclass(frozen=True, config=_STRICT)
class TrackingSettings:
    """Where MLflow keeps the runs.

    Attributes:
        name: The choice in `conf/tracking`.
        uri: A tracking server (`http://...`) or a database (`sqlite:///...`); `None` is the embedded store under `output_dir`.
        timeout_s: How long one request to a server may take before it counts as failed and is made again. Nothing waits for it but other
            requests. Before a study starts, a server has 6 s to answer, or `timeout_s` if that is less.
        tensorboard: Whether TensorBoard files are written beside the trials.
        system_metrics: Whether CPU, memory and GPU use of each trial are measured.
    """

    name: _Name
    uri: Annotated[StrictStr, AfterValidator(_check_uri)] | None = None
    timeout_s: Annotated[_Number, Field(gt=0, le=3600)] = 30.0
    tensorboard: StrictBool = True
    system_metrics: StrictBool = True


@dataclass(frozen=True, config=_STRICT)
class StudySettings:
    """One question.

    Attributes:
        name: The study's name; its experiment in MLflow is `<name>/<algorithm>-<env>`.
        question: What the study asks, in a sentence a person would say.
        space: Dotted configuration path (or a group such as `algorithm`) to a list or a distribution.
    """

    name: _Name
    question: StrictStr
    space: dict[StrictStr, Any] = field(default_factory=dict)


@dataclass(frozen=True, config=_STRICT)
class SuiteConfig:
    """The whole composed configuration. `algorithm` stays RLlib's: a plain mapping of its sections."""

    algorithm: dict[str, Any]
    env: EnvSettings
    hardware: HardwareSettings
    search: SearchSettings
    scheduler: SchedulerSettings
    tracking: TrackingSettings
    evaluation: EvaluationSettings
    checkpoint: CheckpointSettings
    faults: FaultSettings
    study: StudySettings
    seeds: tuple[_Count, ...]
    repeats: _Positive
    budget_env_steps: _Positive
    report_every_env_steps: _Positive | None
    stop_at_target: StrictBool
    output_dir: Annotated[StrictStr, Field(min_length=1)]
    fast: StrictBool = True
    measurement: MeasurementSettings | None = None
    confirmation: ConfirmationSettings = field(default_factory=ConfirmationSettings)
    max_env_steps: _Positive | None = None
    max_minutes: Annotated[_Number, Field(gt=0)] | None = None
    dry_run: StrictBool = False
    report: StrictBool = True
    resume: StrictStr | None = None

    @property
    def is_search(self) -> bool:
        """Whether what runs depends on what came out, so that conclusions need seeds of their own."""
        return self.search.name in ("optuna", "racing") or self.scheduler.name != "fifo"

    @property
    def confirms(self) -> bool:
        """Whether the best configurations are run again with seeds of their own."""
        return self.is_search or self.confirmation.always

    def __post_init__(self) -> None:
        if not self.seeds:
            raise ConfigurationError("seeds is empty: a study needs at least one seed, for example seeds=[0,1,2].")
        if len(set(self.seeds)) != len(self.seeds):
            raise ConfigurationError(f"seeds={list(self.seeds)} names a seed twice; each seed is one replicate.")
        _check_search(self)
        if self.repeats > 1 and self.env.backend == "envpool":
            raise ConfigurationError(
                f"repeats={self.repeats} asks whether a trial comes out the same to the bit, which EnvPool does not promise. "
                "Try env.backend=gymnasium."
            )
        if self.measurement is not None and (self.hardware.max_concurrent_trials or 1) > 1:
            raise ConfigurationError(
                f"hardware.max_concurrent_trials={self.hardware.max_concurrent_trials}: throughput is measured one trial at a time. "
                "Try hardware.max_concurrent_trials=1."
            )
        if len(self.seeds) * self.repeats > MAX_TRIALS:
            raise ConfigurationError(f"repeats={self.repeats} of {len(self.seeds)} seeds are more than {MAX_TRIALS:,} trials.")
        grid = self.report_every_env_steps
        if grid is None:  # chosen by the plan, which then checks again
            return
        if self.budget_env_steps % grid:
            nearest = max(1, round(self.budget_env_steps / grid)) * grid
            raise ConfigurationError(
                f"budget_env_steps={self.budget_env_steps} is not a multiple of report_every_env_steps={grid}. "
                f"Try budget_env_steps={nearest}."
            )
        if self.budget_env_steps // grid > MAX_REPORTS:
            finest = math.ceil(self.budget_env_steps / MAX_REPORTS)
            raise ConfigurationError(
                f"report_every_env_steps={grid} gives {self.budget_env_steps // grid} points a curve; MLflow draws at most "
                f"{MAX_REPORTS}. Try report_every_env_steps={finest} or more."
            )
        for key, every in (
            ("evaluation.every_env_steps", self.evaluation.every_env_steps),
            ("checkpoint.every_env_steps", self.checkpoint.every_env_steps),
        ):
            if every is not None and every % grid:
                raise ConfigurationError(
                    f"{key}={every} is not a multiple of report_every_env_steps={grid}. Try {key}={max(1, round(every / grid)) * grid}."
                )


def _check_search(suite: SuiteConfig) -> None:
    """Make sure that the search suits the study, and the scheduler the search.

    Raises:
        ConfigurationError: It does not.
    """
    search, scheduler = suite.search, suite.scheduler
    if not (suite.confirms or suite.max_env_steps or suite.max_minutes):
        return
    named = f"search={search.name}" if search.name in ("optuna", "racing") else f"scheduler={scheduler.name}"
    if not suite.is_search:
        limited = "max_env_steps" if suite.max_env_steps else "max_minutes"
        named = "confirmation.always=true" if suite.confirmation.always else limited
    if suite.measurement is not None:
        raise ConfigurationError(
            f"{named} searches by what trials learn, and a study of throughput learns nothing. Try search=grid scheduler=fifo without "
            "limits, or experiments/autotune.py, which searches for the fastest setting."
        )
    if suite.repeats > 1:
        raise ConfigurationError(f"repeats={suite.repeats} with {named}: a search runs each configuration and seed once. Try repeats=1.")
    if search.name == "racing" and scheduler.name != "fifo":
        raise ConfigurationError(
            f"scheduler={scheduler.name} with search=racing: a race compares trials of the same budget. Try scheduler=fifo."
        )
    if search.name == "optuna" and scheduler.name == "pbt":
        raise ConfigurationError("scheduler=pbt changes settings itself, and needs no search=optuna. Try search=random or search=grid.")
    if isinstance(search, OptunaSearch | RacingSearch):
        _check_objective(suite, search.objective)
    if isinstance(scheduler, Asha | Median | Pbt):
        _check_scheduler(suite, scheduler)
    if suite.confirms:
        _check_confirmation(suite)


def _check_confirmation(suite: SuiteConfig) -> None:
    seeds = suite.confirmation.seeds
    if not seeds:
        raise ConfigurationError(
            "confirmation.seeds is empty: what a search finds must be confirmed. Try confirmation.seeds=[1000,1001,1002]."
        )
    if len(set(seeds)) != len(seeds):
        raise ConfigurationError(f"confirmation.seeds={list(seeds)} names a seed twice; each seed is one replicate.")
    if seen := sorted(set(searching_seeds(suite)) & set(seeds)):
        raise ConfigurationError(
            f"confirmation.seeds={list(seeds)}: the search uses {seen[0]} as well, and would confirm a choice by what it was made by. "
            "Give it other seeds than `seeds`."
        )


def searching_seeds(suite: SuiteConfig) -> tuple[int, ...]:
    """The seeds that a search may use: the study's, and the next whole numbers as far as a race or a population needs more."""
    seeds = suite.seeds
    wanted = len(seeds)
    if isinstance(suite.scheduler, Pbt):
        wanted = suite.scheduler.population
    elif isinstance(suite.search, RacingSearch):
        wanted = suite.search.max_seeds
    return (*seeds, *range(max(seeds) + 1, max(seeds) + 1 + wanted - len(seeds)))[:wanted]


def _check_objective(suite: SuiteConfig, objectives: tuple[Objective, ...]) -> None:
    if len(set(objectives)) != len(objectives):
        raise ConfigurationError(f"search.objective={list(objectives)} names one twice.")
    for objective in objectives:
        if objective in _TARGET and suite.env.target is None:
            raise ConfigurationError(
                f"search.objective={objective}: env={suite.env.name} has no target to reach. Set one with env.target=..., or try "
                "search.objective=[score]."
            )
        if objective in _CLOCK and suite.hardware.max_concurrent_trials != 1:
            raise ConfigurationError(
                f"search.objective={objective} goes by the clock, and trials side by side slow each other down. "
                "Try hardware.max_concurrent_trials=1."
            )


def _check_scheduler(suite: SuiteConfig, scheduler: Asha | Median | Pbt) -> None:
    budget = suite.budget_env_steps
    if isinstance(scheduler, Pbt):
        key, every = "interval_env_steps", scheduler.interval_env_steps
        if suite.stop_at_target:
            raise ConfigurationError("stop_at_target=true with scheduler=pbt: members are compared at the same env steps. Leave it out.")
    else:
        key, every = "grace_env_steps", scheduler.grace_env_steps
    if every is not None and every >= budget:
        raise ConfigurationError(
            f"scheduler.{key}={every} leaves nothing to stop in budget_env_steps={budget}. Try scheduler.{key}={max(1, budget // 4)} "
            "or a larger budget."
        )


_ADAPTER = TypeAdapter(SuiteConfig)


def parse(config: Mapping[str, Any]) -> SuiteConfig:
    """Check a composed configuration and freeze it.

    Args:
        config: The composed configuration as plain dictionaries and lists.

    Returns:
        The same, typed.

    Raises:
        ConfigurationError: A key is unknown or missing, or a value is outside its range; the message lists every such key.
    """
    with _readable_errors():
        return _ADAPTER.validate_python(dict(config))


def with_report_grid(suite: SuiteConfig, report_every_env_steps: int) -> SuiteConfig:
    """The same with its report grid.

    Raises:
        ConfigurationError: Something else does not fit that grid.
    """
    with _readable_errors():
        return replace(suite, report_every_env_steps=report_every_env_steps)


@contextmanager
def _readable_errors() -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        raise ConfigurationError("\n".join(_describe(e) for e in error.errors())) from None


_KINDS = frozenset({"grid", "random", "optuna", "racing", "fifo", "asha", "median", "pbt"})
"""What pydantic adds to the path of a setting that has several kinds."""


def _describe(error: Any) -> str:  # pydantic_core.ErrorDetails is a TypedDict of pydantic's border
    key = ".".join(str(part) for part in error["loc"] if part not in _KINDS)
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, ConfigurationError):
        return str(cause)
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"{key}: there is no such setting. Run with --cfg job to see the settings there are."
    if error["type"] in ("missing", "missing_argument"):
        return f"{key}: this setting is missing."
    return f"{key}={error['input']!r}: {error['msg'][0].lower()}{error['msg'][1:]}."
