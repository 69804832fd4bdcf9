"""Hydra's composition of a command line: group choices, and a study's space, which replaces the composed one."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

import conf
from experiments.config import own_modules
from experiments.config.data_files import ENV_CONFIG, with_whole_paths
from experiments.config.errors import ConfigurationError
from experiments.config.extension import known, taken
from experiments.config.fields import is_number, readable_errors
from experiments.config.gym_registry import with_registry
from experiments.config.space import starts_from, value_at
from experiments.config.trial_config import Compose
from experiments.contract import RESUME_MAY_CHANGE

CONF = Path(conf.__file__).parent
_OPEN = (ENV_CONFIG, "algorithm.rl_module.model_config")
"""Mappings whose keys are not the suite's."""


def _of_budget(share: Any, *, _root_: DictConfig) -> Any:
    """`${of_budget:0.6}` in a file: a share of the env steps, so that its schedules hold for every budget.

    A budget that is no number is returned as it is: it is refused by its own name.

    Raises:
        ConfigurationError: The share is no number from 0 to 1.
    """
    if not (is_number(share) and 0 <= share <= 1):
        raise ConfigurationError(f"${{of_budget:{share}}}: must be a share of the budget, from 0 to 1.")
    budget = _root_.budget_env_steps
    return round(share * budget) if is_number(budget) else budget


OmegaConf.register_new_resolver("of_budget", _of_budget, replace=True)


