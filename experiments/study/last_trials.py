"""Beside a study's last trials: what its end takes is made ready, since cores become free
with no trial left to start.
"""

import time
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
        clock: Seconds from any moment on.
    """

    trials: StudyTrials
    outcomes: Outcomes
    steps: Sequence[Callable[[TrialConfig], None]]
    clock: Callable[[], float] = time.monotonic
    _began: float | None = None
    _thread: Thread | None = None

    def on_event(self, trial: TrialConfig, event: Event) -> None:
        """Begin shortly before the end, as it is expected by the trials that ended, or once no trial waits for a slot;
        never beside a measurement, nor in a search, of which nobody knows the last trial.
        """
        plan, now = self.trials.plan, self.clock()
        self._began = now if self._began is None else self._began
        if not isinstance(event, Ended) or self._thread or plan.is_measured or plan.search:
            return
        ended = self.outcomes.num_ended
        left = len(self.trials.trials) - ended
        if left <= plan.concurrency or left * (now - self._began) <= AHEAD_S * ended:
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
