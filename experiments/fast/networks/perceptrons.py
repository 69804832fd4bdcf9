"""Multilayer perceptrons of RLlib as lists of layers: forward and backward passes without modules, hooks and a graph.

With networks of this size autograd takes as long as what it differentiates: it records every operation, and walks over
the records. The layers are always the same few, so here are torch's own formulas for them
(tools/autograd/derivatives.yaml, torch/csrc/autograd/FunctionsManual.cpp), on the same numbers in the same order:
outputs and gradients are torch's to the bit.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from ray.rllib.core.models.torch.primitives import TorchMLP
from torch import nn

Layers = list[tuple[nn.Linear, tuple[nn.Module, ...]]]
"""Linear layers, each with the modules that follow it: as a rule one activation, or none."""

Gradients = Mapping[torch.Tensor, torch.Tensor]
"""By parameter, the tensor that its gradient is written to: contiguous, of the parameter's shape."""

_Function = Callable[..., torch.Tensor]

_Backward = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]


def _of_tanh(gradient: torch.Tensor, output: torch.Tensor, into: torch.Tensor | None) -> torch.Tensor:
    aten = torch.ops.aten.tanh_backward
    found: torch.Tensor
    found = aten.default(gradient, output) if into is None else aten.grad_input(gradient, output, grad_input=into)
    return found


def _of_relu(gradient: torch.Tensor, output: torch.Tensor, into: torch.Tensor | None) -> torch.Tensor:
    aten = torch.ops.aten.threshold_backward
    found: torch.Tensor
    found = aten.default(gradient, output, 0) if into is None else aten.grad_input(gradient, output, 0, grad_input=into)
    return found


_ACTIVATIONS: dict[type[nn.Module], tuple[_Function, _Backward]] = {
    nn.Tanh: (torch.tanh_, _of_tanh),
    nn.ReLU: (torch.relu_, _of_relu),
}
"""Each activation in place, and its gradient from that of its output and the output, into a tensor if one is given."""

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def layers_of(*networks: TorchMLP) -> Layers | None:
    """The layers of perceptrons that follow each other; None if they do not begin with a linear layer."""
    found: Layers = []
    for module in [module for network in networks for module in network.mlp]:
        if type(module) is nn.Linear:
            found.append((module, ()))
        elif found:
            linear, following = found[-1]
            found[-1] = linear, (*following, module)
        else:
            return None
    return found


def is_differentiable(layers: Layers) -> bool:
    """True if `Perceptron` knows the gradients of all layers."""
    return all(
        len(following) <= 1 and all(type(module) in _ACTIVATIONS for module in following) for _, following in layers
    )


def has_hooks(module: nn.Module) -> bool:
    """True if there are hooks on a module or one of its parts, which only torch's own calls run."""
    return any(getattr(part, name) for part in module.modules() for name in _HOOKS)


def is_overridden(part: Any, base: type, *names: str) -> bool:
    """True if a module or a learner has methods of its own in place of those of a class that it is derived from."""
    return any(name in vars(part) or getattr(type(part), name) is not getattr(base, name) for name in names)


def forward_function(layers: Layers) -> Callable[[torch.Tensor], torch.Tensor]:
    """A forward pass [rows, inputs] to [rows, outputs] that keeps nothing for a backward pass.

    The weights may change; parameters that replace others are not used.
    """
    linear = torch.nn.functional.linear
    steps = [
        (
            layer.weight,
            layer.bias,
            # in place: of what `linear` has just made
            [_ACTIVATIONS[type(module)][0] if type(module) in _ACTIVATIONS else module for module in following],
        )
        for layer, following in layers
    ]

    def forward(values: torch.Tensor) -> torch.Tensor:
        for weight, bias, functions in steps:
            values = linear(values, weight, bias)
            for function in functions:
                values = function(values)
        return values

    return forward


