"""SAC's networks of continuous actions where they are perceptrons: RLlib's policy, and critics of observation
and action side by side.
"""

from typing import Any, NamedTuple

import gymnasium as gym
import torch
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchSquashedGaussian
from ray.rllib.core.models.torch.encoder import TorchMLPEncoder
from ray.rllib.core.models.torch.heads import TorchMLPHead

from experiments.fast.networks.known import base_of, observations_function
from experiments.fast.networks.perceptrons import (
    Gradients,
    Layers,
    Perceptron,
    forward_function,
    has_hooks,
    is_differentiable,
    is_overridden,
    layers_of,
)
from experiments.fast.networks.ppo import stds_of
from experiments.fast.networks.squashed import Reparameterised, sample_and_logp
from experiments.fast.networks.state_dependent import StateDependentHead

Tensor = torch.Tensor

_METHODS = (
    "_forward_train",
    "_forward_train_continuous",
    "_qf_forward_train_helper",
    "compute_q_values",
    "forward_target",
)
_CRITICS = ("qf", "qf_twin")


class ConcatenatingEncoder(TorchMLPEncoder):  # type: ignore[misc]  # RLlib ships no type information
    """A perceptron of observations [B, O] and actions [B, A], concatenated in this order."""

    def _forward(self, inputs: dict[str, torch.Tensor], **how: Any) -> dict[str, torch.Tensor]:
        joined = torch.cat([inputs[Columns.OBS], inputs[Columns.ACTIONS]], dim=-1)
        return super()._forward({Columns.OBS: joined}, **how)  # type: ignore[no-any-return]


class SACValues(NamedTuple):
    """The networks' values for a training batch, [B] each.

    Attributes:
        q: Q values of each critic for the batch's observations and actions.
        target: The least that a target network gives the next observations and actions drawn for them.
        target_logp: Log-probabilities of these actions.
        drawn: The least that a critic gives the observations and actions drawn for them.
        logp: Log-probabilities of these.
    """

    q: list[Tensor]
    target: Tensor
    target_logp: Tensor
    drawn: Tensor
    logp: Tensor


