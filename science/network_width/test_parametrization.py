"""Weights and learning rates that follow the width: nothing changes at the base width, and elsewhere what a step
changes does not grow with the width.
"""

import copy
import itertools
from typing import Any

import gymnasium as gym
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from torch import nn

from experiments.fast.learner import FastPPOTorchLearner
from experiments.fast.sac_learner import FastSACTorchLearner
from experiments.rllib.ppo import PPOConfig
from experiments.rllib.sac import SACConfig
from science.network_width.parametrization import ORTHOGONAL, factors, parametrise, scale, split
from tests.support.fast_off_policy import sac
from tests.support.fast_ppo import (
    assert_same_learners,
    assert_same_results,
    batches_of,
    both,
    config_of,
    learner_of,
    same,
    update,
)

pytestmark = pytest.mark.filterwarnings("ignore")
BASE = 64


def network(width: int) -> nn.Sequential:
    torch.manual_seed(0)
    first, hidden, last = nn.Linear(8, width), nn.Linear(width, width), nn.Linear(width, 3)
    return nn.Sequential(first, nn.Tanh(), hidden, nn.Tanh(), last)


def moved(width: int, mup: bool, steps: int = 3) -> dict[str, float]:
    """Root mean square by which a few steps of Adam change what the hidden and the last layer put out."""
    module, draws = network(width), torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    if mup:
        split(optimizer, scale(module, network(BASE), orthogonal=False))
    rows, targets = torch.randn(4, 8, generator=draws), torch.randn(4, 3, generator=draws)

    def outputs() -> dict[str, torch.Tensor]:
        with torch.no_grad():
            return {"hidden": module[:3](rows), "last": module(rows)}

    before = outputs()
    for _ in range(steps):
        optimizer.zero_grad()
        ((module(rows) - targets) ** 2).mean().backward()
        optimizer.step()
    return {name: float((after - before[name]).square().mean().sqrt()) for name, after in outputs().items()}


@pytest.mark.parametrize("layer", ["hidden", "last"])
def test_what_a_step_changes_grows_with_the_width_but_for_the_rules(layer: str) -> None:
    narrow, wide = ({mup: moved(width, mup)[layer] for mup in (False, True)} for width in (BASE, 16 * BASE))
    assert narrow[True] == narrow[False]
    assert wide[False] > 4 * narrow[False]
    assert 0.4 * narrow[True] < wide[True] < 2 * narrow[True]


@pytest.mark.parametrize(
    ("shape", "base", "orthogonal", "expected"),
    [
        ((256, 4), (64, 4), False, (1.0, 1.0)),  # the first layer
        ((256, 4), (64, 4), True, (2.0, 1.0)),  # whose orthogonal weights would be half as large
        ((256, 256), (64, 64), False, (1.0, 0.25)),
        ((256, 256), (64, 64), True, (1.0, 0.25)),
        ((2, 256), (2, 64), False, (0.5, 0.25)),  # the last layer
        ((2, 256), (2, 64), True, (0.5, 0.25)),
        ((2, 16), (2, 64), True, (2.0, 4.0)),
        ((64, 64), (64, 64), True, (1.0, 1.0)),
    ],
)
def test_the_factors_are_those_of_the_paper(
    shape: tuple[int, int], base: tuple[int, int], orthogonal: bool, expected: tuple[float, float]
) -> None:
    assert factors(shape, base, orthogonal) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("width", [16, 64, 512])
@pytest.mark.parametrize("orthogonal", [False, True])
def test_entries_have_the_standard_deviations_of_the_paper(width: int, orthogonal: bool) -> None:
    def drawn(units: int) -> nn.Sequential:
        module = network(units)
        for layer in (module[0], module[2], module[4]) if orthogonal else ():
            nn.init.orthogonal_(layer.weight)
        return module

    module, base = drawn(width), drawn(BASE)
    scale(module, base, orthogonal)
    first, hidden, last = (
        float(module[i].weight.square().mean().sqrt() / base[i].weight.square().mean().sqrt()) for i in (0, 2, 4)
    )
    m = width / BASE
    assert (first, hidden, last) == pytest.approx((1, m**-0.5, 1 / m), rel=0.15)


