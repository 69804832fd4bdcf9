"""What data say of a claim that was published."""

from enum import StrEnum


class Verdict(StrEnum):
    """Whether a claim holds in the range of a study."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "can't tell"
