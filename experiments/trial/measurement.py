"""When a throughput is measured well enough. Pure."""

import math
from dataclasses import dataclass, field

from analysis.stats.distributions import t_quantile
from experiments.config.measurement_settings import LEAST_BLOCKS, MeasurementSettings

CONFIDENCE = 0.95
_FEWEST_BLOCKS = 2
"""That a throughput can rest on."""


@dataclass(frozen=True)
class Block:
    """Some training of a trial, one batch or more.

    Attributes:
        env_steps: Sampled in it.
        trained_steps: Steps that the learner consumed in it.
        seconds: Seconds of training.
        other_cpu_percent: CPU that others used on the machine meanwhile, 100 is one core; NaN if unknown.
        is_paused: Whether the trial's process stood still in it: runners may have gone on, in no time.
    """

    env_steps: int
    trained_steps: float
    seconds: float
    other_cpu_percent: float = math.nan
    is_paused: bool = False


@dataclass
class Measurement:
    """The blocks of a measurement, and what they come to."""

    settings: MeasurementSettings
    blocks: list[Block] = field(default_factory=list)

    def _is_quiet(self, block: Block) -> bool:
        return not block.other_cpu_percent > self.settings.max_other_cpu_percent  # unknown is quiet

    def _is_clean(self, block: Block) -> bool:
        return self._is_quiet(block) and not block.is_paused

    @property
    def disturbed(self) -> bool:
        """True if there is not enough that was measured undisturbed."""
        clean = [b for b in self.blocks if self._is_clean(b)]
        return len(clean) < _FEWEST_BLOCKS or _seconds(clean) < self.settings.seconds

    @property
    def counted(self) -> list[Block]:
        """The blocks that count: those measured undisturbed; all of them if these are not enough."""
        return self.blocks if self.disturbed else [b for b in self.blocks if self._is_clean(b)]

    def precision(self) -> float:
        """Half-width of the throughput's 95% interval over blocks, relative to it; infinite with a single block.

        A ratio of sums, by linearisation (Cochran, Sampling Techniques, 1977, 6.4): blocks need not be of one length.
        """
        counted = self.counted
        n, seconds = len(counted), _seconds(counted)
        if n < _FEWEST_BLOCKS:
            return math.inf
        speed = sum(b.env_steps for b in counted) / seconds
        squares = sum((b.env_steps - speed * b.seconds) ** 2 for b in counted)
        error = math.sqrt(squares / (n - 1) * n) / seconds
        return float(t_quantile((1 + CONFIDENCE) / 2, n - 1)) * error / speed

    def is_enough(self) -> bool:
        """True if the measurement can end."""
        if len(self.blocks) < _FEWEST_BLOCKS:  # of batches that take longer than all of it
            return False
        if _seconds(self.blocks) >= self.settings.max_seconds:
            return True
        return not self.disturbed and len(self.counted) >= LEAST_BLOCKS and self.precision() <= self.settings.precision

    def metrics(self) -> dict[str, float]:
        """The throughputs of the metric contract, once there is enough."""
        counted = self.counted
        seconds = _seconds(counted)
        return {
            "final/env_steps_per_s": sum(b.env_steps for b in counted) / seconds,
            "final/trained_steps_per_s": sum(b.trained_steps for b in counted) / seconds,
            "final/disturbed_share": _seconds([b for b in counted if not self._is_quiet(b)]) / seconds,
        }


class MeasurementError(RuntimeError):
    """A measurement came to nothing; the message names the fix."""


def _seconds(blocks: list[Block]) -> float:
    return sum(b.seconds for b in blocks)
