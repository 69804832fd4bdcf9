"""The gradient of PPO's loss with respect to the inputs of the action distribution, without autograd.

The loss is always the same, so here are torch's own formulas for it (tools/autograd/derivatives.yaml), without
factors of 1 and terms of 0. Sums are in the order in which autograd adds them up, the operation that came last first:
the bits are the same.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical, TorchDiagGaussian
from ray.rllib.evaluation.postprocessing import Postprocessing

Rows = dict[str, torch.Tensor]
"""Some rows of a batch: name of a column to [rows, ...]."""


class PolicyGradient:
    """The gradient of PPO's loss (algorithms/ppo/torch/ppo_torch_learner.py) with respect to the inputs
    of the action distribution.

    Args:
        now: RLlib's class of the distribution that is learned.
        before: The class of the one that sampled.
        clip: Their ratio is clipped to [1 - clip, 1 + clip].
        entropy_coeff: Weight of the entropy in the loss; with 0 it is left out.
    """

    def __init__(self, now: Any, before: Any, clip: float, entropy_coeff: Any) -> None:
        self._now, self._before = now, before
        self._low, self._high = 1 - clip, 1 + clip
        self._entropy_coeff = entropy_coeff if bool(entropy_coeff != 0) else None
        self._gradient: Callable[[torch.Tensor, Rows], torch.Tensor] = self._any
        self._before_columns: Callable[[torch.Tensor], Rows] = lambda dist_inputs: {"before": dist_inputs}
        if now is before is TorchCategorical:
            self._gradient, self._before_columns = self._categorical, _categorical_before
        elif now is before is TorchDiagGaussian:
            self._gradient, self._before_columns = self._diag_gaussian, _diag_gaussian_before

    def columns(self, block: Rows, weights: torch.Tensor, kl_weights: torch.Tensor | None) -> Rows:
        """The columns that do not depend on the weights of the networks, for many rows at once.

        Args:
            block: Columns of RLlib's batch.
            weights: [rows], of each row's loss.
            kl_weights: [rows], of its KL divergence; None if it is not in the loss.

        Returns:
            The columns that `__call__` needs.
        """
        advantages, actions = block[Postprocessing.ADVANTAGES], block[Columns.ACTIONS]
        found = {
            "actions": actions.long().unsqueeze(-1) if self._gradient == self._categorical else actions,
            "logp": block[Columns.ACTION_LOGP],
        }
        found |= {"advantages": advantages, "of_loss": weights, "of_surrogate": -weights * advantages}
        if self._entropy_coeff is not None:
            found["of_entropy"] = -weights * self._entropy_coeff
        if kl_weights is not None:
            found |= {"of_kl": kl_weights, **self._before_columns(block[Columns.ACTION_DIST_INPUTS])}
        return found

    def __call__(self, dist_inputs: torch.Tensor, rows: Rows) -> torch.Tensor:
        """The gradient, [rows, inputs].

        Args:
            dist_inputs: [rows, inputs].
            rows: Rows of `columns`.
        """
        return self._gradient(dist_inputs, rows)

    def _of_logp(self, logp: torch.Tensor, rows: Rows) -> torch.Tensor:
        """The gradient with respect to the action's log-probability, [rows]."""
        ratio = torch.exp(logp - rows["logp"])
        clipped, advantages = torch.clamp(ratio, self._low, self._high), rows["advantages"]
        # The gradient goes to the lesser of the two. If they are equal each gets half,
        # and the clipped one passes none on.
        share = torch.heaviside(advantages * clipped - advantages * ratio, _HALF)
        return torch.where(clipped == ratio, rows["of_surrogate"], rows["of_surrogate"] * share) * ratio

    def _categorical(self, dist_inputs: torch.Tensor, rows: Rows) -> torch.Tensor:
        logits = dist_inputs - dist_inputs.logsumexp(dim=-1, keepdim=True)
        of_logp = self._of_logp(logits.gather(-1, rows["actions"]).squeeze(-1), rows).unsqueeze(-1)
        # KL divergence and entropy, which came later, and then the log-probability.
        of_logits = self._categorical_entropy_and_kl(logits, rows)
        if of_logits is None:
            return (logits.exp() * -of_logp).scatter_add_(-1, rows["actions"], of_logp)
        of_logits.scatter_add_(-1, rows["actions"], of_logp)
        return of_logits + of_logits.neg().sum(-1, keepdim=True) * logits.exp()

    def _categorical_entropy_and_kl(self, logits: torch.Tensor, rows: Rows) -> torch.Tensor | None:
        if "of_entropy" not in rows and "of_kl" not in rows:
            return None
        probs = torch.softmax(logits, dim=-1)
        if "of_entropy" in rows:
            of_products = rows["of_entropy"].neg().unsqueeze(-1)
            of_logits = torch._softmax_backward_data(of_products * logits, probs, -1, logits.dtype)
            of_logits += of_products * probs
        if "of_kl" in rows:
            of_kl = torch.where(probs == 0, 0.0, rows["of_kl"].unsqueeze(-1) * rows["probs_before"])
            return of_logits.sub_(of_kl) if "of_entropy" in rows else of_kl.neg_()
        return of_logits

    def _diag_gaussian(self, dist_inputs: torch.Tensor, rows: Rows) -> torch.Tensor:
        loc, log_scale = dist_inputs.chunk(2, dim=-1)
        scale = log_scale.exp()
        off = rows["actions"] - loc
        twice_var = 2 * scale**2
        z = -(off**2) / twice_var
        logp = (z - scale.log() - _LOG_SQRT_2_PI).sum(-1)
        of_logp = self._of_logp(logp, rows).unsqueeze(-1)
        of_loc = of_logp / twice_var * (2 * off)
        of_scales = [-of_logp * (z / twice_var) * 2 * (2 * scale), -of_logp / scale]
        if "of_kl" in rows:
            of_terms = rows["of_kl"].unsqueeze(-1) * 0.5
            ratio, apart = rows["scale_before"] / scale, (rows["loc_before"] - loc) / scale
            of_ratio = (-of_terms / ratio**2 + of_terms) * (2 * ratio)
            of_apart = of_terms * (2 * apart)
            of_loc = of_loc - of_apart / scale
            of_scales += [-of_ratio * (ratio / scale), -of_apart * (apart / scale)]
        if "of_entropy" in rows:
            of_scales.append(rows["of_entropy"].unsqueeze(-1) / scale)
        *earlier, of_scale = of_scales
        for other in reversed(earlier):
            of_scale = of_scale + other
        return torch.cat((of_loc, of_scale * scale), dim=-1)

    def _any(self, dist_inputs: torch.Tensor, rows: Rows) -> torch.Tensor:
        """By autograd."""
        with torch.enable_grad():
            leaf = dist_inputs.detach().requires_grad_()
            now = self._now.from_logits(leaf)
            before = self._before.from_logits(rows["before"]) if "of_kl" in rows else None
            ratio = torch.exp(now.logp(rows["actions"]) - rows["logp"])
            kl = None if before is None else before.kl(now)
            entropy = now.entropy() if "of_entropy" in rows else None
            advantages = rows["advantages"]
            loss = -torch.min(advantages * ratio, advantages * torch.clamp(ratio, self._low, self._high))
            terms, tops = [loss], [rows["of_loss"]]
            if entropy is not None:
                terms[0] = loss - self._entropy_coeff * entropy
            if kl is not None:
                terms.append(kl)
                tops.append(rows["of_kl"])
            (gradient,) = torch.autograd.grad(terms, [leaf], tops)
        return gradient


_HALF = torch.tensor(0.5)
_LOG_SQRT_2_PI = math.log(math.sqrt(2 * math.pi))


def _categorical_before(dist_inputs: torch.Tensor) -> Rows:
    return {"probs_before": torch.softmax(dist_inputs - dist_inputs.logsumexp(dim=-1, keepdim=True), dim=-1)}


def _diag_gaussian_before(dist_inputs: torch.Tensor) -> Rows:
    loc, log_scale = dist_inputs.chunk(2, dim=-1)
    return {"loc_before": loc, "scale_before": log_scale.exp()}
