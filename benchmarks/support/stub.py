"""A trial that reports like a real one and trains nothing."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ray.tune import Trainable

from experiments.contract import FINISHED, METRICS
from experiments.trial.attempt import Attempt, own_nodes
from experiments.trial.events import Ended, Event, Reported
from experiments.trial.folder import TrialFolder
from experiments.trial.tune_keys import EVENTS, FOLDER, TRIAL


class StubTrial(Trainable):  # type: ignore[misc]  # Tune ships no type information
    """As many reports as the budget holds, each with every metric of the contract."""

    def setup(self, config: Mapping[str, Any]) -> None:
        """Start anew."""
        self._trial, self._at = config[TRIAL], 0
        self._log = TrialFolder(Path(self._trial[FOLDER])).log

    def begin(self, attempt: Attempt) -> tuple[str, ...]:
        """Whatever the attempt."""
        return own_nodes()

    def step(self) -> dict[str, Any]:
        """A report."""
        self._at += self._trial["report_every_env_steps"]
        last = self._at >= self._trial["budget_env_steps"]
        metrics = {name: random.random() for name in METRICS}
        final = {name: metrics.pop(name) for name in METRICS if name.startswith("final/")}
        events: list[Event] = [Reported(env_steps=self._at, metrics=metrics)]
        if last:
            events.append(Ended(status=FINISHED, env_steps=self._at, metrics=final, weights="0" * 16))
        return {EVENTS: [self._log.add(event)[-1] for event in events], "done": last}

    def reset_config(self, new_config: Mapping[str, Any]) -> bool:
        """Take on another trial in this process."""
        self.setup(new_config)
        return True
