"""The maximal update parametrization (mu-P) under Adam: initial weights and learning rates that follow the width.

With m, the units that go into a layer over those at a base width (Yang, Hu et al. 2022, "Tensor Programs V",
arXiv 2203.03466, table 3):

| weights | initial standard deviation | learning rate |
|---|---|---|
| of the first layer, and all biases | as at the base width | as at the base width |
| of hidden layers | that at the base width / sqrt(m) | / m |
| of the last layer | that at the base width / m | / m |

The paper's table 8 leaves weights and learning rate of the last layer as they are at the base width, and divides what
it puts out by m. Under Adam that is the same network after each step, but for Adam's epsilon and where gradients are
clipped. Here no output is divided, so that the networks stay RLlib's own: whatever reads, plays or exports their
weights need not know of it.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.apis import TargetNetworkAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from torch import nn

from experiments.rllib.checkpoints import send_weights

ORTHOGONAL = "orthogonal_"
INITIALIZERS = (None, ORTHOGONAL)
"""Of hidden layers, those of which it is known how weights depend on the width: torch's own, and orthogonal ones."""
_HIDDEN = ("fcnet_hiddens", "head_fcnet_hiddens", "fusionnet_hiddens")
"""RLlib's settings of the units of hidden layers."""

Rates = Mapping[nn.Parameter, float]
"""Parameter to the factor of its learning rate; 1 of one that is not there."""


def factors(shape: Sequence[int], base: Sequence[int], orthogonal: bool) -> tuple[float, float]:
    """The factors of a layer's initial weights and of their learning rate.

    Args:
        shape: [outputs, inputs] of the layer.
        base: The same at the base width: a number that differs grows with the width.
        orthogonal: Whether the weights were drawn orthogonal: then they fall with the square root of the larger number,
            else of the inputs.

    Returns:
        Both exactly 1 at the base width.
    """
    fan, base_fan = (max(sizes) if orthogonal else sizes[1] for sizes in (shape, base))
    m = shape[1] / base[1]
    power = 0.5 if shape[0] != base[0] else 1.0
    return math.sqrt(fan / base_fan) / m**power, 1 / m


@torch.no_grad()
def scale(module: nn.Module, base: nn.Module, orthogonal: bool) -> Rates:
    """Scale the weights of a new network.

    Args:
        module: The network; its matrices are taken for weights of layers.
        base: The same at the base width. What it does not have is left as it is.
        orthogonal: As of `factors`.

    Returns:
        The factors of the learning rates of its weights.
    """
    shapes = {name: weights.shape for name, weights in base.named_parameters()}
    rates: dict[nn.Parameter, float] = {}
    for name, weights in module.named_parameters():
        if name in shapes and weights.dim() == 2:
            factor, rates[weights] = factors(weights.shape, shapes[name], orthogonal)
            weights.mul_(factor)
    return rates


def split(optimizer: torch.optim.Optimizer, rates: Rates) -> list[float]:
    """Give an optimizer of one group a group for each run of parameters with the same factor, which keeps their order.

    Args:
        optimizer: Without a state, or with one that its parameters keep.
        rates: The factors of the learning rates.

    Returns:
        The factor of each group.
    """
    (group,) = optimizer.param_groups
    runs = [(factor, list(run)) for factor, run in itertools.groupby(group["params"], lambda p: rates.get(p, 1.0))]
    optimizer.param_groups[:] = [{**group, "params": run, "lr": group["lr"] * factor} for factor, run in runs]
    return [factor for factor, _ in runs]


def parametrise(learner: Any, base_width: int) -> None:
    """Give a learner that was just built the initial weights and learning rates of the parametrization.

    Schedules of the learning rate go on: RLlib sets an optimizer's rate by the learner's `_set_optimizer_lr`
    (core/learner/learner.py: `after_gradient_based_update`), which multiplies it from now on.

    Args:
        learner: RLlib's, in its own process, through `learner_group.foreach_learner`.
        base_width: Units of each hidden layer at which nothing changes.
    """
    module = learner.module[DEFAULT_MODULE_ID].unwrapped()
    orthogonal = module.model_config.get("fcnet_kernel_initializer") == ORTHOGONAL
    rates = scale(module, _at(module, base_width), orthogonal)
    if isinstance(module, TargetNetworkAPI):
        for network, target in module.get_target_network_pairs():
            target.load_state_dict(network.state_dict())
    optimizers = learner.get_optimizers_for_module(DEFAULT_MODULE_ID)
    of_groups = {optimizer: split(optimizer, rates) for _, optimizer in optimizers}

    def set_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
        for group, factor in zip(optimizer.param_groups, of_groups[optimizer], strict=True):
            group["lr"] = lr * factor

    learner._set_optimizer_lr = set_rate


def parametrise_algorithm(*, algorithm: Any, base_width: int, **kwargs: Any) -> None:
    """`on_algorithm_init`: the same, in all learners; env runners get the weights.

    Args:
        algorithm: The algorithm that has just been built.
        base_width: As of `parametrise`.
        **kwargs: Other arguments of RLlib's.
    """
    algorithm.learner_group.foreach_learner(partial(parametrise, base_width=base_width))
    send_weights(algorithm)


def _at(module: Any, width: int) -> nn.Module:
    """A module's networks at another width, with weights of their own."""
    spec, sizes = RLModuleSpec.from_module(module), module.model_config
    hidden = {name: [width] * len(sizes[name]) for name in _HIDDEN if sizes.get(name)}
    spec.model_config = {**sizes, **hidden}
    with torch.random.fork_rng(devices=[]):  # a trial's own numbers stay what they are
        built: nn.Module = spec.build()
    return built
