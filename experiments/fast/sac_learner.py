"""RLlib's learner for SAC with lean updates (`q_learner`)."""

from typing import Any

import torch
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.algorithms.sac.torch.sac_torch_learner import SACTorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID

from experiments.fast.networks.adam import FlatAdam
from experiments.fast.networks.known import is_stock
from experiments.fast.networks.sac import SACNetworks
from experiments.fast.q_learner import LeanUpdates
from experiments.fast.sac_loss import SACLoss

_LOSSES = ("compute_loss_for_module", "_compute_loss_for_module_continuous", "_compute_loss_for_module_discrete")


class FastSACTorchLearner(LeanUpdates, SACTorchLearner):  # type: ignore[misc]
    """Drop-in for `SACTorchLearner`, whose lean updates `experiments.fast.off_policy.FastSAC` uses."""

    loss_class: type = SACTorchLearner
    """Whose losses `SACLoss` is."""
    _loss: SACLoss

    def build(self) -> None:
        """As RLlib's."""
        super().build()
        self._networks: SACNetworks | None = None
        self._loss = SACLoss(self.config.get_config_for_module(DEFAULT_MODULE_ID))

    def begin_lean(self) -> None:
        """See `LeanUpdates`."""
        super().begin_lean()
        # No two of RLlib's losses have weights in common, so that its four backward passes can be one.
        plain = is_stock(self.module[DEFAULT_MODULE_ID], DefaultSACTorchRLModule) and self._has_plain_loss(
            self.loss_class, *_LOSSES
        )
        self._backward = self._backward_together if plain else self._backward_as_rllib  # type: ignore[method-assign]

    def _backward_together(self, loss: torch.Tensor) -> None:
        torch.autograd.backward(list(self._temp_losses.values()))
        self._temp_losses.clear()

    def _backward_as_rllib(self, loss: torch.Tensor) -> None:
        self.compute_gradients({DEFAULT_MODULE_ID: loss})

    def _begin_adams(self) -> dict[str, FlatAdam]:
        adams = super()._begin_adams()
        self._networks = None
        module, log_alpha = self.module[DEFAULT_MODULE_ID], self.curr_log_alpha[DEFAULT_MODULE_ID]
        if self._has_plain_loss(self.loss_class, *_LOSSES) and (trained := SACNetworks.parameters(module)) is not None:
            self._log_alpha, self._target_entropy = log_alpha.detach(), self.target_entropy[DEFAULT_MODULE_ID].detach()
            if gradients := self._lay_out(adams, {*trained, log_alpha}):
                self._of_log_alpha = gradients[log_alpha]
                self._networks = SACNetworks(module, gradients)
        return adams

    def _step_without_autograd(self, batch: dict[str, Any], config: Any) -> torch.Tensor | None:
        if self._networks is None:
            return None
        with torch.no_grad():
            values = self._networks.forward(batch)
            gradients, td_errors = self._loss(
                values, self._with_scaled_rewards(batch), self._log_alpha, self._target_entropy
            )
            self._networks.backward(gradients.q, gradients.drawn, gradients.logp)
            self._of_log_alpha.copy_(gradients.log_alpha)
            self._apply(config, [adam.norm() for adam in (self._adams or {}).values()])
        return td_errors
