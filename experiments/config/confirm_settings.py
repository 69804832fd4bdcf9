"""Settings of `confirm=`: which study's recommendation runs again on fresh seeds, and beside what."""

from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, StrictStr
from pydantic.dataclasses import dataclass

from experiments.config.errors import ConfigurationError
from experiments.config.fields import STRICT, Positive


def _several(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[tuple[Annotated[StrictStr, Field(min_length=1)], ...], BeforeValidator(_several)]


@dataclass(frozen=True, config=ConfigDict(**STRICT, validate_by_alias=True, validate_by_name=True))
class ConfirmSettings:
    """What is run again on seeds that the choice of a configuration has not seen.

    Attributes:
        study: The study whose recommendation it is, by its run id or its name; `None`: nothing is confirmed.
        beside: Configurations that run on the same seeds, for a comparison: `runner_up`, `base`, `leaders`,
            or by name. In files and on the command line it is called `with`.
        num_seeds: Fresh seeds of each.
    """

    study: Annotated[StrictStr, Field(min_length=1)] | None = None
    beside: Annotated[Names, Field(validation_alias="with")] = ()
    num_seeds: Positive = 5

    def __post_init__(self) -> None:
        if self.study is None and self.beside:
            raise ConfigurationError(
                "confirm.with names what runs beside a recommendation, and no study is given: confirm=<study run id>, "
                "which python experiments/list.py lists."
            )
