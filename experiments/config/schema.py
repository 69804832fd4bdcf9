"""The suite's own settings as frozen dataclasses with range checks.

RLlib's settings are not restated here: the sections of `conf/algorithm` stay plain mappings and are checked by RLlib's
own builder methods (`experiments/rllib/building.py`).
"""

import math
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictStr, TypeAdapter
from pydantic.dataclasses import dataclass

from experiments.config import extension
from experiments.config.confirm_settings import ConfirmSettings
from experiments.config.constraint_settings import ConstraintSettings, check_constraints
from experiments.config.earlier import check_earlier
from experiments.config.errors import ConfigurationError
from experiments.config.fields import (
    MAX_TRIALS,
    STRICT,
    Address,
    Count,
    Name,
    Number,
    Positive,
    Seeds,
    Uri,
    readable_errors,
)
from experiments.config.measurement_settings import MeasurementSettings
from experiments.config.objective_settings import Objective, ObjectiveSettings, check_objective
from experiments.config.preprocessing_settings import PreprocessingSettings
from experiments.config.report_settings import Report, ReportSettings
from experiments.config.reuse import check_reuse
from experiments.config.search_settings import (
    SEARCHES,
    ConfirmationSettings,
    SchedulerSettings,
    SearchSettings,
    check_search,
)
from experiments.contract import MAX_REPORTS
from experiments.limits.arithmetic import NATIVE, Bits


@dataclass(frozen=True, config=STRICT)
class EnvSettings:
    """One environment: what `conf/env/*.yaml` holds.

    Attributes:
        name: The word used in run names and in `conf/env`.
        id: Gymnasium id; `module:Id` imports the module first.
        env_config: Keyword arguments of `gymnasium.make`.
        vectorize_mode: How RLlib vectorises it: `sync`, `async` or `vector_entry_point`.
        budget_env_steps: Env steps a trial may sample, by default.
        report_every_env_steps: Spacing of the common report grid, by default.
        target: The return at which the environment counts as solved; `None` if there is no agreed one.
        score_range: Lowest and highest possible return, where they are known.
        extra: The optional-dependency group of this project that installs it; `None` if the core does.
        backend: The environment that trials train on: Gymnasium's environment, or EnvPool's of the same id.
            Evaluations are Gymnasium's.
        max_episode_steps: Where an episode is truncated; `None` leaves it to the registration.
        stagger: Whether the first episodes of the training environments end at different times, so that they do not
            move in lockstep.
    """

    name: Name
    id: StrictStr
    env_config: dict[str, Any]
    vectorize_mode: Literal["sync", "async", "vector_entry_point"]
    budget_env_steps: Positive
    report_every_env_steps: Positive
    target: Number | None
    score_range: tuple[Number | None, Number | None]
    extra: StrictStr | None = None
    backend: Literal["gymnasium", "envpool"] = "gymnasium"
    max_episode_steps: Positive | None = None
    stagger: StrictBool = False

    @property
    def make_arguments(self) -> dict[str, Any]:
        """The arguments of `gymnasium.make` beside the id."""
        limit = {} if self.max_episode_steps is None else {"max_episode_steps": self.max_episode_steps}
        return {**self.env_config, **limit}

    def __post_init__(self) -> None:
        low = -math.inf if self.score_range[0] is None else self.score_range[0]
        high = math.inf if self.score_range[1] is None else self.score_range[1]
        if not low < high:
            raise ConfigurationError(
                f"env.score_range={list(self.score_range)}: its first number must be below its second."
            )
        if self.target is not None and not low <= self.target <= high:
            raise ConfigurationError(
                f"env.target={self.target:g} lies outside env.score_range={list(self.score_range)}: it cannot be met."
            )


