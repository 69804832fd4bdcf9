"""DQN's default networks (algorithms/dqn/torch/default_dqn_torch_rl_module.py) where they are perceptrons."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.dqn.dqn_learner import QF_NEXT_PREDS, QF_PREDS, QF_TARGET_NEXT_PREDS
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.models.torch.encoder import TorchMLPEncoder
from ray.rllib.core.models.torch.heads import TorchMLPHead

from experiments.fast.networks.perceptrons import (
    BranchedPerceptron,
    Layers,
    forward_function,
    has_hooks,
    is_differentiable,
    is_overridden,
    layers_of,
)
from experiments.preprocessing.modules import base_of, observations_function

Tensor = torch.Tensor

_METHODS = ("_forward_exploration", "_forward_train", "_qf_forward_helper", "compute_q_values", "forward_target")


class QNetworks:
    """The networks of a `DefaultDQNTorchRLModule` of perceptrons, without a distribution of returns.

    Weights may change; parameters that replace others are not used.
    """

    def __init__(self, module: DefaultDQNTorchRLModule) -> None:
        self._module, self._seen = module, observations_function(module)
        self._q_values = _q_function(module, "")
        self._target_q_values = _q_function(module, "_target_") if hasattr(module, "_target_encoder") else None
        self._main: BranchedPerceptron | None = None  # made with the first training batch: an env runner has none
        self._gradients: dict[Tensor, Tensor] = {}
        self._t: int | None = None
        self._allowed: list[Tensor] = []

    @staticmethod
    def of(module: Any) -> "QNetworks | None":
        """Those of a module; None if it is of another kind, or overrides something."""
        if not isinstance(module, DefaultDQNTorchRLModule) or module.num_atoms > 1:
            return None
        if is_overridden(module, base_of(module, DefaultDQNTorchRLModule), *_METHODS):
            return None
        prefixes = ("", "_target_") if hasattr(module, "_target_encoder") else ("",)
        networks = [getattr(module, prefix + name) for prefix in prefixes for name in _names(module)]
        return QNetworks(module) if all(map(_is_known, networks)) else None

    def explore(self, batch: dict[str, Any], t: int) -> dict[str, Any]:
        """As the module's `_forward_exploration`: epsilon-greedy actions [N], with the same random numbers."""
        q_values = self._q_values(self._seen(batch[Columns.OBS]))
        if t != self._t:
            self._module.epsilon_schedule.update(t)
            self._t = t
        epsilon = self._module.epsilon_schedule.get_current_value()
        allowed = (torch.nan_to_num(q_values, neginf=0.0) != 0.0).float()
        self._allowed.append(allowed)
        random = (allowed / torch.empty_like(allowed).exponential_(1)).argmax(dim=-1)  # `torch.multinomial`, without its checks
        chosen = torch.where(torch.rand(len(q_values), device=random.device) < epsilon, random, torch.argmax(q_values, dim=-1))
        return {Columns.ACTIONS: chosen}

    def exploit(self, batch: dict[str, Any]) -> dict[str, Any]:
        """As the module's `_forward_inference`: the greedy actions [N]."""
        return {Columns.ACTIONS: self._q_values(self._seen(batch[Columns.OBS])).argmax(dim=-1)}

    def check_explored(self) -> None:
        """Check the Q values of all calls of `explore` since the last check.

        Raises:
            RuntimeError: All of an observation's are NaN, zero or minus infinity: the error of `torch.multinomial`, which RLlib calls.
        """
        checked, self._allowed = self._allowed, []
        for allowed in checked:
            flags = allowed.cpu().numpy()
            if np.count_nonzero(flags) < flags.size and not flags.any(axis=-1).all():
                torch.multinomial(allowed, 1)

    def train(self, batch: dict[str, Any]) -> tuple[dict[str, Tensor], Callable[[Tensor], None]]:
        """As the module's `_forward_train`.

        Args:
            batch: With observations and next ones, [B, ...] each.

        Returns:
            What that returns, and a function that sets the parameters' gradients given a loss made from it.
        """
        assert self._target_q_values is not None
        main = self._main = self._main or self._make_differentiable()
        observations, after = self._seen(batch[Columns.OBS]), self._seen(batch[Columns.NEXT_OBS])
        double = self._module.uses_double_q
        with torch.no_grad():
            outputs = main.forward(torch.cat([observations, after], dim=0) if double else observations)
            targets = self._target_q_values(after)
            q_values = _combine(outputs)
        q_values.requires_grad_()
        found = {QF_TARGET_NEXT_PREDS: targets}
        if double:
            found[QF_PREDS], found[QF_NEXT_PREDS] = torch.chunk(q_values, chunks=2, dim=0)
        else:
            found[QF_PREDS] = q_values

        def backward(loss: Tensor) -> None:
            (gradient,) = torch.autograd.grad(loss, [q_values])
            with torch.no_grad():
                main.backward(_gradients_of_heads(gradient, outputs))
            for parameter, its_gradient in self._gradients.items():
                parameter.grad = its_gradient

        return found, backward

    def _make_differentiable(self) -> BranchedPerceptron:
        trunk, *heads = _layers(self._module, "")
        self._gradients = {p: torch.empty_like(p) for layers in (trunk, *heads) for linear, _ in layers for p in linear.parameters()}
        return BranchedPerceptron(trunk, heads, self._gradients)


def _names(module: DefaultDQNTorchRLModule) -> list[str]:
    """The encoder, and its heads: advantages and the state's value of a dueling network, Q values of another."""
    return ["encoder", "af", "vf"] if module.uses_dueling else ["encoder", "af"]


def _is_known(network: Any) -> bool:
    if type(network) not in (TorchMLPEncoder, TorchMLPHead) or getattr(network, "clip_log_std", False) or has_hooks(network):
        return False
    layers = layers_of(network.net)
    return bool(layers) and is_differentiable(layers or [])


def _layers(module: DefaultDQNTorchRLModule, prefix: str) -> list[Layers]:
    return [layers_of(getattr(module, prefix + name).net) or [] for name in _names(module)]


def _q_function(module: DefaultDQNTorchRLModule, prefix: str) -> Callable[[Tensor], Tensor]:
    """From observations [B, ...] to Q values [B, actions], with nothing kept for a backward pass."""
    encoder, *heads = map(forward_function, _layers(module, prefix))

    def q_values(observations: Tensor) -> Tensor:
        encoded = encoder(observations)
        return _combine([head(encoded) for head in heads])

    return q_values


def _combine(heads: list[Tensor]) -> Tensor:
    """Q values from the heads' outputs, as `DefaultDQNTorchRLModule._qf_forward_helper`."""
    if len(heads) == 1:
        return heads[0]
    advantages, value = heads
    return advantages - torch.nan_to_num(advantages, neginf=torch.nan).nanmean(dim=-1, keepdim=True) + value


def _gradients_of_heads(gradient: Tensor, heads: list[Tensor]) -> list[Tensor]:
    """The gradients of the heads' outputs from that of the Q values."""
    if len(heads) == 1:
        return [gradient]
    counted = heads[0] != -torch.inf  # the others are no allowed actions
    total = gradient.sum(dim=-1, keepdim=True)
    return [gradient - total / counted.sum(dim=-1, keepdim=True) * counted, total]
