"""The gradient of PPO's loss for RLlib's default networks, written out.

With networks of this size autograd takes as long as what it differentiates: it notes every operation down, and goes back over the notes.
The default networks are always the same few layers, and the loss is always the same loss. So here are torch's own formulas for them
(tools/autograd/derivatives.yaml, torch/csrc/autograd/FunctionsManual.cpp), without what multiplies by 1 or adds 0, into vectors that are
there already. Sums are in the order in which autograd's engine adds up, the operation that came last first: the bits are the same.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical, TorchDiagGaussian
from ray.rllib.core.models.torch.encoder import TorchActorCriticEncoder, TorchMLPEncoder
from ray.rllib.core.models.torch.heads import TorchMLPHead
from ray.rllib.core.models.torch.primitives import TorchMLP
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.evaluation.postprocessing import Postprocessing
from torch import nn

Layers = list[tuple[nn.Linear, type[nn.Module] | None]]
"""With the activation after each."""

Gradients = Mapping[torch.Tensor, torch.Tensor]
"""Where the gradient of each parameter goes: contiguous, of its shape."""

_ACTIVATIONS: dict[type[nn.Module], Callable[[torch.Tensor], torch.Tensor]] = {nn.Tanh: torch.tanh_, nn.ReLU: torch.relu_}
_SLOPES: dict[type[nn.Module], Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    nn.Tanh: torch.ops.aten.tanh_backward.default,
    nn.ReLU: functools.partial(torch.ops.aten.threshold_backward.default, threshold=0),
}
"""How a gradient gets through an activation, by what that put out."""


class Perceptron:
    """Linear layers, with or without activations in between."""

    def __init__(self, layers: Layers, gradients: Gradients) -> None:
        self._layers = [_Layer(linear, activation, gradients) for linear, activation in layers]

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """[rows, inputs] to [rows, outputs]. What is in between is overwritten by the next call, the outputs are not."""
        for layer in self._layers[:-1]:
            values = layer.forward(values, keep=True)
        return self._layers[-1].forward(values, keep=False)

    def backward(self, gradient: torch.Tensor, further: bool) -> torch.Tensor:
        """From the gradient of the last outputs to that of the parameters, and to that of the inputs if it goes further."""
        for layer in reversed(self._layers):
            gradient = layer.backward(gradient, further or layer is not self._layers[0])
        return gradient


class _Layer:
    def __init__(self, linear: nn.Linear, activation: type[nn.Module] | None, gradients: Gradients) -> None:
        self._weight, self._bias = linear.weight.detach(), None if linear.bias is None else linear.bias.detach()
        self._transposed = self._weight.t()
        self._of_weight, self._of_bias = gradients[linear.weight], None if linear.bias is None else gradients[linear.bias]
        self._activate = None if activation is None else _ACTIVATIONS[activation]
        self._slope = None if activation is None else _SLOPES[activation]
        self._inputs = self._outputs = self._kept = self._back = self._weight.new_empty(0, 0)

    def forward(self, values: torch.Tensor, keep: bool) -> torch.Tensor:
        if len(self._kept) != len(values) and keep:
            self._kept = values.new_empty(len(values), len(self._weight))
        out = self._kept if keep else None
        if self._bias is None:
            outputs = torch.mm(values, self._transposed, out=out)
        else:
            outputs = torch.addmm(self._bias, values, self._transposed, out=out)
        self._inputs, self._outputs = values, outputs
        return outputs if self._activate is None else self._activate(outputs)

    def backward(self, gradient: torch.Tensor, further: bool) -> torch.Tensor:
        if self._slope is not None:
            gradient = self._slope(gradient, self._outputs)
        torch.mm(gradient.t(), self._inputs, out=self._of_weight)
        if self._of_bias is not None:
            torch.sum(gradient, 0, out=self._of_bias)
        if not further:
            return gradient
        if len(self._back) != len(gradient):
            self._back = torch.empty_like(self._inputs)
        return torch.mm(gradient, self._weight, out=self._back)


class DefaultNetworks:
    """`DefaultPPOTorchRLModule` (algorithms/ppo/torch/default_ppo_torch_rl_module.py) where all of it are perceptrons.

    Args:
        module: One that `is_known`.
        gradients: For all its parameters.
    """

    def __init__(self, module: Any, gradients: Gradients) -> None:
        parts = {name: Perceptron(layers, gradients) for name, layers in _perceptrons(module).items() if layers}
        self._trunk, self._policy, self._value = parts.get("trunk"), parts["policy"], parts["value"]
        self._bounds = (-module.pi.log_std_clip_param_const, module.pi.log_std_clip_param_const) if module.pi.clip_log_std else None
        self._log_stds = torch.empty(0)

    @staticmethod
    def is_known(module: TorchRLModule, parameters: Sequence[nn.Parameter]) -> bool:
        """Whether a module is a default one of perceptrons, with these parameters and nothing special about them."""
        own = type(module)
        stock = (
            own._forward_train is DefaultPPOTorchRLModule._forward_train
            and own.compute_values is DefaultPPOTorchRLModule.compute_values
            and type(module.encoder) is TorchActorCriticEncoder
            and type(module.pi) is type(module.vf) is TorchMLPHead
            and not module.vf.clip_log_std
            and not torch.is_autocast_enabled("cpu")
            and not torch.is_autocast_enabled("cuda")
        )
        hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        if not stock or "_forward_train" in vars(module) or any(getattr(part, name) for part in module.modules() for name in hooks):
            return False
        perceptrons = _perceptrons(module)
        linear = [layer for layers in perceptrons.values() for layer, _ in layers or ()]
        known = [p for layer in linear for p in layer.parameters()]
        hooked = any(p._backward_hooks or p._post_accumulate_grad_hooks for p in known)
        usual = not hooked and all(p.dtype == torch.float32 and p.requires_grad for p in known)
        return None not in perceptrons.values() and usual and len(known) == len(parameters) and set(known) == set(parameters)

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs of the action distribution [rows, inputs], and values [rows], of observations [rows, ...]."""
        values = observations if self._trunk is None else self._trunk.forward(observations)
        dist_inputs = self._policy.forward(values)
        if self._bounds is not None:
            means, self._log_stds = torch.chunk(dist_inputs, 2, dim=-1)
            dist_inputs = torch.cat((means, torch.clamp(self._log_stds, *self._bounds)), dim=-1)
        return dist_inputs, self._value.forward(values).squeeze(-1)

    def backward(self, of_dist_inputs: torch.Tensor, of_values: torch.Tensor) -> None:
        """From the gradients of what `forward` returned last to those of the parameters."""
        if self._bounds is not None:
            means, log_stds = torch.chunk(of_dist_inputs, 2, dim=-1)
            inside = (self._log_stds >= self._bounds[0]).logical_and_(self._log_stds <= self._bounds[1])
            of_dist_inputs = torch.cat((means, torch.where(inside, log_stds, 0.0)), dim=-1)
        shared = self._trunk is not None
        one, other = self._value.backward(of_values.unsqueeze(-1), shared), self._policy.backward(of_dist_inputs, shared)
        if self._trunk is not None:
            self._trunk.backward(one + other, further=False)


