"""What a study is asked to make best: the setting `objective`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from experiments.config.errors import ConfigurationError
from experiments.config.fields import STRICT, Number

if TYPE_CHECKING:
    from experiments.config.schema import SuiteConfig

SCORE, IN_MINUTES, COST = "score", "score_in_minutes", "cost_to_target"
_TO_TARGET = ("env_steps_to_target", "minutes_to_target", COST, "seconds_to_target")
CLOCK = ("minutes_to_target", COST, IN_MINUTES, "seconds_to_target", "train_s", "env_steps_per_s")
"""Objectives and aims of a search that go by the clock: trials side by side slow each other down."""


@dataclass(frozen=True, config=STRICT)
class ObjectiveSettings:
    """What decides which configuration is best.

    Attributes:
        name: `score`, the mean return of the final evaluation, and where scores saturate env steps to target;
            `env_steps_to_target`; `minutes_to_target`, wall-clock of training, starting it counted, evaluations and
            reports left out; `cost_to_target`, these minutes at `hardware.price_per_hour`; or `score_in_minutes`, the
            return of the last evaluation within so many of these minutes.
        minutes: Of `score_in_minutes`.
    """

    name: Literal["score", "env_steps_to_target", "minutes_to_target", "cost_to_target", "score_in_minutes"] = "score"
    minutes: Annotated[Number, Field(gt=0)] | None = None


def _by_name(value: Any) -> Any:
    """`objective=minutes_to_target`, and `objective={score_in_minutes:10}`."""
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, Mapping) and list(value) == [IN_MINUTES]:
        return {"name": IN_MINUTES, "minutes": value[IN_MINUTES]}
    if isinstance(value, Mapping) and not value:
        raise ValueError("must be the name of one, such as score, or {score_in_minutes:10}")
    return value


Objective = Annotated[ObjectiveSettings, BeforeValidator(_by_name)]


def check_objective(suite: "SuiteConfig") -> None:
    """Make sure that a study can tell which configuration is best by its objective.

    Raises:
        ConfigurationError: It can't; names the fix.
    """
    name, minutes = suite.objective.name, suite.objective.minutes
    if (name == IN_MINUTES) != (minutes is not None):
        raise ConfigurationError(
            f"objective={name}: score_in_minutes alone takes minutes, and needs them. "
            "Try objective={score_in_minutes:10}."
        )
    if name == SCORE:
        return
    if suite.measurement is not None:
        raise ConfigurationError(
            f"objective={name}: a study of throughput learns nothing, and compares env steps/s. Leave it out."
        )
    check_measurable(suite, "objective", name, otherwise="try objective=score")
    if name == COST:
        check_price(suite, f"objective={name}")


def check_measurable(suite: "SuiteConfig", key: str, name: str, otherwise: str) -> None:
    """Make sure that a study can measure an objective, or an aim of a search: a target to reach, trials one by one.

    Args:
        suite: The study.
        key: The setting that names it.
        name: The objective or the aim.
        otherwise: What else to do for want of a target.

    Raises:
        ConfigurationError: It can't; names the fix.
    """
    if name in _TO_TARGET and suite.env.target is None:
        raise ConfigurationError(
            f"{key}={name}: env={suite.env.name} has no target to reach. Set one with env.target=..., or {otherwise}."
        )
    if name in CLOCK:
        check_alone(suite, f"{key}={name}")


def check_alone(suite: "SuiteConfig", given: str) -> None:
    """Make sure that the clock of a trial is not slowed down by others.

    Args:
        suite: The study.
        given: The setting that goes by the clock, as it was given.

    Raises:
        ConfigurationError: It may be; names the fix.
    """
    apart = suite.search.name == "joint"  # which measures what goes by the clock alone
    if suite.hardware.max_concurrent_trials != 1 and not apart:
        raise ConfigurationError(
            f"{given} goes by the clock, and trials side by side slow each other down. "
            "Try hardware.max_concurrent_trials=1."
        )


def check_price(suite: "SuiteConfig", given: str) -> None:
    """Make sure that hours have a price.

    Args:
        suite: The study.
        given: The setting that asks for it, as it was given.

    Raises:
        ConfigurationError: They have none; names the fix.
    """
    if suite.hardware.price_per_hour is None:
        raise ConfigurationError(
            f"{given}: hardware={suite.hardware.name} has no price. Try hardware.price_per_hour=0.5, "
            "in whatever currency."
        )
