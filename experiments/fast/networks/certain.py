"""Greedy actions by NumPy, where these are certainly the ones that torch would choose.

What a small network takes for a few rows is the start of torch's operations. NumPy starts its own several times as
fast, but adds up in another order. A greedy policy needs the largest of some numbers and not their last bits: where the
largest leads by more than both may be wrong, it is the same.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from experiments.fast.networks.perceptrons import Layers
from experiments.fast.networks.ppo import policy_layers
from experiments.fast.preprocessing.modules import Preprocessed

_MOST_WEIGHTS = 20_000
"""Of larger networks the products take longer than their start."""
_UNIT = float(np.finfo(np.float32).eps) / 2
_OF_TANH = 16 * _UNIT
"""An error that neither library's tanh has; theirs are below 4 units."""

Floats = npt.NDArray[np.float32]


class CertainChoices:
    """The actions that a policy of perceptrons chooses without exploring, as far as they are certain.

    Args:
        layers: Of the policy, with tanh, ReLU or nothing behind each. Their weights do not change.
    """

    def __init__(self, layers: Layers) -> None:
        self._layers = [
            (
                linear.weight.detach().numpy().T,
                None if linear.bias is None else linear.bias.detach().numpy(),
                type(following[0]) if following else None,
            )
            for linear, following in layers
        ]
        at_rest, at_one = (self._error(size) for size in (0.0, 1.0))
        self._at_rest, self._per_size = at_rest, at_one - at_rest

    def __call__(self, observations: Floats) -> npt.NDArray[np.int64] | None:
        """Actions [N].

        Args:
            observations: [N, inputs].

        Returns:
            None where one of them is not certain, or numbers are not finite.
        """
        values = observations
        for weight, bias, activation in self._layers:
            values = values @ weight
            if bias is not None:
                values += bias
            if activation is nn.Tanh:
                np.tanh(values, out=values)
            elif activation is nn.ReLU:
                np.maximum(values, 0.0, out=values)
        # Both are as far from the exact numbers as the error at most, and so is each of the two numbers compared.
        margin = 4.01 * (self._at_rest + self._per_size * float(np.abs(observations).max()))
        behind = values.max(axis=1, keepdims=True) - values
        if np.count_nonzero(behind <= margin) != len(values):
            return None
        return np.asarray(values.argmax(axis=1))

    def _error(self, size: float) -> float:
        """By how much an output in float32 may differ from the exact one, for observations up to a size: affine in it.

        A sum of n products is wrong by at most n u / (1 - n u) of the sum of their sizes, in whatever order it is
        added up (Higham 2002, *Accuracy and Stability of Numerical Algorithms*, section 3.1).
        """
        inputs = len(self._layers[0][0])
        largest, error = np.full(inputs, size), np.zeros(inputs)
        for weight, bias, activation in self._layers:
            sizes = np.abs(weight).astype(float)
            terms = (len(weight) + 1) * _UNIT
            total = (largest + error) @ sizes + (0.0 if bias is None else np.abs(bias))
            error = error @ sizes + terms / (1 - terms) * total
            largest = np.ones_like(total) if activation is nn.Tanh else total
            error += _OF_TANH if activation is nn.Tanh else 0.0
        return float(error.max())


def certain_choices(module: Any) -> Callable[[Floats], npt.NDArray[np.int64] | None] | None:
    """The choices of a default module of PPO, IMPALA and APPO that acts by a number for each action.

    Args:
        module: Its weights do not change.

    Returns:
        From observations [N, inputs] to actions [N], or None where they are not certain; None of other modules, of
        large networks, and of those elsewhere than on the CPU.
    """
    layers = None if isinstance(module, Preprocessed) else policy_layers(module)
    if layers is None:
        return None
    plain = all(
        len(following) <= 1 and all(type(one) in (nn.Tanh, nn.ReLU) for one in following) for _, following in layers
    )
    weights = [linear.weight for linear, _ in layers]
    here = all(weight.device.type == "cpu" for weight in weights)
    if not plain or not here or sum(weight.numel() for weight in weights) > _MOST_WEIGHTS:
        return None
    return CertainChoices(layers)
