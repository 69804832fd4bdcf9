"""State-dependent action noise (gSDE; Raffin et al. 2022, arXiv 2005.05719): what a policy tries is a function of what
it sees, and the same one for many steps.

To the means is added a random linear function of the features in front of the policy's last layer, one for each
environment, whose weights are drawn anew every so many env steps. By itself each action has the policy's own
distribution, whose standard deviations are the head's (`fast.networks.state_dependent`). As in Stable-Baselines3
(common/policies.py, sac/policies.py) these train the features of SAC and TQC, not those of PPO. When SAC is updated,
Stable-Baselines3 draws one function for all rows; here each row is drawn by itself, from the same distribution.
"""

from typing import Any

import torch
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.algorithms.tqc.torch.default_tqc_torch_rl_module import DefaultTQCTorchRLModule

from experiments.fast.networks.state_dependent import StateDependentHead
from experiments.fast.preprocessing.modules import PreprocessedPPOModule, PreprocessedSACModule, PreprocessedTQCModule
from experiments.rllib.action_noise import NoisyModule

HELD = "state_dependent_noise_steps"
"""Setting of `training`, and its key in a module's `model_config`."""
LOG_STD = "state_dependent_log_std"
"""The same."""


class _StateDependentNoise(NoisyModule):
    """The common part of the modules."""

    _weights: torch.Tensor | None = None
    _step = 0

    def setup(self) -> None:
        """As RLlib's, with the head."""
        super().setup()
        rllibs: Any = self.pi
        start, num_actions = self.model_config[LOG_STD], self.action_space.shape[0]
        learns_features = not isinstance(self, DefaultPPOTorchRLModule)
        self.pi: StateDependentHead = StateDependentHead(rllibs, num_actions, start, learns_features)

    def next_departures(self, gaussian: Any) -> torch.Tensor:
        """The function of the features that is held now."""
        features = self.pi.features
        if self._weights is None or self._step == self.model_config[HELD] or len(self._weights) != len(features):
            drawn = torch.randn(len(features), *self.pi.log_std.shape)
            self._weights, self._step = drawn.to(features) * self.pi.log_std.exp(), 0
        self._step += 1
        return torch.einsum("n...f,nfa->n...a", features, self._weights)

    def restart_noise(self) -> None:
        """Draw anew with the next step."""
        self._weights = None


class StateDependentPPOModule(_StateDependentNoise, DefaultPPOTorchRLModule):  # type: ignore[misc]
    """PPO's."""


class StateDependentPreprocessedPPOModule(_StateDependentNoise, PreprocessedPPOModule):
    """The same with preprocessing."""


class StateDependentSACModule(_StateDependentNoise, DefaultSACTorchRLModule):  # type: ignore[misc]
    """SAC's."""


class StateDependentPreprocessedSACModule(_StateDependentNoise, PreprocessedSACModule):
    """The same with preprocessing."""


class StateDependentTQCModule(_StateDependentNoise, DefaultTQCTorchRLModule):  # type: ignore[misc]
    """TQC's."""


class StateDependentPreprocessedTQCModule(_StateDependentNoise, PreprocessedTQCModule):
    """The same with preprocessing."""
