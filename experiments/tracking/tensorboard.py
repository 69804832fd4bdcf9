"""The events of a study's trials to TensorBoard's files."""

from pathlib import Path

from tensorboardX import SummaryWriter

from experiments.config.trial_config import TrialConfig
from experiments.trial.events import Ended, Event, Reported


class TensorBoardListener:
    """A folder of TensorBoard's for each trial that reports in this execution of the study; over env steps."""

    def __init__(self, folder: Path) -> None:
        """Write below `folder`."""
        self._folder = folder
        self._writers: dict[str, SummaryWriter] = {}
        self._last: dict[str, tuple[int, bool]] = {}

    def on_event(self, trial: TrialConfig, event: Event) -> None:
        """Write a report's metrics, and the final ones."""
        name = trial.folder_name
        if not isinstance(event, Reported | Ended):
            return
        at = event.env_steps, isinstance(event, Ended)
        if at <= self._last.get(name, (0, False)):
            return
        if name not in self._writers:
            self._writers[name] = SummaryWriter(str(self._folder / name), flush_secs=30)
        self._last[name] = at
        for metric, value in event.metrics.items():
            self._writers[name].add_scalar(metric, value, event.env_steps)
        if isinstance(event, Ended):
            self._writers.pop(name).close()
