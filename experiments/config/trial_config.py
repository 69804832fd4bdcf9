"""From a composed configuration, one point of the search space and a seed to a trial. Pure."""

import copy
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

from experiments.config.errors import ConfigurationError
from experiments.config.extension import Absent, Training, recorded, versions
from experiments.config.fields import whole
from experiments.config.measurement_settings import MeasurementSettings
from experiments.config.objective_settings import ObjectiveSettings
from experiments.config.preprocessing_settings import PreprocessingSettings
from experiments.config.schema import (
    CheckpointSettings,
    EnvSettings,
    EvaluationSettings,
    FaultSettings,
    StartingPolicy,
    SuiteConfig,
    parse,
)
from experiments.contract import FIXED, NAMED_AXES, NOT_HASHED, THROUGHPUT
from experiments.limits.arithmetic import NATIVE, Arithmetic, Bits

GROUPS = ("algorithm", "env", "hardware", "preprocessing")
"""Hydra groups that can be an axis of a study's space; any other axis is a dotted path into the configuration."""

TRAINING = "algorithm.training."
"""Where the paths of RLlib's training settings begin."""
VECTORIZE_MODE = "env.vectorize_mode"
NUM_ENV_RUNNERS = "algorithm.env_runners.num_env_runners"
LAYOUT = frozenset(
    {
        f"{section}.{count}"
        for section in ("hardware", "algorithm.env_runners")
        for count in ("num_env_runners", "num_envs_per_env_runner")
    }
    | {VECTORIZE_MODE, "hardware.vectorize_mode", "hardware.total_envs"}
)
"""Settings that say how a trial samples. Of what is learned they change the number of environments, at most."""

_SECTIONS = ("algorithm", "algorithm.training", "algorithm.env_runners", "algorithm.learners", "hardware", "env")
"""Whose settings are known by the last part of their path."""

Compose = Callable[[Mapping[str, str]], Mapping[str, Any]]
"""Group choices (`{"algorithm": "dqn"}`) to the composed configuration, plain."""

SHORT_NAMES = {
    "learning_rate": "lr",
    "batch_size": "b",
    "update_to_data": "utd",
    "train_batch_size_per_learner": "b",
    "minibatch_size": "mb",
    "num_epochs": "epochs",
    "num_env_runners": "runners",
    "num_envs_per_env_runner": "envs",
    "num_learners": "learners",
}
"""Names of settings in a run's name, where their own are too long."""


@dataclass(frozen=True)
class Start:
    """Where a trial starts from that goes on with the weights of another one.

    Attributes:
        trial: The other one's `folder_name`, in the same study.
        env_steps: Env steps of the checkpoint that it starts from.
        copied: Whether the other trial has another seed.
    """

    trial: str
    env_steps: int
    copied: bool


