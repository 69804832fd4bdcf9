"""DQN's default networks as lists of layers: forward and backward passes without modules, dictionaries and a graph.

The operations are those that RLlib's modules and torch's autograd run, on the same numbers and in the same order, so that outputs and
gradients are the same to the bit.
"""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from ray.rllib.algorithms.dqn.dqn_learner import QF_NEXT_PREDS, QF_PREDS, QF_TARGET_NEXT_PREDS
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.models.torch.encoder import TorchMLPEncoder
from ray.rllib.core.models.torch.heads import TorchMLPHead
from torch import nn

Tensor = torch.Tensor

_Function = Callable[..., Tensor]
_ACTIVATIONS: dict[type, tuple[_Function, _Function]] = {
    nn.Tanh: (torch.tanh, torch.ops.aten.tanh_backward),
    nn.ReLU: (torch.relu, lambda grad, output: torch.ops.aten.threshold_backward(grad, output, 0)),
}
"""Activations, and from the gradient of their output and the output to that of their input."""

_METHODS = ("_forward_exploration", "_forward_train", "_qf_forward_helper", "compute_q_values", "forward_target")


class Perceptron:
    """A chain of linear layers, each with an activation behind it or none."""

    def __init__(self, network: nn.Sequential) -> None:
        layers: list[nn.Module] = list(network)
        self._layers: list[tuple[Tensor, Tensor, tuple[_Function, _Function] | None]] = []
        for number, layer in enumerate(layers):
            if isinstance(layer, nn.Linear):
                after = layers[number + 1] if number + 1 < len(layers) else None
                self._layers.append((layer.weight, layer.bias, _ACTIVATIONS.get(type(after))))

    @staticmethod
    def can_be(network: Any) -> bool:
        """Whether a network is such a chain."""
        if type(network) not in (TorchMLPEncoder, TorchMLPHead) or getattr(network, "clip_log_std", False):
            return False
        linear = [type(layer) is nn.Linear for layer in network.net.mlp]
        activations = [layer for layer in network.net.mlp if type(layer) is not nn.Linear]
        return (
            linear[0]
            and all(one or two for one, two in itertools.pairwise(linear))
            and all(type(layer) in _ACTIVATIONS for layer in activations)
            and all(layer.bias is not None for layer in network.net.mlp if type(layer) is nn.Linear)
            and not any(part._forward_hooks or part._forward_pre_hooks or part._backward_hooks for part in network.modules())
        )

    def forward(self, values: Tensor, kept: list[tuple[Tensor, Tensor]] | None = None) -> Tensor:
        """Outputs [B, ...] for inputs [B, ...]; what `backward` needs is put into `kept`."""
        for weight, bias, activation in self._layers:
            inputs, values = values, torch.nn.functional.linear(values, weight, bias)
            if activation is not None:
                values = activation[0](values)
            if kept is not None:
                kept.append((inputs, values))
        return values

    def backward(self, grad: Tensor, kept: list[tuple[Tensor, Tensor]], to_inputs: bool) -> Tensor:
        """Set the weights' gradients, given that of the outputs. Returns that of the inputs if it is asked for."""
        for number in reversed(range(len(self._layers))):
            weight, bias, activation = self._layers[number]
            inputs, outputs = kept[number]
            if activation is not None:
                grad = activation[1](grad, outputs)
            bias.grad = grad.sum(0)
            weight.grad = grad.t().mm(inputs)
            if number or to_inputs:
                grad = grad.mm(weight)
        return grad


class _Network:
    """An encoder with a head for advantages, or Q values, and one for the state's value if it is a dueling network."""

    def __init__(self, encoder: Any, advantages: Any, value: Any) -> None:
        self.encoder, self.advantages = Perceptron(encoder.net.mlp), Perceptron(advantages.net.mlp)
        self.value = None if value is None else Perceptron(value.net.mlp)

    def heads(self, observations: Tensor, kept: list[list[tuple[Tensor, Tensor]]] | None = None) -> list[Tensor]:
        """What the heads give."""
        encoder, advantages, value = kept or (None, None, None)
        encoded = self.encoder.forward(observations, encoder)
        found = [self.advantages.forward(encoded, advantages)]
        return found if self.value is None else [*found, self.value.forward(encoded, value)]

    def backward(self, grads: list[Tensor], kept: list[list[tuple[Tensor, Tensor]]]) -> None:
        """Set the weights' gradients, given those of what the heads gave."""
        grad = self.advantages.backward(grads[0], kept[1], to_inputs=True)
        if self.value is not None:
            grad = grad + self.value.backward(grads[1], kept[2], to_inputs=True)
        self.encoder.backward(grad, kept[0], to_inputs=False)


