"""`torch.optim.Adam` on one vector instead of parameter by parameter, with the same numbers (torch/optim/adam.py)."""

import functools
import math
from typing import Any

import torch

_ALIGNED = 16
"""Numbers, a line of cache; the vectors' parts begin where torch would have begun a tensor."""
_OF_GROUPS = ("params", "lr")
"""What each group of an optimizer may have of its own."""


class FlatAdam:
    """Takes the steps of a plain Adam, with gradient and moments as one vector each.

    Its groups of parameters may have learning rates of their own.

    The optimizer's state stays in the optimizer: its moments become views of the vectors here. So its `state_dict` is
    that of any Adam, and its own `step()` can be called between `end` and `begin`.

    Attributes:
        optimizer: The Adam; its settings are read at every step.
        parameters: The optimizer's parameters, group by group.
        gradient: The gradients of all parameters that have one.
        gradients: The same, by parameter: views.
        length: The gradient's norm, as `is_finite` computed it.
    """

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.gradient = self.length = torch.empty(0)
        self.gradients: list[torch.Tensor] = []
        of_groups = [(p, number) for number, group in enumerate(optimizer.param_groups) for p in group["params"]]
        self.parameters: list[torch.nn.Parameter] = [p for p, _ in of_groups]
        self._group_of = dict(of_groups)
        self._params: list[torch.nn.Parameter] = []  # those that are laid out
        self._laid_out: list[bool] = []
        self._moments: list[list[torch.Tensor]] = [[], []]
        self._num_steps = self._num_steps_in_state = 0.0

    @staticmethod
    def suits(optimizer: Any) -> bool:
        """True if `step` does the same as an optimizer's: it is an Adam without extras."""
        if type(optimizer) is not torch.optim.Adam:
            return False
        group, *more = (
            {name: value for name, value in group.items() if name not in _OF_GROUPS} for group in optimizer.param_groups
        )
        others = (
            "amsgrad",
            "maximize",
            "capturable",
            "differentiable",
            "fused",
            "weight_decay",
            "decoupled_weight_decay",
        )
        hooks = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
        return (
            all(settings == group for settings in more)
            and not hooks
            and not any(group.get(name) for name in others)
            and all(isinstance(beta, float) for beta in group["betas"])
        )

    def begin(self) -> None:
        """Read the optimizer's state, which may have been loaded, or changed by its own `step`."""
        states = [self.optimizer.state.get(p, {}) for p in self._params]
        steps = {float(state["step"]) for state in states if "step" in state}
        moments = zip(states, *self._moments, strict=True)
        if len(steps) != 1 or any(s.get("exp_avg") is not m or s.get("exp_avg_sq") is not v for s, m, v in moments):
            self._laid_out = []
        else:
            (self._num_steps,) = steps
            self._num_steps_in_state = self._num_steps

    def end(self) -> None:
        """Write the number of steps into the optimizer's state."""
        if more := self._num_steps - self._num_steps_in_state:
            for parameter in self._params:
                self.optimizer.state[parameter]["step"] += more
        self._num_steps_in_state = self._num_steps

    def lay_out(self, which: list[bool] | None = None) -> dict[torch.Tensor, torch.Tensor]:
        """Make vectors for some parameters, with the optimizer's state of them.

        Args:
            which: Which parameters to take; all that are trained if not given.

        Returns:
            By parameter, its part of `gradient`; empty if the parameters differ in dtype, device, or number of steps.
        """
        which = [p.requires_grad for p in self.parameters] if which is None else which
        if which != self._laid_out:
            self.end()
            self._params, self._laid_out, self._moments = [], [], [[], []]
            parameters = [p for p, chosen in zip(self.parameters, which, strict=True) if chosen]
            states = [self.optimizer.state.get(p) or {} for p in parameters]
            ages = {float(state["step"]) if state else 0.0 for state in states}
            if len({(p.dtype, p.device) for p in parameters}) != 1 or len(ages) != 1:
                return {}
            rooms = [-(-p.numel() // _ALIGNED) * _ALIGNED for p in parameters]
            flat = [torch.zeros(sum(rooms), dtype=parameters[0].dtype, device=parameters[0].device) for _ in range(4)]
            self.gradient, self._mean, self._square, self._change = flat
            views = [
                [r[: p.numel()].view(p.shape) for r, p in zip(torch.split(v, rooms), parameters, strict=True)]
                for v in flat
            ]
            self.gradients, *self._moments, self._changes = views
            for parameter, state, mean, square in zip(parameters, states, *self._moments, strict=True):
                if state:
                    mean.copy_(state["exp_avg"])
                    square.copy_(state["exp_avg_sq"])
                step = state.get("step", torch.zeros((), dtype=torch.float32))
                self.optimizer.state[parameter] = {**state, "step": step, "exp_avg": mean, "exp_avg_sq": square}
            self._params, self._laid_out = parameters, which
            (self._num_steps,) = ages
            self._num_steps_in_state = self._num_steps
        return dict(zip(self._params, self.gradients, strict=True))

    def zero_grad(self) -> None:
        """As the optimizer's."""
        for parameter in self.parameters:
            parameter.grad = None

    def gather(self) -> bool:
        """Copy the parameters' gradients into `gradient`; False if they do not make one vector."""
        gradients = [parameter.grad for parameter in self.parameters]
        which = [gradient is not None for gradient in gradients]
        if which != self._laid_out and not self.lay_out(which):
            return False
        torch._foreach_copy_(self.gradients, [gradient for gradient in gradients if gradient is not None])
        return True

    def scatter(self) -> None:
        """Copy `gradient`, which may have been clipped, back to the parameters' gradients."""
        torch._foreach_copy_(
            [parameter.grad for parameter in self._params if parameter.grad is not None], self.gradients
        )

    def is_finite(self) -> bool:
        """True if all of the gradient is finite; sets `length`."""
        self.length = torch.linalg.vector_norm(self.gradient)
        return math.isfinite(float(self.length))

    def norm(self) -> torch.Tensor:
        """The gradient's norm, as RLlib computes it (utils/torch_utils.py: `compute_global_norm`)."""
        norm: torch.Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(self.gradients)))
        return norm

    def clip(self, limit: float, norm: torch.Tensor) -> None:
        """Scale the gradient as RLlib clips by the global norm (utils/torch_utils.py: `clip_gradients`)."""
        if norm.item() * 1.001 + 1e-6 < limit:
            if (factor := _factor_below(limit)) != 1:
                self.gradient.mul_(factor)
        else:
            self.gradient.mul_(_factor(limit, norm))

    def step(self) -> None:
        """Take a step as `_single_tensor_adam` (torch/optim/adam.py); call it under `torch.no_grad`."""
        groups = self.optimizer.param_groups
        beta1, beta2 = groups[0]["betas"]
        self._num_steps += 1
        self._mean.lerp_(self.gradient, 1 - beta1)
        self._square.mul_(beta2).addcmul_(self.gradient, self.gradient, value=1 - beta2)
        steps = [-float(group["lr"] / (1 - beta1**self._num_steps)) for group in groups]
        torch.sqrt(self._square, out=self._change).div_((1 - beta2**self._num_steps) ** 0.5).add_(groups[0]["eps"])
        if len(steps) == 1:
            torch.div(self._mean * steps[0], self._change, out=self._change)
        else:
            scaled = torch._foreach_mul(self._moments[0], [steps[self._group_of[p]] for p in self._params])
            torch._foreach_copy_(self._changes, torch._foreach_div(scaled, self._changes))
        torch._foreach_add_(tuple(self._params), self._changes)


def _factor(limit: float, norm: torch.Tensor) -> torch.Tensor:
    return torch.clamp(limit / torch.clamp(norm + 1e-6, min=limit), max=1.0)


@functools.cache
def _factor_below(limit: float) -> float:
    """The factor of gradients that are not clipped: not always 1, since torch divides
    by multiplying by the reciprocal.
    """
    return float(_factor(limit, torch.zeros(())))
