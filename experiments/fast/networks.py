"""RLlib's default networks as plain functions: the same operations, without a module, a dictionary and a hook around each."""

from collections.abc import Callable
from typing import Any

import torch
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.models.torch.encoder import TorchActorCriticEncoder, TorchMLPEncoder
from ray.rllib.core.models.torch.heads import TorchMLPHead
from ray.rllib.core.models.torch.primitives import TorchMLP
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import nn

Layers = list[Callable[[torch.Tensor], torch.Tensor]]

_ACTIVATIONS: dict[type[nn.Module], Callable[[torch.Tensor], torch.Tensor]] = {nn.Tanh: torch.tanh, nn.ReLU: torch.relu}


def plain_policy(module: TorchRLModule) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
    """What `_forward_exploration` and `_forward_inference` of PPO's, IMPALA's and APPO's default modules do with multilayer perceptrons
    (algorithms/ppo/torch/default_ppo_torch_rl_module.py).

    Args:
        module: A runner's. Its weights may change; parameters that are put in the place of others are not seen.

    Returns:
        From a batch with observations [N, ...] to one with the inputs of the action distribution; None for any other module.
    """
    own = type(module)
    stock = (
        own._forward is DefaultPPOTorchRLModule._forward
        and own._forward_exploration is TorchRLModule._forward_exploration
        and own._forward_inference is TorchRLModule._forward_inference
        and type(module.encoder) is TorchActorCriticEncoder
        and type(module.pi) is TorchMLPHead
        and not module.pi.clip_log_std
    )
    if not stock:
        return None
    encoder = module.encoder.encoder if module.encoder.config.shared else module.encoder.actor_encoder
    if type(encoder) is not TorchMLPEncoder or any(part._forward_hooks or part._forward_pre_hooks for part in module.modules()):
        return None
    layers = _plain(encoder.net) + _plain(module.pi.net)

    def forward(batch: dict[str, Any]) -> dict[str, Any]:
        values = batch[Columns.OBS]
        for layer in layers:
            values = layer(values)
        return {Columns.ACTION_DIST_INPUTS: values}

    return forward


def _plain(perceptron: TorchMLP) -> Layers:
    return [_linear(layer) if type(layer) is nn.Linear else _ACTIVATIONS.get(type(layer), layer) for layer in perceptron.mlp]


def _linear(layer: nn.Linear) -> Callable[[torch.Tensor], torch.Tensor]:
    weight, bias, linear = layer.weight, layer.bias, torch.nn.functional.linear
    return lambda values: linear(values, weight, bias)
