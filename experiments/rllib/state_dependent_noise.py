"""State-dependent action noise (gSDE; Raffin et al. 2022, arXiv 2005.05719): what a policy tries is a function of what
it sees, and the same one for many steps.

To the means is added a random linear function of the features in front of the policy's last layer, one for each
environment, whose weights are drawn anew every so many env steps. By itself each action has the policy's own
distribution, whose standard deviations are the head's (`fast.networks.state_dependent`). As in Stable-Baselines3
(common/policies.py, sac/policies.py) these train the features of SAC and TQC, not those of PPO. When SAC is updated,
Stable-Baselines3 draws one function for all rows; here each row is drawn by itself, from the same distribution.
"""

import math
from typing import Any

import torch
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.algorithms.tqc.torch.default_tqc_torch_rl_module import DefaultTQCTorchRLModule
from ray.rllib.core.columns import Columns

from experiments.fast.networks.state_dependent import StateDependentHead
from experiments.fast.preprocessing.modules import PreprocessedPPOModule, PreprocessedSACModule, PreprocessedTQCModule
from experiments.rllib.action_noise import NoisyModule

HELD = "state_dependent_noise_steps"
"""Setting of `training`, and its key in a module's `model_config`."""
LOG_STD = "state_dependent_log_std"
"""The same."""
RANDOM_STEPS = "random_env_steps"
"""Key in a module's `model_config`: for how many env steps SAC and TQC, before they learn, take actions at random, as
in Stable-Baselines3. With the noise that a policy begins with, which RLlib lets act, they see little."""
LARGEST_MEAN = 2.0
"""Of SAC's and TQC's actions before they are squashed, as in Stable-Baselines3 (sac/policies.py: `clip_mean`): beyond
it noise makes no difference any more to what is done."""


class _StateDependentNoise(NoisyModule):
    """The common part of the modules."""

    _weights: torch.Tensor | None = None
    _step = 0

    def setup(self) -> None:
        """As RLlib's, with the head."""
        super().setup()
        rllibs: Any = self.pi
        start, num_actions = self.model_config[LOG_STD], self.action_space.shape[0]
        is_ppo = isinstance(self, DefaultPPOTorchRLModule)
        largest_mean = math.inf if is_ppo else LARGEST_MEAN
        self.pi: StateDependentHead = StateDependentHead(rllibs, num_actions, start, not is_ppo, largest_mean)

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """As it is, after uniformly random actions where there are to be some."""
        found: dict[str, Any] = super()._forward_exploration(batch, **kwargs)
        if kwargs["t"] >= self.model_config.get(RANDOM_STEPS, 0):
            return found
        actions = 2.0 * torch.rand_like(found[Columns.ACTIONS]) - 1.0
        logp = torch.full_like(found[Columns.ACTION_LOGP], -actions.shape[-1] * math.log(2.0))
        return {**found, Columns.ACTIONS: actions, Columns.ACTION_LOGP: logp}

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
