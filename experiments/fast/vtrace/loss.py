"""The losses of IMPALA and APPO and their gradients with respect to what the networks put out: RLlib's
(algorithms/impala/torch/impala_torch_learner.py, algorithms/appo/torch/appo_torch_learner.py), to the bit.

Their values are sums in another order, and agree within rounding.
"""

from typing import Any

import torch
from ray.rllib.algorithms.appo.appo import (
    LEARNER_RESULTS_CURR_KL_COEFF_KEY,
    LEARNER_RESULTS_KL_KEY,
    LEARNER_RESULTS_MEAN_IS_KEY,
    LEARNER_RESULTS_VAR_IS_KEY,
)
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import ENTROPY_KEY, POLICY_LOSS_KEY, VF_LOSS_KEY
from ray.rllib.core.rl_module.apis import TARGET_NETWORK_ACTION_DIST_INPUTS

from experiments.fast.ppo.gradient import Rows
from experiments.fast.vtrace.returns import Returns, cut


class IMPALALoss:
    """IMPALA's loss of one batch.

    Args:
        learner: A learner with V-trace.
        module: RLlib's module.
        config: The module's configuration.
        rows: The batch, with rewards as they are learned from.

    Attributes:
        total: The loss as it was computed last.
        logged: What RLlib logs of it, by name.
    """

    def __init__(self, learner: Any, module: Any, config: Any, rows: Rows) -> None:
        self._config, self._distribution = config, module.get_train_action_dist_cls()
        self._length, self._actions = config.get_rollout_fragment_length(), rows[Columns.ACTIONS]
        self._counts = rows[Columns.LOSS_MASK].float()
        self._num_valid = torch.sum(self._counts)
        self._mask, self._behaviour_logp = self._cut(self._counts), self._cut(learner.behaviour_logp(rows))
        discounts = (1.0 - self._cut(rows[Columns.TERMINATEDS]).float()) * config.gamma * self._mask
        limits = config.vtrace_clip_rho_threshold, config.vtrace_clip_pg_rho_threshold
        self._returns = Returns(self._cut(rows[Columns.REWARDS]), discounts, *limits)
        self._entropy_coeff = learner.entropy_coeff_schedulers_per_module[DEFAULT_MODULE_ID].get_current_value()
        self._of_squares = torch.ones(()) * config.vf_loss_coeff / self._num_valid * 0.5 * self._mask
        self.total, self.logged = torch.zeros(()), dict[str, Any]()

    def gradients(self, dist_inputs: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Those with respect to the inputs of the action distribution, [rows, inputs], and to the values, [rows].

        Args:
            dist_inputs: [rows, inputs].
            values: [rows].
        """
        pieces = self._cut(values)
        leaf = dist_inputs.detach().requires_grad_()
        with torch.enable_grad():
            now = self._distribution.from_logits(leaf)
            logp = self._cut(now.logp(self._actions))
            targets, advantages = self._targets(pieces, logp.detach())
            of_policy, total = self._policy_loss(logp, advantages, now)
            mean_entropy_loss = -torch.sum(now.entropy() * self._counts) / self._num_valid
            total = total + mean_entropy_loss * self._entropy_coeff
            (of_dist_inputs,) = torch.autograd.grad(total, [leaf])
        off = pieces - targets
        vf_loss = 0.5 * torch.sum(torch.pow(off, 2.0) * self._mask)
        mean_vf_loss = vf_loss / self._num_valid
        self.total = total.detach() + mean_vf_loss * self._config.vf_loss_coeff
        self.logged = {**of_policy, **self._of_values(vf_loss, mean_vf_loss), ENTROPY_KEY: -mean_entropy_loss.detach()}
        return of_dist_inputs, (self._of_squares * (2.0 * off)).view(-1)[: len(values)]

    def _cut(self, rows: torch.Tensor) -> torch.Tensor:
        return cut(rows, self._length)

    def _targets(self, values: torch.Tensor, logp: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Of the values, and the advantages: [pieces, length] each."""
        self._returns.weigh(logp, self._behaviour_logp)
        return self._returns.of(values)

    def _policy_loss(
        self, logp: torch.Tensor, advantages: torch.Tensor, now: Any
    ) -> tuple[dict[str, Any], torch.Tensor]:
        """What is logged of it, and the loss."""
        pi_loss = -torch.sum(logp * advantages * self._mask)
        mean_pi_loss = pi_loss / self._num_valid
        return {"pi_loss": pi_loss.detach(), "mean_pi_loss": mean_pi_loss.detach()}, mean_pi_loss

    def _of_values(self, vf_loss: torch.Tensor, mean_vf_loss: torch.Tensor) -> dict[str, Any]:
        return {"vf_loss": vf_loss, "mean_vf_loss": mean_vf_loss}


class APPOLoss(IMPALALoss):
    """APPO's: the policy that V-trace's ratios are of is the target network's, the same in all passes over a batch."""

    def __init__(self, learner: Any, module: Any, config: Any, rows: Rows) -> None:
        super().__init__(learner, module, config, rows)
        self._old = self._distribution.from_logits(module.forward_target(rows)[TARGET_NETWORK_ACTION_DIST_INPUTS])
        old_logp = self._cut(self._old.logp(self._actions))
        self._returns.weigh(old_logp, self._behaviour_logp)
        self._is_ratio = torch.clip(torch.exp(self._behaviour_logp - old_logp), 0.0, 2.0)
        self._kl_coeff = learner.curr_kl_coeffs_per_module[DEFAULT_MODULE_ID]
        mean = torch.sum(self._is_ratio * self._mask) / self._num_valid
        spread = torch.sum(torch.square(self._is_ratio - mean) * self._mask) / self._num_valid
        self._of_ratio = {LEARNER_RESULTS_MEAN_IS_KEY: mean, LEARNER_RESULTS_VAR_IS_KEY: spread}

    def _targets(self, values: torch.Tensor, logp: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        targets, advantages = self._returns.of(values)
        return targets, advantages * self._mask

    def _policy_loss(
        self, logp: torch.Tensor, advantages: torch.Tensor, now: Any
    ) -> tuple[dict[str, Any], torch.Tensor]:
        ratio, clip = self._is_ratio * torch.exp(logp - self._behaviour_logp), self._config.clip_param
        surrogate = torch.minimum(advantages * ratio, advantages * torch.clip(ratio, 1 - clip, 1 + clip))
        kl = torch.zeros(())
        if self._config.use_kl_loss:
            kl = torch.sum(self._old.kl(now) * self._counts) / self._num_valid
        mean_pi_loss = -(torch.sum(surrogate) / self._num_valid)
        logged = {
            POLICY_LOSS_KEY: mean_pi_loss.detach(),
            LEARNER_RESULTS_KL_KEY: kl.detach(),
            LEARNER_RESULTS_CURR_KL_COEFF_KEY: self._kl_coeff,
            **self._of_ratio,
        }
        return logged, mean_pi_loss + kl * self._kl_coeff

    def _of_values(self, vf_loss: torch.Tensor, mean_vf_loss: torch.Tensor) -> dict[str, Any]:
        return {VF_LOSS_KEY: mean_vf_loss}
