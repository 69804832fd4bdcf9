"""The default networks of PPO, IMPALA and APPO (algorithms/ppo/torch/default_ppo_torch_rl_module.py) where they are perceptrons."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.models.torch.encoder import TorchActorCriticEncoder, TorchMLPEncoder
from ray.rllib.core.models.torch.heads import TorchMLPHead
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import nn

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
from experiments.preprocessing.modules import base_of, observations_function


def plain_policy(module: TorchRLModule) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
    """`_forward_exploration` and `_forward_inference` of a default module, without the value function.

    Args:
        module: An env runner's. Its weights may change; parameters that replace others are not used.

    Returns:
        From a batch with observations [N, ...] to one with the inputs of the action distribution; None for any other module.
    """
    stock = (
        isinstance(module, DefaultPPOTorchRLModule)
        and not is_overridden(module, base_of(module, DefaultPPOTorchRLModule), "_forward", "_forward_exploration", "_forward_inference")
        and type(module.encoder) is TorchActorCriticEncoder
        and type(module.pi) is TorchMLPHead
        and not module.pi.clip_log_std
    )
    if not stock or has_hooks(module):
        return None
    encoder = module.encoder.encoder if module.encoder.config.shared else module.encoder.actor_encoder
    layers = layers_of(encoder.net, module.pi.net) if type(encoder) is TorchMLPEncoder else None
    if layers is None:
        return None
    actor, seen = forward_function(layers), observations_function(module)
    return lambda batch: {Columns.ACTION_DIST_INPUTS: actor(seen(batch[Columns.OBS]))}


class DefaultNetworks:
    """Policy and value function of a `DefaultPPOTorchRLModule` of perceptrons, with their gradients.

    Args:
        module: One that `is_known`.
        gradients: For all its parameters.
    """

    def __init__(self, module: Any, gradients: Gradients) -> None:
        trunk, policy, value = _layers(module) or ([], [], [])
        self._networks = BranchedPerceptron(trunk, [policy, value], gradients)
        self._bounds = (-module.pi.log_std_clip_param_const, module.pi.log_std_clip_param_const) if module.pi.clip_log_std else None
        self._log_stds = torch.empty(0)

    @staticmethod
    def is_known(module: TorchRLModule, parameters: Sequence[nn.Parameter]) -> bool:
        """Whether a module is a default one of perceptrons, with exactly these parameters, all of them trained and without hooks."""
        stock = (
            isinstance(module, DefaultPPOTorchRLModule)
            and not is_overridden(module, base_of(module, DefaultPPOTorchRLModule), "_forward_train", "compute_values")
            and type(module.encoder) is TorchActorCriticEncoder
            and type(module.pi) is type(module.vf) is TorchMLPHead
            and not module.vf.clip_log_std
            and not torch.is_autocast_enabled("cpu")
            and not torch.is_autocast_enabled("cuda")
        )
        networks = None if not stock or has_hooks(module) else _layers(module)
        if networks is None or not all(map(is_differentiable, networks)):
            return False
        known = [parameter for layers in networks for linear, _ in layers for parameter in linear.parameters()]
        hooked = any(p._backward_hooks or p._post_accumulate_grad_hooks for p in known)
        usual = not hooked and all(p.dtype == torch.float32 and p.requires_grad for p in known)
        return usual and len(known) == len(parameters) and set(known) == set(parameters)

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs of the action distribution [rows, inputs], and values [rows], of observations [rows, ...] after preprocessing."""
        dist_inputs, values = self._networks.forward(observations)
        if self._bounds is not None:
            means, self._log_stds = torch.chunk(dist_inputs, 2, dim=-1)
            dist_inputs = torch.cat((means, torch.clamp(self._log_stds, *self._bounds)), dim=-1)
        return dist_inputs, values.squeeze(-1)

    def backward(self, of_dist_inputs: torch.Tensor, of_values: torch.Tensor) -> None:
        """Compute the parameters' gradients from those of what `forward` returned last."""
        if self._bounds is not None:
            means, log_stds = torch.chunk(of_dist_inputs, 2, dim=-1)
            inside = (self._log_stds >= self._bounds[0]).logical_and_(self._log_stds <= self._bounds[1])
            of_dist_inputs = torch.cat((means, torch.where(inside, log_stds, 0.0)), dim=-1)
        self._networks.backward([of_dist_inputs, of_values.unsqueeze(-1)])


def _layers(module: Any) -> tuple[Layers, Layers, Layers] | None:
    """The layers that policy and value function share, the policy's, and the value function's; None if there are others."""
    encoder, pi, vf = module.encoder, module.pi.net, module.vf.net
    shared = encoder.config.shared
    encoders = [encoder.encoder] if shared else [encoder.actor_encoder, encoder.critic_encoder]
    if any(type(part) is not TorchMLPEncoder for part in encoders):
        return None
    first, last = encoders[0].net, encoders[-1].net
    networks = (layers_of(first), layers_of(pi), layers_of(vf)) if shared else ([], layers_of(first, pi), layers_of(last, vf))
    return None if None in networks else networks  # type: ignore[return-value]  # mypy does not narrow the tuple
