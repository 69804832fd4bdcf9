"""The events of a study's trials, passed to everyone who acts on them.

A trial adds each event to its log before anybody hears of it. What it says through Tune may be lost, with a process or
on the way: the log has it, and is read wherever an event is missing. So a listener hears the same of every trial,
whether it happens now or happened in an earlier execution of the study.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from experiments.config.trial_config import TrialConfig
from experiments.study.files.folder import StudyFolder
from experiments.trial.event_log import EventLog, RefusedEventError
from experiments.trial.events import Ended, Event, Reported, Restarted, Started


class Listener(Protocol):
    """Acts on events. One that hears an event twice does nothing the second time."""

    def on_event(self, trial: TrialConfig, event: Event) -> None:
        """Something that a trial did, in the order in which it did it."""


@dataclass
class _Heard:
    """A trial as far as its events are known.

    Attributes:
        log: Its events on disk.
        number: The last event that was passed on.
        env_steps: The last report.
        reproducible: False once the trial is no function of its seed, as its last event says.
        over: Whether its end was passed on.
    """

    log: EventLog
    number: int = 0
    env_steps: int = 0
    reproducible: bool = True
    over: bool = False


class EventStream:
    """Passes the events of each trial to every listener, in order and once."""

    def __init__(self, folder: StudyFolder, listeners: Iterable[Listener]) -> None:
        """Pass events on.

        Args:
            folder: The folder of the study, with the logs of its trials.
            listeners: In the order in which they are told.
        """
        self._folder, self._listeners = folder, list(listeners)
        self._heard: dict[str, _Heard] = {}

    def replay(self, trials: Iterable[TrialConfig]) -> None:
        """Tell what trials did in earlier executions of the study, in the order in which it happened.

        Raises:
            DamagedFileError: A log cannot be read.
        """
        events = [(event.at_ms, trial, event) for trial in trials for event in self._of(trial).log.all()]
        for _, trial, event in sorted(events, key=lambda each: each[0]):
            self._pass(trial, event)

    def add(self, listener: Listener) -> None:
        """Tell another listener as well, from now on."""
        self._listeners.append(listener)

    def tell(self, trial: TrialConfig, events: Iterable[Event]) -> None:
        """Tell what a trial says that it did; of what it said before and nobody heard, the log tells."""
        for event in events:
            if event.number > self._of(trial).number + 1:
                self.catch_up(trial)
            self._pass(trial, event)

    def catch_up(self, trial: TrialConfig) -> None:
        """Tell what is in a trial's log and was not told; if the log cannot be read now, when it is read next."""
        with suppress(OSError):
            for event in self._of(trial).log.new():
                self._pass(trial, event)

    def start(self, trial: TrialConfig) -> int:
        """A process takes a trial up: what one of an earlier attempt still writes is refused from now on.

        A trial that is over stays so.

        Returns:
            The attempt's number; 0 if the disk did not take it.
        """
        newest = self._of(trial).log.attempt
        self.record(trial, Started())
        return attempt if (attempt := self._of(trial).log.attempt) > newest else 0

    def end(self, trial: TrialConfig, status: str, reason: str = "") -> None:
        """End a trial from outside, unless it has ended by itself.

        Args:
            trial: The trial.
            status: `PRUNED` or `FAILED`.
            reason: Why it failed, in a line.
        """
        self.catch_up(trial)
        heard = self._of(trial)
        if not heard.over:
            self.record(
                trial, Ended(status=status, env_steps=heard.env_steps, reason=reason, reproducible=heard.reproducible)
            )

    def has_ended(self, trial: TrialConfig) -> bool:
        """True for a trial whose end was told."""
        return self._of(trial).over

    def record(self, trial: TrialConfig, event: Event) -> None:
        """Add an event to a trial's log, unless the trial is over, and tell it."""
        self.catch_up(trial)
        try:
            events = self._of(trial).log.add(event)
        except RefusedEventError:  # it has ended, perhaps just now
            self.catch_up(trial)
        except OSError:  # a full disk: it is told all the same
            self._pass(trial, event)
        else:
            for added in events:
                self._pass(trial, added)

    def _of(self, trial: TrialConfig) -> _Heard:
        if trial.folder_name not in self._heard:
            self._heard[trial.folder_name] = _Heard(self._folder.trial(trial).log)
        return self._heard[trial.folder_name]

    def _pass(self, trial: TrialConfig, event: Event) -> None:
        heard = self._of(trial)
        if 0 < event.number <= heard.number:
            return
        heard.number = max(heard.number, event.number)
        heard.over = isinstance(event, Ended)
        if isinstance(event, Reported):
            heard.env_steps = event.env_steps
        if isinstance(event, Reported | Restarted):
            heard.reproducible = event.reproducible
        for listener in self._listeners:
            listener.on_event(trial, event)
