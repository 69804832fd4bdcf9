"""An algorithm whose configuration brings connectors of its own, and a module class of one's own."""

from typing import Any

from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.connectors.env_to_module import MeanStdFilter


class FilteringPPOConfig(PPOConfig):
    """PPO with RLlib's running normalisation of observations, which keeps its statistics on the env runners."""

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class)
        self.env_runners(env_to_module_connector=lambda env, spaces, device: MeanStdFilter())


class OwnModule(DefaultPPOTorchRLModule):
    """A module of a person's own."""