class SACNetworks:
    """The networks of a `DefaultSACTorchRLModule` for a Box of actions, all of them perceptrons.

    Weights may change; parameters that replace others are not used.

    Args:
        module: One that `of` takes.
        gradients: Gradients of all its `parameters`, which `backward` writes.
    """

    def __init__(self, module: Any, gradients: Gradients) -> None:
        self._seen = observations_function(module)
        policy = _policy_layers(module)
        self._policy, self._log_stds = Perceptron(policy, gradients), stds_of(module.pi, gradients)
        self._policy_after, self._log_stds_after = Perceptron(policy, None), stds_of(module.pi, gradients)
        critics = _critics_layers(module, "")
        self._critics = [Perceptron(layers, gradients) for layers in critics]
        self._critics_of_drawn = [Perceptron(layers, None) for layers in critics]
        self._targets = [forward_function(layers) for layers in _critics_layers(module, "target_")]
        self._draws, self._num_actions = Reparameterised(), module.action_space.shape[0]
        self._drawn_q: list[Tensor] = []

    @staticmethod
    def parameters(module: Any) -> set[Tensor] | None:
        """Those that are trained of a module that is known, None of any other."""
        stock = (
            isinstance(module, DefaultSACTorchRLModule)
            and not is_overridden(module, base_of(module, DefaultSACTorchRLModule), *_METHODS)
            and isinstance(module.action_space, gym.spaces.Box)
            and module.get_train_action_dist_cls() is TorchSquashedGaussian
            and hasattr(module, "target_qf")
        )
        if not stock or has_hooks(module):
            return None
        names = _CRITICS if module.twin_q else _CRITICS[:1]
        encoders = [(module.pi_encoder, TorchMLPEncoder)]
        encoders += [
            (getattr(module, f"{of}{name}_encoder"), ConcatenatingEncoder) for of in ("", "target_") for name in names
        ]
        heads = [module.pi, *(getattr(module, f"{of}{name}") for of in ("", "target_") for name in names)]
        if any(type(encoder) is not kind for encoder, kind in encoders) or any(
            type(head) is not TorchMLPHead for head in heads[1:]
        ):
            return None
        if type(module.pi) not in (TorchMLPHead, StateDependentHead):
            return None
        if any(head.clip_log_std for head in heads[1:]):
            return None
        networks = [layers_of(encoder.net, head.net) for (encoder, _), head in zip(encoders, heads, strict=True)]
        if not all(layers and is_differentiable(layers) for layers in networks):
            return None
        trained = networks[: 1 + len(names)]
        found = {parameter for layers in trained for linear, _ in layers or [] for parameter in linear.parameters()}
        return found | ({module.pi.log_std} if type(module.pi) is StateDependentHead else set())

    def forward(self, batch: dict[str, Any]) -> SACValues:
        """As the module's `_forward_train`, with the same random numbers, and what its loss makes of that first."""
        observations, after = self._seen(batch[Columns.OBS]), self._seen(batch[Columns.NEXT_OBS])
        logits = self._log_stds.complete(self._policy.forward(observations), self._policy.features)
        outputs_after = self._policy_after.forward(after)
        logits_after = self._log_stds_after.complete(outputs_after, self._policy_after.features)
        actions, logp = self._draws.draw(logits)
        actions_after, logp_after = sample_and_logp(logits_after)
        joined, joined_after = (
            torch.cat([observations, batch[Columns.ACTIONS]], dim=-1),
            torch.cat([after, actions_after], dim=-1),
        )
        drawn = torch.cat([observations, actions], dim=-1)
        q = [critic.forward(joined).squeeze(-1) for critic in self._critics]
        self._drawn_q = [critic.forward(drawn).squeeze(-1) for critic in self._critics_of_drawn]
        target = _least([target(joined_after).squeeze(-1) for target in self._targets])
        return SACValues(q, target, logp_after, _least(self._drawn_q), logp)

    def backward(self, of_q: list[Tensor], of_drawn: Tensor, of_logp: Tensor) -> None:
        """Compute the parameters' gradients from those of what `forward` returned last, [B] each."""
        for critic, gradient in zip(self._critics, of_q, strict=True):
            critic.backward(gradient.unsqueeze(-1), to_inputs=False)
        of_inputs = [
            critic.backward(gradient.unsqueeze(-1), to_inputs=True)
            for critic, gradient in zip(
                self._critics_of_drawn, _gradients_of_least(of_drawn, self._drawn_q), strict=True
            )
        ]
        of_inputs = [gradient[:, -self._num_actions :] for gradient in of_inputs]
        of_actions = of_inputs[0] if len(of_inputs) == 1 else of_inputs[0] + of_inputs[1]
        of_outputs = self._log_stds.backward(self._draws.backward(of_actions, of_logp))
        self._policy.backward(of_outputs, to_inputs=False, of_features=self._log_stds.of_features)


def _policy_layers(module: Any) -> Layers:
    return layers_of(module.pi_encoder.net, module.pi.net) or []


def _critics_layers(module: Any, prefix: str) -> list[Layers]:
    names = _CRITICS if module.twin_q else _CRITICS[:1]
    return [
        layers_of(getattr(module, f"{prefix}{name}_encoder").net, getattr(module, f"{prefix}{name}").net) or []
        for name in names
    ]


def _least(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else torch.min(*values)


def _gradients_of_least(gradient: Tensor, values: list[Tensor]) -> list[Tensor]:
    """As torch (tools/autograd/derivatives.yaml: `minimum`): where two values are equal, each gets a half."""
    if len(values) == 1:
        return [gradient]
    one, other = values
    shared = torch.where(one == other, gradient / 2, gradient)
    return [shared.masked_fill(one > other, 0), shared.masked_fill(one < other, 0)]
