"""Axes of a study by name: multiples of its base point, whatever the settings behind them are called. Pure.

An algorithm's file says which settings each name moves, all by the same factor: `axes: {learning_rate: [training.lr]}`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.config.errors import ConfigurationError
from experiments.config.fields import is_number
from experiments.config.lr_rules import is_rule, moved_schedule
from experiments.config.space import value_at
from experiments.contract import NAMED_AXES

_BATCH = "algorithm.training.train_batch_size_per_learner"


@dataclass(frozen=True)
class Settings:
    """The settings that a point of a space stands for.

    Attributes:
        by_path: Dotted path or group to value, of all settings.
        shown: The same as a person sees it: a name that moves several settings, or a schedule,
            with its factor or rule in their place.
        multiples: These names and factors.
        ruled: Name that moves several settings by a rule to the first of them.
    """

    by_path: Mapping[str, Any]
    shown: Mapping[str, Any]
    multiples: Mapping[str, float] = field(default_factory=dict)
    ruled: Mapping[str, str] = field(default_factory=dict)


def settings_of(point: Mapping[str, Any], composed: Mapping[str, Any]) -> Settings:
    """The settings that a point stands for.

    Args:
        point: Dotted path or group to value, or a name of `NAMED_AXES` to a factor, or to a rule without its base.
        composed: The configuration with the point's groups, plain.

    Raises:
        ConfigurationError: The algorithm has no such axis, or no base value that could be multiplied.
    """
    by_path: dict[str, Any] = {}
    shown: dict[str, Any] = {}
    multiples: dict[str, float] = {}
    ruled: dict[str, str] = {}
    for key, value in point.items():
        if key not in NAMED_AXES:
            by_path[key] = shown[key] = value
            continue
        moved = {path: _moved(key, path, base, value, composed) for path, base in _bases(key, composed).items()}
        by_path |= moved
        if len(moved) == 1 and not any(isinstance(setting, list) for setting in moved.values()):
            shown |= moved
            continue
        shown[key] = value
        if is_rule(value):
            ruled[key] = next(iter(moved)).rpartition(".")[2]
        else:
            multiples[key] = value
    return Settings(by_path, shown, multiples, ruled)


def without_names(algorithm: Mapping[str, Any]) -> dict[str, Any]:
    """An algorithm's settings without the names of its axes, which change no trial.

    Raises:
        ConfigurationError: An axis has an unknown name, or is no list of settings.
    """
    axes = algorithm.get("axes", {})
    if not isinstance(axes, Mapping):
        raise ConfigurationError(
            f"algorithm.axes={axes!r}: must be a mapping of names to settings, "
            "for example learning_rate: [training.lr]."
        )
    for name, settings in axes.items():
        if name not in NAMED_AXES:
            raise ConfigurationError(
                f"algorithm.axes.{name}: there is no axis of this name. There are: {', '.join(NAMED_AXES)}."
            )
        if not isinstance(settings, list) or not all(isinstance(path, str) for path in settings):
            raise ConfigurationError(
                f"algorithm.axes.{name}={settings!r}: must be a list of settings, for example [training.lr]."
            )
    return {section: settings for section, settings in algorithm.items() if section != "axes"}


def _bases(name: str, composed: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted path to base value, of the settings that an axis moves."""
    algorithm = composed["algorithm"]
    axes = algorithm.get("axes") or {}
    if not axes.get(name):
        known = ", ".join(axis for axis in axes if axes[axis]) or "none"
        raise ConfigurationError(
            f"study.space: {name}: algorithm={algorithm['name']} has no such axis. Those of its file are: {known}. "
            "Any other setting is an axis by its dotted path, such as algorithm.training.gamma."
        )
    bases = {f"algorithm.{path}": value_at(algorithm, path) for path in axes[name]}
    if any(map(_is_base, bases.values())):
        bases = {path: base for path, base in bases.items() if base != 0}  # what does not learn, such as a temperature
    for path, base in bases.items():
        if not _is_base(base):
            raise ConfigurationError(
                f"study.space: {name} multiplies {path}, which is {base!r}. Give it a base value above 0: {path}=..."
            )
    return bases


def _is_base(value: Any) -> bool:
    if isinstance(value, list):  # a schedule of [env steps, value]
        return bool(value) and all(isinstance(pair, list) and len(pair) == 2 for pair in value)
    return is_number(value) and value > 0


def _moved(key: str, path: str, base: Any, by: Any, composed: Mapping[str, Any]) -> Any:
    """A base value times a factor, of a schedule all values, a batch stays a whole number;
    or the rule that starts from it.
    """
    if is_rule(by):
        return {**by, f"base_{path.rpartition('.')[2]}": base, "base_batch": value_at(composed, _BATCH)}
    if isinstance(base, list):
        return moved_schedule(base, by)
    if isinstance(base, int) and (key == "batch_size" or float(base * by).is_integer()):
        return max(1, round(base * by))
    return float(f"{base * by:.12g}")
