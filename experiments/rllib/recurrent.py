"""Recurrent networks (`use_lstm`): which algorithms take them, and what RLlib's DQN needs to sample with them."""

from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from experiments.config.errors import ConfigurationError
from experiments.fast.masks import MaskedDQNModule
from experiments.fast.preprocessing.modules import PreprocessedDQNModule

STACKED = "preprocessing.frame_stack=4 in its place, which shows the last 4 observations"
"""The memory that every algorithm has, as a message names it."""
_SEQUENCES = "EpisodeReplayBuffer"
"""RLlib's replay buffer that samples sequences."""


class _OwnActions(TorchRLModule):  # type: ignore[misc]  # RLlib ships no type information
    def _forward_exploration(self, batch: dict[str, Any], t: int) -> dict[str, Any]:
        """As RLlib's, for more than one environment.

        RLlib chooses between random actions [B] and greedy ones [B, 1]
        (algorithms/dqn/torch/default_dqn_torch_rl_module.py). Of these torch makes [B, B]: with the chance and the
        random action of a column's environment, and the greedy action of a row's.
        """
        found: dict[str, Any] = super()._forward_exploration(batch, t)
        return {**found, Columns.ACTIONS: found[Columns.ACTIONS].diagonal().unsqueeze(1)}


class RecurrentDQNModule(_OwnActions, DefaultDQNTorchRLModule):  # type: ignore[misc]
    """RLlib's default module of DQN with an LSTM."""


class PreprocessedRecurrentDQNModule(_OwnActions, PreprocessedDQNModule):
    """The same with preprocessing."""


class MaskedRecurrentDQNModule(_OwnActions, MaskedDQNModule):
    """The same with masks of actions."""


_RECURRENT: dict[type[RLModule], type[RLModule]] = {
    DefaultDQNTorchRLModule: RecurrentDQNModule,
    PreprocessedDQNModule: PreprocessedRecurrentDQNModule,
    MaskedDQNModule: MaskedRecurrentDQNModule,
}


def make_recurrent(config: AlgorithmConfig, algorithm: str) -> None:
    """Prepare a configuration whose networks are recurrent: give it the module class that it needs.

    Args:
        config: The algorithm's configuration with its model config, after preprocessing and masks.
        algorithm: The algorithm's name.

    Raises:
        ConfigurationError: RLlib cannot train it.
    """
    if isinstance(config, SACConfig):  # and what RLlib derives from it
        raise ConfigurationError(
            f"algorithm.rl_module.use_lstm=true: RLlib has no recurrent networks for algorithm={algorithm}. "
            f"Try algorithm=ppo, or {STACKED}."
        )
    if isinstance(config, DQNConfig):
        _check_dqn(config)
    module_class = config.rl_module_spec.module_class
    if module_class in _RECURRENT:
        config.rl_module(rl_module_spec=RLModuleSpec(module_class=_RECURRENT[module_class]))


def _check_dqn(config: DQNConfig) -> None:
    """Sequences are sampled from RLlib's replay buffer without priorities alone, step by step."""
    buffer = config.replay_buffer_config
    if buffer["type"] != _SEQUENCES:
        raise ConfigurationError(
            f"algorithm.rl_module.use_lstm=true: {buffer['type']} samples no sequences. "
            f"Try '++algorithm.training.replay_buffer_config={{type: {_SEQUENCES}, capacity: {buffer['capacity']}}}'."
        )
    for name in ("n_step", "num_atoms"):
        if (value := getattr(config, name)) != 1:
            raise ConfigurationError(
                f"algorithm.training.{name}={value}: RLlib's DQN takes 1 with algorithm.rl_module.use_lstm=true. "
                f"Try ++algorithm.training.{name}=1."
            )
