"""Rewards in the learner: scaled and clipped before advantages, targets and losses are made of them."""

from typing import Any

from ray.rllib.connectors.common import NumpyToTensor
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.learner import GeneralAdvantageEstimation
from ray.rllib.core.columns import Columns

from experiments.fast.preprocessing.modules import Preprocessed


class ScaleRewards(ConnectorV2):  # type: ignore[misc]  # RLlib ships no type information
    """Transforms the rewards of a batch of tensors by the modules' preprocessing."""

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """As RLlib calls it."""
        for module_id, rows in batch.items():
            module = rl_module[module_id].unwrapped()
            if isinstance(module, Preprocessed):
                rows[Columns.REWARDS] = module.preprocessing.rewards(rows[Columns.REWARDS])
        return batch


def scale_rewards(learner: Any) -> None:
    """Make an RLlib learner learn from rewards that are transformed by its modules' preprocessing.

    Where advantages are computed in the learner's pipeline, before these; otherwise before the loss, of each batch:
    IMPALA and APPO may use a batch several times, and make batches in other processes.

    Args:
        learner: RLlib's learner, in its own process, through `learner_group.foreach_learner`; again is once.
    """
    pipeline = learner._learner_connector
    kinds = [type(connector) for connector in pipeline.connectors] if pipeline is not None else []
    if ScaleRewards in kinds or "compute_loss_for_module" in vars(learner):
        return
    if GeneralAdvantageEstimation in kinds:
        pipeline.insert_after(NumpyToTensor, ScaleRewards())
        return
    learner.compute_loss_for_module = LossOfScaledRewards(learner)


class LossOfScaledRewards:
    """A learner's `compute_loss_for_module`, of transformed rewards.

    Args:
        learner: RLlib's learner.
    """

    def __init__(self, learner: Any) -> None:
        self._learner, self._compute_loss = learner, learner.compute_loss_for_module

    def scaled(self, module_id: str, batch: Any) -> Any:
        """A batch with transformed rewards."""
        module = self._learner.module[module_id].unwrapped()
        return {**batch, Columns.REWARDS: module.preprocessing.rewards(batch[Columns.REWARDS])}

    def __call__(self, *, module_id: str, config: Any, batch: Any, fwd_out: Any) -> Any:
        """As RLlib's."""
        return self._compute_loss(
            module_id=module_id, config=config, batch=self.scaled(module_id, batch), fwd_out=fwd_out
        )
