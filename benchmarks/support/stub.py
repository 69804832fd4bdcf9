"""A trial that reports like a real one and trains nothing."""

import random
import time
from collections.abc import Mapping
from typing import Any

from ray.tune import Trainable

from experiments.metrics import METRICS
from experiments.trial.trainable import AT_MS, REPRODUCIBLE, RESTARTS, STEP, TRIAL, UNSAVED, WEIGHTS


class StubTrial(Trainable):  # type: ignore[misc]  # Tune ships no type information
    """As many reports as the budget holds, each with every metric of the contract."""

    def setup(self, config: Mapping[str, Any]) -> None:
        """Start anew."""
        self._trial, self._at = config[TRIAL], 0

    def step(self) -> dict[str, Any]:
        """A report."""
        self._at += self._trial["report_every_env_steps"]
        last = self._at >= self._trial["budget_env_steps"]
        metrics = {name: random.random() for name in METRICS if last or not name.startswith("final/")}
        state = {AT_MS: time.time_ns() // 1_000_000, RESTARTS: 0, REPRODUCIBLE: True, UNSAVED: "", WEIGHTS: "0" * 16}
        return {**metrics, **state, STEP: self._at, "timesteps_total": self._at, "done": last}

    def reset_config(self, new_config: Mapping[str, Any]) -> bool:
        """Take on another trial in this process."""
        self.setup(new_config)
        return True
