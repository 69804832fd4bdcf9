"""Types and ranges of RLlib's settings. Pure.

RLlib's builder methods hardly look at values: `lr=-1`, `gamma=[]` and `num_epochs=null` all pass them. Here a value
must have the type that whatever takes it declares (a builder method, the model config, an initializer, a replay buffer,
an environment), and lie in the range of its name.
"""

import difflib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.models.utils import get_activation_fn, get_initializer_fn
from ray.rllib.utils import replay_buffers

from experiments.config.errors import ConfigurationError
from experiments.config.number_ranges import SCHEDULES, check_number

BUILDERS = ("training", "env_runners", "learners")
"""Sections of an algorithm file that are the arguments of RLlib's builder method of the same name."""
SECTIONS = (*BUILDERS, "rl_module")
"""Sections that an algorithm file may hold beside `name` and `config_class`."""
MODULE_CLASS, MODEL_CONFIG = "module_class", "model_config"
"""Settings of `rl_module` that are for a module of a person's own;
all others are fields of RLlib's DefaultModelConfig."""

N_STEP_BUFFER = "NStepEpisodeReplayBuffer"
"""A replay buffer of the suite's, beside RLlib's (`experiments/fast/replay.py`)."""

_TYPES: Mapping[str, Any] = {
    "grad_clip": float | None,  # DQN: a whole number
    "entropy_coeff": float,  # PPO: no schedule, though it takes one
    "conv_filters": list[list[int | list[int]]] | None,  # tuples, which YAML has not
    "rollout_fragment_length": int | Literal["auto"],  # any string
    "beta": float,  # DQN and SAC read it from the replay buffer's settings; the buffer itself takes anything
    "type": str,
}
"""Where what RLlib declares is not what it takes."""

_UNREAD = ("lstm_use_prev_action", "lstm_use_prev_reward")
"""Fields of RLlib's DefaultModelConfig that none of the networks of its new API stack reads."""

_OFF_IF_NULL = ("grad_clip", "minibatch_size", "training_intensity")
_CHOSEN_IF_NULL = ("num_env_runners", "num_envs_per_env_runner", "num_learners", "num_gpus_per_learner")
"""Counts that the hardware profile or the suite chooses."""


def check_settings(algorithm: Mapping[str, Any], defaults: AlgorithmConfig) -> None:
    """Check the names and values of an algorithm's sections.

    Args:
        algorithm: `conf/algorithm` resolved.
        defaults: RLlib's configuration for it, with nothing set.

    Raises:
        ConfigurationError: RLlib has no such setting; a value has the wrong type or is outside its range;
            names the key.
    """
    if unknown := sorted(set(algorithm) - {"name", "config_class", *SECTIONS}):
        raise ConfigurationError(f"algorithm.{unknown[0]}: there is no such section. There are: {', '.join(SECTIONS)}.")
    for section in SECTIONS:
        if not isinstance(algorithm.get(section), Mapping):
            raise ConfigurationError(
                f"algorithm.{section}={algorithm.get(section)!r}: must be a mapping of settings (it may be empty)."
            )
    for section in BUILDERS:
        declared = _annotations(*(vars(c)[section] for c in type(defaults).__mro__ if section in vars(c)))
        for name, value in algorithm[section].items():
            if name not in declared:
                alike = difflib.get_close_matches(str(name), declared, n=3)
                hint = f"Did you mean {' or '.join(alike)}?" if alike else f"There are: {', '.join(sorted(declared))}."
                raise ConfigurationError(
                    f"algorithm.{section}.{name}: algorithm={algorithm['name']} has no such setting. {hint}"
                )
            optional = name in (*_OFF_IF_NULL, *_CHOSEN_IF_NULL) or getattr(defaults, name, None) is None
            if value is not None or not optional:
                _check_value(f"algorithm.{section}.{name}", name, value, declared[name], null=False)
    if isinstance(buffer := algorithm["training"].get("replay_buffer_config"), Mapping):
        of_another_type = (
            buffer.get("type", defaults.replay_buffer_config["type"]) != defaults.replay_buffer_config["type"]
        )
        # as RLlib merges them
        _check_replay_buffer(buffer if of_another_type else {**defaults.replay_buffer_config, **buffer})
    _check_model(algorithm["rl_module"])


def check_arguments(key: str, settings: Mapping[str, Any], receiver: Callable[..., Any]) -> None:
    """Check the values of settings that become keyword arguments of a function or class.

    Unknown names are left to the receiver.

    Args:
        key: The dotted path of the settings.
        settings: Name to value.
        receiver: The method or class that takes them.

    Raises:
        ConfigurationError: A value has not the type that the receiver declares for it.
    """
    declared = _annotations(receiver)
    for name, value in settings.items():
        _check_type(f"{key}.{name}", name, value, declared.get(name, Any))


def _check_replay_buffer(settings: Mapping[str, Any]) -> None:
    key = "algorithm.training.replay_buffer_config"
    kinds = {
        name: kind
        for name, kind in vars(replay_buffers).items()
        if isinstance(kind, type)
        and issubclass(kind, replay_buffers.EpisodeReplayBuffer)
        and not name.startswith("MultiAgent")
    }
    kind, names = settings.get("type"), sorted((*kinds, N_STEP_BUFFER))
    if kind not in names:
        raise ConfigurationError(f"{key}.type={kind!r}: must be one of {', '.join(names)}.")
    if "capacity" not in settings:
        raise ConfigurationError(f"{key}.capacity: this setting is missing.")
    declared = {"type": str, "beta": float, **_annotations(*kinds.values())}
    for name, value in settings.items():
        if name not in declared:  # the buffers' constructors take anything
            raise ConfigurationError(
                f"{key}.{name}: there is no such setting. There are: {', '.join(sorted(declared))}."
            )
        _check_value(f"{key}.{name}", name, value, declared[name])