@dataclass(frozen=True)
class TrialConfig:
    """Everything that a trial's result depends on: the trial is a pure function of it.

    Attributes:
        algorithm: `conf/algorithm` resolved: `name`, `config_class` and the sections for RLlib's builder methods, where
            `env_runners` and `learners` carry the final counts.
        env: The environment.
        seed: The user's replicate number; every stream of the trial is derived from it.
        budget_env_steps: Env steps to sample.
        report_every_env_steps: Spacing of the report grid, common to the study.
        evaluation: How the policy is evaluated.
        stop_at_target: Whether the trial ends when it first holds the env's target.
        threads_per_process: Torch and BLAS threads of each process.
        checkpoint: When the trial saves itself, with its spacing. What is kept is not part of the hash.
        faults: The faults that the trial may survive. Not part of the hash: it does not change the result.
        fast: Whether RLlib's parts are replaced by faster ones (`experiments/fast`): the same weights, but for what
            torch itself rounds by where an element lies, and the same metrics within rounding.
        bits: The instructions that its processes compute with: this processor's own, or those that processors have in
            common (`limits.arithmetic`).
        preprocessing: How observations and rewards are transformed before networks and losses see them.
        modules: A person's own that it imports, name to the hash of its content.
        measurement: How its throughput is measured; None if it trains to its budget.
        objective: What decides which configuration is best. Not part of the hash: it changes no result.
        extension: Settings of extensions, by name. Of those that do not change the result, not part of the hash.
        extensions: The versions of those that change the result, by name.
        repeat: Which run of the same configuration and seed this is. Not part of the hash.
        label: The configuration in words, without the seed: what differs within the study. Not part of the hash.
        rules: Setting of `training` to the rule that its number comes from. Not part of the hash: the number is.
        multiples: Word of `NAMED_AXES` to the factor by which several settings differ from the base point.
            Not part of the hash.
        phase: `fixed`, `throughput`, `search` or `confirm`. Not part of the hash.
        exploratory: Whether others confirm what it found, so that conclusions rest on them. Not part of the hash.
        start: The trial whose weights it starts from; None: from its seed's own, or those of `starts_from`.
        starts_from: A trained policy, whose weights the study keeps; None: from its seed's own.
            Of it the weights alone are hashed.
    """

    algorithm: Mapping[str, Any]
    env: EnvSettings
    seed: int
    budget_env_steps: int
    report_every_env_steps: int
    evaluation: EvaluationSettings
    stop_at_target: bool
    threads_per_process: int
    checkpoint: CheckpointSettings = field(default_factory=CheckpointSettings)
    faults: FaultSettings = field(default_factory=FaultSettings)
    fast: bool = False
    bits: Bits = NATIVE
    preprocessing: PreprocessingSettings = field(default_factory=PreprocessingSettings)
    modules: Mapping[str, str] = field(default_factory=dict)
    measurement: MeasurementSettings | None = None
    objective: ObjectiveSettings = field(default_factory=ObjectiveSettings)
    extension: Mapping[str, Training] = field(default_factory=dict)
    extensions: Mapping[str, str] = field(default_factory=dict)
    repeat: int = 0
    label: str = ""
    rules: Mapping[str, str] = field(default_factory=dict)
    multiples: Mapping[str, float] = field(default_factory=dict)
    phase: str = FIXED
    exploratory: bool = False
    start: Start | None = None
    starts_from: StartingPolicy | None = None

    @cached_property  # a driver asks for it at every event of every trial
    def config_id(self) -> str:
        """8 hexadecimal digits that are equal for two trials exactly if their results differ by the seed alone.

        Beside `contract.NOT_HASHED`, what cannot change a result is left out, and settings that came later,
        where they are as they were before.
        """
        content = {k: v for k, v in self.to_mapping().items() if k not in NOT_HASHED}
        content["checkpoint_every_env_steps"] = self.checkpoint.every_env_steps
        if not self.fast:  # as it was before there was a choice
            del content["fast"]
        if self.bits == NATIVE:
            del content["bits"]
        del content["preprocessing"]["name"]
        if self.preprocessing.is_none:
            del content["preprocessing"]
        networks = content["algorithm"]["rl_module"]
        content["algorithm"]["rl_module"] = {
            k: v for k, v in networks.items() if v or k not in ("module_class", "model_config")
        }
        content["modules"] = {k: v for k, v in self.modules.items() if k not in self.extension}
        content["extension"] = {k: v for k, v in content["extension"].items() if k in self.extensions}
        for name in ("modules", "extension", "extensions"):
            if not content[name]:
                del content[name]
        if self.measurement is None:
            del content["measurement"]
        if self.start is None:
            del content["start"]
        if self.starts_from is None:
            del content["starts_from"]
        else:
            content["starts_from"] = self.starts_from.weights
        if self.env.backend == "gymnasium":
            del content["env"]["backend"]
        if self.env.max_episode_steps is None:
            del content["env"]["max_episode_steps"]
        if not self.env.stagger:
            del content["env"]["stagger"]
        return hashlib.sha256(json.dumps(_normal(content), sort_keys=True).encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        """The run's name: what differs first, the seed last, and which repeat if it is not the first."""
        return f"{self.label} s={self.seed}" + (f" r={self.repeat}" if self.repeat else "")

    @cached_property
    def folder_name(self) -> str:
        """The name of its folder, unique within its study."""
        readable = "".join(ch if ch.isalnum() or ch in "=.-" else "_" for ch in self.label)
        return f"{readable[:60]}_{self.config_id}_s{self.seed}" + (f"_r{self.repeat}" if self.repeat else "")

    @property
    def first_env_steps(self) -> int:
        """Env steps that it starts from: another one's, if it goes on with its weights."""
        return self.start.env_steps if self.start else 0

    @property
    def arithmetic(self) -> Arithmetic:
        """How each of its processes computes."""
        return Arithmetic(self.threads_per_process, self.bits)

    @property
    def total_train_batch_size(self) -> int:
        """Env steps (for replay algorithms: transitions) of one training batch over all learners."""
        per_learner = self.algorithm["training"]["train_batch_size_per_learner"]
        return int(per_learner * max(1, self.algorithm["learners"]["num_learners"]))

    def to_mapping(self) -> dict[str, Any]:
        """As plain dictionaries, lists and scalars that JSON can hold; infinities as strings."""
        return {name: _plain(value) for name, value in asdict(self).items()}

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "TrialConfig":
        """The inverse of `to_mapping`; other keys are left out."""
        known = {f.name for f in fields(cls)}
        return cls(
            **{
                **{name: value for name, value in mapping.items() if name in known},
                "algorithm": _unplain(mapping["algorithm"]),
                "env": EnvSettings(**{**mapping["env"], "score_range": tuple(mapping["env"]["score_range"])}),
                "evaluation": EvaluationSettings(**mapping["evaluation"]),
                "checkpoint": CheckpointSettings(**mapping["checkpoint"]),
                "faults": FaultSettings(**mapping["faults"]),
                "preprocessing": PreprocessingSettings(**mapping["preprocessing"]),
                "measurement": MeasurementSettings(**measurement) if (measurement := mapping["measurement"]) else None,
                "objective": ObjectiveSettings(**mapping.get("objective", {})),
                "extension": recorded(mapping),
                "start": Start(**start) if (start := mapping["start"]) else None,
                "starts_from": StartingPolicy(**policy) if (policy := mapping["starts_from"]) else None,
            }
        )


SHARED = tuple(f.name for f in fields(TrialConfig) if f.name in {own.name for own in fields(SuiteConfig)})
"""Settings of the configuration that a trial takes as they are."""


def trial_config(
    suite: SuiteConfig,
    seed: int,
    label: str,
    repeat: int = 0,
    rules: Mapping[str, str] | None = None,
    multiples: Mapping[str, float] | None = None,
    phase: str = FIXED,
) -> TrialConfig:
    """The trial of a configuration whose runner and learner counts are numbers (`resources.with_counts`)."""
    assert suite.report_every_env_steps is not None, "the plan chooses the report grid first"
    assert not isinstance(suite.study.start, str), "the policy is looked up first"
    env = suite.env
    for settings in suite.extension.values():
        env = settings.environment(env)
    return TrialConfig(
        **{**{name: getattr(suite, name) for name in SHARED}, "env": env},
        seed=seed,
        threads_per_process=suite.hardware.threads_per_process,
        repeat=repeat,
        label=label,
        rules=rules or {},
        multiples=multiples or {},
        phase=THROUGHPUT if suite.measurement is not None else phase,
        starts_from=suite.study.start,
        extensions=versions(suite.extension, suite.modules),
    )


def apply_point(config: Mapping[str, Any], point: Mapping[str, Any]) -> SuiteConfig:
    """A composed configuration with one point of the space put in.

    Args:
        config: The composed configuration, plain.
        point: Dotted path to value. Group choices are ignored: the configuration was composed with them.

    Raises:
        ConfigurationError: A path leads nowhere, or the result is invalid.
    """
    config = copy.deepcopy(dict(config))
    for path, value in point.items():
        if path in GROUPS:
            continue
        *parents, leaf = path.split(".")
        node: Any = config
        for parent in parents:
            node = node.get(parent) if isinstance(node, dict) else None
        if not isinstance(node, dict) or not parents:
            raise ConfigurationError(
                f"study.space: {path!r} leads to no setting. Its keys are dotted paths such as algorithm.training.lr, "
                f"or one of the groups {', '.join(GROUPS)}."
            )
        node[leaf] = value
    if VECTORIZE_MODE in point:  # an axis wins over the hardware profile
        config["hardware"]["vectorize_mode"] = None
    return parse(config)


def distinct_names(
    paths: Iterable[str], short: Callable[[str], str], is_taken: Callable[[str], bool] = lambda name: False
) -> dict[str, str]:
    """Axes of a space to names that tell them apart.

    Args:
        paths: Dotted paths, groups and names of axes.
        short: Gives the short name of each. A setting of the suite's, as algorithm.training.lr, has that one; of
            any other, such as env.env_config.lr, the name gets as many of the parts before it as tell it from
            the others: env_config.lr.
        is_taken: Whether a short name is something else's.
    """
    every = tuple(paths)
    return {path: short(path) if is_own_setting(path) else _distinct(path, every, short, is_taken) for path in every}


def is_own_setting(path: str) -> bool:
    """True if the last part of an axis' path tells what it is: not of what an environment
    or a network has for itself.
    """
    return path in NAMED_AXES or path in GROUPS or path.rpartition(".")[0] in _SECTIONS


def _distinct(path: str, every: Sequence[str], short: Callable[[str], str], is_taken: Callable[[str], bool]) -> str:
    others, parts = [other for other in every if other != path], path.split(".")
    name = short(path)
    if not is_taken(name) and name not in map(short, others):
        return name
    longer = (".".join(parts[-number:]) for number in range(2, len(parts)))
    return next((name for name in longer if not any(other.endswith(f".{name}") for other in others)), path)


def label_of(point: Mapping[str, Any], default: str, axes: Iterable[str] = ()) -> str:
    """A configuration in a few words: `lr=3e-4 b=4000`, a multiple of the base point as `lr=x0.1`;
    `default` where nothing differs.

    Args:
        point: Dotted path, group or name of an axis to value.
        default: Its name where nothing differs.
        axes: Paths of the space, of which a point need not have all.
    """
    names = distinct_names(dict.fromkeys((*point, *(path for path in axes if path not in NAMED_AXES))), _short_name)
    parts = [_words(path, names[path], value) for path, value in sorted(point.items(), key=_order)]
    return " ".join(parts) or default


def _order(item: tuple[str, Any]) -> tuple[bool, str]:
    return (item[0] not in GROUPS, "" if item[0].startswith(TRAINING) or item[0] in NAMED_AXES else item[0])


def _words(path: str, name: str, value: Any) -> str:
    if path in GROUPS:
        return str(value)
    times = "x" if path in NAMED_AXES and not isinstance(value, str) else ""
    return f"{name}={times}{_short_value(value)}"


def _short_name(path: str) -> str:
    leaf = path.rsplit(".", 1)[-1]
    return SHORT_NAMES.get(leaf, leaf)


def _short_value(value: Any) -> str:
    if isinstance(value, float):
        text = f"{value:.4g}"
        if value and (abs(value) < 0.1 or abs(value) >= 1e4) and "e" not in text:
            text = f"{value:.3e}"
        mantissa, exponent_mark, exponent = text.partition("e")
        if exponent_mark:  # 3.000e-04 -> 3e-4
            return f"{float(mantissa):g}e{int(exponent)}"
        return text
    if isinstance(value, list | tuple):
        return _schedule(value) or "x".join(_short_value(v) for v in value)
    return str(value)


def _schedule(value: Sequence[Any]) -> str:
    """RLlib's [[0, 1e-3], [50000, 0]], a value from env step to env step, as `1e-3..0@50000`; "" for anything else."""
    match value:
        case [[0, first], *later] if later and all(isinstance(v, list | tuple) and len(v) == 2 for v in later):
            return "..".join([_short_value(first), *(f"{_short_value(v)}@{_short_value(at)}" for at, v in later)])
    return ""


def _plain(value: Any) -> Any:
    if isinstance(value, Absent):
        return _plain(value.settings)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def _normal(value: Any) -> Any:
    """The same with numbers that are equal written alike: 1 and 1.0."""
    if isinstance(value, dict):
        return {k: _normal(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_normal(v) for v in value]
    return whole(value)


def _unplain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _unplain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_unplain(v) for v in value]
    if value in ("inf", "-inf"):
        return float(value)
    return value
