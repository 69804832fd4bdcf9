"""The environments that a policy is tried in: its own, one by another name, and a grid of settings of it."""

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import yaml
from pydantic import TypeAdapter

from experiments.config.choices import check_choices
from experiments.config.compose import composed_group
from experiments.config.data_files import ENV_CONFIG, whole_paths
from experiments.config.errors import ConfigurationError
from experiments.config.fields import readable_errors
from experiments.config.gym_registry import with_registry
from experiments.config.schema import EnvSettings
from experiments.config.trial_config import TrialConfig
from experiments.policies.policy import check_same_spaces

SETTING = f"{ENV_CONFIG}."
LIMIT = "env.max_episode_steps"
ID = "env.id"
MOST = 100
"""Settings of a grid: each is an evaluation of its own."""


@dataclass(frozen=True)
class Variant:
    """An environment to try a policy in.

    Attributes:
        name: The difference from the trial's own, in words.
        env: Settings of the environment.
        point: The settings that were changed in it, name to value.
    """

    name: str
    env: EnvSettings
    point: Mapping[str, Any]


def is_of_environment(key: str) -> bool:
    """True if a key of a command line sets an environment."""
    return key in ("env", ID, LIMIT) or (key.startswith(SETTING) and key != SETTING)


def variants(trial: TrialConfig, given: Mapping[str, str]) -> list[Variant]:
    """The trial's own environment, and then those that a command line asks for.

    Args:
        trial: The trial that was trained.
        given: Words of the command line, key to value: `env`, `env.id`, `env.max_episode_steps` and
            `env.env_config.<name>`; a list is an axis of a grid.

    Raises:
        ConfigurationError: One cannot be made, or has other spaces than the trial's.
    """
    found = [Variant("as trained", trial.env, {})]
    axes = {
        key: whole_paths(_values(key, value)) for key, value in given.items() if key.startswith(SETTING) or key == LIMIT
    }
    named = [f"{key}={given[key]}" for key in ("env", ID) if key in given]
    if not (axes or named):
        return found
    base = _chosen(given) if named else trial.env
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    if len(points) > MOST:
        raise ConfigurationError(
            f"{' '.join(axes)}: make {len(points)} environments, and more than {MOST} would take too long. Try fewer."
        )
    for point in points:
        env = _with(base, point)
        words = [
            *([env.name] if named else []),
            *(f"{key.rpartition('.')[2]}={_shown(value)}" for key, value in point.items()),
        ]
        check_same_spaces(trial, env, " ".join([*named, *(f"{key}={value}" for key, value in point.items())]))
        found.append(Variant(" ".join(words), env, {key.removeprefix("env."): value for key, value in point.items()}))
    return found


def _values(key: str, text: str) -> list[Any]:
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigurationError(
            f"{key}={text}: is no value. A number, a word, or a list of them: {key}=[1,2]."
        ) from None
    if value == []:
        raise ConfigurationError(f"{key}=[]: is an empty list. Name one value at least.")
    return value if isinstance(value, list) else [value]


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _chosen(given: Mapping[str, str]) -> EnvSettings:
    words = [f"env={given.get('env', 'gym')}", *([f"{ID}={given[ID]}"] if ID in given else [])]
    check_choices(words[:1])
    return _parsed(with_registry(composed_group("env", words)))


def _with(env: EnvSettings, point: Mapping[str, Any]) -> EnvSettings:
    """An environment with some of its settings."""
    of_env = {key.removeprefix(SETTING): value for key, value in point.items() if key != LIMIT}
    changed = replace(env, env_config={**env.env_config, **of_env})
    return _parsed({**asdict(changed), "max_episode_steps": point[LIMIT]}) if LIMIT in point else changed


def _parsed(settings: Mapping[str, Any]) -> EnvSettings:
    with readable_errors():
        return TypeAdapter(EnvSettings).validate_python(dict(settings))
