"""Squashed Gaussians without RLlib's and torch's objects: draws, log-probabilities and gradients to the bit."""

import pytest
import torch
from ray.rllib.core.distribution.torch.torch_distribution import TorchSquashedGaussian

from experiments.fast.networks import squashed


@pytest.fixture(params=[(1, 1, 0.3), (256, 1, 1.0), (7, 3, 4.0), (33, 17, 30.0)], ids=str)
def logits(request: pytest.FixtureRequest) -> torch.Tensor:
    """From narrow ones to those whose deviations are clipped and whose actions are at their bounds."""
    rows, actions, spread = request.param
    return spread * torch.randn(rows, 2 * actions, generator=torch.Generator().manual_seed(rows))


def test_draws_and_their_gradient_are_those_of_autograd(logits: torch.Tensor) -> None:
    rows, generator = len(logits), torch.Generator().manual_seed(0)
    of_actions, of_logp = (
        torch.randn(rows, logits.size(1) // 2, generator=generator),
        torch.randn(rows, generator=generator),
    )
    drawn, given = squashed.Reparameterised(), logits.clone().requires_grad_()
    torch.manual_seed(0)
    expected = TorchSquashedGaussian.from_logits(given).rsample_and_logp()
    state = torch.get_rng_state()
    torch.manual_seed(0)
    found = drawn.draw(logits)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(map(torch.equal, found, expected))
    (gradient,) = torch.autograd.grad(list(expected), [given], [of_actions, of_logp])
    torch.testing.assert_close(drawn.backward(of_actions, of_logp), gradient, rtol=0, atol=0, equal_nan=True)


def test_samples_are_rllibs(logits: torch.Tensor) -> None:
    torch.manual_seed(0)
    distribution = TorchSquashedGaussian.from_logits(logits)
    actions = distribution.sample()
    expected = actions, distribution.logp(actions), *distribution.sample_and_logp()
    torch.manual_seed(0)
    found = *squashed.sample(logits), *squashed.sample_and_logp(logits)
    assert all(map(torch.equal, found, expected))
