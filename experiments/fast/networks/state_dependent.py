"""A Gaussian policy whose standard deviations are those of a random linear function of its features: generalised
state-dependent exploration (gSDE; Raffin et al. 2022, "Smooth exploration for robotic reinforcement learning", arXiv
2005.05719, section 3).

With features f [F] in front of the last layer and a weight's standard deviation s_ij, what a weight matrix of
independent normal numbers adds to the mean of action j has variance sum_i f_i^2 s_ij^2. The features are trained by it
or not, as in Stable-Baselines3 (common/distributions.py: `StateDependentNoiseDistribution`, `learn_features`).
"""

import math
from typing import Any

import torch
from torch import nn

from experiments.fast.networks.perceptrons import Gradients

SMALLEST_VARIANCE = 1e-6
"""Added to a variance, as in Stable-Baselines3."""


class StateDependentHead(nn.Module):
    """A policy's head, with such standard deviations in place of its own.

    Args:
        head: RLlib's, of a Gaussian policy, which is taken apart: its last layer keeps the weights of the means.
        num_actions: Of the action space.
        log_std: Natural logarithm of all weights' standard deviations at the start.
        learns_features: Whether the features are trained by the standard deviations that they make.
        largest_mean: That of each action, up and down; infinite if there is none.

    Attributes:
        learns_features: As given.
        largest_mean: As given.
        log_std: The same as they are trained, [features, actions].
        features: Of the last forward pass, [rows, ..., features].
    """

    def __init__(self, head: Any, num_actions: int, log_std: float, learns_features: bool, largest_mean: float) -> None:
        super().__init__()
        self.learns_features, self.largest_mean = learns_features, largest_mean
        self.net = head.net
        means = self.net.mlp[-1]
        means.out_features = num_actions
        for name, values in list(means.named_parameters()):
            setattr(means, name, nn.Parameter(values.detach()[:num_actions].clone()))
        self.log_std = nn.Parameter(torch.full((means.in_features, num_actions), float(log_std)))
        self.features = torch.empty(0)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[rows, ..., inputs] to means and logarithms of standard deviations, [rows, ..., 2 actions]."""
        features = self.net.mlp[:-1](inputs)
        self.features = features.detach()
        seen = features if self.learns_features else self.features
        log_stds = 0.5 * _variances(seen.pow(2), (2.0 * self.log_std).exp()).log()
        return torch.cat([_limited(self.net.mlp[-1](features), self.largest_mean), log_stds], dim=-1)


class StateDependentStds:
    """As `LogStds`, of a policy with that head: the operations of its forward pass, and torch's own formulas for them.

    Args:
        head: Its parameter may change, not be replaced.
        gradients: Gradients of all its parameters.

    Attributes:
        of_features: Gradient of the features, [rows, features], of the last backward pass; None if they are not
            trained.
    """

    of_features: torch.Tensor | None = None

    def __init__(self, head: StateDependentHead, gradients: Gradients) -> None:
        self._log_std, self._gradient = head.log_std.detach(), gradients[head.log_std]
        self._learns_features, self._largest_mean = head.learns_features, head.largest_mean
        self._features = self._squares = self._of_weights = self._found = self._means = torch.empty(0)

    def complete(self, outputs: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """The network's outputs, [rows, actions], as inputs of the distribution.

        Args:
            outputs: Means, before their limit.
            features: What the last layer made them of, [rows, features].
        """
        self._features, self._squares, self._of_weights = features, features.pow(2), (2.0 * self._log_std).exp()
        self._found, self._means = _variances(self._squares, self._of_weights), outputs
        return torch.cat([_limited(outputs, self._largest_mean), 0.5 * self._found.log()], dim=-1)

    def backward(self, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient of the means, from that of what `complete` made of them last; sets those of the parameter and,
        where they are trained, of the features.
        """
        means, log_stds = torch.chunk(gradient, 2, dim=-1)
        of_variances = log_stds * 0.5 / self._found
        self._gradient.copy_(self._squares.t().mm(of_variances) * self._of_weights * 2.0)
        if self._learns_features:
            self.of_features = of_variances.mm(self._of_weights.t()) * (self._features * 2.0)
        return means if math.isinf(self._largest_mean) else means * (self._means.abs() < self._largest_mean)


def _limited(means: torch.Tensor, largest: float) -> torch.Tensor:
    return means if math.isinf(largest) else nn.functional.hardtanh(means, -largest, largest)


def _variances(squares: torch.Tensor, of_weights: torch.Tensor) -> torch.Tensor:
    return squares @ of_weights + SMALLEST_VARIANCE
