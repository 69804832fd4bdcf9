"""Settings of a measurement of throughput."""

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from experiments.config.errors import ConfigurationError
from experiments.config.fields import STRICT, Number

LEAST_BLOCK_S = 0.1
"""Seconds: Linux counts CPU time in hundredths."""
LEAST_BLOCKS = 4
"""Of a measurement: fewer say nothing of how sure it is."""


@dataclass(frozen=True, config=STRICT)
class MeasurementSettings:
    """How the throughput of a trial is measured, in place of training to a budget.

    Attributes:
        warmup_s: Seconds that are left out at the start, two training batches at least; one, if it takes longer than
            `max_seconds`.
        seconds: Least seconds that count.
        max_seconds: Most seconds after the warm-up: a measurement that is not precise enough,
            or was disturbed, goes on up to here, and to the end of its second training batch.
        precision: The half-width of the throughput's 95% interval over blocks, relative to it,
            at which a measurement ends.
        block_s: Seconds of a block, of which each has a throughput; a training batch that takes longer is a block.
        max_other_cpu_percent: CPU that others may use on the machine while a block is measured, 100 is one core. A
            block with more is measured again.
    """

    warmup_s: Annotated[Number, Field(ge=0)] = 1.0
    seconds: Annotated[Number, Field(gt=0)] = 2.0
    max_seconds: Annotated[Number, Field(gt=0)] = 5.0
    precision: Annotated[Number, Field(gt=0, lt=1)] = 0.05
    block_s: Annotated[Number, Field(gt=0)] = 0.25
    max_other_cpu_percent: Annotated[Number, Field(gt=0)] = 25.0

    def __post_init__(self) -> None:
        if self.block_s < LEAST_BLOCK_S:
            raise ConfigurationError(
                f"measurement.block_s={self.block_s:g}: shorter blocks than {LEAST_BLOCK_S:g} s measure the clock. "
                f"Try measurement.block_s={LEAST_BLOCK_S:g} or more."
            )
        if self.seconds < LEAST_BLOCKS * self.block_s:
            raise ConfigurationError(
                f"measurement.seconds={self.seconds:g} is less than {LEAST_BLOCKS} blocks "
                f"of measurement.block_s={self.block_s:g} s: too short to mean anything. "
                f"Try measurement.seconds={LEAST_BLOCKS * self.block_s:g} or more."
            )
        if self.max_seconds < self.seconds:
            raise ConfigurationError(
                f"measurement.max_seconds={self.max_seconds:g} is less than measurement.seconds={self.seconds:g}. "
                f"Try measurement.max_seconds={2 * self.seconds:g}."
            )
