"""Transforms of observations and rewards before the networks and the losses see them. Torch only."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from experiments.fast.preprocessing.moments import Moments, Sampled, merge

Function = Callable[[torch.Tensor], torch.Tensor]

_EPSILON = 1e-8
"""Added to a variance, as in Gymnasium's wrappers and Stable-Baselines3's VecNormalize."""
_STATISTICS = ("mean", "variance", "count")


class _Running(torch.nn.Module):
    """Running moments as part of a module's state, in double precision.

    Attributes:
        center: The mean in single precision; 0 before there is one.
        scale: One over the standard deviation, likewise; 1 before there is one.
    """

    mean: torch.Tensor
    variance: torch.Tensor
    count: torch.Tensor
    center: torch.Tensor
    scale: torch.Tensor

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(*shape, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(*shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros(1, dtype=torch.float64))
        # What is used at every env step and every update: a state of its own,
        # so that who copies the state copies these as well.
        self.register_buffer("center", torch.zeros(*shape))
        self.register_buffer("scale", torch.ones(*shape))

    def moments(self) -> Moments:
        return Moments(self.mean.cpu().numpy(), self.variance.cpu().numpy(), float(self.count))

    def set_moments(self, moments: Moments) -> None:
        """In place: whoever holds these tensors sees the new values."""
        scale = 1 / np.sqrt(moments.variance + _EPSILON)
        for tensor, value in (
            (self.mean, moments.mean),
            (self.variance, moments.variance),
            (self.count, [moments.count]),
            (self.center, moments.mean),
            (self.scale, scale),
        ):
            tensor.copy_(torch.tensor(value, dtype=tensor.dtype))  # arrays from other processes are read-only


class Preprocessing(torch.nn.Module):
    """The transforms of one policy, with their statistics.

    Args:
        observation_shape: Shape of one observation, as the environment gives it.
        normalize_observations: Whether observations become (x - mean) / sqrt(variance + 1e-8), with running moments.
        clip_observations: The largest absolute value of an observation, normalised or not; None does not clip.
        symlog_observations: Whether observations become sign(x) log(1 + |x|) (Hafner et al. 2301.04104, equation 9).
        normalize_rewards: Whether rewards are divided by the spread of the discounted return, sqrt(variance + 1e-8).
        clip_rewards: The largest absolute value of a reward, normalised or not; None does not clip.
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        *,
        normalize_observations: bool = False,
        clip_observations: float | None = None,
        symlog_observations: bool = False,
        normalize_rewards: bool = False,
        clip_rewards: float | None = None,
    ) -> None:
        super().__init__()
        self._symlog, self._clip_observations, self._clip_rewards = symlog_observations, clip_observations, clip_rewards
        self.of_observations = _Running(observation_shape) if normalize_observations else None
        self.of_returns = _Running((1,)) if normalize_rewards else None

    def observations(self, values: torch.Tensor) -> torch.Tensor:
        """Observations [..., *observation_shape] as the networks see them."""
        return self.observations_function()(values)

    def observations_function(self) -> Function:
        """`observations` without torch's search for attributes, for many calls; statistics may change, in place."""
        symlog, clip, running = self._symlog, self._clip_observations, self.of_observations
        statistics = (running.center, running.scale) if running is not None else None

        def observations(values: torch.Tensor) -> torch.Tensor:
            if symlog:
                values = torch.sign(values) * torch.log1p(torch.abs(values))
            if statistics is not None:
                center, scale = statistics
                values = (values - center) * scale
            return values if clip is None else torch.clamp(values, -clip, clip)

        return observations

    def rewards(self, values: torch.Tensor) -> torch.Tensor:
        """Rewards [...] as the losses see them."""
        if self.of_returns is not None:
            values = values * self.of_returns.scale
        return values if self._clip_rewards is None else torch.clamp(values, -self._clip_rewards, self._clip_rewards)

    def merge(self, sampled: Sequence[Sampled]) -> None:
        """Merge what env runners sampled into the statistics, in the order given."""
        if self.of_observations is not None:
            self.of_observations.set_moments(
                merge(self.of_observations.moments(), (one.observations for one in sampled))
            )
        if self.of_returns is not None:
            self.of_returns.set_moments(merge(self.of_returns.moments(), (one.returns for one in sampled)))

    def statistics(self) -> dict[str, np.ndarray[Any, Any]]:
        """The statistics by their names in the module's state, in double precision."""
        state = self.state_dict()
        return {
            name: tensor.cpu().numpy().copy()
            for name, tensor in state.items()
            if name.rpartition(".")[2] in _STATISTICS
        }

    def set_statistics(self, statistics: dict[str, np.ndarray[Any, Any]]) -> None:
        """The inverse of `statistics`."""
        for name, value in statistics.items():
            self.get_buffer(name).copy_(torch.from_numpy(value))
