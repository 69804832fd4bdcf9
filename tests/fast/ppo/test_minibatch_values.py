"""The values of all minibatches are those that RLlib logs."""

import math

import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID

from experiments.fast.learner import FastPPOTorchLearner
from experiments.rllib.learner import average_over_minibatches
from experiments.rllib.results import MINIBATCH_MEANS
from tests.support.fast_ppo import (
    UPDATE,
    assert_same_results,
    batches_of,
    both,
    config_of,
    learner_of,
    update,
    values,
)
from tests.support.matrix import matrix

pytestmark = pytest.mark.filterwarnings("ignore")


@matrix(strength=1, env=["CartPole-v1", "Pendulum-v1"], kl=[True, False])
def test_means_over_minibatches_are_those_of_what_rllib_logs(env: str, kl: bool) -> None:
    config = config_of(env, use_kl_loss=kl, grad_clip=0.5, entropy_coeff=0.01)
    stock, fast = both(config)
    for learner in (stock, fast):
        average_over_minibatches(learner)
    hows = [UPDATE, {"num_epochs": 1}, {"num_epochs": 2}]  # of many minibatches, one, and two
    for number, (episodes, how) in enumerate(zip(batches_of(config), hows, strict=True)):
        theirs, ours = update(stock, episodes, number, **how), update(fast, episodes, number, **how)
        assert len([path for path in values(theirs) if MINIBATCH_MEANS in path]) >= 6
        assert_same_results(ours, theirs)
    assert not fast._logged_reasons


def test_means_over_minibatches_are_kept_where_an_update_is_rllibs() -> None:
    config = config_of(use_critic=False)
    stock, fast = both(config)
    for learner in (stock, fast):
        average_over_minibatches(learner)
    for number, episodes in enumerate(batches_of(config, (90, 40))):
        assert_same_results(update(fast, episodes, number), update(stock, episodes, number))
    assert fast._logged_reasons


def test_all_minibatches_but_the_last_are_shown_before_it_is_logged() -> None:
    seen: list[dict[str, torch.Tensor]] = []

    class Watching(FastPPOTorchLearner):
        def minibatch_values(self, module_id: str, values: dict[str, torch.Tensor]) -> None:
            assert module_id == DEFAULT_MODULE_ID
            seen.append(values)

    config = config_of()
    (episodes,) = batches_of(config, (100,))
    rows = sum(map(len, episodes)) + len(episodes)
    update(learner_of(Watching, config), episodes)
    (found,) = seen
    assert {len(column) for column in found.values()} == {math.ceil(3 * rows / 64) - 1}
    assert not any(column.requires_grad for column in found.values())
