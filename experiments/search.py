"""From a study's space to its configurations. Pure.

Points are drawn here, before Tune sees them: Tune resamples random domains for every seed, and a configuration must stay the same over
its seeds.
"""

import itertools
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import ConfigDict, Field, StrictBool, StrictFloat, StrictInt, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from experiments.errors import ConfigurationError
from experiments.resolve import GROUPS
from experiments.rules import is_rule
from experiments.schema import MAX_TRIALS, SearchSettings

STUDY_WIDE = ("seeds", "study", "search", "scheduler", "tracking")
"""Settings and groups that cannot be an axis: they are the same for all trials of a study."""

Point = dict[str, Any]
"""One configuration: dotted path or group to value."""

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
_Bound = Annotated[float, Field(strict=True)]
_Whole = Annotated[StrictInt, Field(ge=-(2**53), le=2**53)]  # what a float still counts exactly


@dataclass(frozen=True, config=_STRICT)
class Uniform:
    """Evenly over [low, high], or over its logarithm; rounded to whole numbers if `integer`."""

    distribution: Literal["uniform", "loguniform"]
    low: _Bound
    high: _Bound
    integer: StrictBool = False

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
    factors: Annotated[tuple[Annotated[StrictInt | StrictFloat, Field(gt=0)], ...], Field(min_length=1)]

    def __post_init__(self) -> None:
        if isinstance(self.base, int):
            for factor in self.factors:
                if (self.base * factor) % 1:
                    raise ValueError(f"base={self.base} times {factor:g} is {self.base * factor:g}, which is not a whole number")

    @property
    def values(self) -> list[float | int]:
        """All products."""
        return [round(self.base * f) if isinstance(self.base, int) else self.base * f for f in self.factors]


@dataclass(frozen=True, config=_STRICT)
class IntegerSteps:
    """Whole numbers from low to high, both included, every `step`."""

    distribution: Literal["integers"]
    low: _Whole
    high: _Whole
    step: Annotated[StrictInt, Field(ge=1)] = 1

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
_KINDS = ("uniform", "loguniform", "choice", "integers", "multiples")


def parse_space(space: Mapping[str, Any]) -> dict[str, Axis]:
    """Check a study's space.

    Args:
        space: Dotted path or group to a list or to a mapping with `distribution`.

    Returns:
        An axis per path; lists and multiples are a `Choice`.

    Raises:
        ConfigurationError: An axis is empty, inverted, of an unknown kind, over a setting of the study itself, or a group's choices are
            not a list of names.
    """
    axes: dict[str, Axis] = {}
    for path, values in space.items():
        if path.split(".")[0] in STUDY_WIDE:
            raise ConfigurationError(f"study.space: {path} is a setting of the study itself and cannot differ between its trials.")
        if isinstance(values, list | tuple):
            if not values:
                raise ConfigurationError(f"study.space: {path} has no values. Give it at least one, for example [1.0e-3].")
            axes[path] = Choice("choice", tuple(values))
        elif isinstance(values, Mapping):
            try:
                axis = _AXIS.validate_python(dict(values))
                axes[path] = Choice("choice", tuple(axis.values)) if isinstance(axis, Multiples) else axis
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(str(part) for part in first["loc"] if part not in _KINDS)
                message = str(first.get("ctx", {}).get("error") or first["msg"])
                raise ConfigurationError(f"study.space: {path}{': ' + where if where else ''}: {message}.") from None
        else:
            raise ConfigurationError(
                f"study.space: {path}={values!r} is neither a list nor a distribution. "
                "Try a list such as [1.0e-4, 1.0e-3], or {distribution: loguniform, low: 1.0e-5, high: 1.0e-2}."
            )
        if isinstance(axes[path], Choice):
            _check_choice(path, axes[path].corners())
        if path in GROUPS and not (isinstance(axes[path], Choice) and all(isinstance(v, str) for v in axes[path].corners())):
            raise ConfigurationError(f"study.space: {path} is a group of configuration files; its axis is a list of their names.")
    return axes


def starts_from(values: Any, value: Any) -> bool:
    """Whether an axis is made of a setting's own value: multiples of it, or rules that start from it.

    Args:
        values: The axis, as a study gives it.
        value: The setting's, as composed.
    """
    if isinstance(values, Mapping):
        return values.get("distribution") == "multiples" and values.get("base") == value
    rules = [v for v in values if is_rule(v)] if isinstance(values, list | tuple) else []
    return bool(rules) and all(value in [number for key, number in rule.items() if key != "base_batch"] for rule in rules)


def _check_choice(path: str, values: list[Any]) -> None:
    if len({repr(v) for v in values}) != len(values):
        raise ConfigurationError(f"study.space: {path} names a value twice: {list(values)}.")
    for value in values:
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigurationError(f"study.space: {path} has the value {value}, which is not a finite number.")


def points(space: Mapping[str, Any], search: SearchSettings) -> list[Point]:
    """The configurations of a study, in the order in which they are run.

    Raises:
        ConfigurationError: The space does not suit the search.
    """
    axes = parse_space(space)
    if search.name == "grid":
        if endless := [path for path, axis in axes.items() if not isinstance(axis, Choice)]:
            raise ConfigurationError(
                f"study.space: {endless[0]} is a distribution, and search=grid crosses lists. Give a list, or use search=random."
            )
        return corners(space)
    if search.num_samples is None or search.seed is None:
        raise ConfigurationError("search=random needs search.num_samples and search.seed, for example search.num_samples=10 search.seed=0.")
    if not axes:
        raise ConfigurationError("search=random needs a study.space to draw from; this study has none.")
    if search.num_samples > MAX_TRIALS:
        raise ConfigurationError(f"search.num_samples={search.num_samples} is more than {MAX_TRIALS:,} trials.")
    rng = np.random.default_rng(search.seed)
    drawn = [{path: axis.draw(rng) for path, axis in axes.items()} for _ in range(search.num_samples)]
    return list({repr(point): point for point in drawn}.values())


def corners(space: Mapping[str, Any]) -> list[Point]:
    """The extreme configurations of a space: if these are valid, so is what lies between. Of lists, all combinations."""
    axes = parse_space(space)
    count = math.prod(len(axis.corners()) for axis in axes.values())
    if count > MAX_TRIALS:
        raise ConfigurationError(f"study.space: {', '.join(axes)} have {count:,} combinations, more than {MAX_TRIALS:,} trials.")
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*(axis.corners() for axis in axes.values()))]


def group_choices(space: Mapping[str, Any]) -> list[dict[str, str]]:
    """The combinations of Hydra groups in a space; one empty combination if no group is an axis."""
    groups = {path: axis.corners() for path, axis in parse_space(space).items() if path in GROUPS}
    return [dict(zip(groups, names, strict=True)) for names in itertools.product(*groups.values())]
