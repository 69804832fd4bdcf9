"""The deterministic policy of RLlib's default modules, on the observations of many environments at once."""

from collections.abc import Callable
from typing import Any

import torch
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.core.distribution.torch.torch_distribution import (
    TorchCategorical,
    TorchDiagGaussian,
    TorchSquashedGaussian,
)
from ray.rllib.core.models.torch.heads import TorchMLPHead
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from experiments.fast.networks.known import base_of
from experiments.fast.networks.perceptrons import is_overridden
from experiments.fast.networks.ppo import plain_policy, policy_of
from experiments.fast.networks.q import QNetworks

Forward = Callable[[dict[str, Any]], dict[str, Any]]


def inference_function(module: TorchRLModule) -> Forward:
    """A module's `_forward_inference`, without the calls of its parts and the distribution
    where it is a default one of perceptrons.

    Args:
        module: The module. Its weights may change; parameters that replace others are not used.

    Returns:
        From a batch with observations [N, ...] to one with actions [N] or with the inputs of the action distribution:
        the module's, to the bit.
    """
    return _greedy_policy(module) or plain_policy(module) or _plain_sac_policy(module) or module._forward_inference


def chooses_by_number(module: Any) -> bool:
    """True if a module is a default one that acts by a number that it puts out for each action,
    if its actions are discrete.
    """
    own = not isinstance(module, TorchRLModule) or is_overridden(
        module, TorchRLModule, "forward_inference", "forward_exploration"
    )
    return not own and (_greedy_policy(module) or plain_policy(module)) is not None


def _greedy_policy(module: TorchRLModule) -> Forward | None:
    """As `plain_policy`, of DQN's."""
    networks = QNetworks.of(module)
    if networks is None or is_overridden(
        module, base_of(module, DefaultDQNTorchRLModule), "_forward_inference", "get_exploration_action_dist_cls"
    ):
        return None
    return networks.exploit


def _plain_sac_policy(module: TorchRLModule) -> Forward | None:
    """As `plain_policy`, of SAC's (algorithms/sac/torch/default_sac_torch_rl_module.py)."""
    stock = (
        isinstance(module, DefaultSACTorchRLModule)
        and not is_overridden(module, base_of(module, DefaultSACTorchRLModule), "_forward_inference")
        and type(module.pi) is TorchMLPHead
    )
    return policy_of(module, module.pi_encoder) if stock else None


def exploration_function(module: TorchRLModule) -> Forward | None:
    """The same of the `_forward_exploration` of SAC's default module, which is its `_forward_inference`;
    None of any other module.
    """
    if not isinstance(module, DefaultSACTorchRLModule) or is_overridden(
        module, DefaultSACTorchRLModule, "_forward_exploration"
    ):
        return None
    return _plain_sac_policy(module)


def deterministic_actions(distribution: Any, inputs: torch.Tensor) -> torch.Tensor:
    """The result of RLlib's `distribution.from_logits(inputs).to_deterministic().sample()`,
    without making the distributions.

    Args:
        distribution: A class of RLlib's.
        inputs: [N, ...].

    Returns:
        [N, ...].
    """
    if distribution is TorchCategorical:
        return inputs.argmax(dim=-1)
    if distribution in (TorchDiagGaussian, TorchSquashedGaussian):
        return inputs.chunk(2, dim=-1)[0]
    actions: torch.Tensor = distribution.from_logits(inputs).to_deterministic().sample()
    return actions
