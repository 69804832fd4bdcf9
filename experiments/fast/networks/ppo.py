"""The default networks of PPO, IMPALA and APPO (algorithms/ppo/torch/default_ppo_torch_rl_module.py)
where they are perceptrons.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.models.torch.encoder import TorchActorCriticEncoder, TorchMLPEncoder
from ray.rllib.core.models.torch.heads import TorchFreeLogStdMLPHead, TorchMLPHead
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import nn

from experiments.fast.masks import LEAST
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
from experiments.fast.networks.state_dependent import StateDependentHead, StateDependentStds

_POLICY_HEADS = (TorchMLPHead, TorchFreeLogStdMLPHead)
_FREE_HEADS = (TorchFreeLogStdMLPHead, StateDependentHead)
"""With a parameter `log_std` of their own."""


def plain_policy(module: TorchRLModule) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
    """`_forward_exploration` and `_forward_inference` of a default module, without the value function.

    Args:
        module: An env runner's. Its weights may change; parameters that replace others are not used.

    Returns:
        From a batch with observations [N, ...] to one with the inputs of the action distribution;
        None for any other module.
    """
    encoder = _encoder_of(module)
    return None if encoder is None else policy_of(module, encoder)


def policy_layers(module: TorchRLModule) -> Layers | None:
    """The layers of a default module's policy; None for any other module, and where the policy is no perceptron."""
    encoder = _encoder_of(module)
    return None if encoder is None else _layers_of(module, encoder)


def _encoder_of(module: TorchRLModule) -> Any:
    """The encoder of a default module's policy; None for any other module."""
    stock = (
        isinstance(module, DefaultPPOTorchRLModule)
        and not is_overridden(
            module, base_of(module, DefaultPPOTorchRLModule), "_forward", "_forward_exploration", "_forward_inference"
        )
        and type(module.encoder) is TorchActorCriticEncoder
        and type(module.pi) in _POLICY_HEADS
    )
    if not stock:
        return None
    return module.encoder.encoder if module.encoder.config.shared else module.encoder.actor_encoder


def _layers_of(module: Any, encoder: Any) -> Layers | None:
    plain = type(encoder) is TorchMLPEncoder and not has_hooks(module)
    return layers_of(encoder.net, module.pi.net) if plain else None


def policy_of(module: Any, encoder: Any) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
    """As `plain_policy`, with this encoder of the policy; None if it is no perceptron, or the module has hooks."""
    layers = _layers_of(module, encoder)
    if layers is None:
        return None
    actor, seen, log_stds = forward_function(layers), observations_function(module), LogStds(module.pi)
    mask = mask_function(module)

    def policy(batch: dict[str, Any]) -> dict[str, Any]:
        observations = batch[Columns.OBS]
        return {Columns.ACTION_DIST_INPUTS: mask(log_stds.complete(actor(seen(observations))), observations)}

    return policy


