"""Settings that follow the train batch: `lr: {rule: sqrt, base_lr: 3.0e-4, base_batch: 4000}`
in place of a number. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StrictFloat, StrictInt, ValidationError
from pydantic.dataclasses import dataclass

from experiments.config.errors import ConfigurationError
from experiments.config.fields import said
from experiments.contract import AT_BASE

EXPONENTS: Mapping[str, float] = {"constant": 0.0, "sqrt": 0.5, "linear": 1.0}
"""Rule to the power of the batch that a setting grows with (constant; Krizhevsky 2014, arXiv 1404.5997,
and for Adam Malladi et al. 2022, arXiv 2205.10287; Goyal et al. 2017, arXiv 1706.02677)."""

_BATCH = "train_batch_size_per_learner"
_OF_EACH_LEARNER = ("minibatch_size",)
"""Settings of each learner, which follow its share of the batch; all others follow the whole batch."""
_ENVS = "num_envs_per_env_runner"
"""The setting of `algorithm.env_runners` that may have a rule; all others are of `algorithm.training`."""
_WHOLE = (*_OF_EACH_LEARNER, _ENVS)
"""Settings that are whole numbers."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Rule:
    """How a setting follows the train batch.

    Attributes:
        rule: Of `EXPONENTS`.
        base: The setting's value at the base batch; a whole number stays one. Or its schedule,
            pairs of env steps and value.
        base_batch: Env steps.
    """

    rule: Literal["constant", "sqrt", "linear"]
    base: Annotated[StrictInt | StrictFloat, Field(gt=0)] | list[tuple[StrictInt, StrictInt | StrictFloat]]
    base_batch: Annotated[StrictInt, Field(ge=1)]

    def at(self, batch: int) -> float | int | list[list[float | int]]:
        """The setting's value for a train batch of so many env steps; of a schedule all values move."""
        factor = (batch / self.base_batch) ** EXPONENTS[self.rule]
        if isinstance(self.base, list):
            return moved_schedule(self.base, factor)
        value = self.base * factor
        return max(1, round(value)) if isinstance(self.base, int) else float(value)


def moved_schedule(schedule: Iterable[Sequence[Any]], factor: float) -> list[list[Any]]:
    """Pairs of env steps and value, with all values times a factor."""
    return [[env_steps, value * factor] for env_steps, value in schedule]


def is_rule(value: Any) -> bool:
    """True if a setting's value is meant as a rule."""
    return isinstance(value, Mapping) and ("rule" in value or "base_batch" in value)


def rules_of(algorithm: Mapping[str, Any]) -> dict[str, Rule]:
    """The settings of `algorithm.training`, and the number of environments of a runner, that have a rule.

    Raises:
        ConfigurationError: A rule is incomplete or wrong; names the key.
    """
    sections = {section: algorithm.get(section) for section in ("training", "env_runners")}
    ruled = [
        (section, name, value)
        for section, settings in sections.items()
        if isinstance(settings, Mapping)
        for name, value in settings.items()
        if is_rule(value)
    ]
    return {name: _parsed(section, name, value) for section, name, value in ruled}


def _parsed(section: str, name: str, given: Mapping[str, Any]) -> Rule:
    key, base = f"algorithm.{section}.{name}", f"base_{name}"
    if section == "env_runners" and name != _ENVS:
        raise ConfigurationError(f"{key}: has no rule, only {_ENVS} may. Give it a number.")
    if name == _BATCH:
        raise ConfigurationError(f"{key}: is the batch that rules go by, and has none itself. Give it a number.")
    example = f"Try {{rule: sqrt, {base}: {'3.0e-4' if name.endswith('lr') else '128'}, base_batch: 4000}}."
    if missing := [part for part in ("rule", base, "base_batch") if given.get(part) is None]:
        needed = " and ".join(f"{part} ({', '.join(EXPONENTS)})" if part == "rule" else part for part in missing)
        raise ConfigurationError(f"{key}={dict(given)}: a rule needs {needed}. {example}")
    if unknown := sorted(set(given) - {"rule", base, "base_batch"}):
        raise ConfigurationError(f"{key}: a rule has no {unknown[0]}. {example}")
    if name in _WHOLE and isinstance(given[base], float) and not given[base].is_integer():
        raise ConfigurationError(f"{key}.{base}={given[base]}: must be a whole number. {example}")
    try:
        return Rule(given["rule"], given[base], given["base_batch"])
    except ValidationError as error:
        first = error.errors()[0]
        part = ("rule", base, "base_batch")[int(first["loc"][0])]
        raise ConfigurationError(f"{key}.{part}={given[part]!r}: {said(first)}. {example}") from None


def with_bases(algorithm: Mapping[str, Any], rules: Mapping[str, Rule]) -> dict[str, Any]:
    """The same with the base value of each rule in its place."""
    return _with(algorithm, {name: rule.at(rule.base_batch) for name, rule in rules.items()})


def with_rules(algorithm: Mapping[str, Any], rules: Mapping[str, Rule]) -> dict[str, Any]:
    """The same with what each rule comes to in its place.

    Args:
        algorithm: The algorithm's settings, with learners counted: the batch is that of all of them.
        rules: Setting to rule.
    """
    return _with(algorithm, {name: rule.at(_batch(algorithm, name)) for name, rule in rules.items()})


def names_of(algorithm: Mapping[str, Any], rules: Mapping[str, Rule]) -> dict[str, str]:
    """The names of a configuration's rules: `{"lr": "sqrt"}`, or `base` where its batch
    is the rule's base batch.

    Args:
        algorithm: The algorithm's settings, with learners counted.
        rules: Setting to rule.
    """
    return {name: AT_BASE if _batch(algorithm, name) == rule.base_batch else rule.rule for name, rule in rules.items()}


def _with(algorithm: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(algorithm)
    for name, value in values.items():
        section = "env_runners" if name == _ENVS else "training"
        found[section] = {**found[section], name: value}
    return found


def _batch(algorithm: Mapping[str, Any], name: str) -> int:
    batch = int(algorithm["training"][_BATCH])
    return batch if name in _OF_EACH_LEARNER else batch * max(1, int(algorithm["learners"]["num_learners"]))
