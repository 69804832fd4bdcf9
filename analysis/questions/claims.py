"""Claims that were published, judged by data."""

from enum import StrEnum


class Verdict(StrEnum):
    """The verdict on a claim, in the range of a study."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "can't tell"
