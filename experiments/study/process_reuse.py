"""Which trials hand their process on to the next one."""

from typing import Any

from ray.tune.schedulers import FIFOScheduler

from experiments.trial.trainable import WORN


class ReuseUnlessWorn(FIFOScheduler):  # type: ignore[misc]  # Tune ships no type information
    """Tune's default order; a trial's process goes on to the next trial unless the trial says that it had better not.

    Tune (ray/tune/execution/tune_controller.py: `stop_trial`, `_maybe_cache_trial_actor`) asks the scheduler before it looks whether to
    keep the process, and knows only always or never.
    """

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        """Called before Tune stops the trial's process, or keeps it."""
        tune_controller._reuse_actors = not result.get(WORN)
        super().on_trial_complete(tune_controller, trial, result)
