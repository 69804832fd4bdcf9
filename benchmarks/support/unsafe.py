"""The suite's trial without what makes it safe: no checkpoints, no segments, no signs of life,
no deterministic kernels.
"""

from collections.abc import Sequence

import torch

from experiments.trial.event_log import EventLog
from experiments.trial.events import Event
from experiments.trial.heartbeat import Heartbeat
from experiments.trial.trainable import Trial
from experiments.trial.training import TrainingLoop


class _ForgetfulLog(EventLog):
    """A log that keeps nothing."""

    def add(self, event: Event, attempt: int | None = None) -> list[Event]:
        """Not kept."""
        return [event]


class _UnsafeTraining(TrainingLoop):
    """Training in one segment."""

    def end_segment(self) -> None:
        """None ends."""

    def begin_segment(self) -> None:
        """None begins."""


class UnsafeTrial(Trial):
    """The suite's trial without what makes it safe."""

    def _start(self) -> None:
        self._heartbeat = Heartbeat(lambda: None)
        self._folder.log.__class__ = _ForgetfulLog
        super()._start()
        assert self._training is not None
        self._training.__class__ = _UnsafeTraining
        torch.use_deterministic_algorithms(False)  # RLlib turns it on where there is a seed

    def _save(self, events: Sequence[Event]) -> None:
        pass
