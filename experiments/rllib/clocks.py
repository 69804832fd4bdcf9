"""Seconds in each part of training, summed beside RLlib's own timers. Standard library only."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

PHASES = {
    "env_runner_sampling_timer": "sample",
    "sample": "sample",
    "learner_update_timer": "learn",
    "replay_buffer_add_data_timer": "learn",
    "replay_buffer_sampling_timer": "learn",
    "replay_buffer_update_prios_timer": "learn",
    "synch_weights": "sync",
    "synch_env_connectors": "sync",
}
"""RLlib's timer names (`rllib/utils/metrics/__init__.py`) to the parts of a training second."""
RUNNER_TIMERS = {"env_step_timer": "env_step", "rlmodule_inference_timer": "inference"}
"""RLlib's timer names of an env runner (likewise) to the parts of its sampling seconds."""
LEARNER_THREAD_TIMER = "learner_thread_update_timer"
"""RLlib's timer of an asynchronous learner (`rllib/utils/metrics/__init__.py`)."""


@dataclass
class PhaseClock:
    """Seconds of the trial's process in each part of training.

    RLlib's timers are exponential means with a factor of 0.01: after one slow iteration they are off for hundreds.
    This clock sums.
    """

    seconds: dict[str, float] = field(default_factory=lambda: {"sample": 0.0, "learn": 0.0, "sync": 0.0})

    def attach(self, metrics_logger: Any) -> None:
        """Measure along with the `log_time` blocks of an RLlib MetricsLogger."""
        sum_blocks(
            metrics_logger,
            lambda key: PHASES.get(key[-1]) if isinstance(key, tuple) and key[0] == "timers" else None,
            self._count,
        )

    def _count(self, phase: str, seconds: float) -> None:
        self.seconds[phase] += seconds

    def add(self, timer: str, seconds: float) -> None:
        """Count seconds that went by beside the blocks, under the name of one of RLlib's timers."""
        self._count(PHASES[timer], seconds)

    def take(self) -> dict[str, float]:
        """The seconds of each phase; the clock starts anew."""
        taken, self.seconds = self.seconds, dict.fromkeys(self.seconds, 0.0)
        return taken


def sum_blocks(metrics_logger: Any, part_of: Callable[[Any], str | None], count: Callable[[str, float], None]) -> None:
    """Measure along with the `log_time` blocks of an RLlib MetricsLogger.

    Args:
        metrics_logger: RLlib's MetricsLogger.
        part_of: The part that a block's key belongs to; None for a block that does not count.
        count: Takes a part and the seconds of a block, which may be another thread's.
    """
    log_time = metrics_logger.log_time

    @contextmanager
    def measured(part: str, block: Any) -> Iterator[None]:
        start = perf_counter()
        try:
            with block:
                yield
        finally:
            count(part, perf_counter() - start)

    def timed(key: Any, **kwargs: Any) -> Any:
        block = log_time(key, **kwargs)
        part = part_of(key)
        return block if part is None else measured(part, block)

    metrics_logger.log_time = timed


def training_shares(phases: Mapping[str, float], train_s: float) -> dict[str, float]:
    """The `throughput/*_share` metrics of `train_s` seconds, which add to 1.

    Args:
        phases: Seconds by phase of a `PhaseClock`, over these seconds.
        train_s: Training seconds.
    """
    known = sum(phases.values())
    total = max(train_s, known, 1e-9)
    shares = {f"throughput/{phase}_share": spent / total for phase, spent in phases.items()}
    shares["throughput/other_share"] = (total - known) / total
    return shares
