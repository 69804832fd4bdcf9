"""Settings of a study's report, and of the conclusions that it draws."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool
from pydantic.dataclasses import dataclass

from experiments.config.fields import STRICT, Number


@dataclass(frozen=True, config=STRICT)
class ReportSettings:
    """The contents of a study's report, and the thresholds of its conclusions.

    Attributes:
        video: Whether it shows the chosen policy at play, where the environment can draw and that takes less than 20 s.
        failure_below: The score below which a seed fails, a return; `None`: the environment's target; without
            one, half of what the best configuration brings (`analysis.questions.failures`).
        delta: The largest difference of scores that is practically none, a return; `None`: 2% of the range of scores
            (`analysis.questions.equivalence`).
    """

    video: StrictBool = True
    failure_below: Number | None = None
    delta: Annotated[Number, Field(gt=0)] | None = None


def _report(value: Any) -> Any:
    """`report=true` and `report=false` for a report as it is, and none."""
    return (ReportSettings() if value else None) if isinstance(value, bool) else value


Report = Annotated[ReportSettings | None, BeforeValidator(_report)]
