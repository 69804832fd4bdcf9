"""DQN's default networks (algorithms/dqn/torch/default_dqn_torch_rl_module.py) where they are perceptrons."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.models.torch.encoder import TorchMLPEncoder
from ray.rllib.core.models.torch.heads import TorchMLPHead

from experiments.fast.masks import Masked
from experiments.fast.networks.known import base_of, mask_function, observations_function
from experiments.fast.networks.perceptrons import (
    BranchedPerceptron,
    Gradients,
    Layers,
    forward_function,
    has_hooks,
    is_differentiable,
    is_overridden,
    layers_of,
)

Tensor = torch.Tensor

_METHODS = ("_forward_exploration", "_forward_train", "_qf_forward_helper", "compute_q_values", "forward_target")


class QValues(NamedTuple):
    """Q values of a training batch, [B, actions] each.

    Attributes:
        now: Q values of the observations.
        after: Q values of the next ones; None without double Q learning.
        target: Q values of the next ones, by the target network.
    """

    now: Tensor
    after: Tensor | None
    target: Tensor


class QNetworks:
    """The networks of a `DefaultDQNTorchRLModule` of perceptrons, without a distribution of returns.

    Weights may change; parameters that replace others are not used.
    """

    def __init__(self, module: DefaultDQNTorchRLModule) -> None:
        self._module, self._seen = module, observations_function(module)
        self._mask = mask_function(module)
        self._heads = _heads_function(module, "")
        self._target_heads = _heads_function(module, "_target_") if hasattr(module, "_target_encoder") else None
        self._main: BranchedPerceptron | None = None
        self._outputs: list[Tensor] = []
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
        q_values = self._q_values(batch[Columns.OBS])
        if t != self._t:
            self._module.epsilon_schedule.update(t)
            self._t = t
        epsilon = self._module.epsilon_schedule.get_current_value()
        allowed = (torch.nan_to_num(q_values, neginf=0.0) != 0.0).float()
        self._allowed.append(allowed)
        if isinstance(self._module, Masked):  # at once: of NaN any action comes, be it ruled out
            self.check_explored()
        # `torch.multinomial`, without its checks
        random = (allowed / torch.empty_like(allowed).exponential_(1)).argmax(dim=-1)
        chosen = torch.where(
            torch.rand(len(q_values), device=random.device) < epsilon, random, torch.argmax(q_values, dim=-1)
        )
        return {Columns.ACTIONS: chosen}

    def exploit(self, batch: dict[str, Any]) -> dict[str, Any]:
        """As the module's `_forward_inference`: the greedy actions [N]."""
        return {Columns.ACTIONS: self._q_values(batch[Columns.OBS]).argmax(dim=-1)}

    def _q_values(self, observations: Any) -> Tensor:
        """Q values [B, actions], where actions that are ruled out have minus infinity."""
        heads = self._heads(self._seen(observations))
        q_values = _combine(heads)
        if len(heads) > 1 and not math.isfinite(q_values.sum().item()):
            advantages, value = heads
            mean = torch.nan_to_num(advantages, neginf=torch.nan).nanmean(dim=-1, keepdim=True)
            q_values = advantages - mean + value
        return self._mask(q_values, observations)

    def check_explored(self) -> None:
        """Check the Q values of all calls of `explore` since the last check.

        Raises:
            RuntimeError: All of an observation's are NaN, zero or minus infinity: the error of `torch.multinomial`,
                which RLlib calls.
        """
        checked, self._allowed = self._allowed, []
        for allowed in checked:
            flags = allowed.cpu().numpy()
            if np.count_nonzero(flags) < flags.size and not flags.any(axis=-1).all():
                torch.multinomial(allowed, 1)

    def parameters(self) -> set[Tensor]:
        """Those that are trained."""
        return {
            parameter
            for layers in _layers(self._module, "")
            for linear, _ in layers
            for parameter in linear.parameters()
        }

    def train_into(self, gradients: Gradients) -> None:
        """Prepare `forward` and `backward`: with this, where `backward` writes the gradients of `parameters` to."""
        trunk, *heads = _layers(self._module, "")
        self._main = BranchedPerceptron(trunk, heads, gradients)

    def forward(self, batch: dict[str, Any]) -> QValues | None:
        """As the module's `_forward_train`, of observations and next ones; None if not all values are finite,
        but for those of next actions that are ruled out.
        """
        assert self._main is not None and self._target_heads is not None
        observations, after = self._seen(batch[Columns.OBS]), self._seen(batch[Columns.NEXT_OBS])
        double = self._module.uses_double_q
        self._outputs = self._main.forward(torch.cat([observations, after], dim=0) if double else observations)
        q_values, target = _combine(self._outputs), _combine(self._target_heads(after))
        if not math.isfinite((q_values.sum() + target.sum()).item()):
            return None
        now, later = q_values.chunk(2) if double else (q_values, None)
        next_observations = batch[Columns.NEXT_OBS]
        later = None if later is None else self._mask(later, next_observations)
        return QValues(now, later, self._mask(target, next_observations))

    def backward(self, actions: Tensor, gradient: Tensor) -> None:
        """Compute the parameters' gradients, given that of the last Q values `now` of the actions.

        Args:
            actions: [B, 1].
            gradient: [B].
        """
        assert self._main is not None
        # With zeros for the next observations, whose Q values no loss is made from: without them,
        # sums would be in another order.
        of_q_values = torch.zeros_like(self._outputs[0]).scatter_add_(-1, actions, gradient.unsqueeze(-1))
        self._main.backward(_gradients_of_heads(of_q_values, len(self._outputs)))


def _names(module: DefaultDQNTorchRLModule) -> list[str]:
    """The encoder, and its heads: advantages and the state's value of a dueling network, Q values of another."""
    return ["encoder", "af", "vf"] if module.uses_dueling else ["encoder", "af"]


def _is_known(network: Any) -> bool:
    if (
        type(network) not in (TorchMLPEncoder, TorchMLPHead)
        or getattr(network, "clip_log_std", False)
        or has_hooks(network)
    ):
        return False
    layers = layers_of(network.net)
    return bool(layers) and is_differentiable(layers or [])


def _layers(module: DefaultDQNTorchRLModule, prefix: str) -> list[Layers]:
    return [layers_of(getattr(module, prefix + name).net) or [] for name in _names(module)]


def _heads_function(module: DefaultDQNTorchRLModule, prefix: str) -> Callable[[Tensor], list[Tensor]]:
    """From observations [B, ...] to the heads' outputs, with nothing kept for a backward pass."""
    encoder, *heads = map(forward_function, _layers(module, prefix))

    def outputs(observations: Tensor) -> list[Tensor]:
        encoded = encoder(observations)
        return [head(encoded) for head in heads]

    return outputs


def _combine(heads: list[Tensor]) -> Tensor:
    """Q values from the heads' outputs, as `DefaultDQNTorchRLModule._qf_forward_helper` where all are finite."""
    if len(heads) == 1:
        return heads[0]
    advantages, value = heads
    return advantages - advantages.mean(dim=-1, keepdim=True) + value


def _gradients_of_heads(gradient: Tensor, heads: int) -> list[Tensor]:
    """The gradients of the heads' outputs from that of the Q values, all of which are finite."""
    if heads == 1:
        return [gradient]
    total = gradient.sum(dim=-1, keepdim=True)
    return [gradient - total / gradient.shape[-1], total]
