"""SAC's losses for continuous actions (algorithms/sac/torch/sac_torch_learner.py), their gradients
and what is logged, without autograd.

As `q_loss`: torch's own formulas on the same numbers in the same order, and what is logged is computed
for many updates at once.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from ray.rllib.algorithms.sac.sac_learner import (
    LOGPS_KEY,
    QF_LOSS_KEY,
    QF_MAX_KEY,
    QF_MEAN_KEY,
    QF_MIN_KEY,
    QF_TWIN_LOSS_KEY,
    TD_ERROR_MEAN_KEY,
)
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import POLICY_LOSS_KEY, Learner

from experiments.fast.networks.sac import SACValues
from experiments.fast.q_loss import ErrorLoss, KeptLosses

Tensor = torch.Tensor


class SACGradients(NamedTuple):
    """Gradients of the losses.

    Attributes:
        q: Gradient by critic with respect to its values of the batch's actions, [B].
        drawn: Gradient with respect to the critics' least value of the drawn actions, [B].
        logp: Gradient with respect to these actions' log-probabilities, [B].
        log_alpha: Gradient with respect to the logarithm of the temperature, [1].
    """

    q: list[Tensor]
    drawn: Tensor
    logp: Tensor
    log_alpha: Tensor


class SACLoss(KeptLosses):
    """The losses of one module.

    Args:
        config: The module's configuration.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        self._gamma = config.gamma
        self._error_loss = ErrorLoss(getattr(config, "td_error_loss_fn", "huber"))  # RLlib's SAC has no other

    def __call__(
        self, values: SACValues, batch: Mapping[str, Tensor], log_alpha: Tensor, target_entropy: Tensor
    ) -> tuple[SACGradients, Tensor]:
        """The losses of a batch, which are kept until `values`.

        Args:
            values: The networks' values for it.
            batch: The batch.
            log_alpha: The logarithm of the temperature, [1].
            target_entropy: A number.

        Returns:
            The losses' gradients; the TD errors, [B].
        """
        alpha = torch.exp(log_alpha)
        after = (1.0 - batch[Columns.TERMINATEDS].float()) * (values.target - alpha * values.target_logp)
        target = batch[Columns.REWARDS] + (self._gamma ** batch["n_step"]) * after
        td_errors = torch.abs(values.q[0] - target)
        if len(values.q) > 1:
            td_errors.add_(torch.abs(values.q[1] - target)).mul_(0.5)
        weights = batch["weights"]
        share = torch.full_like(values.logp, 1.0 / len(weights))
        upstream, over = weights * share, values.logp + target_entropy
        gradients = SACGradients(
            [self._error_loss.gradient(upstream, q, target) for q in values.q],
            -share,
            share * alpha,
            (-share * over).sum(0, keepdim=True),
        )
        entropies = target_entropy.clone().reshape(1)
        self.keep(
            target, weights, td_errors, values.drawn, values.logp, over, alpha, log_alpha.clone(), entropies, *values.q
        )
        return gradients, td_errors

    def _logged(self, *columns: Tensor) -> dict[str, Tensor]:
        target, weights, td_errors, drawn, logp, over, alpha, log_alpha, target_entropy, *q = columns
        policy = (alpha * logp - drawn).mean(dim=1)
        critics = [(weights * self._error_loss(of_one, target)).mean(dim=1) for of_one in q]
        temperature = -(log_alpha * over).mean(dim=1)
        total = policy + critics[0] + temperature
        twin = {} if len(q) == 1 else {QF_TWIN_LOSS_KEY: critics[1]}
        return {
            POLICY_LOSS_KEY: policy,
            QF_LOSS_KEY: critics[0],
            **twin,
            Learner.TOTAL_LOSS_KEY: total + critics[1] if twin else total,
            "alpha_loss": temperature,
            "alpha_value": alpha[:, 0],
            "log_alpha_value": torch.log(alpha)[:, 0],
            "target_entropy": target_entropy[:, 0],
            LOGPS_KEY: logp.mean(dim=1),
            QF_MEAN_KEY: drawn.mean(dim=1),
            QF_MAX_KEY: drawn.amax(dim=1),
            QF_MIN_KEY: drawn.amin(dim=1),
            TD_ERROR_MEAN_KEY: td_errors.mean(dim=1),
        }
