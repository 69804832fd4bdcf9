"""PPO's loss without the logging of `PPOTorchLearner.compute_loss_for_module`."""

import math
from typing import Any

import torch
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing

from experiments.fast.ppo.gradient import PolicyGradient, Rows

SEEN = "observations_seen"
"""Column of a batch: its observations as the networks see them, where these are not the same."""
RULED_OUT = "actions_ruled_out"
"""Column of a batch: which actions its observations rule out, where these have a mask."""


class PPOLoss:
    """The loss of one module, and its gradients.

    RLlib takes means over the rows that count. The gradient of a mean is one over their number in these rows, and 0 in
    the others: the upstream gradient that a backward pass begins with.

    Attributes:
        module: RLlib's module.
        config: The module's configuration.
        policy: The gradient with respect to the inputs of the action distribution.
    """

    def __init__(self, learner: PPOTorchLearner, module: Any, config: Any) -> None:
        self.module, self.config = module, config
        self._now, self._before = module.get_train_action_dist_cls(), module.get_exploration_action_dist_cls()
        self._entropy_coeff = learner.entropy_coeff_schedulers_per_module[DEFAULT_MODULE_ID].get_current_value()
        self._kl_coeff = learner.curr_kl_coeffs_per_module[DEFAULT_MODULE_ID] if config.use_kl_loss else None
        self.policy = PolicyGradient(self._now, self._before, config.clip_param, self._entropy_coeff)

    def columns(self, block: Rows, size: int) -> Rows:
        """The upstream gradients of a backward pass, and what else `policy` and `of_values` need.

        Args:
            block: Rows of some minibatches, one after the other.
            size: Rows of a minibatch.
        """
        counts = block[Columns.LOSS_MASK].view(-1, size)
        num_valid = counts.sum(dim=1, keepdim=True)

        def spread(upstream: Any) -> torch.Tensor:
            return torch.where(counts, torch.as_tensor(upstream, device=counts.device) / num_valid, 0.0).view(-1)

        weights = spread(1.0)
        columns = self.policy.columns(block, weights, None if self._kl_coeff is None else spread(self._kl_coeff))
        columns |= {"observations": block.get(SEEN, block[Columns.OBS]), "targets": block[Postprocessing.VALUE_TARGETS]}
        columns |= {RULED_OUT: block[RULED_OUT]} if RULED_OUT in block else {}
        return columns | {"of_vf_loss": weights * self.config.vf_loss_coeff}

    def of_values(self, predictions: torch.Tensor, columns: Rows) -> torch.Tensor:
        """The gradient with respect to the value predictions, [rows]."""
        off = predictions - columns["targets"]
        of_vf_loss = columns["of_vf_loss"]
        if self.config.vf_clip_param < math.inf:
            of_vf_loss = torch.where(torch.pow(off, 2.0) <= self.config.vf_clip_param, of_vf_loss, 0.0)
        return of_vf_loss * (2 * off)

    def backward(self, rows: Rows, outputs: dict[str, Any], columns: Rows) -> torch.Tensor:
        """Add the gradient of a minibatch's loss to the parameters'; returns the value predictions."""
        config = self.config
        now, ratio, kl = self.compare(rows, outputs[Columns.ACTION_DIST_INPUTS])
        entropy = now.entropy() if "of_entropy" in columns else None
        surrogate = self.surrogate(rows, ratio)
        predictions: torch.Tensor = self.module.compute_values(rows, embeddings=outputs.get(Columns.EMBEDDINGS))
        vf_loss = torch.pow(predictions - rows[Postprocessing.VALUE_TARGETS], 2.0)
        loss = -surrogate + config.vf_loss_coeff * torch.clamp(vf_loss, 0, config.vf_clip_param)
        if entropy is not None:
            loss = loss - self._entropy_coeff * entropy
        if loss.requires_grad:  # all parameters may be frozen
            if kl is not None and kl.requires_grad:
                torch.autograd.backward([loss, kl], [columns["of_loss"], columns["of_kl"]])
            else:
                torch.autograd.backward(loss, columns["of_loss"])
        return predictions

    def compare(self, rows: Rows, dist_inputs: torch.Tensor) -> tuple[Any, torch.Tensor, torch.Tensor | None]:
        """The present policy, and its probability ratio and KL divergence to the one that sampled;
        None without `use_kl_loss`.
        """
        now = self._now.from_logits(dist_inputs)
        before = self._before.from_logits(rows[Columns.ACTION_DIST_INPUTS]) if self.config.use_kl_loss else None
        ratio = torch.exp(now.logp(rows[Columns.ACTIONS]) - rows[Columns.ACTION_LOGP])
        return now, ratio, None if before is None else before.kl(now)

    def surrogate(self, rows: Rows, ratio: torch.Tensor) -> torch.Tensor:
        """The clipped surrogate objective, [rows]."""
        clip, advantages = self.config.clip_param, rows[Postprocessing.ADVANTAGES]
        return torch.min(advantages * ratio, advantages * torch.clamp(ratio, 1 - clip, 1 + clip))
