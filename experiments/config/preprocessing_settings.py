"""How a trial transforms observations and rewards before its networks and losses see them."""

from dataclasses import asdict, replace
from typing import Annotated, Any

from pydantic import Field, StrictBool
from pydantic.dataclasses import dataclass

from experiments.config.errors import ConfigurationError
from experiments.config.fields import STRICT, Name, Number, Positive

_Bound = Annotated[Number, Field(gt=0)] | None


@dataclass(frozen=True, config=STRICT)
class PreprocessingSettings:
    """The settings in `conf/preprocessing/*.yaml`.

    Attributes:
        name: The choice in `conf/preprocessing`. Not part of a configuration's hash: the settings are.
        normalize_observations: Observations minus their running mean, divided by their running standard deviation.
        clip_observations: Their largest absolute value, normalised or not; `None` does not clip.
        symlog_observations: sign(x) log(1 + |x|) of observations.
        normalize_rewards: Rewards divided by the running standard deviation of the discounted return.
        clip_rewards: Their largest absolute value, normalised or not; `None` does not clip.
        frame_stack: Observations that are seen side by side: the last ones; 1 is the present one alone.
    """

    name: Name = "none"
    normalize_observations: StrictBool = False
    clip_observations: _Bound = None
    symlog_observations: StrictBool = False
    normalize_rewards: StrictBool = False
    clip_rewards: _Bound = None
    frame_stack: Positive = 1

    @property
    def is_none(self) -> bool:
        """True if nothing is transformed, whatever the name."""
        return replace(self, name="none") == PreprocessingSettings()

    @property
    def of_module(self) -> dict[str, Any]:
        """The arguments of `experiments.fast.preprocessing.transforms.Preprocessing`; empty if it has nothing to do."""
        own = {name: value for name, value in asdict(self).items() if name not in ("name", "frame_stack")}
        return own if own.keys() & self.in_use.keys() else {}

    @property
    def of_observations(self) -> dict[str, Any]:
        """The settings in use that transform observations."""
        return {name: value for name, value in self.in_use.items() if name.endswith("_observations")}

    @property
    def in_use(self) -> dict[str, Any]:
        """The settings that do something."""
        nothing = asdict(PreprocessingSettings())
        return {name: value for name, value in asdict(self).items() if name != "name" and value != nothing[name]}

    def __str__(self) -> str:
        return " ".join(name if value is True else f"{name}={value:g}" for name, value in self.in_use.items()) or "none"

    def __post_init__(self) -> None:
        if self.symlog_observations and self.normalize_observations:
            raise ConfigurationError(
                "preprocessing.symlog_observations=true with preprocessing.normalize_observations=true: "
                "each makes the other unnecessary. Try preprocessing=symlog or preprocessing=normalize."
            )
