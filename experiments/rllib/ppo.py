"""PPO whose exploration starts at a standard deviation of one's choice (`training.log_std_init`), as in Stable-Baselines3.

RLlib's Gaussian policies start at a logarithm of about 0: a standard deviation of 1 where actions lie between -1 and 1, half of whose
samples on tasks that need small actions are noise. Losses and everything else are RLlib's.
"""

from typing import Any, Self

import torch
from ray.rllib.algorithms import ppo
from ray.rllib.algorithms.ppo.ppo_catalog import PPOCatalog
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.models.torch.heads import TorchFreeLogStdMLPHead
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.utils.from_config import NotProvided

_LOG_STD_INIT = "log_std_init"


class PPOConfig(ppo.PPOConfig):  # type: ignore[misc]  # RLlib ships no type information
    """RLlib's, for continuous actions whose standard deviation does not depend on the observation (`rl_module.free_log_std`).

    Attributes:
        log_std_init: Natural logarithm of the standard deviation of actions at the start, of actions from -1 to 1.
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

    def validate(self) -> None:
        """As RLlib's.

        Raises:
            ValueError: The standard deviation depends on the observation.
        """
        super().validate()
        if self.log_std_init and not self.model_config["free_log_std"]:
            raise ValueError(f"{_LOG_STD_INIT}={self.log_std_init} needs algorithm.rl_module.free_log_std=true.")

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return {**super()._model_config_auto_includes, _LOG_STD_INIT: self.log_std_init}

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """As RLlib's, with another catalog."""
        return RLModuleSpec(module_class=DefaultPPOTorchRLModule, catalog_class=LogStdCatalog)


class LogStdCatalog(PPOCatalog):  # type: ignore[misc]
    """RLlib's networks of PPO, but for the standard deviation that a policy starts with."""

    def build_pi_head(self, framework: str) -> Any:
        """As RLlib's."""
        head = super().build_pi_head(framework)
        if isinstance(head, TorchFreeLogStdMLPHead):
            with torch.no_grad():
                head.log_std.fill_(self._model_config_dict[_LOG_STD_INIT])
        return head
