"""What a study's recommendation must keep: the setting `constraints`."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from experiments.config.errors import ConfigurationError
from experiments.config.fields import STRICT, Number
from experiments.config.objective_settings import check_alone, check_price

if TYPE_CHECKING:
    from experiments.config.schema import SuiteConfig

_AboveZero = Annotated[Number, Field(gt=0)]


@dataclass(frozen=True, config=STRICT)
class ConstraintSettings:
    """The most that the recommended configuration may come to, by what its own trials showed; `None`: whatever it does.

    Attributes:
        failure_probability: Share of its seeds that fail (`analysis.questions.failures`).
        memory_gib: Peak memory of any of its trials, GiB.
        hours: Hours of any of its trials: training and its start, evaluations and reports left out.
        cost: Of these hours at `hardware.price_per_hour`, in its currency.
    """

    failure_probability: Annotated[Number, Field(ge=0, lt=1)] | None = None
    memory_gib: _AboveZero | None = None
    hours: _AboveZero | None = None
    cost: _AboveZero | None = None

    @property
    def given(self) -> Mapping[str, float]:
        """Those that are set, by name."""
        return {name: limit for name, limit in asdict(self).items() if limit is not None}


def check_constraints(suite: "SuiteConfig") -> None:
    """Make sure that a study can tell which configurations keep its constraints.

    Raises:
        ConfigurationError: It can't; names the fix.
    """
    given = {name: f"constraints.{name}={limit:g}" for name, limit in suite.constraints.given.items()}
    if given and suite.measurement is not None:
        raise ConfigurationError(
            f"{next(iter(given.values()))}: a study of throughput trains no policy to recommend. Leave it out."
        )
    for name in ("hours", "cost"):
        if name in given:
            check_alone(suite, given[name])
    if "cost" in given:
        check_price(suite, given["cost"])