def _q_values(heads: list[Tensor]) -> Tensor:
    """As `DefaultDQNTorchRLModule._qf_forward_helper`."""
    if len(heads) == 1:
        return heads[0]
    advantages, value = heads
    return advantages - torch.nan_to_num(advantages, neginf=torch.nan).nanmean(dim=-1, keepdim=True) + value


def _grads_of_heads(grad: Tensor, heads: list[Tensor]) -> list[Tensor]:
    """From the gradient of `_q_values` to those of what the heads gave."""
    if len(heads) == 1:
        return [grad]
    counted = heads[0] != -torch.inf  # the others are no allowed actions
    total = grad.sum(dim=-1, keepdim=True)
    return [grad - total / counted.sum(dim=-1, keepdim=True) * counted, total]


class QNetworks:
    """The networks of a `DefaultDQNTorchRLModule` of multilayer perceptrons, without a distribution of returns.

    Weights may change; parameters that are put in the place of others are not seen.
    """

    def __init__(self, module: DefaultDQNTorchRLModule) -> None:
        self._module = module
        dueling = module.uses_dueling
        self._main = _Network(module.encoder, module.af, module.vf if dueling else None)
        self._target = None
        if hasattr(module, "_target_encoder"):
            self._target = _Network(module._target_encoder, module._target_af, module._target_vf if dueling else None)
        self._t: int | None = None

    @staticmethod
    def of(module: Any) -> "QNetworks | None":
        """Those of a module; None if it is another one, or has something of its own."""
        if not isinstance(module, DefaultDQNTorchRLModule) or module.num_atoms > 1:
            return None
        if any(getattr(type(module), name) is not getattr(DefaultDQNTorchRLModule, name) for name in _METHODS):
            return None
        names = ["encoder", "af", *(["vf"] if module.uses_dueling else [])]
        names += [f"_target_{name}" for name in names if hasattr(module, f"_target_{name}")]
        return QNetworks(module) if all(Perceptron.can_be(getattr(module, name)) for name in names) else None

    def explore(self, batch: dict[str, Any], t: int) -> dict[str, Any]:
        """As the module's `_forward_exploration`: epsilon-greedy actions [N], with the same random numbers."""
        q_values = _q_values(self._main.heads(batch[Columns.OBS]))
        if t != self._t:
            self._module.epsilon_schedule.update(t)
            self._t = t
        epsilon = self._module.epsilon_schedule.get_current_value()
        allowed = (torch.nan_to_num(q_values, neginf=0.0) != 0.0).float()
        random = (allowed / torch.empty_like(allowed).exponential_(1)).argmax(dim=-1)  # `torch.multinomial`, without its checks
        chosen = torch.where(torch.rand(len(q_values), device=random.device) < epsilon, random, torch.argmax(q_values, dim=-1))
        return {Columns.ACTIONS: chosen}

    def train(self, batch: dict[str, Any]) -> tuple[dict[str, Tensor], Callable[[Tensor], None]]:
        """As the module's `_forward_train`.

        Args:
            batch: With observations and next ones, [B, ...] each.

        Returns:
            What that returns, and a function that sets the weights' gradients given a loss made from it.
        """
        assert self._target is not None
        observations, after = batch[Columns.OBS], batch[Columns.NEXT_OBS]
        double = self._module.uses_double_q
        kept: list[list[tuple[Tensor, Tensor]]] = [[], [], []]
        with torch.no_grad():
            heads = self._main.heads(torch.cat([observations, after], dim=0) if double else observations, kept)
            targets = _q_values(self._target.heads(after))
            q_values = _q_values(heads)
        q_values.requires_grad_()
        found = {QF_TARGET_NEXT_PREDS: targets}
        if double:
            found[QF_PREDS], found[QF_NEXT_PREDS] = torch.chunk(q_values, chunks=2, dim=0)
        else:
            found[QF_PREDS] = q_values

        def backward(loss: Tensor) -> None:
            (grad,) = torch.autograd.grad(loss, [q_values])
            with torch.no_grad():
                self._main.backward(_grads_of_heads(grad, heads), kept)

        return found, backward