def test_groups_keep_the_order_of_parameters_and_all_of_their_settings() -> None:
    module = network(256)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2, eps=1e-7)
    found = split(optimizer, scale(module, network(BASE), orthogonal=False))
    assert found == [1.0, 0.25, 1.0, 0.25, 1.0]
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([1e-2 * factor for factor in found])
    assert {group["eps"] for group in optimizer.param_groups} == {1e-7}
    parameters = itertools.chain.from_iterable(group["params"] for group in optimizer.param_groups)
    assert all(one is other for one, other in zip(parameters, module.parameters(), strict=True))


def ppo(width: int, lr: Any = 1e-2) -> PPOConfig:
    """The suite's PPO, with its orthogonal weights."""
    config = PPOConfig().environment("CartPole-v1")
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=4, gym_env_vectorize_mode="sync")
    config.training(lr=lr, grad_clip=0.5, grad_clip_by="global_norm")
    initial = {"fcnet_kernel_initializer": ORTHOGONAL, "fcnet_bias_initializer": "zeros_"}
    config.rl_module(model_config={"fcnet_hiddens": [width, width], "vf_share_layers": False, **initial})
    config.debugging(seed=3, log_level="ERROR")
    config.reporting(log_gradients=True)
    return config


def test_at_the_base_width_weights_learning_and_generators_stay_as_they_are() -> None:
    config = ppo(16)
    expected, found = (learner_of(FastPPOTorchLearner, config) for _ in range(2))
    state = torch.get_rng_state()
    parametrise(found, base_width=16)
    assert torch.equal(torch.get_rng_state(), state)
    assert_same_learners(found, expected)
    for number, episodes in enumerate(batches_of(config_of())):
        assert_same_results(update(found, episodes, number), update(expected, episodes, number))
        assert_same_learners(found, expected)


def test_fast_updates_stay_fast_and_are_rllibs_at_any_width() -> None:
    stock, fast = both(ppo(32, lr=[[0, 1e-2], [400, 1e-3]]))
    before = copy.deepcopy(fast.module[DEFAULT_MODULE_ID].state_dict())
    for learner in (stock, fast):
        parametrise(learner, base_width=16)
    module, name = fast.module[DEFAULT_MODULE_ID], "encoder.actor_encoder.net.mlp.0.weight"
    assert same(module.state_dict()[name], before[name] * 2**0.5)
    for number, episodes in enumerate(batches_of(config_of())):
        assert fast.why_stock(episodes) is None
        assert_same_results(update(fast, episodes, number), update(stock, episodes, number))
        assert_same_learners(fast, stock)
    low, high = sorted({float(group["lr"]) for group in fast.get_optimizer().param_groups})
    assert low == pytest.approx(high / 2) and 1e-3 < high < 1e-2, "the schedule goes on"


def test_target_networks_and_every_optimizer_of_sac_follow() -> None:
    config = sac(False, {"fcnet_hiddens": [32, 32]}, config_class=SACConfig)
    config.learners(learner_class=FastSACTorchLearner)
    torch.manual_seed(0)
    learner = config.build_learner(env=gym.make("Pendulum-v1"))
    module = learner.module[DEFAULT_MODULE_ID].unwrapped()
    before = {name: weights.clone() for name, weights in module.state_dict().items()}
    parametrise(learner, base_width=16)
    after = module.state_dict()
    for name in ("pi.net.mlp.0.weight", "qf.net.mlp.0.weight", "target_qf.net.mlp.0.weight"):
        assert torch.allclose(after[name], before[name] * 0.5**0.5), name
    for online, target in module.get_target_network_pairs():
        assert all(map(torch.equal, online.state_dict().values(), target.state_dict().values()))
    rates = {name: {g["lr"] for g in optimizer.param_groups} for name, optimizer in learner._named_optimizers.items()}
    assert {name: len(found) for name, found in rates.items()} == {
        f"{DEFAULT_MODULE_ID}_{name}": 1 if name == "alpha" else 2 for name in ("qf", "qf_twin", "policy", "alpha")
    }
