"""The training part of extensions, and which of them a configuration asks for."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import TypeAdapter

from experiments.config.errors import ConfigurationError
from experiments.contract import extensions
from experiments.contract.extensions import Extension

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.core.rl_module import RLModule

    from experiments.config.schema import EnvSettings, SuiteConfig
    from experiments.config.trial_config import TrialConfig
    from experiments.planning.plan import Plan

Past = Callable[[str, str, str], list[dict[str, float]]]
"""Algorithm, env and a metric to the last metrics of the finished trials in the store that logged it."""


class Measured:
    """A measurement of an extension in one trial.

    Attributes:
        key: Key of its state in a checkpoint of the trial.
        state: The state that a resumed trial goes on from: numbers, texts, lists and dictionaries.
    """

    key: str
    state: Any = None

    def add(self, result: Mapping[str, Any]) -> None:
        """Take what RLlib says of a training iteration."""

    def report(self) -> dict[str, float]:
        """The metrics of what was trained since the last report, under the names of the manifest."""
        return {}

    def final(self) -> dict[str, float]:
        """The metrics over the whole trial, likewise."""
        return {}


class Training:
    """The settings of an extension, and what they do to a trial: a frozen dataclass whose fields are the settings.

    A trial that has the values by default is as if there were no extension, and loads nothing of it. This module and
    what it imports is loaded by commands before Ray and RLlib are: import these in the methods that need them.

    Attributes:
        changes_results: Whether trials come to other results by it. If so, its settings
            and its version tell configurations apart.
    """

    changes_results: ClassVar[bool] = True

    def check(self, suite: "SuiteConfig") -> None:
        """Look at the whole configuration.

        Raises:
            ConfigurationError: It does not go with something else.
        """

    def environment(self, env: "EnvSettings") -> "EnvSettings":
        """The environment that trials are trained and evaluated on, in place of the one that was configured."""
        return env

    def configure(self, config: "AlgorithmConfig", trial: "TrialConfig") -> None:
        """Change RLlib's configuration of a trial, once the suite has made it.

        Raises:
            ConfigurationError: It does not go with it.
        """

    def check_networks(self, module: "RLModule") -> None:
        """Look at a trial's networks.

        Raises:
            ConfigurationError: It does not go with them.
        """

    def measure_in(self, algorithm: "Algorithm") -> Measured | None:
        """Begin to measure something in a trial, whose algorithm was just built; None if nothing is."""
        return None

    @classmethod
    def plan_lines(cls, plan: "Plan", past: Past) -> Sequence[str]:
        """Lines of the plan, of any study: whether it asks for the extension or not."""
        return ()


@contextmanager
def refusals() -> Iterator[None]:
    """Within it, what is wrong with an extension is refused as any other configuration.

    Raises:
        ConfigurationError: An extension cannot be taken.
    """
    try:
        yield
    except extensions.ExtensionError as error:
        raise ConfigurationError(str(error)) from None


def known() -> tuple[Extension, ...]:
    """All extensions.

    Raises:
        ConfigurationError: One cannot be taken.
    """
    with refusals():
        return extensions.found()


def part(extension: Extension) -> type[Training]:
    """The class that is an extension's training part.

    Raises:
        ConfigurationError: It is not there, or is none.
    """
    with refusals():
        return extension.load_class(extension.manifest.training, Training)


class Absent(Training):
    """An extension that is not here, of a trial that another process or machine recorded.

    Attributes:
        settings: The settings that were recorded.
    """

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self._name, self.settings = name, dict(settings)

    def configure(self, config: "AlgorithmConfig", trial: "TrialConfig") -> None:
        """Refuse.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            f"extension.{self._name}: the trial was run with an extension that is not here. Name the folder of it: "
            f"modules=[path/to/{self._name}]."
        )


def given(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of extensions in a configuration, also where it calls them as they were called before.

    Args:
        config: The settings of a study or of a trial, plain.

    Raises:
        ConfigurationError: They are no mapping.
    """
    found = dict(_mapping("extension", config.get("extension", {})))
    for extension in known():
        if (former := config.get(extension.manifest.formerly)) is not None:
            present = _mapping(f"extension.{extension.name}", found.get(extension.name, {}))
            found[extension.name] = {**present, **_mapping(extension.manifest.formerly, former)}
    return found


def _mapping(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{key}={value}: must have settings, by name: extension.<name>.<setting>=<value>.")
    return value


def taken(settings: Mapping[str, Any]) -> dict[str, Training]:
    """The settings of extensions, checked, of those that are not as by default.

    Args:
        settings: Name to settings, plain.

    Raises:
        ConfigurationError: There is no such extension.
        pydantic.ValidationError: A setting is wrong.
    """
    by_name = {extension.name: extension for extension in known() if extension.manifest.training}
    found = {}
    for name, values in settings.items():
        if name not in by_name:
            raise ConfigurationError(
                f"extension.{name}: there is no such extension. There are: {', '.join(by_name) or 'none'}."
            )
        # "extension" and the name are said with a wrong one
        value = _adapter(by_name[name]).validate_python({"extension": {name: values}})["extension"][name]
        if value != type(value)():
            found[name] = value
    return found


def settings_of(parts: Mapping[str, Training]) -> dict[str, dict[str, Any]]:
    """The settings of all extensions, plain, by name: those of a trial, or as by default."""
    every: dict[str, Any] = {one.name: part(one)() for one in known() if one.manifest.training} | dict(parts)
    return {name: one.settings if isinstance(one, Absent) else asdict(one) for name, one in every.items()}


@functools.cache  # a plan checks the settings of each of its configurations
def _adapter(extension: Extension) -> TypeAdapter[dict[str, dict[str, Training]]]:
    own: Any = part(extension)
    return TypeAdapter(dict[str, dict[str, own]])


def recorded(mapping: Mapping[str, Any]) -> dict[str, Training]:
    """The settings of extensions that a trial was recorded with."""
    for name in mapping["modules"]:
        extensions.take_package(name)
    names = {extension.name for extension in known()}
    settings = given(mapping)
    return {
        **taken({name: values for name, values in settings.items() if name in names}),
        **{name: Absent(name, values) for name, values in settings.items() if name not in names},
    }


def versions(settings: Mapping[str, Training], modules: Mapping[str, str]) -> dict[str, str]:
    """The versions of the extensions that change results: of a person's own the hash of its content.

    Args:
        settings: As `taken` gives them.
        modules: A person's own, name to hash.
    """
    changing = [one for one in known() if one.name in settings and settings[one.name].changes_results]
    return {one.name: modules.get(one.package, str(one.manifest.version)) for one in changing}


def check_versions(began_with: Mapping[str, str]) -> None:
    """Make sure that the suite's own extensions are here as they were where a trial was planned.

    Raises:
        RuntimeError: One has another version.
    """
    here = {one.name: str(one.manifest.version) for one in known() if not one.is_own}
    for name, version in began_with.items():
        if here.get(name, version) != version:
            raise RuntimeError(
                f"the extension {name} has version {here[name]} here, and the study began with {version}"
            )
