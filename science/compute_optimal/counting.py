"""Counts the floating-point operations of a trial's updates and actions, by the shapes of its networks."""

from typing import Any

import gymnasium as gym
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.models.torch.encoder import TorchMLPEncoder
from ray.rllib.core.rl_module import RLModule
from torch import nn

from experiments.config.errors import ConfigurationError
from experiments.config.extension import Measured
from experiments.fast.networks.known import is_stock
from science.compute_optimal.flops import Layers, dqn_update, forward, sac_update

_SETTING = "extension.compute_optimal.measure"


class Counted(Measured):
    """The operations of an update and of an action, which are the same throughout a trial.

    Args:
        algorithm: RLlib's, just built.
    """

    key = "flops"

    def __init__(self, algorithm: Algorithm) -> None:
        self._update, self._action = next(iter(algorithm.learner_group.foreach_learner(_of_learner))).get()

    def final(self) -> dict[str, float]:
        """Both."""
        return {"final/update_flops": float(self._update), "final/action_flops": float(self._action)}


def _of_learner(learner: Any) -> tuple[int, int]:
    config = learner.config
    rows = int(config.train_batch_size_per_learner) * max(1, config.num_learners)
    return operations(learner.module[DEFAULT_MODULE_ID].unwrapped(), rows)


def operations(module: Any, rows: int) -> tuple[int, int]:
    """Floating-point operations of an update, and of the network that acts for one observation.

    Args:
        module: A module that `check` takes.
        rows: Of the training batch.
    """
    if is_stock(module, DefaultDQNTorchRLModule):
        network = _layers(module.encoder, module.af, *([module.vf] if module.uses_dueling else []))
        return dqn_update(network, rows, bool(module.uses_double_q)), forward(network)
    policy, critic = _layers(module.pi_encoder, module.pi), _layers(module.qf_encoder, module.qf)
    return sac_update(policy, critic, rows, 2 if module.twin_q else 1), forward(policy)


def check(module: RLModule) -> None:
    """Make sure that the operations of a trial's networks are known.

    Raises:
        ConfigurationError: They are none of DQN's or of SAC's with continuous actions, or no perceptrons.
    """
    if is_stock(module, DefaultDQNTorchRLModule):
        encoders = [module.encoder]
    elif is_stock(module, DefaultSACTorchRLModule) and isinstance(module.action_space, gym.spaces.Box):
        encoders = [module.pi_encoder, module.qf_encoder]
    else:
        raise ConfigurationError(
            f"{_SETTING}=true counts the operations of DQN, and of SAC with continuous actions, with RLlib's networks. "
            "Try algorithm=dqn env=acrobot, algorithm=sac env=pendulum, or "
            f"{_SETTING}=false."
        )
    if not all(isinstance(encoder, TorchMLPEncoder) for encoder in encoders):
        raise ConfigurationError(
            f"{_SETTING}=true counts the operations of perceptrons: observations that are vectors, no LSTM, and of SAC "
            f"the suite's critics, which are those by default. Try {_SETTING}=false."
        )


def _layers(*networks: nn.Module) -> Layers:
    linear = [part for network in networks for part in network.modules() if isinstance(part, nn.Linear)]
    return [(layer.in_features, layer.out_features) for layer in linear]
