"""Runs and points, as every store gives them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

STATUS = {
    "FINISHED": "finished",
    "FAILED": "failed",
    "KILLED": "interrupted",
    "RUNNING": "running",
    "SCHEDULED": "running",
}
"""MLflow's status of a run to the word for it."""


class Latest(NamedTuple):
    """The last point of a metric: at its highest step, and there the latest."""

    value: float
    step: int
    at_ms: int


@dataclass(frozen=True)
class Run:
    """An MLflow run.

    Attributes:
        run_id: The run's id in MLflow.
        name: As the UI shows it.
        status: MLflow's: RUNNING, SCHEDULED, FINISHED, FAILED or KILLED.
        started_ms: Since the epoch.
        ended_ms: Since the epoch; None while it runs.
        artifact_uri: Where its files are.
        tags: By name.
        params: By name.
        latest: By metric.
    """

    run_id: str
    name: str
    status: str
    started_ms: int
    ended_ms: int | None
    artifact_uri: str
    tags: dict[str, str]
    params: dict[str, str]
    latest: dict[str, Latest]


@dataclass(frozen=True)
class Points:
    """Points of metrics in no particular order, a point logged twice included; all arrays have shape (num_points,).

    Attributes:
        run: Index into the runs that were asked for.
        metric: Index into the metrics that were asked for.
        step: Of MLflow.
        at_ms: When it was logged, since the epoch.
        value: NaN where NaN was logged.
    """

    run: npt.NDArray[np.int64]
    metric: npt.NDArray[np.int64]
    step: npt.NDArray[np.int64]
    at_ms: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]

    def where(self, chosen: npt.NDArray[np.bool_]) -> "Points":
        """Those that are chosen; shape (num_points,)."""
        return Points(self.run[chosen], self.metric[chosen], self.step[chosen], self.at_ms[chosen], self.value[chosen])

    @staticmethod
    def joined(parts: "Sequence[Points]") -> "Points":
        """All points of some parts."""

        def all_of(name: str, none: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return np.concatenate([getattr(part, name) for part in parts] or [none])

        run, metric, step, at_ms = (all_of(name, np.empty(0, np.int64)) for name in ("run", "metric", "step", "at_ms"))
        return Points(run, metric, step, at_ms, all_of("value", np.empty(0)))


class Reader(Protocol):
    """A place that runs and points are read from. Every method raises an `AnalysisError` if it cannot."""

    def runs(self, experiment: str, tag: tuple[str, str] | None = None) -> list[Run]:
        """The runs of an experiment that are not deleted.

        Args:
            experiment: Its name.
            tag: Name and value that the runs must have.

        Returns:
            All of them; none where there is no such experiment.
        """

    def content(self, run: Run, name: str) -> bytes | None:
        """An artifact of a run; None if it has no such file."""

    def points(self, study_run: str, runs: Sequence[Run], metrics: Sequence[str]) -> Points:
        """Every point of some metrics of some runs.

        Args:
            study_run: The run of their study: names what is kept of a server's points.
            runs: As `runs` gave them.
            metrics: Those that no run has are no error.
        """
