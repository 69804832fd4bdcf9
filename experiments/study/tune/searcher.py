"""Between a search's queue and Tune: what it asks for becomes trials, what these come to is told."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from ray.tune.search import Searcher

from experiments.config.errors import ConfigurationError
from experiments.config.trial_config import TrialConfig
from experiments.contract import FAILED, FINISHED, PRUNED, RETURN, SEARCH
from experiments.planning.search_design import SearchDesign
from experiments.planning.trials import StudyTrials
from experiments.search.strategy import TO_TARGET, Ask, Outcome, Signal
from experiments.search.trial_queue import TrialQueue
from experiments.study.files.folder import StudyFolder
from experiments.study.tune.callbacks import described
from experiments.trial.events import Ended, Event, Reported
from experiments.trial.tune_keys import TRIAL

_LAST = (RETURN, "progress/wall_s")
"""Metrics of which the last values count, however the trial ends."""


class QueueSearcher(Searcher):  # type: ignore[misc]  # Tune ships no type information
    """Tune's side: a new trial whenever Tune has room for one. As a listener, the queue's: it hears how trials end.

    Attributes:
        queue: The search's.
        waits: Whether it asks for no trial now: one runs, or is to run, with no other under way.
        takes: Tells what a trial of another study came to, if it is known; whether it did.
    """

    def __init__(
        self, trials: StudyTrials, design: SearchDesign, folder: StudyFolder, refused: Callable[[str], None]
    ) -> None:
        """Go on with a search, or begin it.

        Args:
            trials: The trials of the study; what is asked for becomes one of them.
            design: The search's.
            folder: The folder of the study, with what earlier executions did.
            refused: Told of a configuration that cannot be run, in a line.
        """
        super().__init__()
        self.waits: Callable[[], bool] = lambda: False
        self.takes: Callable[[TrialConfig], bool] = lambda trial: False
        self._of_study, self._folder, self._refused = trials, folder, refused
        self._trials: dict[int, TrialConfig] = {}
        self._indices: dict[str, int] = {}  # folder name to where it is in `_trials`
        self._last: dict[str, dict[str, float]] = {}
        strategy, journal = design.strategy(folder.optuna_storage), folder.journal()
        self.queue = TrialQueue(
            strategy, trials.plan.ahead, design.limits(), folder.note, journal, self._earlier_outcome
        )

    # Tune saves it with the experiment; a resume has the queue's own journal
    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return Searcher, ()

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Tune's settings: the search knows its own."""
        return True

    def suggest(self, trial_id: str) -> Any:
        """Tune's question: the next trial's config, None for not yet, `FINISHED` for no more."""
        while not self.waits():
            index = self.queue.ask()
            if index is Signal.DONE:
                return Searcher.FINISHED
            if index is Signal.WAIT:
                return None
            assert isinstance(index, int)
            try:
                trial = self._trial(index, self.queue.asked[index])
            except ConfigurationError as error:
                self.queue.tell(index, Outcome(FAILED, reason=str(error)))
                continue
            if not self.takes(trial):
                return {TRIAL: described(trial, self._folder.trial_place(trial), self._of_study.request_of(trial))}
        return None

    def _trial(self, index: int, ask: Ask) -> TrialConfig:
        if index not in self._trials:
            try:
                parent = ask.note.get("parent")
                self._trials[index] = self._of_study.take(ask, None if parent is None else self._trials[parent])
            except ConfigurationError as error:
                self._refused(f"left out: {ask.point}: {error}")
                raise
            self._indices.setdefault(self._trials[index].folder_name, index)
            self._folder.keep_configurations(self._of_study)
        return self._trials[index]

    def _earlier_outcome(self, index: int, ask: Ask) -> Outcome | None:
        """The outcome of a trial in an earlier execution.

        What failed is tried again, unless the search has gone on from there.
        """
        try:
            trial = self._trial(index, ask)
        except ConfigurationError as error:
            return Outcome(FAILED, reason=str(error))
        log = self._folder.trial(trial).log
        if ask.phase != SEARCH and log.start_again():
            return None
        for event in log.all():
            self._keep_last(trial, event)
        log.new()
        return self._outcome(trial, log.end) if log.end is not None else None

    def on_event(self, trial: TrialConfig, event: Event) -> None:
        """Tell the queue how a trial ended."""
        self._keep_last(trial, event)
        if isinstance(event, Ended):
            self.queue.tell(self._indices[trial.folder_name], self._outcome(trial, event))

    def _keep_last(self, trial: TrialConfig, event: Event) -> None:
        if isinstance(event, Reported):
            last = {name: event.metrics[name] for name in _LAST if name in event.metrics}
            self._last.setdefault(trial.folder_name, {}).update(last)

    def _outcome(self, trial: TrialConfig, end: Ended) -> Outcome:
        """The outcome of a trial by every objective; a target that was never held counts
        with all that the trial was given.
        """
        last: Mapping[str, float] = self._last.get(trial.folder_name, {})
        values = {name.removeprefix("final/"): value for name, value in end.metrics.items()}
        target, reached = trial.env.target, TO_TARGET in values
        if end.status == FINISHED and target is not None:
            values.setdefault(TO_TARGET, float(trial.budget_env_steps))
            values.setdefault("seconds_to_target", values["train_s"])
        if end.status == FINISHED and reached:  # who is fast must not gain by never reaching it
            values["minutes_to_target"] = (values.get("start_s", 0.0) + values["seconds_to_target"]) / 60
            if (price := self._of_study.configuration_of(trial).suite.hardware.price_per_hour) is not None:
                values["cost_to_target"] = values["minutes_to_target"] / 60 * price
        if end.status == PRUNED:
            values = {"score": last[RETURN]}
        env_steps = max(0, end.env_steps - trial.first_env_steps)
        seconds = last.get("progress/wall_s", 0.0)
        return Outcome(
            end.status, values, env_steps, seconds, end.reason, math.nan if target is None else target, reached
        )

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tune's note of a trial's end: the trial's own events have it with its reason."""

    def save(self, checkpoint_path: str) -> None:
        """Tune's wish to keep it: the journal does."""

    def restore(self, checkpoint_path: str) -> None:
        """Tune's wish to bring it back: the journal does."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """As `save`."""
