"""An env runner's use of time, as sums; RLlib's own timers are exponential means."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from experiments.rllib.clocks import RUNNER_TIMERS, sum_blocks
from experiments.rllib.results import RUNNER_SECONDS, RunnerSeconds


class RunnerClock:
    """Sums the seconds of an env runner, and logs them with its other metrics."""

    def __init__(self) -> None:
        self._spent = RunnerSeconds()

    def attach(self, metrics_logger: Any) -> None:
        """Measure along with the blocks in which RLlib steps environments and asks the policy."""
        sum_blocks(
            metrics_logger, lambda key: RUNNER_TIMERS.get(key) if isinstance(key, str) else None, self._add_block
        )

    def _add_block(self, part: str, seconds: float) -> None:
        self._spent = replace(self._spent, **{part: getattr(self._spent, part) + seconds})

    def add(self, env_step_s: float, inference_s: float) -> None:
        """Count what went by beside the blocks."""
        self._spent += RunnerSeconds(env_step=env_step_s, inference=inference_s)

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Around `sample()`."""
        start, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            self._spent += RunnerSeconds(sample=time.perf_counter() - start, cpu=time.process_time() - cpu)

    def log(self, metrics_logger: Any, runner_index: int) -> None:
        """Log what was spent since the last call."""
        spent, self._spent = self._spent, RunnerSeconds()
        for part, seconds in asdict(spent).items():
            metrics_logger.log_value((RUNNER_SECONDS, str(runner_index), part), seconds, reduce="sum")
