"""Callbacks of Tune that live in the driver alone."""

from typing import Any

from ray.tune import Callback

from experiments.config.trial_config import TrialConfig
from experiments.trial.trainable import FAILURE, TRIAL, WEIGHTS, reason_for

STOPPED_EARLY = "_suite_stopped_early"
"""Attribute of a Tune trial that a scheduler has stopped."""


class DriverCallback(Callback):  # type: ignore[misc]  # Tune ships no type information
    """A callback with threads and open terminals, which Tune's pickle of the whole Tuner must leave out."""

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return Callback, ()

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Tune calls this before it records the error: the reason follows with `on_failure`."""
        self.__dict__.setdefault("_failing", []).append(trial)

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Report the failures whose reason is there by now."""
        failing = self.__dict__.get("_failing", [])
        for trial in [t for t in failing if t.get_error()]:
            failing.remove(trial)
            self.on_failure(trial, failure_reason(trial))

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Report what is left of the failures."""
        for trial in self.__dict__.pop("_failing", []):
            self.on_failure(trial, failure_reason(trial))

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Tell a trial that finished from one that reported its failure, and from one that a signal stopped."""
        if FAILURE in trial.last_result:
            self.on_failure(trial, trial.last_result[FAILURE])
        elif WEIGHTS in trial.last_result:
            self.on_finish(trial)
        elif getattr(trial, STOPPED_EARLY, False):
            self.on_early_stop(trial)

    def on_failure(self, trial: Any, reason: str) -> None:
        """A trial has failed.

        Args:
            trial: Tune's.
            reason: Why, in a line.
        """

    def on_finish(self, trial: Any) -> None:
        """A trial has finished; its last result is complete.

        Args:
            trial: Tune's.
        """

    def on_early_stop(self, trial: Any) -> None:
        """A scheduler has stopped a trial before its budget was used.

        Args:
            trial: Tune's.
        """


def config_of(trial: Any) -> TrialConfig:
    """The TrialConfig of one of Tune's trials."""
    if not hasattr(trial, "_suite_config"):
        trial._suite_config = TrialConfig.from_mapping(trial.config[TRIAL])
    config: TrialConfig = trial._suite_config
    return config


def failure_reason(trial: Any) -> str:
    """Why a Tune trial failed, in a line: the innermost error's."""
    if given := getattr(trial, "_suite_failure", ""):  # whoever ended it knows best
        return str(given)
    if (error := trial.get_pickled_error()) is not None:
        return reason_for(error)
    text = str(trial.get_error() or "").strip()
    return text.splitlines()[-1][:500] if text else "no reason was recorded"
