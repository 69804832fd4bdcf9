"""What a test gives Tune that runs trials of its own."""

from typing import Any

from experiments.study.tune.callbacks import StreamCallback


class OfErrors(StreamCallback):
    """Without what is for trials of a study alone."""

    def on_trial_result(self, *told: Any, **info: Any) -> None:
        pass

    def on_trial_complete(self, *told: Any, **info: Any) -> None:
        pass
