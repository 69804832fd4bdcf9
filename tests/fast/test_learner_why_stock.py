"""What the fast PPO learner leaves to RLlib: the same results, and the reason logged once."""

import copy
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.learner import AddInfosFromEpisodesToTrainBatch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.evaluation.postprocessing import Postprocessing

from experiments.fast.learner import FastPPOTorchLearner
from tests.support.fast_ppo import (
    UPDATE,
    assert_same_learners,
    assert_same_results,
    batches_of,
    both,
    config_of,
    learner_of,
    update,
)

pytestmark = pytest.mark.filterwarnings("ignore")


def own_loss(base: Any) -> Any:
    class Own(base):
        def compute_loss_for_module(self, **how: Any) -> Any:
            return super().compute_loss_for_module(**how) * 2

    return Own


def own_gradients(base: Any) -> Any:
    class Own(base):
        def postprocess_gradients_for_module(self, **how: Any) -> Any:
            return {ref: gradient * 0.5 for ref, gradient in super().postprocess_gradients_for_module(**how).items()}

    return Own


def own_optimizer(base: Any) -> Any:
    class Own(base):
        def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
            parameters = self.get_parameters(self._module[module_id])
            optimizer = torch.optim.SGD(parameters)
            self.register_optimizer(
                module_id=module_id, optimizer=optimizer, params=parameters, lr_or_lr_schedule=config.lr
            )

    return Own


def own_update(base: Any) -> Any:
    class Own(base):
        def _update(self, batch: Any) -> Any:
            return super()._update(batch)

    return Own


def own_batch(base: Any) -> Any:
    class Own(base):
        def _make_batch_if_necessary(self, training_data: Any) -> Any:
            batch = super()._make_batch_if_necessary(training_data)
            batch[DEFAULT_MODULE_ID][Postprocessing.ADVANTAGES] *= 2
            return batch

    return Own


OWN = {
    "compute_loss_for_module": own_loss,
    "postprocess_gradients_for_module": own_gradients,
    "configure_optimizers_for_module": own_optimizer,
    "_update": own_update,
    "_make_batch_if_necessary": own_batch,
}


@pytest.mark.parametrize("name", OWN)
def test_what_a_subclass_does_its_own_way_is_left_to_rllib(name: str, caplog: pytest.LogCaptureFixture) -> None:
    config = config_of()
    stock, fast = learner_of(OWN[name](PPOTorchLearner), config), learner_of(OWN[name](FastPPOTorchLearner), config)
    with caplog.at_level(logging.INFO):
        for number, episodes in enumerate(batches_of(config, (90, 40))):
            assert_same_results(update(fast, episodes, number), update(stock, episodes, number))
            assert_same_learners(fast, stock)
    said = f"Own: updated as RLlib does, since there is a {name} of its own."
    assert [record.getMessage() for record in caplog.records].count(said) == 1


def assert_left_to_rllib(
    config: PPOConfig, reason: str, change: Callable[[Any], None] = lambda learner: None, batches: Any = None
) -> None:
    stock, fast = both(config)
    for learner in (stock, fast):
        change(learner)
    for number, episodes in enumerate(batches or batches_of(config, (90, 40))):
        assert reason in fast.why_stock(episodes)
        assert_same_results(update(fast, episodes, number), update(stock, episodes, number))
        assert_same_learners(fast, stock)
    assert len(fast._logged_reasons) == 1


def test_modules_with_a_memory_are_left_to_rllib() -> None:
    config = config_of(model={"use_lstm": True, "max_seq_len": 5, "lstm_cell_size": 8})
    torch.manual_seed(5)
    runner = SingleAgentEnvRunner(config=config.copy(copy_frozen=False), worker_index=0)
    assert_left_to_rllib(config, "stateful", batches=[runner.sample(num_timesteps=size) for size in (90, 40)])


def test_training_without_a_critic_is_left_to_rllib() -> None:
    assert_left_to_rllib(config_of(use_critic=False), "value function")


def test_a_learner_connector_of_ones_own_is_left_to_rllib() -> None:
    config = config_of(learner_connector=lambda observations, actions: AddInfosFromEpisodesToTrainBatch())
    assert_left_to_rllib(config, "pipeline")


def test_schedulers_of_torch_are_left_to_rllib() -> None:
    config = config_of()
    config.experimental(
        _torch_lr_scheduler_classes=[lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)]
    )
    assert_left_to_rllib(config, "scheduler")


def test_a_second_module_is_left_to_rllib() -> None:
    def add(learner: Any) -> None:
        torch.manual_seed(1)
        learner.add_module(module_id="other", module_spec=RLModuleSpec.from_module(learner.module[DEFAULT_MODULE_ID]))

    assert_left_to_rllib(config_of(), "more than one module", add)


def test_an_optimizer_with_settings_of_its_own_is_left_to_rllib() -> None:
    def decay(learner: Any) -> None:
        learner.get_optimizer().param_groups[0]["weight_decay"] = 0.1

    assert_left_to_rllib(config_of(), "Adam", decay)


def test_groups_of_an_optimizer_that_differ_in_more_than_their_rates_are_left_to_rllib() -> None:
    def split(learner: Any) -> None:
        optimizer = learner.get_optimizer()
        (group,) = optimizer.param_groups
        first, *others = group["params"]
        optimizer.param_groups[:] = [{**group, "params": [first]}, {**group, "params": others, "eps": 1e-3}]

    assert_left_to_rllib(config_of(), "Adam", split)


def test_batches_are_left_to_rllib() -> None:
    config = config_of()
    stock, fast = both(config)
    for number, episodes in enumerate(batches_of(config, (90, 40))):
        batch = stock._make_batch_if_necessary(TrainingData(episodes=copy.deepcopy(episodes)))
        for learner in (stock, fast):
            np.random.seed(number)
            learner.update(batch=copy.deepcopy(batch), timesteps={}, **UPDATE)
        assert_same_learners(fast, stock)
    assert fast._logged_reasons == {"something else to learn from than episodes"}


def test_an_update_from_nothing_fails_as_in_rllib() -> None:
    errors = []
    for learner in both(config_of()):
        with pytest.raises(IndexError) as caught:
            learner.update(episodes=[], timesteps={}, **UPDATE)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
