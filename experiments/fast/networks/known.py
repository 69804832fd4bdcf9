"""RLlib's default modules as the fast networks know them, and the suite's that differ from these before and behind
the networks: with preprocessing of observations, and with masks of actions.
"""

from collections.abc import Callable

import torch
from ray.rllib.core.rl_module.rl_module import RLModule

from experiments.fast.masks import Masked, masked
from experiments.fast.preprocessing.modules import Preprocessed, preprocessed


def is_stock(module: RLModule, default: type[RLModule]) -> bool:
    """True if a module is one of RLlib's default class, or the same with preprocessing, and not derived from either."""
    return type(module) in (default, preprocessed(default))


def base_of(module: RLModule, default: type[RLModule]) -> type[RLModule]:
    """The class that a module has its entry points from, if it has none of its own: RLlib's default one,
    or the same with preprocessing, or with masks of actions.
    """
    if isinstance(module, Masked):
        return masked(default) or default
    return (preprocessed(default) or default) if isinstance(module, Preprocessed) else default


def observations_function(module: RLModule) -> Callable[[torch.Tensor], torch.Tensor]:
    """From observations to what a module's networks see of them: as `Preprocessed.observations_function`;
    nothing changes without one.
    """
    return module.observations_function() if isinstance(module, Preprocessed) else _unchanged


def mask_function(module: RLModule) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """From what a module's networks put out for each action, and from observations, to its outputs: as `Masked.mask`;
    nothing changes without one.
    """
    return module.mask if isinstance(module, Masked) else _unmasked


def _unchanged(values: torch.Tensor) -> torch.Tensor:
    return values


def _unmasked(outputs: torch.Tensor, observations: torch.Tensor) -> torch.Tensor:
    return outputs
