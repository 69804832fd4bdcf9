"""Beside a study's last trials: what its end takes is made ready, since cores become free
with no trial left to start.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread

from experiments.config.trial_config import TrialConfig
from experiments.planning.trials import StudyTrials
from experiments.study.outcomes import Outcomes
from experiments.trial.events import Ended, Event

AHEAD_S = 5.0
"""Seconds before the expected end of the last trial from which on all is made ready: what a first exported policy
takes beside trials on two cores."""


@dataclass
class Preparation:
    """Does once, in a thread, what can be done before the last trial ends.

    Attributes:
        trials: The trials of the study, as they become known.
        outcomes: How each ended, up to the event that this one is told of.
        steps: Each is given a trial that has ended. What goes wrong in one is said when it is needed.
    """

    trials: StudyTrials
    outcomes: Outcomes
    steps: Sequence[Callable[[TrialConfig], None]]
    _thread: Thread | None = None

    def on_event(self, trial: TrialConfig, event: Event) -> None:
        """Begin shortly before the end, if those that are left take as long as the trial that ended, or once no trial
        waits for a slot; never beside a measurement, nor in a search, of which nobody knows the last trial.
        """
        plan = self.trials.plan
        if not isinstance(event, Ended) or self._thread or plan.is_measured or plan.search:
            return
        left_a_slot = (len(self.trials.trials) - self.outcomes.num_ended) / plan.concurrency
        if left_a_slot <= 1 or left_a_slot * event.metrics.get("final/wall_s", math.inf) <= AHEAD_S:
            self._thread = Thread(target=self._run, args=(trial,), name="preparation", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Until all is done, if it was begun."""
        if self._thread:
            self._thread.join()

    def _run(self, trial: TrialConfig) -> None:
        for step in self.steps:
            with suppress(Exception):
                step(trial)
