"""From a study's space to its configurations. Pure.

Points are drawn here, before Tune sees them: Tune resamples random domains for every seed, and a configuration must
stay the same over its seeds.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from experiments.config.errors import ConfigurationError
from experiments.config.fields import MAX_TRIALS, said
from experiments.config.lr_rules import is_rule
from experiments.config.search_settings import (
    CompareSearch,
    GridSearch,
    JointSearch,
    OptunaSearch,
    RacingSearch,
    RandomSearch,
    SearchSettings,
)
from experiments.config.trial_config import GROUPS
from experiments.contract import NAMED_AXES

SAMPLES_PER_AXIS = 10
"""Configurations for each searched setting, where nobody says how many (Loeppky et al. 2009, "Choosing the sample size
of a computer experiment", Technometrics 51:366). Optuna gets twice as many trials: with the first ten its samplers
learn, and draw at random."""

STUDY_WIDE = ("seeds", "study", "search", "scheduler", "tracking")
"""Settings and groups that cannot be an axis: they are the same for all trials of a study."""

Point = dict[str, Any]
"""One configuration: dotted path or group to value."""

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
_Bound = Annotated[float, Field(strict=True)]
_Whole = Annotated[StrictInt, Field(ge=-(2**53), le=2**53)]  # what a float still counts exactly
_Factors = Annotated[tuple[Annotated[StrictInt | StrictFloat, Field(gt=0)], ...], Field(min_length=1)]
_When = dict[StrictStr, Any]
"""Condition of an axis: path of another one, which comes before it, to the value or the list of values
with which this one is there."""


@dataclass(frozen=True, config=_STRICT)
class Uniform:
    """Evenly over [low, high], or over its logarithm; rounded to whole numbers if `integer`."""

    distribution: Literal["uniform", "loguniform"]
    low: _Bound
    high: _Bound
    integer: StrictBool = False
    when: _When = Field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"low={self.low:g} must be below high={self.high:g}")
        if math.isinf(self.high - self.low):
            raise ValueError(f"low={self.low:g} and high={self.high:g} are too far apart")
        if self.distribution == "loguniform" and self.low <= 0:
            raise ValueError(f"loguniform needs low above 0, not {self.low:g}")

    def draw(self, rng: np.random.Generator) -> float | int:
        """One value."""
        if self.distribution == "loguniform":
            value = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        else:
            value = rng.uniform(self.low, self.high)
        return round(value) if self.integer else value

    def corners(self) -> list[Any]:
        """The extreme values, which are checked before anything starts."""
        return [round(v) if self.integer else v for v in (self.low, self.high)]


@dataclass(frozen=True, config=_STRICT)
class Choice:
    """One of `values`, with equal odds."""

    distribution: Literal["choice"]
    values: Annotated[tuple[Any, ...], Field(min_length=1)]
    when: _When = Field(default_factory=dict)

    def draw(self, rng: np.random.Generator) -> Any:
        """One value."""
        return self.values[int(rng.integers(len(self.values)))]

    def corners(self) -> list[Any]:
        """All values."""
        return list(self.values)


@dataclass(frozen=True, config=_STRICT)
class Multiples:
    """A base value times each of `factors`; a whole number stays one. The same as the list of products."""

    distribution: Literal["multiples"]
    base: Annotated[StrictInt | StrictFloat, Field(gt=0)]
    factors: _Factors
    when: _When = Field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.base, int):
            for factor in self.factors:
                if (self.base * factor) % 1:
                    raise ValueError(
                        f"base={self.base} times {factor:g} is {self.base * factor:g}, which is not a whole number"
                    )

    def axis(self) -> Choice:
        """All products."""
        products = (round(self.base * f) if isinstance(self.base, int) else self.base * f for f in self.factors)
        return Choice("choice", tuple(products), self.when)


@dataclass(frozen=True, config=_STRICT)
class MultiplesOfBase:
    """An axis by its name (`NAMED_AXES`): factors of the algorithm's base point, from a list or,
    log-uniformly, from a range.
    """

    distribution: Literal["multiples"]
    factors: _Factors | None = None
    low: Annotated[float, Field(strict=True, gt=0)] | None = None
    high: Annotated[float, Field(strict=True, gt=0)] | None = None
    when: _When = Field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.factors is None) == (self.low is None) or (self.low is None) != (self.high is None):
            raise ValueError("needs factors: [0.1, 1, 10], or low and high of a range")

    def axis(self) -> "Choice | Uniform":
        """The factors."""
        if self.factors is not None:
            return Choice("choice", self.factors, self.when)
        assert self.low is not None and self.high is not None
        return Uniform("loguniform", self.low, self.high, when=self.when)


@dataclass(frozen=True, config=_STRICT)
class IntegerSteps:
    """Whole numbers from low to high, both included, every `step`."""

    distribution: Literal["integers"]
    low: _Whole
    high: _Whole
    step: Annotated[StrictInt, Field(ge=1)] = 1
    when: _When = Field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"low={self.low} must not be above high={self.high}")

    def draw(self, rng: np.random.Generator) -> int:
        """One value."""
        return self.low + self.step * int(rng.integers((self.high - self.low) // self.step + 1))

    def corners(self) -> list[Any]:
        """The extreme values."""
        return [self.low, self.high - (self.high - self.low) % self.step]


Axis = Uniform | Choice | IntegerSteps
_AXIS: TypeAdapter[Axis | Multiples] = TypeAdapter(Annotated[Axis | Multiples, Field(discriminator="distribution")])
_NAMED_AXIS: TypeAdapter[MultiplesOfBase] = TypeAdapter(MultiplesOfBase)
_KINDS = ("uniform", "loguniform", "choice", "integers", "multiples")


def parse_space(space: Mapping[str, Any]) -> dict[str, Axis]:
    """Check a study's space.

    Args:
        space: Dotted path, group or word of `NAMED_AXES` to a list or to a mapping with `distribution`.

    Returns:
        An axis per path; lists and multiples are a `Choice`. Those of a word are factors.

    Raises:
        ConfigurationError: An axis is empty, inverted, of an unknown kind, over a setting of the study itself, or a
            group's choices are not a list of names.
    """
    axes: dict[str, Axis] = {}
    for path, values in space.items():
        if path.split(".")[0] in STUDY_WIDE:
            raise ConfigurationError(
                f"study.space: {path} is a setting of the study itself and cannot differ between its trials."
            )
        if isinstance(values, list | tuple):
            if not values:
                raise ConfigurationError(
                    f"study.space: {path} has no values. Give it at least one, for example [1.0e-3]."
                )
            axes[path] = Choice("choice", tuple(values))
        elif isinstance(values, Mapping):
            try:
                given = (_NAMED_AXIS if path in NAMED_AXES else _AXIS).validate_python(dict(values))
                axes[path] = given.axis() if isinstance(given, Multiples | MultiplesOfBase) else given
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(str(part) for part in first["loc"] if part not in _KINDS)
                raise ConfigurationError(
                    f"study.space: {path}{': ' + where if where else ''}: {said(first)}."
                ) from None
        else:
            raise ConfigurationError(
                f"study.space: {path}={values!r} is neither a list nor a distribution. "
                "Try a list such as [1.0e-4, 1.0e-3], or {distribution: loguniform, low: 1.0e-5, high: 1.0e-2}."
            )
        if path in NAMED_AXES and isinstance(values, list | tuple) and not all(map(is_rule, values)):
            raise ConfigurationError(
                f"study.space: {path}={list(values)}: this axis is relative to the algorithm's own settings. "
                f"Try {path}: {{distribution: multiples, factors: [0.1, 1, 10]}}, or the dotted path "
                "of a setting for values themselves."
            )
        if isinstance(axes[path], Choice):
            _check_choice(path, axes[path].corners())
        _check_condition(path, axes)
        if path in GROUPS and not (
            isinstance(axes[path], Choice) and all(isinstance(v, str) for v in axes[path].corners())
        ):
            raise ConfigurationError(
                f"study.space: {path} is a group of configuration files; its axis is a list of their names."
            )
    return axes


def starts_from(values: Any, value: Any) -> bool:
    """True if an axis is made of a setting's own value: multiples of it, or rules that start from it.

    Args:
        values: The axis, as a study gives it.
        value: The setting's, as composed.
    """
    if isinstance(values, Mapping):
        return values.get("distribution") == "multiples" and values.get("base") == value
    rules = [v for v in values if is_rule(v)] if isinstance(values, list | tuple) else []
    return bool(rules) and all(
        value in [number for key, number in rule.items() if key != "base_batch"] for rule in rules
    )


def _check_choice(path: str, values: list[Any]) -> None:
    if len({repr(v) for v in values}) != len(values):
        raise ConfigurationError(f"study.space: {path} names a value twice: {list(values)}.")
    for value in values:
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigurationError(f"study.space: {path} has the value {value}, which is not a finite number.")


def _check_condition(path: str, axes: Mapping[str, Axis]) -> None:
    for other, wanted in axes[path].when.items():
        axis = axes.get(other)
        if other == path or not isinstance(axis, Choice):
            raise ConfigurationError(
                f"study.space: {path}.when: {other} is no list of values that comes before {path} in the space. "
                f"A condition goes by the value of such an axis, for example when: {{algorithm: ppo}}."
            )
        if strange := [value for value in _listed(wanted) if value not in axis.values]:
            raise ConfigurationError(
                f"study.space: {path}.when: {other} is never {strange[0]!r}. It has the values {list(axis.values)}."
            )


def is_there(axis: Axis, point: Point) -> bool:
    """True if an axis is part of a point, by its condition.

    Args:
        axis: The axis, with a condition or without.
        point: The values of the axes before it.
    """
    return all(other in point and point[other] in _listed(wanted) for other, wanted in axis.when.items())


def _listed(wanted: Any) -> Sequence[Any]:
    return wanted if isinstance(wanted, list | tuple) else [wanted]


def points(space: Mapping[str, Any], search: SearchSettings) -> list[Point]:
    """The configurations that are known before a study starts, in the order in which they are run;
    none if Optuna suggests them.

    Raises:
        ConfigurationError: The space does not suit the search.
    """
    axes = parse_space(space)
    how = (
        search.proposals
        if isinstance(search, RacingSearch)
        else "grid"
        if isinstance(search, CompareSearch | JointSearch)
        else search.name
    )
    if how != "grid" and not axes:
        raise ConfigurationError(f"search={search.name} needs a study.space to draw from; this study has none.")
    if how == "grid":
        if endless := [path for path, axis in axes.items() if not isinstance(axis, Choice)]:
            instead = "search.proposals=random" if isinstance(search, RacingSearch) else "search=random"
            raise ConfigurationError(
                f"study.space: {endless[0]} is a distribution, and search={search.name} crosses lists. "
                f"Give a list, or use {instead}."
            )
        return corners(space)
    if isinstance(search, GridSearch | CompareSearch | JointSearch) or how == "optuna":
        return []
    rng = np.random.default_rng(search.seed)
    drawn = [_drawn(axes, rng) for _ in range(num_samples(search, axes))]
    return list({repr(point): point for point in drawn}.values())


def _drawn(axes: Mapping[str, Axis], rng: np.random.Generator) -> Point:
    point: Point = {}
    for path, axis in axes.items():
        value = axis.draw(rng)  # drawn in any case: a condition changes no other axis
        if is_there(axis, point):
            point[path] = value
    return point


def corners(space: Mapping[str, Any]) -> list[Point]:
    """The extreme configurations of a space: if these are valid, so is what lies between.

    Of lists, all combinations.
    """
    return _combinations(parse_space(space))


def _combinations(axes: Mapping[str, Axis]) -> list[Point]:
    count = math.prod(len(axis.corners()) for axis in axes.values())
    if count > MAX_TRIALS:
        raise ConfigurationError(
            f"study.space: {', '.join(axes)} have {count:,} combinations, more than {MAX_TRIALS:,} trials."
        )
    found: list[Point] = [{}]
    for path, axis in axes.items():
        found = [
            {**point, **({path: value} if is_there(axis, point) else {})} for point in found for value in axis.corners()
        ]
        found = list({repr(point): point for point in found}.values())
    return found


def size(axes: Mapping[str, Axis]) -> float:
    """Configurations of a space, as many as its conditions leave; infinite if it has a range of real numbers.

    Args:
        axes: As `parse_space` gives them.
    """
    counted = [axis for axis in axes.values() if not isinstance(axis, Choice)]  # conditions go by lists alone
    lists = _combinations({path: axis for path, axis in axes.items() if isinstance(axis, Choice)})
    return sum(math.prod(_num_values(axis) for axis in counted if is_there(axis, point)) for point in lists)


def _num_values(axis: Uniform | IntegerSteps) -> float:
    if isinstance(axis, Uniform) and not axis.integer:
        return math.inf
    low, high = axis.corners()
    return int((high - low) // (axis.step if isinstance(axis, IntegerSteps) else 1) + 1)


def num_samples(search: RandomSearch | OptunaSearch | RacingSearch, axes: Mapping[str, Axis]) -> int:
    """The number of draws, or of Optuna's trials: as many as the search is set to, else by the space.

    Args:
        search: The study's settings of the search.
        axes: The axes of its space, one at least.

    Returns:
        `SAMPLES_PER_AXIS` for each axis, twice that of `search=optuna`, but no more than the space has configurations.
    """
    if search.num_samples is not None:
        return search.num_samples
    wanted = SAMPLES_PER_AXIS * len(axes) * (2 if isinstance(search, OptunaSearch) else 1)
    return int(min(wanted, size(axes)))


def group_choices(space: Mapping[str, Any]) -> list[dict[str, str]]:
    """The combinations of Hydra groups in a space; one empty combination if no group is an axis."""
    groups = [path for path in parse_space(space) if path in GROUPS]
    combinations = (
        [{group: point[group] for group in groups if group in point} for point in corners(space)] if groups else [{}]
    )
    return list({repr(combination): combination for combination in combinations}.values())


def base_point(space: Mapping[str, Any], composed: Mapping[str, Any]) -> Point:
    """Where a study starts from: its own settings at the axes of its space.

    Args:
        space: The study's space.
        composed: The composed configuration, plain.
    """
    point: Point = {}
    for path, axis in parse_space(space).items():
        if path in GROUPS:
            value = composed[path]["name"]
        elif isinstance(axis, Choice) and any(is_rule(v) for v in axis.values):
            value = axis.values[0]  # at their base, all rules say the same
        else:
            value = 1 if path in NAMED_AXES else value_at(composed, path)
        if value is not None and is_there(axis, point):
            point[path] = value
    return point


def value_at(composed: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; None if there is none."""
    node: Any = composed
    for part in path.split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    return node


def leaves(values: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted path and the value of each setting in nested mappings; an empty mapping is a value."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