@dataclass(frozen=True, config=STRICT)
class HardwareSettings:
    """The part of a machine or cluster that a study may use: the settings in `conf/hardware/*.yaml`.

    Attributes:
        name: The profile.
        address: A running Ray cluster to join (`auto` or `host:port`); `local` starts Ray on this machine;
            `None` joins the cluster at the environment variable RAY_ADDRESS, and starts Ray on this machine
            without one (`study.address`).
        num_cpus: CPUs to schedule on; `None` takes what is there. A larger number declares logical CPUs.
        num_gpus: GPUs to schedule on; `None` takes what is there. 0 puts every learner on the CPU.
        memory_gib: Memory to schedule on, GiB; `None` takes what is there, less what Ray and the suite need.
        oversubscribe: Logical CPUs for each one that is there, where `num_cpus` is `None` and Ray is started here.
        total_envs: Environments of one trial that `auto` spreads over the runners.
        num_env_runners: Runner actors of a trial; `None` lets the suite choose, 0 samples in the trial's own process.
        num_envs_per_env_runner: Environments of a runner; `None` lets the suite choose.
        vectorize_mode: How the environments of a runner are vectorised; `None` leaves it to the environment's file.
        num_learners: Learner actors of a trial; `None` lets the suite choose, 0 learns in the trial's own process.
        num_gpus_per_learner: GPUs of a learner, fractions allowed; `None` lets the suite choose.
        threads_per_process: Torch and BLAS threads of each process of a trial. Part of what a result depends on.
        bits: The study's `bits`, since they are set where processes start.
        max_concurrent_trials: Trials side by side; `None` takes as many as fit.
        wait_for_nodes_s: How long a study in a cluster waits for a node with room for a trial, where none has it.
        accelerator_type: Kind of the GPUs that trials use, by Ray's names (`ray.util.accelerators`); `None` takes any.
        placement: How Ray spreads a trial's processes over nodes; `None`: those of a synchronous algorithm on one node,
            if one has room for them, others close together.
        price_per_hour: Of the machine, in whatever currency; `None` if nobody asks what a target costs.
    """

    name: Name
    address: Address | None = None
    num_cpus: Positive | None = None
    num_gpus: Count | None = None
    memory_gib: Annotated[Number, Field(gt=0)] | None = None
    oversubscribe: Positive = 1
    total_envs: Positive = 16
    num_env_runners: Count | None = None
    num_envs_per_env_runner: Positive | None = None
    vectorize_mode: Literal["sync", "async", "vector_entry_point"] | None = None
    num_learners: Count | None = None
    num_gpus_per_learner: Annotated[Number, Field(ge=0)] | None = None
    threads_per_process: Positive = 1
    bits: Bits = NATIVE
    max_concurrent_trials: Positive | None = None
    wait_for_nodes_s: Annotated[Number, Field(ge=0)] = 600.0
    accelerator_type: Name | None = None
    placement: Literal["STRICT_PACK", "PACK", "SPREAD"] | None = None
    price_per_hour: Annotated[Number, Field(gt=0)] | None = None


@dataclass(frozen=True, config=STRICT)
class EvaluationSettings:
    """The deterministic policy on held-out env seeds.

    Attributes:
        episodes: Episodes of each evaluation on the way.
        final_episodes: Episodes of the final evaluation, whose mean return is the score.
        every_env_steps: Spacing of the evaluations, a multiple of the report grid; `None` evaluates at every report.
    """

    episodes: Positive
    final_episodes: Positive
    every_env_steps: Positive | None = None


@dataclass(frozen=True, config=STRICT)
class CheckpointSettings:
    """When a trial saves itself, and what is kept.

    Attributes:
        every_env_steps: Spacing of the checkpoints, a multiple of the report grid; `None` lets the suite
            choose (`resolver.with_checkpoint_spacing`). Environments are reset at each, so it is part of what
            a result depends on.
        keep: Checkpoints kept of each trial, the newest ones.
        keep_best: Whether the one with the highest evaluation return is kept as well.
        replay: Whether replay buffers are saved. Without, a resumed trial fills its own anew, and is not the same.
    """

    every_env_steps: Positive | None = None
    keep: Positive = 1
    keep_best: StrictBool = False
    replay: StrictBool = True


@dataclass(frozen=True, config=STRICT)
class FaultSettings:
    """The faults that a trial may survive.

    Attributes:
        max_restarts: How often a trial is taken up again from its last checkpoint, after an exception
            or a killed process.
        max_node_losses: How often it is taken up again likewise, after a node with one of its processes was lost
            or cut off.
        stall_after_s: A trial without a sign of life for so long is ended; `None` waits for ever. A trial gives one at
            every step of environments and every minibatch.
    """

    max_restarts: Count = 3
    max_node_losses: Count = 10
    stall_after_s: Annotated[Number, Field(gt=0)] | None = 600.0


