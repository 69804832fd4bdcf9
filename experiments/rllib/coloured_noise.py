"""Coloured action noise: what a policy tries lasts for many steps.

A Gaussian policy draws each action anew, and takes back in the next step what it tried in this one: on
MountainCarContinuous it never comes to the flag. Here the standard normal numbers that its draws are made of come from
a series in time, whose power falls as frequency ** -exponent: white at 0, as RLlib's; pink at 1 (Eberhard et al. 2023,
"Pink noise is all you need", for SAC); red at 2. For PPO Hollenstein et al. (2024, "Colored noise in PPO", arXiv
2312.11091) found 0.5 best on average. Each number by itself is standard normal.

Each environment and each of its actions has a series of its own, from torch's global generator.
"""

from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.algorithms.tqc.torch.default_tqc_torch_rl_module import DefaultTQCTorchRLModule

from experiments.fast.preprocessing.modules import PreprocessedPPOModule, PreprocessedSACModule, PreprocessedTQCModule
from experiments.rllib.action_noise import NoisyModule

EXPONENT = "action_noise_exponent"
"""Setting of `training`, and its key in a module's `model_config`."""
STEPS = 1024
"""Steps of a series, and of its longest wave, as in the code of Hollenstein et al.; an episode's length would do as
well."""


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


class _ColouredNoise(NoisyModule):
    """The common part of the modules."""

    _noise: torch.Tensor | None = None
    _step = 0

    def next_departures(self, gaussian: Any) -> torch.Tensor:
        """Standard deviations, times the numbers of the series."""
        return gaussian._dist.stddev * self._next_noise(gaussian.loc)  # type: ignore[no-any-return]

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


class NoisyTQCModule(_ColouredNoise, DefaultTQCTorchRLModule):  # type: ignore[misc]
    """TQC's."""


class NoisyPreprocessedTQCModule(_ColouredNoise, PreprocessedTQCModule):
    """The same with preprocessing."""
