"""The settings, and what they do to a trial."""

from typing import TYPE_CHECKING, ClassVar

from pydantic import StrictBool
from pydantic.dataclasses import dataclass

from experiments.config.extension import Measured, Training
from experiments.config.fields import STRICT

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm
    from ray.rllib.core.rl_module import RLModule


@dataclass(frozen=True, config=STRICT)
class ComputeOptimal(Training):
    """Settings by which trials say how many floating-point operations they take, which changes nothing of them.

    Attributes:
        measure: Whether they do.
    """

    measure: StrictBool = False
    changes_results: ClassVar[bool] = False

    def check_networks(self, module: "RLModule") -> None:
        """Networks have to be RLlib's perceptrons, of DQN or SAC.

        Raises:
            ConfigurationError: They are not.
        """
        if self.measure:
            from science.compute_optimal.counting import check

            check(module)

    def measure_in(self, algorithm: "Algorithm") -> Measured | None:
        """Count the operations of an update and of an action."""
        if not self.measure:
            return None
        from science.compute_optimal.counting import Counted

        return Counted(algorithm)
