"""PPO whose policy starts as in Stable-Baselines3 and CleanRL: near uniform,
and with one standard deviation for each action.

Orthogonal weights, scaled by 0.01 in front of the actions and by 1 in front of the value, and a standard deviation that
does not depend on the observation (Huang et al. 2022, "The 37 implementation details of proximal policy optimization"):
RLlib's is another output of the policy's network. Losses and everything else are RLlib's.
"""

from typing import Any, Self

import gymnasium as gym
from ray.rllib.algorithms import ppo
from ray.rllib.algorithms.ppo.ppo_catalog import PPOCatalog
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.utils.from_config import NotProvided
from torch import nn

from experiments.rllib.exploration import NoiseConfig

_POLICY_GAIN, _VALUE_GAIN = 0.01, 1.0
_LOG_STD_INIT = "log_std_init"


class PPOConfig(NoiseConfig, ppo.PPOConfig):  # type: ignore[misc]  # RLlib ships no type information
    """RLlib's, with the policy above; the setting `free_log_std` means nothing to it.

    Recurrent policies (`use_lstm`) keep RLlib's standard deviations, whose free ones have no dimension of time.

    Attributes:
        log_std_init: Natural logarithm of the standard deviation of continuous actions at the start, where these lie
            between -1 and 1.
    """

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class=algo_class)
        self.log_std_init = 0.0

    def training(self, *, log_std_init: float = NotProvided, **kwargs: Any) -> Self:
        """As RLlib's, with `log_std_init`."""
        super().training(**kwargs)
        if log_std_init is not NotProvided:
            self.log_std_init = log_std_init
        return self

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return {**super()._model_config_auto_includes, _LOG_STD_INIT: self.log_std_init}

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """As RLlib's, with another catalog."""
        return RLModuleSpec(module_class=DefaultPPOTorchRLModule, catalog_class=NearUniformCatalog)


class NearUniformCatalog(PPOCatalog):  # type: ignore[misc]
    """RLlib's networks of PPO, but for the weights of the last layers, and the standard deviations
    of continuous actions.
    """

    def __init__(
        self, observation_space: gym.Space[Any], action_space: gym.Space[Any], model_config_dict: dict[str, Any]
    ) -> None:
        free = isinstance(action_space, gym.spaces.Box) and not model_config_dict.get("use_lstm")
        super().__init__(observation_space, action_space, {**model_config_dict, "free_log_std": free})

    def build_pi_head(self, framework: str) -> Any:
        """As RLlib's."""
        head = _scaled(super().build_pi_head(framework), _POLICY_GAIN)
        start = self._model_config_dict[_LOG_STD_INIT]
        if self._model_config_dict["free_log_std"]:
            nn.init.constant_(head.log_std, start)
        elif isinstance(self.action_space, gym.spaces.Box):
            nn.init.constant_(_last(head).bias[self.action_space.shape[0] :], start)  # means come first
        return head

    def build_vf_head(self, framework: str) -> Any:
        """As RLlib's."""
        return _scaled(super().build_vf_head(framework), _VALUE_GAIN)


def _scaled(head: Any, gain: float) -> Any:
    """A head whose last layer has orthogonal weights of this scale, and no bias."""
    nn.init.orthogonal_(_last(head).weight, gain)
    nn.init.zeros_(_last(head).bias)
    return head


def _last(head: Any) -> nn.Linear:
    return [layer for layer in head.net.modules() if isinstance(layer, nn.Linear)][-1]