@dataclass(frozen=True, config=STRICT)
class TrackingSettings:
    """Where MLflow keeps the runs.

    Attributes:
        name: The choice in `conf/tracking`.
        uri: A tracking server (`http://...`) or a database (`sqlite:///...`, `postgresql://...`); `None` is the
            embedded store under `output_dir`.
        timeout_s: How long one request to a server may take before it counts as failed and is made again.
            Nothing waits for it but other requests. Before a study starts, a server has 6 s to answer, or
            `timeout_s` if that is less.
        tensorboard: Whether TensorBoard files are written beside the trials.
        system_metrics: Whether CPU, memory and GPU use of each trial are measured.
    """

    name: Name
    uri: Uri | None = None
    timeout_s: Annotated[Number, Field(gt=0, le=3600)] = 30.0
    tensorboard: StrictBool = True
    system_metrics: StrictBool = True


@dataclass(frozen=True, config=STRICT)
class RegistrySettings:
    """Which policies become models in MLflow, at a study's end.

    Attributes:
        models: `recommended`: of the recommended configuration, each seed's; `all`: each finished trial's;
            `checkpoints`: the same, of each checkpoint that was kept; `none`. Those of the recommended configuration
            are registered as `<algorithm>-<env>`.
    """

    models: Literal["recommended", "all", "checkpoints", "none"] = "recommended"


@dataclass(frozen=True, config=STRICT)
class StartingPolicy:
    """The trained policy whose weights all trials of a study start from.

    Attributes:
        name: Name of its trial: algorithm, environment, configuration and seed.
        run: The trial's run id in MLflow; "" if a folder was named.
        env_steps: Env steps that it was trained for.
        weights: A digest of its weights, which is all that a result depends on.
        source: Where they are: a checkpoint, or the file that another study kept.
    """

    name: StrictStr
    run: StrictStr
    env_steps: Count
    weights: StrictStr
    source: StrictStr

    def __str__(self) -> str:
        where = f"run {self.run}" if self.run else f"{Path(self.source).parent.parent.name}, a folder"
        return f"the policy of {self.name}, trained for {self.env_steps:,} env steps ({where})"


@dataclass(frozen=True, config=STRICT)
class StudySettings:
    """One question.

    Attributes:
        name: The study's name; its experiment in MLflow is `<name>/<algorithm>-<env>`.
        question: The study's question, in a sentence a person would say.
        space: Dotted configuration path (or a group such as `algorithm`) to a list or a distribution.
        at_most: Dotted path to the largest value that its setting keeps, where an algorithm has it: cuts any to the
            size of the study.
        common_budget: Whether all configurations sample as many env steps as the one with the largest budget
            of its own.
        start: A trained policy that all trials start from: the run id of its trial, or a checkpoint's folder,
            and once that was looked up (`study.starting`) what was found; None: each trial starts from weights
            of its seed's own.
        key: A name by which the same command finds the study again, and goes on with it;
            None: each command starts a study.
    """

    name: Name
    question: StrictStr
    space: dict[StrictStr, Any] = field(default_factory=dict)
    at_most: dict[Annotated[StrictStr, Field(pattern=r"^algorithm\.")], Annotated[Number, Field(gt=0)]] = field(
        default_factory=dict
    )
    common_budget: StrictBool = False
    start: StartingPolicy | StrictStr | None = None
    key: Name | None = None

    def __post_init__(self) -> None:
        if isinstance(self.start, str) and not self.start.strip():
            raise ConfigurationError(
                "study.start= names no policy. Write study.start=<run id of its trial>, or the folder of a checkpoint. "
                "Leave it out to start from newly initialised weights."
            )


