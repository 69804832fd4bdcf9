"""Exponentially weighted averages that follow the batch: decays for another batch, weights of networks,
moments of advantages.

Hilton et al. 2022, "Batch size-invariance for policy optimization" (arXiv 2110.00641). An average of decay b has its
center of mass b / (1 - b) updates back, and weighs its newest value by 1 / (1 + b + b^2 + ...), over the updates that
there have been.
"""

import copy
import math
from typing import Any

import torch


def decay_at(center_of_mass: float) -> float:
    """The decay of an average whose center of mass is so many updates back.

    Args:
        center_of_mass: 0 or more: 1 / (1 - decay) - 1.
    """
    return center_of_mass / (1 + center_of_mass)


def scaled_decay(decay: float, factor: float) -> float:
    """The decay of an average whose center of mass is `factor` times as many updates back.

    Args:
        decay: Decay, from 0 to below 1.
        factor: Above 0.
    """
    return decay if factor == 1 else decay_at(factor * decay / (1 - decay))


def window_decay(factor: float) -> float:
    """The decay of an average over `factor` times as many values as an update has: 1 / (1 - decay) = factor;
    0 for 1 or less.
    """
    return max(0.0, 1 - 1 / factor)


class AverageModule:
    """A copy of a module whose weights are an average of those that the module had after each update.

    Attributes:
        module: The copy. What it has beside its parameters, such as statistics of observations, is the original's own.
        weights: Weights of the copy, one vector: whoever writes into it sets them.
        total: Sum of the weights in the average, a scalar; 0: nothing was averaged yet.
    """

    def __init__(self, module: Any) -> None:
        self._of = list(module.parameters())
        self.module = copy.deepcopy(module).requires_grad_(False)
        if hasattr(module, "preprocessing"):
            self.module.preprocessing = module.preprocessing
        parameters = list(self.module.parameters())
        self.weights = torch.cat([p.detach().reshape(-1) for p in parameters])
        self.total = torch.zeros((), dtype=torch.float64)
        self._parts = torch.split(self.weights, [p.numel() for p in parameters])
        self._parts = tuple(part.view(p.shape) for part, p in zip(self._parts, parameters, strict=True))
        for parameter, part in zip(parameters, self._parts, strict=True):
            parameter.data = part

    @torch.no_grad()
    def begin(self) -> None:
        """Start from the module's present weights, if nothing was averaged yet."""
        if not self.total:
            torch._foreach_copy_(self._parts, self._of)
            self.total.fill_(1)

    @torch.no_grad()
    def add(self, decay: float) -> None:
        """Take in the module's present weights.

        Args:
            decay: Factor on the weight of earlier ones.
        """
        self.total.mul_(decay).add_(1)
        torch._foreach_lerp_(self._parts, self._of, 1 / self.total.item())


def standardised(values: torch.Tensor, sums: torch.Tensor, decay: float, least: float) -> torch.Tensor:
    """Values minus their mean, divided by their standard deviation, both over these and earlier ones.

    Args:
        values: The values of one update.
        sums: Sums of the weights, the values and their squares so far, [3] in double precision; changed in place.
        decay: Factor on the weight of each value, an update later.
        least: The least divisor.

    Returns:
        Of the shape and precision of the values.
    """
    exact = values.double()
    sums.mul_(decay).add_(
        torch.stack([torch.tensor(float(exact.numel())), exact.sum().cpu(), exact.square().sum().cpu()])
    )
    count, total, squares = sums.tolist()
    mean = total / count
    spread = math.sqrt(max(0.0, squares / count - mean**2))
    found: torch.Tensor = ((exact - mean) / max(least, spread)).to(values.dtype)
    return found
