"""Adam on one vector beside torch's: clipping, gradients that are missing or not finite, states that were loaded."""

import copy
import logging
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns

from experiments.fast.networks.ppo import DefaultNetworks
from tests.support.fast_ppo import (
    UPDATE,
    assert_same_learners,
    assert_same_results,
    assert_same_updates,
    batches_of,
    both,
    config_of,
    same,
    update,
)
from tests.support.matrix import matrix

pytestmark = pytest.mark.filterwarnings("ignore")


@matrix(by=["value", "norm", "global_norm"], clip=[0.001, 0.3, 1e4], logged=[True, False])
def test_gradients_are_clipped_and_logged_as_by_rllib(by: str, clip: float, logged: bool) -> None:
    config = config_of(grad_clip=clip, grad_clip_by=by)
    config.reporting(log_gradients=logged)
    assert_same_updates(config)


@pytest.mark.parametrize("logged", [True, False])
def test_gradients_that_are_not_clipped_are_as_in_rllib(logged: bool) -> None:
    config = config_of(grad_clip=None)
    config.reporting(log_gradients=logged)
    assert_same_updates(config)


def spoil_gradients(learner: Any) -> None:
    """Make every fifth gradient of two parameters infinite."""

    def spoiling() -> Callable[[torch.Tensor], torch.Tensor]:
        calls = iter(range(10**6))
        return lambda gradient: gradient * (math.inf if next(calls) % 5 == 3 else 1.0)

    for parameter in list(learner.module[DEFAULT_MODULE_ID].parameters())[:2]:
        parameter.register_hook(spoiling())


@matrix(
    clipping=[(0.5, "global_norm"), (0.5, "norm"), (0.5, "value"), (None, "value")],
    flag=[True, False],
    logged=[True, False],
)
def test_gradients_that_are_not_finite_are_treated_as_by_rllib(
    clipping: tuple[float | None, str], flag: bool, logged: bool
) -> None:
    clip, by = clipping
    config = config_of(grad_clip=clip, grad_clip_by=by)
    config.reporting(log_gradients=logged)
    config.torch_skip_nan_gradients = flag
    stock, fast = both(config)
    before = [p.detach().clone() for p in stock.module[DEFAULT_MODULE_ID].parameters()]
    for learner in (stock, fast):
        spoil_gradients(learner)
    for number, episodes in enumerate(batches_of(config)):
        assert_same_results(update(fast, episodes, number), update(stock, episodes, number))
        for mine, its in zip(
            fast.module[DEFAULT_MODULE_ID].parameters(), stock.module[DEFAULT_MODULE_ID].parameters(), strict=True
        ):
            assert same(mine, its)
        for mine, its in zip(fast.get_optimizer().state.values(), stock.get_optimizer().state.values(), strict=True):
            assert all(same(mine[name], its[name]) for name in its)
    if not flag:
        assert not all(
            torch.equal(one, other)
            for one, other in zip(before, stock.module[DEFAULT_MODULE_ID].parameters(), strict=True)
        )
    assert not fast._logged_reasons


@pytest.mark.parametrize("clip", [0.5, None])
def test_a_minibatch_that_overflows_is_treated_as_by_rllib(
    clip: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    config = config_of(grad_clip=clip)
    config.torch_skip_nan_gradients = False
    batches = batches_of(config)
    for batch in batches:
        for episode in batch[::3]:
            episode.extra_model_outputs[Columns.ACTION_LOGP].data[-1] = -200.0  # a ratio that is no number any more
    # a Ray that was started before may have quietened it
    logger = logging.getLogger("ray.rllib.core.learner.torch.torch_learner")
    logger.addHandler(caplog.handler)
    try:
        with caplog.at_level(logging.WARNING, logger=logger.name):
            stock, fast = assert_same_updates(config, batches, **{**UPDATE, "minibatch_size": 16})
    finally:
        logger.removeHandler(caplog.handler)
    assert DefaultNetworks.is_known(fast.module[DEFAULT_MODULE_ID], fast._adam.parameters)
    skipped = [record for record in caplog.records if "Skipping this update" in record.getMessage()]
    assert bool(skipped) == (clip is None)  # and else set to zero, or what torch takes for it
    assert clip or all(torch.isfinite(weights).all() for weights in stock.module[DEFAULT_MODULE_ID].parameters())


def test_parameters_without_a_gradient_are_left_alone() -> None:
    config = config_of()
    stock, fast = both(config)
    batches = batches_of(config)
    for number, frozen in enumerate((False, True, False)):
        for learner in (stock, fast):
            for name, parameter in learner.module[DEFAULT_MODULE_ID].named_parameters():
                parameter.requires_grad_(not (frozen and name.startswith("encoder.actor_encoder")))
        assert_same_results(update(fast, batches[number], number), update(stock, batches[number], number))
        assert_same_learners(fast, stock)


def test_frozen_modules_are_left_alone() -> None:
    config = config_of(grad_clip=0.5)
    stock, fast = both(config)
    for learner in (stock, fast):
        learner.module[DEFAULT_MODULE_ID].requires_grad_(False)
    (episodes,) = batches_of(config, (100,))
    assert_same_results(update(fast, episodes), update(stock, episodes))
    assert_same_learners(fast, stock)


def test_groups_with_learning_rates_of_their_own_are_as_in_rllib() -> None:
    config = config_of(grad_clip=0.5)
    stock, fast = both(config)
    for learner in (stock, fast):
        optimizer = learner.get_optimizer()
        (group,) = optimizer.param_groups
        parts = {1.0: group["params"][:3], 0.3: group["params"][3:4], 0.1: group["params"][4:]}
        optimizer.param_groups[:] = [{**group, "params": part, "lr": group["lr"] * by} for by, part in parts.items()]
        learner._set_optimizer_lr = lambda optimizer, lr: None  # which would make them alike
    for number, episodes in enumerate(batches_of(config)):
        assert fast.why_stock(episodes) is None
        assert_same_results(update(fast, episodes, number), update(stock, episodes, number))
        assert_same_learners(fast, stock)
    assert [group["lr"] for group in fast.get_optimizer().param_groups] == pytest.approx([1e-2, 3e-3, 1e-3])


def test_an_optimizer_state_that_was_loaded_is_gone_on_with() -> None:
    config = config_of()
    batches = batches_of(config, (100,) * 3)
    stock, fast = both(config)
    for number in (0, 1):
        update(fast, batches[number], number)
        update(stock, batches[number], number)
    fast.set_state(copy.deepcopy(stock.get_state()))  # while vectors are laid out for what was there before
    update(fast, batches[2], 2)
    update(stock, batches[2], 2)
    assert_same_learners(fast, stock)
