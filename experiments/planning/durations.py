"""How long work takes and how sure that is: the one measure of a plan, of what runs, and of what ran before."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from experiments.contract.words import rough, span

ENDING_S = 9.0
"""From the end of a study's last trial to that of its command: policies are exported and played, MLflow takes the rest,
Ray ends. 9 to 13 s were seen where two cores are as fast as one (`python -m benchmarks times`).
"""
_ENDING = 0.35
"""Standard deviation of its logarithm."""
SCORING = 0.35
"""Likewise of final evaluations that are known by others."""
NORMAL_90 = 1.645
"""Standard errors to either side that hold 90%."""
WITHIN = 2.0
"""Factor to either side of an estimate where nothing of its kind has run (docs/throughput.md)."""
_TRIALS = 0.30
"""Standard deviation of the logarithm of the seconds a unit takes, over a study's trials (`python -m benchmarks times`
asks whether this and the following hold).
"""
_OTHER_STUDY = 0.20
"""Of the logarithm of the ratio of two studies of the same trials: what else their machine did, and starts."""
_WITHIN_TRIAL = 0.20
"""Likewise of a trial's later part to its earlier one. With 0.1 72% of 75 ranges that the terminal told of 20 studies
held, where 90% are meant to; with 0.2 it is 87%, and most others miss what slow environments take after the last trial.
"""


@dataclass(frozen=True)
class Duration:
    """Seconds, of a whole or of a unit of its work, as a log-normal.

    Attributes:
        seconds: The median.
        error: Standard deviation of the logarithm.
        most: Where something cuts it off.
    """

    seconds: float
    error: float
    most: float = math.inf

    def over(self, work: float) -> "Duration":
        """What so many units take."""
        return replace(self, seconds=self.seconds * work)

    def then(self, seconds: float, error: float) -> "Duration":
        """The same, and then something else that takes so long, with a standard deviation of its logarithm."""
        whole = self.seconds + seconds
        return Duration(whole, math.hypot(self.seconds * self.error, seconds * error) / whole, self.most + seconds)

    @property
    def ended(self) -> "Duration":
        """The same, and then from the end of the last trial to that of the command."""
        return self.then(ENDING_S, _ENDING)

    def cut_off(self, most: float) -> "Duration":
        """The same, of something that is ended then."""
        return replace(self, seconds=min(self.seconds, most), most=most)

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


def estimated(seconds: float, within: float = WITHIN) -> Duration:
    """What never ran.

    Args:
        seconds: That it is estimated to take.
        within: Factor to either side that holds 90%.
    """
    return Duration(seconds, math.log(within) / NORMAL_90)


def by_earlier(seconds: Sequence[float]) -> Duration:
    """A unit of trials like those that ran before.

    Args:
        seconds: That it took of each, at least one.
    """
    logs = sorted(math.log(one) for one in seconds)
    return Duration(math.exp(logs[len(logs) // 2]), math.hypot(_OTHER_STUDY, _TRIALS / math.sqrt(len(logs))))


def so_far(seconds: float, done: float, left: float, unseen: float, num_seen: int) -> Duration:
    """A unit of what is left of a study, by what was done of it.

    Args:
        seconds: That it took.
        done: Units, above 0.
        left: Units, above 0.
        unseen: Of them, of trials that have not reported yet.
        num_seen: Trials that have.
    """
    to_come = unseen / left * _TRIALS * math.sqrt(1 / num_seen)
    return Duration(seconds / done, math.hypot(_WITHIN_TRIAL, to_come))
