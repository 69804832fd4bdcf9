"""SAC with critics of Stable-Baselines3's shape: observation and action side by side,
through the hidden layers of `fcnet_hiddens`.

RLlib's own critics encode observation and action by a perceptron each, and join them by a third one
(`fusionnet_hiddens`): with two hidden layers of 256 on Pendulum that is 658,433 weights a critic in place of 67,329.
Policy, losses and everything else are RLlib's.
"""

from dataclasses import replace

from ray.rllib.algorithms import sac
from ray.rllib.algorithms.sac.sac_catalog import SACCatalog
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.core.models.base import Encoder
from ray.rllib.core.models.configs import MLPEncoderConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from experiments.fast.networks.sac import ConcatenatingEncoder
from experiments.rllib.exploration import NoiseConfig


class ConcatenatingCatalog(SACCatalog):  # type: ignore[misc]  # RLlib ships no type information
    """RLlib's networks of SAC, but for the critics of continuous actions where observations are vectors."""

    def _build_qf_encoder_continuous(self, framework: str) -> Encoder:
        if not isinstance(self._encoder_config, MLPEncoderConfig):
            return super()._build_qf_encoder_continuous(framework)
        inputs = self._encoder_config.input_dims[0] + self.action_space.shape[0]
        return ConcatenatingEncoder(replace(self._encoder_config, input_dims=[inputs]))


class SACConfig(NoiseConfig, sac.SACConfig):  # type: ignore[misc]
    """RLlib's, with the critics above; `fusionnet_*` settings mean nothing to it."""

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """As RLlib's, with another catalog."""
        return RLModuleSpec(module_class=DefaultSACTorchRLModule, catalog_class=ConcatenatingCatalog)
