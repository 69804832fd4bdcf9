"""The fast PPO learner beside RLlib's own: the same weights, to the bit, and the same results."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from experiments.fast.env_runner import FastEnvRunner
from experiments.fast.learner import FastPPOTorchLearner
from tests.support.fast_ppo import (
    TIMED,
    UPDATE,
    MultiDiscrete,
    Valueless,
    assert_same_learners,
    assert_same_results,
    assert_same_updates,
    batches_of,
    both,
    config_of,
    learner_of,
    update,
    values,
)
from tests.support.matrix import matrix

pytestmark = pytest.mark.filterwarnings("ignore")


@matrix(env=["CartPole-v1", "Pendulum-v1", MultiDiscrete], shared=[True, False], kl=[True, False])
def test_weights_are_those_of_rllib_for_every_kind_of_action(env: Any, shared: bool, kl: bool) -> None:
    config = config_of(
        env, {"vf_share_layers": shared}, use_kl_loss=kl, entropy_coeff=0.01, vf_loss_coeff=0.7, vf_clip_param=0.5
    )
    assert_same_updates(config)


def test_schedules_are_followed() -> None:
    _, fast = assert_same_updates(config_of(entropy_coeff=[[0, 0.1], [400, 0.0]]))
    assert 0 < fast.entropy_coeff_schedulers_per_module[DEFAULT_MODULE_ID].get_current_value() < 0.1
    config = config_of()
    config.training(lr=[[0, 1e-2], [300, 1e-4]])
    _, fast = assert_same_updates(config)
    assert fast.get_optimizer().param_groups[0]["lr"] == pytest.approx(1e-4)


def test_the_weight_of_the_divergence_follows_what_is_logged() -> None:
    config = config_of(use_kl_loss=True, kl_coeff=0.2, kl_target=1e-4)
    _, fast = assert_same_updates(config)
    assert fast.curr_kl_coeffs_per_module[DEFAULT_MODULE_ID] == pytest.approx(0.2 * 1.5**3)


def test_a_state_goes_from_rllib_to_fast_and_back() -> None:
    config = config_of(use_kl_loss=True, grad_clip=0.5)
    batches = batches_of(config, (100,) * 6)
    only_stock, stock = learner_of(PPOTorchLearner, config), learner_of(PPOTorchLearner, config)
    fast, back = learner_of(FastPPOTorchLearner, config), learner_of(PPOTorchLearner, config)
    turns = [stock, stock, fast, fast, back, back]
    for number, (learner, episodes) in enumerate(zip(turns, batches, strict=True)):
        if number and learner is not turns[number - 1]:
            learner.set_state(copy.deepcopy(turns[number - 1].get_state()))
            # RLlib does not keep it in the state
            for module_id, coeff in turns[number - 1].curr_kl_coeffs_per_module.items():
                learner.curr_kl_coeffs_per_module[module_id] = coeff
        update(learner, episodes, number)
        update(only_stock, episodes, number)
        assert_same_learners(learner, only_stock)


def test_updates_of_rllib_and_fast_ones_can_take_turns() -> None:
    config = config_of(grad_clip=0.5)
    stock, fast = both(config)
    for number, episodes in enumerate(batches_of(config, (100,) * 4)):
        theirs = update(stock, episodes, number)
        if number % 2:
            np.random.seed(100 + number)
            timesteps = {"num_env_steps_sampled_lifetime": 150 * number}
            ours = PPOTorchLearner.update(fast, episodes=copy.deepcopy(episodes), timesteps=timesteps, **UPDATE)
        else:
            ours = update(fast, episodes, number)
        assert_same_results(ours, theirs)
        assert_same_learners(fast, stock)


def test_what_a_subclass_does_before_and_after_is_done() -> None:
    def own(base: Any) -> Any:
        class Own(base):
            def before_gradient_based_update(self, *, timesteps: Any) -> None:
                super().before_gradient_based_update(timesteps=timesteps)
                self.metrics.log_value("before", timesteps["num_env_steps_sampled_lifetime"], window=1)

            def after_gradient_based_update(self, *, timesteps: Any) -> None:
                super().after_gradient_based_update(timesteps=timesteps)
                self.metrics.log_value("after", self.metrics.peek((DEFAULT_MODULE_ID, "total_loss")), window=1)

        return Own

    config = config_of()
    stock, fast = learner_of(own(PPOTorchLearner), config), learner_of(own(FastPPOTorchLearner), config)
    for number, episodes in enumerate(batches_of(config)):
        ours = update(fast, episodes, number)
        assert {"/before", "/after"} <= set(values(ours))
        assert_same_results(ours, update(stock, episodes, number))
    assert not fast._logged_reasons


class Noisy(Valueless, ValueFunctionAPI):
    """Draws random numbers in its forward pass, and looks at more than the observations."""

    def setup(self) -> None:
        super().setup()
        self.value, self.drop, self.unused = torch.nn.Linear(5, 1), torch.nn.Dropout(0.2), torch.nn.Linear(2, 2)

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        both = torch.cat([self.drop(batch[Columns.OBS]), batch[Columns.REWARDS].unsqueeze(-1)], dim=-1)
        return self.value(both).squeeze(-1)


def test_modules_of_ones_own_are_learned_by() -> None:
    config = config_of()
    config.rl_module(rl_module_spec=RLModuleSpec(module_class=Noisy))
    _, fast = assert_same_updates(config)
    assert fast.module[DEFAULT_MODULE_ID].unused.weight.grad is None


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_training_is_the_same_as_with_rllibs_runner_and_learner(env: str) -> None:
    trained = []
    for runner_class, learner_class in ((SingleAgentEnvRunner, PPOTorchLearner), (FastEnvRunner, FastPPOTorchLearner)):
        config = config_of(env, train_batch_size_per_learner=300, minibatch_size=64, num_epochs=3)
        config.learners(learner_class=learner_class)
        config.env_runners(env_runner_cls=runner_class)
        config.reporting(min_time_s_per_iteration=0)
        torch.manual_seed(0)
        np.random.seed(0)
        algorithm = config.build_algo()
        results = [algorithm.train() for _ in range(3)]
        trained.append((results, algorithm.get_state()["learner_group"]["learner"]["rl_module"][DEFAULT_MODULE_ID]))
        algorithm.stop()
    (expected, theirs), (found, ours) = trained
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
    for our, their in zip(found, expected, strict=True):
        mine, its = plain(our["learners"]), plain(their["learners"])
        assert list(mine) == list(its)
        for path in its:
            if not any(word in path for word in TIMED):
                assert mine[path] == pytest.approx(its[path], rel=1e-5, abs=1e-6, nan_ok=True), path
        # But for the length of episodes: RLlib's learner appends a step to chunks that a local runner still counts.
        for name in (
            "episode_return_mean",
            "episode_return_min",
            "num_episodes_lifetime",
            "num_env_steps_sampled_lifetime",
        ):
            assert our["env_runners"].get(name) == pytest.approx(their["env_runners"].get(name), nan_ok=True), name


def plain(results: Any, prefix: str = "") -> dict[str, float]:
    if not isinstance(results, dict):
        return {prefix: results}
    return {path: value for key, part in results.items() for path, value in plain(part, f"{prefix}/{key}").items()}
