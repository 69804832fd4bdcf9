"""Between Tune and the stream of events: Tune drives, and what it notices becomes events."""

from collections.abc import Callable, Set
from typing import Any

from ray.tune import Callback, PlacementGroupFactory
from ray.tune.experiment import Trial
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from experiments.config.trial_config import TrialConfig
from experiments.contract import PRUNED
from experiments.study.cluster.placement import StudyPlacement
from experiments.study.stream import EventStream
from experiments.study.tune.attempts import Attempts, config_of
from experiments.study.tune.early_stopping import EarlyStopping
from experiments.trial.tune_keys import EVENTS, FOLDER, RECYCLE_PROCESS, REQUEST


def described(trial: TrialConfig, folder: str, request: PlacementGroupFactory) -> dict[str, Any]:
    """A trial as its process and Tune take it.

    Args:
        trial: The trial.
        folder: The folder of the trial, as its process finds it.
        request: What it reserves.
    """
    reserved = {"bundles": [dict(bundle) for bundle in request.bundles], "strategy": request.strategy}
    return {**trial.to_mapping(), FOLDER: folder, REQUEST: reserved}


class DriverCallback(Callback):  # type: ignore[misc]  # Tune ships no type information
    """A callback with threads and open terminals behind it, which Tune's pickle of the whole Tuner must leave out."""

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return Callback, ()


class NoProgressOfTunes(TrialProgressCallback):  # type: ignore[misc]  # Tune ships no type information
    """In place of Tune's own, which says of a trial that failed before its first report that it is complete."""

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Say nothing: the suite says how each trial ended."""


class StreamCallback(DriverCallback):
    """Tells the stream what Tune notices.

    Whether a trial finished, its own events say: Tune calls one complete that a signal stopped.
    """

    def __init__(self, stream: EventStream, attempts: Attempts, scheduler: "StudyScheduler") -> None:
        self._stream, self._attempts, self._scheduler = stream, attempts, scheduler

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Begin an attempt; Tune calls this before the trial's first step."""
        self._attempts.begin(trial)

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Tell what the trial did, and take it out of the result, which Tune keeps and saves."""
        self._stream.tell(config_of(trial), result.pop(EVENTS))

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Tell what got lost on its way."""
        self._stream.catch_up(config_of(trial))

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Tune has given a trial up."""
        self._scheduler.take_up_again(trial)


class StudyScheduler(FIFOScheduler):  # type: ignore[misc]  # Tune ships no type information
    """Tune's default order, with a rule that stops trials early, a limit to how often each is taken up,
    and its say in what becomes of its process.
    """

    def __init__(
        self,
        stream: EventStream,
        attempts: Attempts,
        stopping: EarlyStopping | None = None,
        unused: Callable[[], Set[str]] | None = None,
    ) -> None:
        """Schedule trials.

        Args:
            stream: Of the study's events.
            attempts: At the trials.
            stopping: One of the listeners, if trials are stopped early.
            unused: Gives the ids of the nodes that the study does not use; None: it uses all that there ever are.
        """
        super().__init__()
        self._stream, self._attempts, self._stopping, self._unused = stream, attempts, stopping, unused
        self._tune: Any = None
        self._lost: Any = None  # in this step of Tune's
        self._alone: list[Any] = []  # trials that are held back until no other one is under way, or run so
        self._num_ended = 0  # of Tune's list, at its beginning: thousands of them need not be looked at in each step

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return FIFOScheduler, ()

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Tune will start a trial, or start it again: unless it has ended, by itself or by `on_trial_error`,
        or must wait for others.
        """
        if self._unused is not None and not isinstance(trial.placement_group_factory, StudyPlacement):
            trial.placement_group_factory = StudyPlacement(trial.placement_group_factory, self._unused)
        if self._attempts.has_ended(trial):
            tune_controller.stop_trial(trial)
        elif self._attempts.goes_on_alone(trial):
            self._hold_back(trial)

    def _hold_back(self, trial: Any) -> None:
        """Until no other trial is under way."""
        self._alone.append(trial)
        self._tune._resetting_trials.discard(trial)  # as in `take_up_again`
        self._tune._set_trial_status(trial, Trial.PAUSED)
        self._tune.search_alg.on_trial_complete(trial.trial_id)  # others may have its place

    @property
    def waits(self) -> bool:
        """True while a trial runs, or is to run, with no other one under way: a search then asks for nothing new."""
        return not all(trial.is_finished() for trial in self._alone)

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """The first that Tune may start; it asks once in each of its steps, when it has asked for new trials.

        Tune starts each trial that is pending, and those that are paused only if they are chosen.
        """
        self._lost = None
        trials = tune_controller.get_trials()
        while self._num_ended < len(trials) and trials[self._num_ended].is_finished():
            self._num_ended += 1
        left = trials[self._num_ended :]
        if (pending := next((trial for trial in left if trial.status == Trial.PENDING), None)) is not None:
            return pending
        if any(trial.status == Trial.RUNNING for trial in left):
            return None
        return next((trial for trial in self._alone if trial.status == Trial.PAUSED), None)

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        """Tune has lost a trial's process, and will start the trial again, or give it up: see `take_up_again`."""
        self._tune = tune_controller
        if trial is not self._lost:
            self._attempts.lost(trial)
        self._lost = trial

    def take_up_again(self, trial: Any) -> None:
        """Put a trial that Tune has given up back into its queue, unless the trial has ended.

        Whatever becomes of a process, Tune is to start the trial again (`max_failures=-1`). It does not where the
        process is lost as it is handed on from one trial to the next (ray/tune/execution/tune_controller.py:
        `_schedule_trial_reset`): such a loss is told twice, to `_actor_failed` and to `_trial_task_failure`, and the
        second time the trial is in the queue already, which counts as its end. It would also get no other process, as
        one that waits for its reset.
        """
        if self._attempts.has_ended(trial):
            return
        self._num_ended = 0
        if self._attempts.goes_on_alone(trial):
            self._hold_back(trial)
            return
        self._tune._resetting_trials.discard(trial)
        self._tune._set_trial_status(trial, Trial.PENDING)

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Tune's word on whether the trial goes on. Tune asks before it tells the callbacks."""
        if self._stopping is not None:
            config = config_of(trial)
            self._stream.tell(config, result[EVENTS])
            if self._stopping.stops(config):
                self._stream.end(config, PRUNED)
                return str(TrialScheduler.STOP)
        return str(TrialScheduler.CONTINUE)

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        """Say whether the trial's process goes on to the next trial.

        Tune (ray/tune/execution/tune_controller.py: `stop_trial`, `_maybe_cache_trial_actor`) asks the scheduler before
        it looks whether to keep the process, and knows only always or never.
        """
        tune_controller._reuse_actors = not result.get(RECYCLE_PROCESS)
        super().on_trial_complete(tune_controller, trial, result)
