"""The fast learners of IMPALA and APPO beside RLlib's: the same weights, to the bit, and the same results."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
import tree
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from experiments.fast.preprocessing.rewards import scale_rewards
from experiments.fast.vtrace.learner import FastIMPALATorchLearner
from experiments.rllib.learner import average_over_minibatches
from experiments.rllib.results import MINIBATCH_MEANS
from tests.support.fast_ppo import IMAGES, Images, MultiDiscrete, batches_of, config_of, same
from tests.support.fast_vtrace import (
    CONFIGS,
    assert_same_results,
    assert_same_updates,
    assert_same_weights,
    learners_of,
    update,
    vtrace_config,
)
from tests.support.matrix import matrix
from tests.support.preprocessed import NORMALIZE, seen, with_preprocessing

pytestmark = pytest.mark.filterwarnings("ignore")

CLIPS: dict[str, dict[str, Any]] = {
    "none": {},
    "global norm": {"grad_clip": 0.5, "grad_clip_by": "global_norm"},
    "norm": {"grad_clip": 0.05, "grad_clip_by": "norm"},
    "value": {"grad_clip": 0.01, "grad_clip_by": "value"},
}


@matrix(
    kind=list(CONFIGS),
    env=["CartPole-v1", "Pendulum-v1", MultiDiscrete],
    model=[{}, {"vf_share_layers": True, "fcnet_activation": "relu"}],
    clip=list(CLIPS),
    training=[
        {},
        {"lr": [[0, 1e-2], [300, 1e-4]], "entropy_coeff": [[0, 0.1], [300, 0.0]], "vf_loss_coeff": 0.7},
        {"vtrace_clip_rho_threshold": 0.8, "vtrace_clip_pg_rho_threshold": 0.9, "gamma": 0.9},
    ],
    passes=[1, 3],
)
def test_weights_are_those_of_rllib(
    kind: str, env: Any, model: dict[str, Any], clip: str, training: dict[str, Any], passes: int
) -> None:
    config = vtrace_config(kind, env, model, **training, **CLIPS[clip])
    assert_same_updates(config, num_epochs=passes)


def test_the_divergence_from_the_target_network_is_a_part_of_the_loss() -> None:
    config = vtrace_config("APPO", use_kl_loss=True, kl_coeff=0.5, kl_target=1e-4, target_network_update_freq=3)
    with learners_of(config) as (stock, fast):
        for number, episodes in enumerate(batches_of(config_of())):
            ours, theirs = (update(learner, episodes, number, num_epochs=2) for learner in (fast, stock))
            assert_same_results(ours, theirs)
            assert_same_weights(fast, stock)
        module = fast.module[DEFAULT_MODULE_ID]
        now, target = module.pi.state_dict(), module._old_pi.state_dict()
        assert all(same(target[name], weights) for name, weights in now.items()), "updated with the last batch"
        assert fast.curr_kl_coeffs_per_module == stock.curr_kl_coeffs_per_module
        assert fast.curr_kl_coeffs_per_module[DEFAULT_MODULE_ID] > 0.5


@pytest.mark.parametrize("kind", CONFIGS)
def test_means_over_the_passes_are_reported_and_rewards_are_scaled_as_with_rllib(kind: str) -> None:
    def prepare(learner: Any) -> None:
        average_over_minibatches(learner)
        scale_rewards(learner)
        learner.module[DEFAULT_MODULE_ID].preprocessing.merge([seen(4)])

    config = with_preprocessing(vtrace_config(kind, grad_clip=0.5), NORMALIZE)
    assert_same_updates(config, prepare=prepare, num_epochs=4)
    with learners_of(config, prepare) as (_, fast):
        results = update(fast, batches_of(config_of())[0], num_epochs=4)[DEFAULT_MODULE_ID]
        assert {"entropy", "gradients_default_optimizer_global_norm"} <= set(results[MINIBATCH_MEANS])


def test_a_batch_is_shown_once_before_its_first_pass() -> None:
    seen: list[Any] = []
    with learners_of(vtrace_config("APPO")) as (_, fast):
        before = fast.module.get_state()

        def look(module_id: str, batch: Any) -> None:
            seen.append((module_id, len(batch), fast._weights_seq_no))
            now = fast.module.get_state()
            assert tree.map_structure(np.array_equal, now, before) == tree.map_structure(lambda _: True, before)

        fast.whole_batch = look
        update(fast, batches_of(config_of())[0], num_epochs=3)
    assert [(module_id, number) for module_id, _, number in seen] == [(DEFAULT_MODULE_ID, 1)]
    assert seen[0][1] > 150  # a row more for each piece of an episode


@pytest.mark.parametrize("kind", CONFIGS)
def test_rllibs_code_takes_over_where_a_gradient_is_not_finite(kind: str) -> None:
    config = vtrace_config(kind, grad_clip=0.5)
    first, second, third = batches_of(config_of())
    rewards = second[0].rewards.data
    rewards[:] = float("inf")
    with learners_of(config) as (stock, fast):
        for number, episodes in enumerate((first, second, third)):
            ours, theirs = (update(learner, episodes, number, num_epochs=2) for learner in (fast, stock))
            assert_same_weights(fast, stock)
            assert_same_results(ours, theirs)
        assert not fast._logged_reasons


@pytest.mark.parametrize("kind", CONFIGS)
def test_rllibs_code_takes_over_in_the_middle_of_an_update(kind: str) -> None:
    config = vtrace_config(kind, lr=1e30)
    with learners_of(config) as (stock, fast):
        for learner in (stock, fast):
            update(learner, batches_of(config_of())[0], num_epochs=4)
        assert stock.get_optimizer().state_dict()["state"][0]["step"] == 4
        assert_same_weights(fast, stock)
        assert not torch.isfinite(stock.module[DEFAULT_MODULE_ID].vf(torch.ones(1, 16))).all()


def test_a_state_goes_from_rllib_to_fast_and_back() -> None:
    config = vtrace_config("APPO, the suite's returns", grad_clip=0.5)
    with learners_of(config) as (only_stock, fast), learners_of(config) as (stock, _):
        turns = [stock, fast, fast, stock]
        for number, learner in enumerate(turns):
            if number and learner is not turns[number - 1]:
                learner.set_state(copy.deepcopy(turns[number - 1].get_state()))
            for each in (learner, only_stock):
                update(each, batches_of(config_of(), (100,) * 4)[number], number, num_epochs=2)
            assert_same_weights(learner, only_stock)


class Doubled(DefaultPPOTorchRLModule):
    """Puts out twice what the default network does."""

    def _forward_train(self, batch: dict[str, Any], **how: Any) -> dict[str, Any]:
        found = super()._forward_train(batch, **how)
        return {**found, Columns.ACTION_DIST_INPUTS: 2 * found[Columns.ACTION_DIST_INPUTS]}


def own_loss(learner: Any) -> None:
    learner.compute_loss_for_module = learner.compute_loss_for_module.__func__.__get__(learner)


@pytest.mark.parametrize(
    ("reason", "config", "prepare", "how"),
    [
        ("a network that is not RLlib's default perceptron", {"env": Images, "model": IMAGES}, None, {}),
        ("a network that is not RLlib's default perceptron", {"module": Doubled}, None, {}),
        ("a compute_loss_for_module of its own", {}, own_loss, {}),
        ("a batch to be cut into minibatches", {}, None, {"minibatch_size": 24}),
        ("a batch to be cut into minibatches", {}, None, {"num_epochs": 3, "env_steps": 50}),
    ],
    ids=["pictures", "a module of one's own", "a loss of one's own", "minibatches", "a batch made elsewhere"],
)
def test_what_is_not_known_is_left_to_rllib(
    reason: str, config: dict[str, Any], prepare: Any, how: dict[str, Any]
) -> None:
    made = vtrace_config("IMPALA", config.get("env", "CartPole-v1"), config.get("model"))
    if "module" in config:
        spec = RLModuleSpec(module_class=config["module"], model_config=made.model_config)
        made.rl_module(rl_module_spec=spec)
    with learners_of(made, prepare or (lambda learner: None)) as (stock, fast):
        for number, episodes in enumerate(batches_of(config_of(made.env))):
            ours, theirs = (update(learner, episodes, number, **how) for learner in (fast, stock))
            assert_same_results(ours, theirs)
            assert_same_weights(fast, stock)
        assert fast._logged_reasons == {reason}


def test_the_loss_of_a_subclass_is_left_to_rllib() -> None:
    class Own(FastIMPALATorchLearner):
        def compute_loss_for_module(self, **how: Any) -> torch.Tensor:
            return 2 * super().compute_loss_for_module(**how)

    config = vtrace_config("IMPALA").learners(learner_class=Own)
    with learners_of(config) as (learner, _):
        update(learner, batches_of(config_of())[0])
        assert learner._logged_reasons == {"a loss of its own"}