class Perceptron:
    """Layers that are differentiable; of each forward pass is kept what the next backward pass needs.

    Args:
        layers: Not empty.
        gradients: Gradients of all their parameters; None: only the inputs' gradient is computed.
    """

    def __init__(self, layers: Layers, gradients: Gradients | None) -> None:
        self._layers = [_Layer(linear, following[0] if following else None, gradients) for linear, following in layers]

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """[rows, inputs] to [rows, outputs].

        The next call overwrites the hidden layers' outputs, not those that are returned.
        """
        for layer in self._layers[:-1]:
            values = layer.forward(values, reuse=True)
        return self._layers[-1].forward(values, reuse=False)

    @property
    def features(self) -> torch.Tensor:
        """What the last layer was given last, [rows, features]."""
        return self._layers[-1].inputs

    def backward(
        self,
        gradient: torch.Tensor,
        to_inputs: bool,
        is_own: bool = False,
        of_features: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Compute the parameters' gradients from that of the outputs.

        Args:
            gradient: Of the outputs; overwritten if it `is_own`.
            to_inputs: Whether to return that of the inputs.
            is_own: Whether nobody else wants it afterwards.
            of_features: Gradient that `features` have from elsewhere.
        """
        for layer in reversed(self._layers):
            goes_on = to_inputs or layer is not self._layers[0]
            gradient = layer.backward(gradient, goes_on, is_own)
            if of_features is not None and goes_on and layer is self._layers[-1]:
                gradient += of_features
            is_own = True
        return gradient


class _Layer:
    def __init__(self, linear: nn.Linear, activation: nn.Module | None, gradients: Gradients | None) -> None:
        self._weight, self._bias = linear.weight.detach(), None if linear.bias is None else linear.bias.detach()
        self._transposed = self._weight.t()
        self._weight_gradient = None if gradients is None else gradients[linear.weight]
        self._bias_gradient = None if gradients is None or linear.bias is None else gradients[linear.bias]
        self._activate = None if activation is None else _ACTIVATIONS[type(activation)][0]
        self._activation_backward = None if activation is None else _ACTIVATIONS[type(activation)][1]
        # Buffers that are reused as long as the number of rows stays the same.
        self.inputs = self._outputs = self._output_buffer = self._input_gradient = self._weight.new_empty(0, 0)

    def forward(self, values: torch.Tensor, reuse: bool) -> torch.Tensor:
        if reuse and self._output_buffer.size(0) != values.size(0):
            self._output_buffer = values.new_empty(values.size(0), self._weight.size(0))
        out = self._output_buffer if reuse else None
        if self._bias is None:
            outputs = torch.mm(values, self._transposed, out=out)
        else:
            outputs = torch.addmm(self._bias, values, self._transposed, out=out)
        self.inputs, self._outputs = values, outputs
        return outputs if self._activate is None else self._activate(outputs)

    def backward(self, gradient: torch.Tensor, to_inputs: bool, is_own: bool) -> torch.Tensor:
        if self._activation_backward is not None:
            gradient = self._activation_backward(gradient, self._outputs, gradient if is_own else None)
        if self._weight_gradient is not None:
            torch.mm(gradient.t(), self.inputs, out=self._weight_gradient)
        if self._bias_gradient is not None:
            torch.sum(gradient, 0, out=self._bias_gradient)
        if not to_inputs:
            return gradient
        if self._input_gradient.size(0) != gradient.size(0):
            self._input_gradient = torch.empty_like(self.inputs)
        return torch.mm(gradient, self._weight, out=self._input_gradient)


class BranchedPerceptron:
    """Perceptrons side by side on the outputs of one that they share, the trunk.

    Args:
        trunk: May be empty: then the inputs go into the branches as they are.
        branches: One or two.
        gradients: Gradients of all their parameters.

    Attributes:
        branches: The branches.
    """

    def __init__(self, trunk: Layers, branches: Sequence[Layers], gradients: Gradients) -> None:
        self._trunk = Perceptron(trunk, gradients) if trunk else None
        self.branches = [Perceptron(layers, gradients) for layers in branches]

    def forward(self, values: torch.Tensor) -> list[torch.Tensor]:
        """[rows, inputs] to each branch's [rows, outputs]."""
        if self._trunk is not None:
            values = self._trunk.forward(values)
        return [branch.forward(values) for branch in self.branches]

    def backward(self, gradients: Sequence[torch.Tensor]) -> None:
        """Compute the parameters' gradients from those of the branches' outputs."""
        upstream = [
            branch.backward(g, self._trunk is not None) for branch, g in zip(self.branches, gradients, strict=True)
        ]
        if self._trunk is not None:
            self._trunk.backward(functools.reduce(torch.add, upstream), to_inputs=False, is_own=True)
