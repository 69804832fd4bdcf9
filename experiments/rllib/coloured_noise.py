"""Coloured action noise: what a policy tries lasts for many steps.

A Gaussian policy draws each action anew, and takes back in the next step what it tried in this one: on
MountainCarContinuous it never comes to the flag. Here the standard normal numbers that its draws are made of come from
a series in time, whose power falls as frequency ** -exponent: white at 0, as RLlib's; pink at 1 (Eberhard et al. 2023,
"Pink noise is all you need", for SAC); red at 2. For PPO Hollenstein et al. (2024, "Colored noise in PPO", arXiv
2312.11091) found 0.5 best on average. Each number by itself is standard normal, so that the distribution of an action,
its log-probability, the losses and the deterministic policy stay RLlib's. That a state depends on the numbers before it
is left out of account, as in both papers.

Each environment and each of its actions has a series of its own, from torch's global generator. No checkpoint holds
them: they begin anew where a trial derives its random streams anew (`checkpoints.begin_segment`).
"""

from typing import Any, Self

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchSquashedGaussian
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.utils.from_config import NotProvided

from experiments.config.errors import ConfigurationError
from experiments.fast.preprocessing.modules import PreprocessedPPOModule, PreprocessedSACModule

EXPONENT = "action_noise_exponent"
"""Setting of `training`, and its key in a module's `model_config`."""
STEPS = 1024
"""Steps of a series, and of its longest wave, as in the code of Hollenstein et al.; an episode's length would do as
well."""


class NoiseConfig(AlgorithmConfig):  # type: ignore[misc]  # RLlib ships no type information
    """The setting, in front of one of RLlib's classes.

    Attributes:
        action_noise_exponent: The power of the noise of continuous actions falls as the frequency to the minus this;
            0: white, RLlib's.
    """

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class=algo_class)
        self.action_noise_exponent = 0.0

    def training(self, *, action_noise_exponent: float = NotProvided, **kwargs: Any) -> Self:
        """As RLlib's, with `action_noise_exponent`."""
        super().training(**kwargs)
        if action_noise_exponent is not NotProvided:
            self.action_noise_exponent = action_noise_exponent
        return self


def coloured_noise(exponent: float, shape: tuple[int, ...]) -> torch.Tensor:
    """Series of standard normal numbers (Timmer and König 1995, "On generating power law noise").

    Args:
        exponent: Their power falls as frequency ** -exponent; that of the mean is as that of the longest wave.
        shape: How many series.

    Returns:
        [STEPS, *shape], float32, from torch's global generator.
    """
    frequencies = np.fft.rfftfreq(STEPS)
    frequencies[0] = frequencies[1]
    power = frequencies**-exponent
    parts = np.full(len(power), 2.0)  # a sine and a cosine
    parts[[0, -1]] = 1.0  # but of the mean, and of the wave of two steps
    scale = np.sqrt(power / parts / (power * parts).sum())
    drawn = torch.randn(2, len(power), *shape, dtype=torch.float64).numpy()
    waves = (drawn[0] + 1j * drawn[1]) * scale.reshape(-1, *[1] * len(shape))
    return torch.from_numpy(np.fft.irfft(waves, STEPS, axis=0, norm="forward").astype(np.float32))


class _ColouredNoise(TorchRLModule):  # type: ignore[misc]
    """The common part of the modules."""

    _noise: torch.Tensor | None = None
    _step = 0

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """As RLlib's, with the actions and their log-probabilities."""
        with torch.no_grad():
            found: dict[str, Any] = super()._forward_exploration(batch, **kwargs)
            gaussian = self.get_exploration_action_dist_cls().from_logits(found[Columns.ACTION_DIST_INPUTS])
            actions = gaussian.loc + gaussian._dist.stddev * self._next_noise(gaussian.loc)
            if isinstance(gaussian, TorchSquashedGaussian):
                actions = gaussian._squash(actions)
            return {**found, Columns.ACTIONS: actions, Columns.ACTION_LOGP: gaussian.logp(actions)}

    def _next_noise(self, like: torch.Tensor) -> torch.Tensor:
        """Standard normal numbers of the next step, of this shape, type and device."""
        if self._noise is None or self._step == STEPS or self._noise.shape[1:] != like.shape:
            self._noise, self._step = coloured_noise(self.model_config[EXPONENT], tuple(like.shape)), 0
        self._step += 1
        return self._noise[self._step - 1].to(like)

    def restart_noise(self) -> None:
        """Begin anew with the next step."""
        self._noise = None


class NoisyPPOModule(_ColouredNoise, DefaultPPOTorchRLModule):  # type: ignore[misc]
    """PPO's."""


class NoisyPreprocessedPPOModule(_ColouredNoise, PreprocessedPPOModule):
    """The same with preprocessing."""


class NoisySACModule(_ColouredNoise, DefaultSACTorchRLModule):  # type: ignore[misc]
    """SAC's."""


class NoisyPreprocessedSACModule(_ColouredNoise, PreprocessedSACModule):
    """The same with preprocessing."""


_NOISY: dict[type[RLModule], type[RLModule]] = {
    DefaultPPOTorchRLModule: NoisyPPOModule,
    PreprocessedPPOModule: NoisyPreprocessedPPOModule,
    DefaultSACTorchRLModule: NoisySACModule,
    PreprocessedSACModule: NoisyPreprocessedSACModule,
}


def put_noise_into_modules(config: AlgorithmConfig, env: str, actions: gym.Space[Any]) -> None:
    """Give an algorithm the module class that explores with its noise.

    Args:
        config: The algorithm's configuration with its model config, after preprocessing.
        env: Name of the environment, for messages.
        actions: Space of its actions.

    Raises:
        ConfigurationError: Actions are not continuous, or the module class is no default one.
    """
    exponent = config.action_noise_exponent
    key, fix = f"algorithm.training.{EXPONENT}={exponent:g}", f"Try algorithm.training.{EXPONENT}=0."
    if not isinstance(actions, gym.spaces.Box):
        raise ConfigurationError(f"{key}: env={env} has actions {actions}, and only continuous ones have noise. {fix}")
    found = _NOISY.get(config.rl_module_spec.module_class)
    if found is None:
        raise ConfigurationError(
            f"{key}: the module class is {config.rl_module_spec.module_class.__name__}, "
            f"and only RLlib's default ones draw their actions with such noise. {fix}"
        )
    config.rl_module(
        model_config={**config.model_config, EXPONENT: exponent}, rl_module_spec=RLModuleSpec(module_class=found)
    )


def restart_noise(module: Any) -> None:
    """Let the noise of a module begin anew, if it has any: after the generators were seeded."""
    if isinstance(module, _ColouredNoise):
        module.restart_noise()
