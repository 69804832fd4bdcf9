"""The written-out gradient of the loss is that of autograd, to the bit."""

from typing import Any

import pytest
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical, TorchDiagGaussian

from experiments.fast.ppo.gradient import PolicyGradient
from tests.support.matrix import matrix

pytestmark = pytest.mark.filterwarnings("ignore")


def dist_inputs_of(kind: Any, rows: int, generator: torch.Generator) -> torch.Tensor:
    spread = torch.tensor([1.0, 5.0, 300.0] if kind is TorchCategorical else [0.3, 1.0, 2.0])
    return torch.randn((rows, 6), generator=generator) * spread[torch.randint(3, (rows, 1), generator=generator)]


@matrix(
    kind=[TorchCategorical, TorchDiagGaussian],
    entropy_coeff=[0.0, 0.02, torch.tensor(0.3)],
    kl=[True, False],
    moved=[0.0, 0.1, 3.0],
)
def test_gradients_by_hand_are_those_of_autograd(kind: Any, entropy_coeff: Any, kl: bool, moved: float) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = 2000
    before = dist_inputs_of(kind, rows, generator)
    now = before + moved * torch.randn(before.shape, generator=generator)
    actions = (
        kind.from_logits(before).sample() if kind is TorchCategorical else torch.randn((rows, 3), generator=generator)
    )
    advantages = torch.randn(rows, generator=generator) * (torch.rand(rows, generator=generator) < 0.9)
    logp = kind.from_logits(before).logp(actions)
    at_bound = torch.rand(rows, generator=generator) < 0.2  # where the clipped and the other are equal, or next to it
    bounds = torch.where(torch.rand(rows, generator=generator) < 0.5, 1.2, 0.8).log()
    logp = torch.where(at_bound, kind.from_logits(now).logp(actions) - bounds, logp)
    block = {
        Columns.ACTIONS: actions,
        Columns.ACTION_LOGP: logp,
        Columns.ACTION_DIST_INPUTS: before,
        "advantages": advantages,
    }
    weights = torch.where(torch.rand(rows, generator=generator) < 0.9, 1 / rows, 0.0)
    by_hand, by_autograd = (PolicyGradient(kind, kind, 0.2, entropy_coeff) for _ in range(2))
    by_autograd._gradient, by_autograd._before_columns = by_autograd._any, lambda dist_inputs: {"before": dist_inputs}
    found, expected = (p(now, p.columns(block, weights, weights * 0.2 if kl else None)) for p in (by_hand, by_autograd))
    different = ~(torch.eq(found, expected) | (found.isnan() & expected.isnan()))
    assert by_hand._gradient != by_autograd._gradient
    assert expected.isfinite().float().mean() > 0.5
    assert not different.any(), (found[different], expected[different])
