"""Trials that a test makes and that are cleaned up after it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.config.trial_config import TrialConfig
from experiments.trial.trainable import MEASURE_SYSTEM, Trial
from tests.support.trials import Make, with_folder


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    started: list[Trial] = []

    def start(config: TrialConfig, system: bool = False, folder: Path | None = None) -> Trial:
        folder = folder or tmp_path / f"trial-{len(started)}"
        started.append(Trial({**with_folder(config, folder), MEASURE_SYSTEM: system}))
        return started[-1]

    yield start
    for trial in started:
        trial.cleanup()