def split_space(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The command line without `study.space={...}`, and that: it replaces the study's space,
    and Hydra would merge the two.
    """
    given = [a for a in arguments if a.lstrip("+").startswith("study.space=")]
    return [a for a in arguments if a not in given], given


def present_name(word: str) -> str:
    """A word of a command line, or a path of a space, with the settings of extensions as they are called now."""
    former, dot, rest = word.lstrip("+~").partition(".")
    signs = word[: len(word) - len(word.lstrip("+~"))]
    present = next((one.name for one in known() if former and one.manifest.formerly == former), "")
    return f"{signs}extension.{present}.{rest}" if dot and present else word


def with_new_keys(arguments: Sequence[str]) -> list[str]:
    """The command line in which `env.env_config={...}` may name what the environment's file does not:
    Hydra asks for a + there.
    """
    present = map(present_name, arguments)
    return [f"+{a}" if a.startswith(tuple(f"{key}={{" for key in _OPEN)) else a for a in present]


def check_axes_are_free(composed: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Make sure that no override sets what the space varies: it would have no effect.

    Raises:
        ConfigurationError: One does.
    """
    space = (composed.get("study") or {}).get("space") or {}
    for override in overrides:
        key = override.lstrip("+~").partition("=")[0]
        if isinstance(space, Mapping) and key in space and not starts_from(space[key], value_at(composed, key)):
            raise ConfigurationError(
                f"{override}: has no effect, since the study varies {key}: {space[key]}. "
                f"Give the study another space, for example 'study.space={{}}' for a single configuration."
            )


def check_named(config: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Make sure that a study that is named, to go on or to be confirmed, is not asked to change.

    Raises:
        ConfigurationError: It is, or none is named.
    """
    if config["resume"] is not None:
        _check_named("resume", config["resume"], overrides, (), "a study is resumed as it was begun")
    elif (study := value_at(config, "confirm.study")) is not None:
        own = ("confirm.study", "confirm.with", "confirm.num_seeds", "confirm", "study.key")
        _check_named("confirm", study, overrides, own, "a recommendation is confirmed with the settings that it had")


def _check_named(word: str, study: Any, overrides: Sequence[str], own: Sequence[str], why: str) -> None:
    if not str(study).strip():
        raise ConfigurationError(
            f"{word}= names no study. Write {word}=<study run id>, which python experiments/list.py lists"
            f"{', or its folder' if word == 'resume' else ''}. Leave it out to begin a new study."
        )
    for override in overrides:
        key = override.lstrip("+~").partition("=")[0]
        if key not in (word, *own, *RESUME_MAY_CHANGE):
            *others, last = [name for name in (*own, *RESUME_MAY_CHANGE) if name not in ("confirm", "confirm.study")]
            raise ConfigurationError(
                f"{override}: {why}. Beside {word}= only {', '.join(others)} and {last} "
                f"can be given; start a new study to change {key}."
            )


def override(key: str, value: str) -> str:
    """A text as the value of a setting, as Hydra's grammar reads it: in quotes where it would read something else."""
    with suppress(HydraException):
        parsed = OverridesParser.create().parse_override(f"{key}={value}").value()
        if isinstance(parsed, str) and parsed == value:
            return f"{key}={value}"
    return f"{key}={QuotedString(value, Quote.double).with_quotes()}"


def composer(config: DictConfig, overrides: Sequence[str]) -> Compose:
    """Composes the command line's configuration, with other group choices where a study's space asks for them.

    Args:
        config: The configuration, as composed by Hydra.
        overrides: The command line's overrides.
    """
    given = split_space(overrides)[1]
    environment = dict(os.environ)

    def compose(choices: Mapping[str, str]) -> Mapping[str, Any]:
        kept = [o for o in split_space(overrides)[0] if o.partition("=")[0] not in choices]
        chosen = [f"{group}={name}" for group, name in choices.items()]
        with _in(environment):
            composed = _plain(hydra.compose("config", overrides=[*chosen, *kept]) if choices else config)
        if given and isinstance(composed.get("study"), dict):
            composed["study"]["space"] = OverridesParser.create().parse_override(given[-1]).value()
        if isinstance(space := value_at(composed, "study.space"), dict):
            composed["study"]["space"] = {
                present_name(path) if isinstance(path, str) else path: values for path, values in space.items()
            }
        _cut_to_size(composed, [o.lstrip("+~").partition("=")[0] for o in kept])
        composed["modules"] = own_modules.take(_with_own_extensions(composed))
        if isinstance(env := composed.get("env"), dict):
            composed["env"] = with_registry(env)
        return with_whole_paths(composed)

    return compose


@contextmanager
def _in(environment: Mapping[str, str]) -> Iterator[None]:
    """Within it files read variables that this process had: MLflow's are kept out of it later."""
    absent = {name: value for name, value in environment.items() if name not in os.environ}
    os.environ.update(absent)
    try:
        yield
    finally:
        for name in absent:
            del os.environ[name]


@contextmanager
def composing() -> Iterator[None]:
    """Within it, `hydra.compose` reads conf/, whatever else this process composes with Hydra."""
    others = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
            yield
    finally:
        GlobalHydra.instance().hydra = others


def composed_group(group: str, overrides: Sequence[str]) -> dict[str, Any]:
    """The settings of a group of conf/ by themselves.

    Args:
        group: A group of conf/, such as `env`.
        overrides: Overrides, as on run.py's command line.
    """
    with composing():
        settings = OmegaConf.to_container(
            hydra.compose("config", overrides=list(overrides))[group], resolve=True, throw_on_missing=True
        )
    assert isinstance(settings, dict)
    return {str(k): v for k, v in settings.items()}


def _with_own_extensions(composed: Mapping[str, Any]) -> Any:
    """The modules of a person's own, with the extensions of their own that the study asks for."""
    modules, settings = composed.get("modules"), composed.get("extension")
    folders = {one.name: str(one.folder) for one in known() if one.is_own}
    if not folders or not isinstance(modules, list) or not isinstance(settings, dict):
        return modules  # what is neither a list nor a mapping is refused
    with readable_errors():
        asked = {*taken({name: values for name, values in settings.items() if name in folders})}
    asked |= {path.split(".")[1] for path in value_at(composed, "study.space") or {} if path.startswith("extension.")}
    return [*modules, *(folder for name, folder in folders.items() if name in asked and folder not in modules)]


def _cut_to_size(composed: Mapping[str, Any], given: Sequence[str]) -> None:
    """Make settings no larger than `study.at_most` says, but for those that the command line gives."""
    limits = value_at(composed, "study.at_most")
    for path, most in limits.items() if isinstance(limits, Mapping) else ():
        parent, _, name = path.rpartition(".")
        section = value_at(composed, parent)
        value = section.get(name) if isinstance(section, dict) else None
        if path not in given and is_number(value) and is_number(most):
            section[name] = min(value, most)


def _plain(config: DictConfig) -> dict[str, Any]:
    plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(plain, dict)
    return {str(k): v for k, v in plain.items() if k != "hydra"}
