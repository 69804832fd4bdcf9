"""Between a search's agenda and Tune: what it asks for becomes trials, what these come to is told."""

from collections.abc import Callable, Mapping
from typing import Any

from ray.tune.search import Searcher

from experiments.config.errors import ConfigurationError
from experiments.config.trial_config import TrialConfig
from experiments.planning.trials import StudyTrials
from experiments.search.strategy import FAILED, FINISHED, STOPPED, Ended, Signal
from experiments.search.trial_queue import Agenda
from experiments.study.driver_callback import DriverCallback, config_of
from experiments.study.folder import StudyFolder
from experiments.trial.folder import Report
from experiments.trial.trainable import FOLDER, STEP, TRIAL


class AgendaSearcher(Searcher):  # type: ignore[misc]  # Tune ships no type information
    """Tune's side: a new trial whenever Tune has room for one."""

    def __init__(self, trials: StudyTrials, agenda: Agenda, folder: StudyFolder, refused: Callable[[str], None]) -> None:
        """Ask an agenda.

        Args:
            trials: The study's, which what is asked for joins.
            agenda: The search's.
            folder: The study's.
            refused: Told of a configuration that cannot be run, in a line.
        """
        super().__init__()
        self._of_study, self._agenda, self._folder, self._refused = trials, agenda, folder, refused
        self._trials: dict[int, TrialConfig] = {}
        for index in range(len(agenda.asked)):
            self._take(index)

    def __reduce__(self) -> tuple[Any, tuple[()]]:  # Tune saves it with the experiment; a resume has the agenda's own journal
        return Searcher, ()

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Tune's settings: the search knows its own."""
        return True

    def suggest(self, trial_id: str) -> Any:
        """Tune's question: the next trial's config, None for not yet, `FINISHED` for no more."""
        while True:
            index = self._agenda.next()
            if index is Signal.DONE:
                return Searcher.FINISHED
            if index is Signal.WAIT:
                return None
            assert isinstance(index, int)
            if trial := self._trials.get(index) or self._take(index):
                return {TRIAL: {**trial.to_mapping(), FOLDER: str(self._folder.trial(trial).path)}}

    def _take(self, index: int) -> TrialConfig | None:
        ask = self._agenda.asked[index]
        try:
            parent = ask.note.get("parent")
            self._trials[index] = self._of_study.take(ask, None if parent is None else self._trials[parent])
        except ConfigurationError as error:
            self._refused(f"left out: {ask.point}: {error}")
            self._agenda.ended(index, Ended(FAILED, reason=str(error)))
            return None
        self._folder.keep_configurations(self._of_study)
        return self._trials[index]

    def ended_earlier(self) -> list[tuple[TrialConfig, Ended]]:
        """The trials that an earlier execution ended without their whole budget, and has noted."""
        known = ((self._trials.get(index), outcome) for index, outcome in self._agenda.outcomes.items())
        return [(trial, outcome) for trial, outcome in known if trial is not None and outcome.status != FINISHED]

    def take_earlier(self, trial: TrialConfig, last: Report) -> None:
        """Take in what a trial came to that an earlier execution finished, but did not note."""
        if last.done:
            self._end(trial, _outcome(FINISHED, trial, last.metrics, last.env_steps))

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tune's note of a trial's end: the callback has it with its reason."""

    def save(self, checkpoint_path: str) -> None:
        """Tune's wish to keep it: the journal does."""

    def restore(self, checkpoint_path: str) -> None:
        """Tune's wish to bring it back: the journal does."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """As `save`."""

    def callback(self) -> DriverCallback:
        """What tells the agenda how trials end."""
        return _Tell(self._end)

    def _end(self, trial: TrialConfig, outcome: Ended) -> None:
        index = next(i for i, known in self._trials.items() if known.folder_name == trial.folder_name)
        self._agenda.ended(index, outcome)


class _Tell(DriverCallback):
    def __init__(self, end: Callable[[TrialConfig, Ended], None]) -> None:
        self._end = end

    def on_finish(self, trial: Any) -> None:
        self._tell(FINISHED, trial)

    def on_early_stop(self, trial: Any) -> None:
        self._tell(STOPPED, trial)

    def on_failure(self, trial: Any, reason: str) -> None:
        self._tell(FAILED, trial, reason)

    def _tell(self, status: str, trial: Any, reason: str = "") -> None:
        config, result = config_of(trial), trial.last_result or {}
        self._end(config, _outcome(status, config, result, int(result.get(STEP, 0)), reason))


def _outcome(status: str, trial: TrialConfig, metrics: Mapping[str, Any], env_steps: int, reason: str = "") -> Ended:
    """What a trial came to, by every objective; a target that was never held counts with all that the trial was given."""
    values = {k.removeprefix("final/"): float(v) for k, v in metrics.items() if k.startswith("final/")}
    if status == FINISHED and trial.env.target is not None:
        values.setdefault("env_steps_to_target", float(trial.budget_env_steps))
        values.setdefault("seconds_to_target", values["train_s"])
    if status == STOPPED:
        values = {"score": float(metrics["eval/return_mean"])}
    env_steps = max(0, env_steps - (trial.start.env_steps if trial.start else 0))
    return Ended(status, values, env_steps, float(metrics.get("progress/wall_s", 0.0)), reason)
