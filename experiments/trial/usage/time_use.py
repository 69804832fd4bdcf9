"""Where the wall-clock between two reports goes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from experiments.rllib.results import RunnerSeconds


@dataclass
class TimeUse:
    """Where the wall-clock between two reports goes.

    A trial with a synchronous algorithm does one thing at a time. With remote runners, its sampling seconds are split
    in four: what they did on average (`env_step`, `inference`, `connectors`), what the slowest did beyond the average
    (`waiting`), and the rest, in which samples were on their way (`transfer`).

    With an asynchronous algorithm, runners sample while the learner learns. Its time is the learner's: `learn` while it
    updates. While it waits for data, the time is split as the runners spend theirs, where `transfer` is what they do
    not spend in `sample()`.

    Attributes:
        asynchronous: Whether runners sample while the learner learns.
        runners: The runners' use of time, by index.
        learner_s: Seconds in which the asynchronous learners were updating, mean over learners.
        evaluation_s: Seconds in evaluations.
        logging_s: Seconds on reports and checkpoints.
    """

    asynchronous: bool = False
    runners: dict[str, RunnerSeconds] = field(default_factory=dict)
    learner_s: float = 0.0
    evaluation_s: float = 0.0
    logging_s: float = 0.0

    def add(self, runners: Mapping[str, RunnerSeconds], learner_s: float) -> None:
        """Take in an iteration."""
        self.learner_s += learner_s
        for index, seconds in runners.items():
            self.runners[index] = self.runners.get(index, RunnerSeconds()) + seconds

    def runner_cpu_share(self) -> float | None:
        """Share of the runners' sampling seconds in which they had a CPU; None if nothing is known of them."""
        sampling = sum(r.sample for r in self.runners.values())
        return sum(r.cpu for r in self.runners.values()) / sampling if sampling else None

    def shares(self, wall_s: float, phases: Mapping[str, float]) -> dict[str, float]:
        """The `time/*_share` metrics of `wall_s` seconds, which add to 1.

        Args:
            wall_s: Seconds since the last report.
            phases: Seconds by phase of the trial's `PhaseClock`, over the same seconds.
        """
        seconds = {"evaluation": self.evaluation_s, "logging": self.logging_s}
        if self.asynchronous:
            left = max(0.0, wall_s - self.evaluation_s - self.logging_s)
            seconds["learn"] = min(self.learner_s, left)
            whole = max(left, self._mean("sample"))
            acting = {
                "env_step": self._mean("env_step"),
                "inference": self._mean("inference"),
                "connectors": self._connectors_s(),
            }
            acting["transfer"] = whole - sum(acting.values())
            waiting_s = left - seconds["learn"]
            seconds |= {part: spent / whole * waiting_s for part, spent in acting.items() if whole and self.runners}
        else:
            seconds |= {"learn": phases["learn"], "sync": phases["sync"], **self._sampling(phases["sample"])}
        total = max(wall_s, sum(seconds.values()), 1e-9)
        seconds["unexplained"] = total - sum(seconds.values())
        return {f"time/{part}_share": max(0.0, spent) / total for part, spent in seconds.items()}

    def _sampling(self, sample_s: float) -> dict[str, float]:
        """The parts of the seconds that a synchronous algorithm spends sampling."""
        if not self.runners:
            return {}
        env_step, inference = self._mean("env_step"), self._mean("inference")
        if "0" in self.runners:  # in the trial's own process: what is not spent there is spent on the way in and out
            parts = {
                "env_step": env_step,
                "inference": inference,
                "connectors": max(0.0, sample_s - env_step - inference),
            }
        else:
            slowest = max(r.sample for r in self.runners.values())
            parts = {"env_step": env_step, "inference": inference, "connectors": self._connectors_s()}
            parts |= {"waiting": slowest - self._mean("sample"), "transfer": max(0.0, sample_s - slowest)}
        # an iteration's end may cut a runner's seconds from the trial's
        scale = min(1.0, sample_s / max(sum(parts.values()), 1e-9))
        return {part: scale * spent for part, spent in parts.items()}

    def _connectors_s(self) -> float:
        return max(0.0, self._mean("sample") - self._mean("env_step") - self._mean("inference"))

    def _mean(self, what: str) -> float:
        return math.fsum(getattr(r, what) for r in self.runners.values()) / max(1, len(self.runners))