def _perceptrons(module: Any) -> dict[str, Layers | None]:
    """What observations go through, what then leads to the action distribution, and what to the value; None if it is something else."""
    encoder, pi, vf = module.encoder, module.pi.net, module.vf.net
    encoders = [encoder.encoder] if encoder.config.shared else [encoder.actor_encoder, encoder.critic_encoder]
    if any(type(part) is not TorchMLPEncoder for part in encoders):
        return {"policy": None}
    first, last = encoders[0].net, encoders[-1].net
    if encoder.config.shared:
        return {"trunk": _layers(first), "policy": _layers(pi), "value": _layers(vf)}
    return {"policy": _layers(first, pi), "value": _layers(last, vf)}


def _layers(*perceptrons: TorchMLP) -> Layers | None:
    found: Layers = []
    for part in [part for perceptron in perceptrons for part in perceptron.mlp]:
        if type(part) is nn.Linear:
            found.append((part, None))
        elif type(part) in _SLOPES and found and found[-1][1] is None:
            found[-1] = found[-1][0], type(part)
        else:
            return None
    return found


Rows = dict[str, torch.Tensor]
"""Some rows of a batch: name of a column to [rows, ...]."""


class PolicyGradient:
    """The gradient of PPO's loss (algorithms/ppo/torch/ppo_torch_learner.py) with respect to the inputs of the action distribution.

    Args:
        now: RLlib's class of the distribution that is learned.
        before: Of the one that sampled.
        clip: Their ratio is clipped to what is between 1 - clip and 1 + clip.
        entropy_coeff: What entropy counts in the loss; 0 leaves it out.
    """

    def __init__(self, now: Any, before: Any, clip: float, entropy_coeff: Any) -> None:
        self._now, self._before = now, before
        self._low, self._high = 1 - clip, 1 + clip
        self._entropy_coeff = entropy_coeff if bool(entropy_coeff != 0) else None
        self._gradient: Callable[[torch.Tensor, Rows], torch.Tensor] = self._any
        self._of_before: Callable[[torch.Tensor], Rows] = lambda dist_inputs: {"before": dist_inputs}
        if now is before is TorchCategorical:
            self._gradient, self._of_before = self._categorical, _categorical_before
        elif now is before is TorchDiagGaussian:
            self._gradient, self._of_before = self._diag_gaussian, _diag_gaussian_before

    def columns(self, block: Rows, weights: torch.Tensor, kl_weights: torch.Tensor | None) -> Rows:
        """What does not depend on the weights of the networks, for many rows at once.

        Args:
            block: Columns of RLlib's batch.
            weights: [rows], what a row's loss counts.
            kl_weights: [rows], what its KL divergence counts; None if it is not in the loss.

        Returns:
            The columns that `__call__` wants.
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
            found |= {"of_kl": kl_weights, **self._of_before(block[Columns.ACTION_DIST_INPUTS])}
        return found

    def __call__(self, dist_inputs: torch.Tensor, rows: Rows) -> torch.Tensor:
        """The gradient, [rows, inputs].

        Args:
            dist_inputs: [rows, inputs].
            rows: Of `columns`.
        """
        return self._gradient(dist_inputs, rows)

    def _of_logp(self, logp: torch.Tensor, rows: Rows) -> torch.Tensor:
        """From the surrogate's gradient to that of the action's log-probability, [rows]."""
        ratio = torch.exp(logp - rows["logp"])
        clipped, advantages = torch.clamp(ratio, self._low, self._high), rows["advantages"]
        # The lesser of the two counts, and half of it is passed on to each if they are equal, of which the clipped one keeps its half.
        share = torch.heaviside(advantages * clipped - advantages * ratio, _HALF)
        return torch.where(clipped == ratio, rows["of_surrogate"], rows["of_surrogate"] * share) * ratio

    def _categorical(self, dist_inputs: torch.Tensor, rows: Rows) -> torch.Tensor:
        logits = dist_inputs - dist_inputs.logsumexp(dim=-1, keepdim=True)
        of_logp = self._of_logp(logits.gather(-1, rows["actions"]).squeeze(-1), rows).unsqueeze(-1)
        # Of the logits: those of KL divergence and entropy, which came later, and then that of the log-probability.
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
