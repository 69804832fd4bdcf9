"""A learner of IMPALA or APPO beside the fast one in its place: updating both from the same batches,
and comparing all there is.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.algorithms import appo, impala
from ray.rllib.core.learner.training_data import TrainingData

from experiments.fast.switch import make_fast
from experiments.rllib import vtrace
from tests.support.fast_ppo import assert_same_results, assert_same_weights, batches_of, config_of

CONFIGS = {
    "IMPALA": impala.IMPALAConfig,
    "APPO": appo.APPOConfig,
    "IMPALA, the suite's returns": vtrace.IMPALAConfig,
    "APPO, the suite's returns": vtrace.APPOConfig,
}


def vtrace_config(kind: str, env: Any = "CartPole-v1", model: dict[str, Any] | None = None, **training: Any) -> Any:
    config = CONFIGS[kind]().environment(env)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=4, rollout_fragment_length=12)
    config.training(**{"lr": 1e-2, "train_batch_size_per_learner": 48, **training})
    if issubclass(CONFIGS[kind], appo.APPOConfig):  # so that batches update the target network
        config.training(circular_buffer_num_batches=1, circular_buffer_iterations_per_batch=1)
        config.training(**{"target_network_update_freq": 2, **training})
    config.rl_module(model_config={"fcnet_hiddens": [16, 16], "vf_share_layers": False, **(model or {})})
    config.debugging(seed=3, log_level="ERROR")
    config.reporting(log_gradients=True)
    return config


@contextmanager
def learners_of(config: Any, prepare: Callable[[Any], Any] = lambda learner: None) -> Iterator[tuple[Any, Any]]:
    """RLlib's learner and the fast one, whose threads end with this; `prepare` is called with each."""
    made = gym.make(config.env) if isinstance(config.env, str) else config.env(None)
    learners: list[Any] = []
    try:
        for its in (config, make_fast(config.copy(copy_frozen=False))):
            torch.manual_seed(0)
            learners.append(its.build_learner(env=made))
            prepare(learners[-1])
        yield learners[0], learners[1]
    finally:
        for learner in learners:
            learner.shutdown()


def update(learner: Any, episodes: Any, number: int = 0, env_steps: int | None = None, **how: Any) -> Any:
    """An update as the learner's thread makes it, from copies of the episodes; its results.

    Args:
        learner: The learner.
        episodes: Of the batch.
        number: Of the batch, from which its time steps are.
        env_steps: Of the batch, as it counts them.
        **how: Arguments of the update.
    """
    batch = learner._make_batch_if_necessary(TrainingData(episodes=copy.deepcopy(episodes)))
    batch.count = env_steps or batch.count
    timesteps = {"num_env_steps_sampled_lifetime": 150 * number, "num_env_steps_trained_lifetime": 150 * number}
    thread = learner._learner_thread
    thread._update_method(
        self=learner, training_data=TrainingData(batch=batch), timesteps=timesteps, _no_metrics_reduce=True, **how
    )
    return learner.metrics.reduce()


def assert_same_updates(
    config: Any, batches: Sequence[Any] | None = None, prepare: Callable[[Any], Any] = lambda learner: None, **how: Any
) -> None:
    """Update both from the same episodes, one batch after the other, and compare all there is after each."""
    with learners_of(config, prepare) as (stock, fast):
        assert type(fast) is not type(stock)
        for number, episodes in enumerate(batches or batches_of(config_of(config.env))):
            state = torch.get_rng_state(), str(np.random.get_state())
            assert_same_results(update(fast, episodes, number, **how), update(stock, episodes, number, **how))
            assert_same_weights(fast, stock)
            assert torch.equal(state[0], torch.get_rng_state())
            assert state[1] == str(np.random.get_state())
        assert not fast._logged_reasons
