"""Draws of RLlib's squashed Gaussian, from -1 to 1 (core/distribution/torch/torch_distribution.py), with their
log-probabilities, and the gradient of reparameterised ones, without objects and a graph.

Of a few numbers a row distributions and autograd take longer than the arithmetic. These are their operations
(torch/distributions/normal.py, tools/autograd/derivatives.yaml) in the same order: all is the same to the bit.
"""

import math

import torch
from ray.rllib.utils.numpy import MAX_LOG_NN_OUTPUT, MIN_LOG_NN_OUTPUT, SMALL_NUMBER

Tensor = torch.Tensor

_LOG_2 = math.log(2.0)
_LOG_SQRT_2_PI = math.log(math.sqrt(2 * math.pi))


def sample(logits: Tensor) -> tuple[Tensor, Tensor]:
    """As `sample`, and `logp` of that.

    Args:
        logits: [..., 2 A]: means, and logarithms of standard deviations.

    Returns:
        Actions [..., A], and their log-probabilities [...].
    """
    mean, _, scale = _parts(logits)
    actions = _squashed(torch.normal(mean, scale))[1]
    inner = torch.clamp((actions + 1.0) / 2.0 * 2.0 - 1.0, -1.0 + SMALL_NUMBER, 1.0 - SMALL_NUMBER)
    return actions, _logp(torch.atanh(inner), mean, scale)


def sample_and_logp(logits: Tensor) -> tuple[Tensor, Tensor]:
    """As the method of that name; arguments and result as of `sample`."""
    mean, _, scale = _parts(logits)
    unsquashed = torch.normal(mean, scale)
    return _squashed(unsquashed)[1], _logp(unsquashed, mean, scale)


class Reparameterised:
    """Draws that are differentiable."""

    def __init__(self) -> None:
        self._kept: tuple[Tensor, ...] = ()

    def draw(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """As `rsample_and_logp`; arguments and result as of `sample`."""
        mean, log_std, scale = _parts(logits)
        noise = torch.normal(torch.zeros_like(mean), torch.ones_like(mean))
        unsquashed = mean + noise * scale
        tanh, actions = _squashed(unsquashed)
        apart, twice_variance = unsquashed - mean, 2 * scale**2
        self._kept = log_std, scale, noise, unsquashed, tanh, apart, twice_variance
        return actions, _logp_of(unsquashed, apart, scale, twice_variance)

    def backward(self, of_actions: Tensor, of_logp: Tensor) -> Tensor:
        """The gradient of the logits [..., 2 A] of the last draw.

        Args:
            of_actions: Gradient of the actions, [..., A].
            of_logp: Of their log-probabilities, [...].
        """
        log_std, scale, noise, unsquashed, tanh, apart, twice_variance = self._kept
        aten = torch.ops.aten
        of_logp = of_logp.unsqueeze(-1).expand_as(scale)
        twice = of_logp * 2.0
        of_softplus = aten.softplus_backward.default(twice, -2.0 * unsquashed, 1, 20)
        of_apart = -(of_logp / twice_variance) * (2 * apart)
        of_variance = -twice * ((-(apart**2) / twice_variance) / twice_variance)
        actions = _before_clamp(tanh)
        of_tanh = torch.where((actions >= -1.0) & (actions <= 1.0), of_actions, 0.0)
        # in the order in which autograd adds them up
        of_unsquashed = of_softplus * -2.0 + twice + of_apart + aten.tanh_backward.default(of_tanh, tanh)
        of_mean = -of_apart + of_unsquashed
        of_scale = -of_logp / scale + of_variance * (2 * scale) + of_unsquashed * noise
        of_log_std = torch.where((log_std >= MIN_LOG_NN_OUTPUT) & (log_std <= MAX_LOG_NN_OUTPUT), of_scale * scale, 0.0)
        return torch.cat((of_mean, of_log_std), dim=-1)


def _parts(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Means, logarithms of standard deviations as they are given, and standard deviations; [..., A] each."""
    mean, log_std = logits.chunk(2, dim=-1)
    return mean, log_std, torch.clamp(log_std, MIN_LOG_NN_OUTPUT, MAX_LOG_NN_OUTPUT).exp()


def _before_clamp(tanh: Tensor) -> Tensor:
    return ((tanh + 1.0) / 2.0) * 2.0 + -1.0


def _squashed(unsquashed: Tensor) -> tuple[Tensor, Tensor]:
    """The hyperbolic tangent, and the actions that RLlib makes of it."""
    tanh = torch.tanh(unsquashed)
    return tanh, torch.clamp(_before_clamp(tanh), -1.0, 1.0)


def _logp(unsquashed: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    return _logp_of(unsquashed, unsquashed - mean, scale, 2 * scale**2)


def _logp_of(unsquashed: Tensor, apart: Tensor, scale: Tensor, twice_variance: Tensor) -> Tensor:
    normal = -(apart**2) / twice_variance - scale.log() - _LOG_SQRT_2_PI
    jacobian = 2.0 * (_LOG_2 - unsquashed - torch.nn.functional.softplus(-2.0 * unsquashed))
    return normal.sum(-1) - jacobian.sum(-1)