class LogStds:
    """The logarithmic standard deviations among the inputs of a Gaussian policy's distribution, as RLlib's heads make
    them (core/models/torch/heads.py): outputs of the network or, if they are free, a parameter of their own; clipped or
    not. Nothing changes of policies without any.

    Args:
        head: A policy's, of `_POLICY_HEADS`. Its parameter may change, not be replaced.
        gradients: Gradients of all its parameters, if there is to be a backward pass.
    """

    of_features = None
    """As of `StateDependentStds`."""

    def __init__(self, head: Any, gradients: Gradients | None = None) -> None:
        self._free = head.log_std.detach() if type(head) is TorchFreeLogStdMLPHead else None
        self._gradient = None if self._free is None or gradients is None else gradients[head.log_std]
        self._bounds = (-head.log_std_clip_param_const, head.log_std_clip_param_const) if head.clip_log_std else None
        self._unclipped = torch.empty(0)

    def complete(self, outputs: torch.Tensor, features: torch.Tensor | None = None) -> torch.Tensor:
        """The network's outputs, [rows, outputs], as inputs of the distribution.

        Args:
            outputs: Of the network.
            features: What the last layer made them of, which make no difference here.
        """
        if self._free is not None:
            log_stds = self._free if self._bounds is None else torch.clamp(self._free, *self._bounds)
            return torch.cat([outputs, log_stds.unsqueeze(0).repeat([len(outputs), 1])], dim=1)
        if self._bounds is None:
            return outputs
        means, self._unclipped = torch.chunk(outputs, 2, dim=-1)
        return torch.cat((means, torch.clamp(self._unclipped, *self._bounds)), dim=-1)

    def backward(self, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient of the network's outputs, from that of what `complete` made of them last;
        sets that of a free parameter.
        """
        if self._free is None and self._bounds is None:
            return gradient
        means, log_stds = torch.chunk(gradient, 2, dim=-1)
        if self._free is None:
            return torch.cat((means, self._inside(self._unclipped, log_stds)), dim=-1)
        assert self._gradient is not None, "made for a backward pass"
        self._gradient.copy_(self._inside(self._free, log_stds.sum(0)))
        return means

    def _inside(self, values: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """A gradient where values are not clipped."""
        if self._bounds is None:
            return gradient
        return torch.where((values >= self._bounds[0]).logical_and_(values <= self._bounds[1]), gradient, 0.0)


def stds_of(head: Any, gradients: Gradients) -> LogStds | StateDependentStds:
    """The standard deviations of a policy's head, with their gradients."""
    kind = StateDependentStds if type(head) is StateDependentHead else LogStds
    return kind(head, gradients)


class DefaultNetworks:
    """Policy and value function of a `DefaultPPOTorchRLModule` of perceptrons, with their gradients.

    Args:
        module: One that `is_known`.
        gradients: Gradients of all its parameters.
    """

    def __init__(self, module: Any, gradients: Gradients) -> None:
        trunk, policy, value = _layers(module) or ([], [], [])
        self._networks = BranchedPerceptron(trunk, [policy, value], gradients)
        self._log_stds = stds_of(module.pi, gradients)

    @staticmethod
    def is_known(module: TorchRLModule, parameters: Sequence[nn.Parameter]) -> bool:
        """True if a module is a default one of perceptrons, with exactly these parameters,
        all of them trained and without hooks.
        """
        stock = (
            isinstance(module, DefaultPPOTorchRLModule)
            and not is_overridden(module, base_of(module, DefaultPPOTorchRLModule), "_forward_train", "compute_values")
            and type(module.encoder) is TorchActorCriticEncoder
            and type(module.pi) in (*_POLICY_HEADS, StateDependentHead)
            and type(module.vf) is TorchMLPHead
            and not module.vf.clip_log_std
            and not torch.is_autocast_enabled("cpu")
            and not torch.is_autocast_enabled("cuda")
        )
        networks = None if not stock or has_hooks(module) else _layers(module)
        if networks is None or not all(map(is_differentiable, networks)):
            return False
        known = [parameter for layers in networks for linear, _ in layers for parameter in linear.parameters()]
        known += [module.pi.log_std] if type(module.pi) in _FREE_HEADS else []
        hooked = any(p._backward_hooks or p._post_accumulate_grad_hooks for p in known)
        usual = not hooked and all(p.dtype == torch.float32 and p.requires_grad for p in known)
        return usual and len(known) == len(parameters) and set(known) == set(parameters)

    def forward(
        self, observations: torch.Tensor, ruled_out: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs of the action distribution [rows, inputs], and values [rows].

        Args:
            observations: [rows, ...], after preprocessing.
            ruled_out: Which actions must not be taken, [rows, inputs]; None: all are allowed.
        """
        outputs, values = self._networks.forward(observations)
        dist_inputs = self._log_stds.complete(outputs, self._networks.branches[0].features)
        if ruled_out is not None:
            dist_inputs = dist_inputs.masked_fill(ruled_out, LEAST)
        return dist_inputs, values.squeeze(-1)

    def backward(self, of_dist_inputs: torch.Tensor, of_values: torch.Tensor) -> None:
        """Compute the parameters' gradients from those of what `forward` returned last: of the inputs for actions that
        were ruled out they are 0, as their probabilities are.
        """
        self._networks.backward([self._log_stds.backward(of_dist_inputs), of_values.unsqueeze(-1)])


def _layers(module: Any) -> tuple[Layers, Layers, Layers] | None:
    """The layers that policy and value function share, the policy's, and the value function's;
    None if there are others.
    """
    encoder, pi, vf = module.encoder, module.pi.net, module.vf.net
    shared = encoder.config.shared
    encoders = [encoder.encoder] if shared else [encoder.actor_encoder, encoder.critic_encoder]
    if any(type(part) is not TorchMLPEncoder for part in encoders):
        return None
    first, last = encoders[0].net, encoders[-1].net
    networks = (
        (layers_of(first), layers_of(pi), layers_of(vf)) if shared else ([], layers_of(first, pi), layers_of(last, vf))
    )
    return None if None in networks else networks  # type: ignore[return-value]  # mypy does not narrow the tuple
