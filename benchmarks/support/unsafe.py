"""The suite's trial without what makes it safe: no checkpoints, no segments, no signs of life, no deterministic kernels."""

import torch

from experiments.trial.folder import Report, TrialFolder
from experiments.trial.trainable import Trial


class _Forgetful(TrialFolder):
    """A folder that keeps nothing."""

    def beat(self) -> None:
        """No sign of life."""

    def add_report(self, report: Report) -> None:
        """Not kept."""


class UnsafeTrial(Trial):
    """The suite's trial without what makes it safe."""

    def _start(self) -> None:
        self._folder.__class__ = _Forgetful
        super()._start()
        torch.use_deterministic_algorithms(False)  # RLlib turns it on where there is a seed

    def _save(self, report: Report) -> None:
        pass

    def _begin_segment(self) -> None:
        pass
