"""How long work takes and how sure that is: the one measure of a plan, of what runs, and of what ran before."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.contract.words import rough, span

NORMAL_90 = 1.645
"""Standard errors to either side that hold 90%."""
WITHIN = 2.0
"""Factor to either side of an estimate where nothing of its kind has run (docs/throughput.md)."""
_TRIALS = 0.30
"""Standard deviation of the logarithm of the seconds a unit takes, over a study's trials (docs/benchmarks/times.md, as
the following).
"""
_OTHER_STUDY = 0.20
"""Of the logarithm of the ratio of two studies of the same trials: what else their machine did, and starts."""
_WITHIN_TRIAL = 0.10
"""Likewise of a trial's later part to its earlier one."""


@dataclass(frozen=True)
class Duration:
    """Seconds, as a log-normal.

    Attributes:
        seconds: The median.
        error: Standard deviation of the logarithm.
        most: Where something cuts it off.
    """

    seconds: float
    error: float
    most: float = math.inf

    @property
    def low(self) -> float:
        """The lower end of the middle 90%, seconds."""
        return min(self.seconds * math.exp(-NORMAL_90 * self.error), self.most)

    @property
    def high(self) -> float:
        """The upper end, seconds."""
        return min(self.seconds * math.exp(NORMAL_90 * self.error), self.most)

    def __str__(self) -> str:
        """`about 2 to 5 min`."""
        return f"about {span(self.low, self.high)}"

    @property
    def bound(self) -> str:
        """`at most about 5 min`, of what may end early."""
        return f"at most about {rough(self.high)}"


@dataclass(frozen=True)
class Pace:
    """Seconds that a unit of work takes, as a log-normal.

    Attributes:
        seconds: The median.
        error: Standard deviation of the logarithm.
    """

    seconds: float
    error: float

    def over(self, work: float) -> Duration:
        """What so many units take."""
        return Duration(self.seconds * work, self.error)


def estimated(seconds: float, within: float = WITHIN) -> Pace:
    """The pace of what never ran.

    Args:
        seconds: That a unit is estimated to take.
        within: Factor to either side that holds 90%.
    """
    return Pace(seconds, math.log(within) / NORMAL_90)


def of_earlier(paces: Sequence[float]) -> Pace:
    """The pace of trials like those that ran before.

    Args:
        paces: Seconds a unit of each, at least one.
    """
    logs = sorted(math.log(pace) for pace in paces)
    return Pace(math.exp(logs[len(logs) // 2]), math.hypot(_OTHER_STUDY, _TRIALS / math.sqrt(len(logs))))


def so_far(seconds: float, done: float, left: float, unseen: float, num_seen: int) -> Pace:
    """The pace of what is left of a study by what was done of it.

    Args:
        seconds: That it took.
        done: Units, above 0.
        left: Units, above 0.
        unseen: Of them, of trials that have not reported yet.
        num_seen: Trials that have.
    """
    to_come = unseen / left * _TRIALS * math.sqrt(1 / num_seen)
    return Pace(seconds / done, math.hypot(_WITHIN_TRIAL, to_come))
