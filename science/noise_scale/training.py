"""The settings, and what they do to a trial."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from pydantic import StrictBool
from pydantic.dataclasses import dataclass

from experiments.config.errors import ConfigurationError
from experiments.config.extension import Measured, Past, Training
from experiments.config.fields import STRICT, Positive

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm
    from ray.rllib.core.rl_module import RLModule

    from experiments.config.schema import SuiteConfig
    from experiments.planning.plan import Plan


@dataclass(frozen=True, config=STRICT)
class NoiseScale(Training):
    """Settings by which trials measure the gradient noise scale as they learn, which leaves what they learn as it is.

    Attributes:
        measure: Whether they do.
        every_updates: From one measurement to the next, an update is a training batch; `None` lets the suite choose, so
            that they take at most 2% of a trial's time (`measurement.updates_between`).
    """

    measure: StrictBool = False
    every_updates: Positive | None = None
    changes_results: ClassVar[bool] = False

    def check(self, suite: "SuiteConfig") -> None:
        """A throughput is measured without it.

        Raises:
            ConfigurationError: The study measures one.
        """
        if self.measure and suite.measurement is not None:
            raise ConfigurationError(
                "noise_scale.measure=true takes some of the time in which a throughput is measured. "
                "Try noise_scale.measure=false."
            )

    def check_networks(self, module: "RLModule") -> None:
        """Rows have to be independent.

        Raises:
            ConfigurationError: The policy is recurrent.
        """
        if self.measure and module.is_stateful():
            raise ConfigurationError(
                "noise_scale.measure=true: rows of a recurrent policy are not independent, as the gradient noise scale "
                "wants them. Try noise_scale.measure=false."
            )

    def measure_in(self, algorithm: "Algorithm") -> Measured | None:
        """Make the learners measure it."""
        if not self.measure:
            return None
        from science.noise_scale.measurement import NoiseSums, measure_noise_scale, updates_between

        every = self.every_updates or updates_between(algorithm.config)
        algorithm.learner_group.foreach_learner(partial(measure_noise_scale, every_updates=every))
        return NoiseSums()

    @classmethod
    def plan_lines(cls, plan: "Plan", past: Past) -> Sequence[str]:
        """Which grids of batches lie on one side of all noise scales that are known."""
        from science.noise_scale.plan import batch_lines

        return batch_lines(plan, past)