def _check_model(settings: Mapping[str, Any]) -> None:
    key = "algorithm.rl_module"
    declared = typing.get_type_hints(DefaultModelConfig)
    own, settings = {name: settings.get(name) for name in (MODULE_CLASS, MODEL_CONFIG)}, default_model(settings)
    if own[MODULE_CLASS] is not None and not isinstance(own[MODULE_CLASS], str):
        raise ConfigurationError(f"{key}.{MODULE_CLASS}={own[MODULE_CLASS]!r}: must be the dotted path of an RLModule.")
    if own[MODEL_CONFIG] is not None and not isinstance(own[MODEL_CONFIG], Mapping):
        raise ConfigurationError(f"{key}.{MODEL_CONFIG}={own[MODEL_CONFIG]!r}: must be a mapping.")
    if (given := own[MODEL_CONFIG]) and own[MODULE_CLASS] is None:
        raise ConfigurationError(
            f"{key}.{MODEL_CONFIG}.{next(iter(given))}: is for a module of your own, "
            f"{key}.{MODULE_CLASS}=my_module.MyRLModule."
        )
    for name, value in settings.items():
        if name == "use_attention" or name.startswith("attention_"):
            raise ConfigurationError(
                f"{key}.{name}: RLlib's new API stack has no attention networks. "
                f"Try {key}.use_lstm=true, or an RLModule of your own: {key}.{MODULE_CLASS}=my_module.MyRLModule."
            )
        if name not in declared:
            raise ConfigurationError(
                f"{key}.{name}: RLlib's DefaultModelConfig has no such field. It has: {', '.join(sorted(declared))}."
            )
        _check_value(f"{key}.{name}", name, value, declared[name])
        if name in _UNREAD and value and own[MODULE_CLASS] is None:
            raise ConfigurationError(
                f"{key}.{name}=true: none of the networks of RLlib's new API stack reads it. "
                f"Try {key}.{name}=false, and an environment that observes it: modules=[my_env.py]."
            )
        find = (
            get_activation_fn
            if name.endswith("_activation")
            else get_initializer_fn
            if name.endswith("_initializer")
            else None
        )
        if find is not None:
            try:
                find(value, framework="torch")
            except ValueError:
                kind = "activation in torch.nn" if find is get_activation_fn else "initializer in torch.nn.init"
                raise ConfigurationError(f"{key}.{name}={value!r}: there is no such {kind}.") from None
    for name, arguments in settings.items():
        if not name.endswith("_initializer_kwargs") or arguments is None:
            continue
        initializer = settings.get(name.removesuffix("_kwargs"))
        if initializer is None and arguments:
            raise ConfigurationError(
                f"{key}.{name}={arguments!r}: there is no initializer that takes them. "
                f"Give {key}.{name.removesuffix('_kwargs')}=..., or leave them out."
            )
        if initializer is not None:
            function = get_initializer_fn(initializer, framework="torch")
            declared = _annotations(function)
            for argument, value in arguments.items():
                if argument not in declared:
                    raise ConfigurationError(f"{key}.{name}.{argument}: {initializer} has no such argument.")
                _check_value(f"{key}.{name}.{argument}", argument, value, declared[argument])


def default_model(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of the section `rl_module`, the fields of RLlib's DefaultModelConfig."""
    return {name: value for name, value in settings.items() if name not in (MODULE_CLASS, MODEL_CONFIG)}


def _check_value(key: str, name: str, value: Any, declared: Any, null: bool = True) -> None:
    if not (name in SCHEDULES and isinstance(value, list)):
        _check_type(key, name, value, declared, null)
    check_number(key, name, value)


def _check_type(key: str, name: str, value: Any, declared: Any, null: bool = True) -> None:
    wanted = _TYPES.get(name, declared)
    if (value is None and not null) or not _fits(value, wanted):
        words = [w for w in _words(wanted, null) if name not in SCHEDULES or w != "a list"] + ["a schedule"] * (
            name in SCHEDULES
        )
        raise ConfigurationError(f"{key}={value!r}: must be {' or '.join(words) or f'of type {wanted}'}.")


def _fits(value: Any, declared: Any) -> bool:
    adapter = _adapter(declared)
    if adapter is None:
        return True
    try:
        adapter.validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


@functools.cache
def _adapter(declared: Any) -> TypeAdapter[Any] | None:
    """None for what YAML cannot hold anyway: classes and functions that RLlib declares by a name of its own."""
    try:
        return TypeAdapter(declared)
    except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError):
        return None


@functools.cache
def _annotations(*receivers: Callable[..., Any]) -> dict[str, Any]:
    """Keyword arguments and what is declared for them; of several receivers, the first that declares a name.

    Made once: to be read.
    """
    found: dict[str, Any] = {}
    for receiver in receivers:
        for name, parameter in inspect.signature(receiver).parameters.items():
            if name not in ("self", "tensor") and parameter.kind in (
                parameter.POSITIONAL_OR_KEYWORD,
                parameter.KEYWORD_ONLY,
            ):
                annotation = parameter.annotation
                found.setdefault(
                    name, Any if annotation is parameter.empty or isinstance(annotation, str) else annotation
                )
    return found


_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a mapping",
}


def _words(declared: Any, null: bool) -> list[str]:
    """A type in a person's words."""
    origin = typing.get_origin(declared)
    if origin in (typing.Union, types.UnionType):
        words = [word for part in typing.get_args(declared) for word in _words(part, null)]
        return list(dict.fromkeys(words))
    if origin is Literal:
        return [str(option) for option in typing.get_args(declared)]
    if declared is type(None):
        return ["null"] if null else []
    return [_WORDS[origin or declared]] if (origin or declared) in _WORDS else []
