"""RLlib's default modules of torch with masks of actions: none of them chooses what its observation rules out.

An observation begins with its mask, a number for each action: 1 where it is allowed, 0 where it is not. The networks
see what follows.

Policies of PPO, IMPALA and APPO have logits of `LEAST` for what is ruled out: its probability is 0 in single precision,
so that samples, entropy, KL divergence and gradients are those of the distribution over what is allowed (Huang and
Ontañón 2022, arXiv 2006.14171). Q values of DQN are minus infinity there, as RLlib's own code has them
(`nan_to_num(..., neginf=0.0)` in algorithms/dqn/torch/default_dqn_torch_rl_module.py and dqn_torch_learner.py): such
actions are neither the best ones, now or in a target, nor drawn by epsilon-greedy exploration.

A mask that allows nothing comes with an episode's end, where no action is taken. There all are allowed, since a
distribution over none would be NaN.
"""

import math
from typing import Any, ClassVar

import gymnasium as gym
import torch
from ray.rllib.algorithms.appo.torch.default_appo_torch_rl_module import DefaultAPPOTorchRLModule
from ray.rllib.algorithms.dqn.default_dqn_rl_module import QF_PREDS
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import TARGET_NETWORK_ACTION_DIST_INPUTS
from ray.rllib.core.rl_module.rl_module import RLModule

from experiments.fast.preprocessing.modules import (
    Batch,
    Preprocessed,
    PreprocessedAPPOModule,
    PreprocessedDQNModule,
    PreprocessedPPOModule,
)
from experiments.fast.preprocessing.transforms import Function

SEEN_SHAPE = "seen_shape"
"""Key of a module's `model_config` under which the shape is of what its networks see behind the mask."""
LEAST = -1e30
"""Logit of what is ruled out. So low that its exponential is 0 beside that of any other, and not the least number that
there is: products with advantages and coefficients have to be finite, or a sum with factors of 0 is NaN."""


def ruled_out(observations: torch.Tensor, actions: int) -> torch.Tensor:
    """Which actions must not be taken, [..., actions].

    Args:
        observations: [..., size], with the mask in front.
        actions: Number of actions.
    """
    mask = observations[..., :actions]
    return mask < mask.amax(dim=-1, keepdim=True)


class Masked(Preprocessed):
    """The common part of the modules, whose preprocessing is of what follows the mask.

    Attributes:
        value: Output of the networks for what is ruled out.
        num_actions: Number of actions.
    """

    value: ClassVar[float] = LEAST
    num_actions: int
    observation_space: Any
    catalog: Any

    def setup(self) -> None:
        """As RLlib's, with networks for what follows the mask."""
        whole, self.num_actions = self.observation_space, int(self.action_space.n)
        self._shape = tuple(self.model_config[SEEN_SHAPE])
        low, high = (ends[self.num_actions :].reshape(self._shape) for ends in (whole.low, whole.high))
        self.observation_space = gym.spaces.Box(low, high, dtype=whole.dtype.type)
        self.catalog = type(self.catalog)(
            observation_space=self.observation_space,
            action_space=self.action_space,
            model_config_dict=self.model_config,
        )
        super().setup()
        self.observation_space = whole

    def observations_function(self) -> Function:
        """As of `Preprocessed`, of what follows the mask."""
        transformed, first, shape = super().observations_function(), self.num_actions, self._shape

        def seen(observations: torch.Tensor) -> torch.Tensor:
            # contiguous: a product of another layout differs in the last bit
            behind = observations[..., first:].contiguous()
            return transformed(behind.reshape(*observations.shape[:-1], *shape))

        return seen

    def mask(self, outputs: torch.Tensor, observations: torch.Tensor) -> torch.Tensor:
        """Outputs with a number for each action, [..., actions], with `value` for what observations rule out."""
        return outputs.masked_fill(ruled_out(observations, self.num_actions), self.value)

    def with_mask(self, found: Batch, batch: Batch, column: str) -> Batch:
        """What the networks put out for a batch, with a mask on one column."""
        return {**found, column: self.mask(found[column], batch[Columns.OBS])}


class _OnPolicy(Masked):
    def _forward(self, batch: Batch, **kwargs: Any) -> Batch:
        return self.with_mask(super()._forward(batch, **kwargs), batch, Columns.ACTION_DIST_INPUTS)

    def _forward_train(self, batch: Batch, **kwargs: Any) -> Batch:
        return self.with_mask(super()._forward_train(batch, **kwargs), batch, Columns.ACTION_DIST_INPUTS)


class MaskedPPOModule(_OnPolicy, PreprocessedPPOModule):
    """PPO's and IMPALA's."""


class MaskedAPPOModule(_OnPolicy, PreprocessedAPPOModule):
    """APPO's."""

    def forward_target(self, batch: Batch) -> Batch:
        """As RLlib's."""
        return self.with_mask(super().forward_target(batch), batch, TARGET_NETWORK_ACTION_DIST_INPUTS)


class MaskedDQNModule(Masked, PreprocessedDQNModule):
    """DQN's. All its Q values come from one method of RLlib's, which therefore is given whole observations."""

    value = -math.inf

    def seen(self, batch: Batch, *columns: str) -> Batch:
        """The batch as it is."""
        return batch

    def _qf_forward_helper(self, batch: Batch, encoder: Any, head: Any) -> Batch:
        found = super()._qf_forward_helper(super().seen(batch), encoder, head)
        return self.with_mask(found, batch, QF_PREDS)


_MODULES: dict[type[RLModule], type[RLModule]] = {
    DefaultPPOTorchRLModule: MaskedPPOModule,
    PreprocessedPPOModule: MaskedPPOModule,
    DefaultAPPOTorchRLModule: MaskedAPPOModule,
    PreprocessedAPPOModule: MaskedAPPOModule,
    DefaultDQNTorchRLModule: MaskedDQNModule,
    PreprocessedDQNModule: MaskedDQNModule,
}


def masked(module_class: type[RLModule]) -> type[RLModule] | None:
    """One of RLlib's default classes, or the same with preprocessing, with masks; None if it is none of those
    that choose among actions.
    """
    return _MODULES.get(module_class)