@dataclass(frozen=True, config=STRICT)
class SuiteConfig:
    """The whole composed configuration.

    `extension` has the settings of those that are not as by default, by name (`extension.Training`).
    `algorithm` stays RLlib's: a plain mapping of its sections. `modules` are paths on the command line, and from then
    on the name of each module of a person's own to the hash of its content (`own_modules.take`).
    `reuse` takes trials that other studies have run whole from the store (`study.reuse`).
    """

    algorithm: dict[str, Any]
    env: EnvSettings
    hardware: HardwareSettings
    search: SearchSettings
    scheduler: SchedulerSettings
    tracking: TrackingSettings
    evaluation: EvaluationSettings
    checkpoint: CheckpointSettings
    faults: FaultSettings
    preprocessing: PreprocessingSettings
    study: StudySettings
    seeds: Seeds
    repeats: Positive
    budget_env_steps: Positive
    report_every_env_steps: Positive | None
    stop_at_target: StrictBool
    output_dir: Annotated[StrictStr, Field(min_length=1)]
    fast: StrictBool = True
    bits: Bits = NATIVE
    modules: dict[Name, StrictStr] = field(default_factory=dict)
    measurement: MeasurementSettings | None = None
    objective: Objective = ObjectiveSettings()
    constraints: ConstraintSettings = ConstraintSettings()
    extension: dict[Name, Any] = field(default_factory=dict)
    confirmation: ConfirmationSettings = field(default_factory=ConfirmationSettings)
    confirm: ConfirmSettings = field(default_factory=ConfirmSettings)
    registry: RegistrySettings = field(default_factory=RegistrySettings)
    max_env_steps: Positive | None = None
    max_minutes: Annotated[Number, Field(gt=0)] | None = None
    reuse: StrictBool = False
    dry_run: StrictBool = False
    report: Report = ReportSettings()
    resume: StrictStr | None = None

    @property
    def is_search(self) -> bool:
        """True if later trials depend on earlier results, so that conclusions need seeds of their own."""
        return self.search.name in SEARCHES or self.scheduler.name != "fifo"

    @property
    def objectives(self) -> tuple[str, ...]:
        """The aims of a search: the study's, or two of its own."""
        return getattr(self.search, "objective", None) or (self.objective.name,)

    @property
    def confirms(self) -> bool:
        """True if the best configurations are run again with seeds of their own."""
        return self.is_search or self.confirmation.always

    def __post_init__(self) -> None:
        if not self.seeds:
            raise ConfigurationError("seeds is empty: a study needs at least one seed, for example seeds=[0,1,2].")
        if len(set(self.seeds)) != len(self.seeds):
            raise ConfigurationError(f"seeds={list(self.seeds)} names a seed twice; each seed is one replicate.")
        check_objective(self)
        check_constraints(self)
        check_search(self)
        check_earlier(self)
        check_reuse(self)
        if self.hardware.bits != self.bits:
            raise ConfigurationError(
                f"hardware.bits={self.hardware.bits}: it follows bits. Try bits={self.hardware.bits}."
            )
        if self.repeats > 1 and self.env.backend == "envpool":
            raise ConfigurationError(
                f"repeats={self.repeats} asks whether a trial comes out the same to the bit, "
                "which EnvPool does not promise. Try env.backend=gymnasium."
            )
        if self.measurement is not None and (self.hardware.max_concurrent_trials or 1) > 1:
            raise ConfigurationError(
                f"hardware.max_concurrent_trials={self.hardware.max_concurrent_trials}: "
                "throughput is measured one trial at a time. Try hardware.max_concurrent_trials=1."
            )
        for settings in self.extension.values():
            settings.check(self)
        if len(self.seeds) * self.repeats > MAX_TRIALS:
            raise ConfigurationError(
                f"repeats={self.repeats} of {len(self.seeds)} seeds are more than {MAX_TRIALS:,} trials."
            )
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
                f"report_every_env_steps={grid} gives {self.budget_env_steps // grid} points a curve; "
                f"MLflow draws at most {MAX_REPORTS}. Try report_every_env_steps={finest} or more."
            )
        for key, every in (
            ("evaluation.every_env_steps", self.evaluation.every_env_steps),
            ("checkpoint.every_env_steps", self.checkpoint.every_env_steps),
        ):
            if every is not None and every % grid:
                raise ConfigurationError(
                    f"{key}={every} is not a multiple of report_every_env_steps={grid}. "
                    f"Try {key}={max(1, round(every / grid)) * grid}."
                )


_ADAPTER = TypeAdapter(SuiteConfig)


def parse(config: Mapping[str, Any]) -> SuiteConfig:
    """Check a composed configuration and freeze it.

    Args:
        config: The composed configuration as plain dictionaries and lists.

    Returns:
        The same, typed.

    Raises:
        ConfigurationError: A key is unknown or missing, or a value is outside its range;
            the message lists every such key.
    """
    with readable_errors():
        former = {one.manifest.formerly for one in extension.known()}
        settings = {name: value for name, value in config.items() if name not in former}
        return _ADAPTER.validate_python({**settings, "extension": extension.taken(extension.given(config))})


def with_report_grid(suite: SuiteConfig, report_every_env_steps: int) -> SuiteConfig:
    """The same with its report grid.

    Raises:
        ConfigurationError: Something else does not fit that grid.
    """
    with readable_errors():
        return replace(suite, report_every_env_steps=report_every_env_steps)
