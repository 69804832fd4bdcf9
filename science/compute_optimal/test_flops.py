"""Floating-point operations by the shapes of networks: by hand, and as torch counts them in RLlib's own updates."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.algorithms.sac import SACConfig as StockSACConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.torch_utils import convert_to_torch_tensor
from torch.utils.flop_counter import FlopCounterMode

from experiments.config.errors import ConfigurationError
from experiments.rllib.sac import SACConfig
from science.compute_optimal.counting import check, operations
from science.compute_optimal.flops import backward, dqn_update, forward, sac_update
from tests.support.fast_off_policy import STEPS, dqn, sac

ROWS = 24


def test_operations_by_hand() -> None:
    network = [(3, 4), (4, 2)]  # 12 and 8 weights
    assert forward(network, rows=5) == 2 * 5 * 20
    assert backward(network, rows=5) == 2 * 5 * (20 + 8), "the first layer's inputs need no gradient"
    assert dqn_update(network, 5, double_q=False) == 2 * 5 * (20 + 28 + 20)
    assert dqn_update(network, 5, double_q=True) == 2 * 5 * (2 * 20 + 2 * 28 + 20)
    critic = [(5, 4), (4, 1)]  # 24 weights
    of_policy, of_critic = 20 + 20 + 28, 24 + 24 + 4 + 24 + 24 + 24
    assert sac_update(network, critic, 5, num_critics=2) == 2 * 5 * (of_policy + 2 * of_critic)


def learner_of(config: Any) -> Any:
    torch.manual_seed(0)
    return config.build_learner(env=gym.make(config.env))


def batch_of(module: Any) -> MultiAgentBatch:
    rng, observations = np.random.default_rng(0), module.observation_space.shape
    discrete = isinstance(module.action_space, gym.spaces.Discrete)
    actions = rng.integers(0, module.action_space.n, ROWS) if discrete else rng.uniform(-1, 1, (ROWS, 1))
    columns = {
        "obs": rng.normal(size=(ROWS, *observations)).astype(np.float32),
        "new_obs": rng.normal(size=(ROWS, *observations)).astype(np.float32),
        "actions": actions.astype(np.int32 if discrete else np.float32),
        "rewards": rng.normal(size=ROWS),
        "terminateds": rng.random(ROWS) < 0.1,
        "truncateds": rng.random(ROWS) < 0.1,
        "weights": rng.random(ROWS),
        "n_step": np.ones(ROWS, dtype=np.int64),
    }
    return MultiAgentBatch({DEFAULT_MODULE_ID: SampleBatch(convert_to_torch_tensor(columns))}, env_steps=ROWS)


@pytest.mark.parametrize(
    "config",
    [
        dqn(False, double_q=False, dueling=False),
        dqn(False, double_q=True, dueling=False),
        dqn(False, double_q=True, dueling=True),
        dqn(False, {"fcnet_hiddens": [24], "head_fcnet_hiddens": [8]}, double_q=False, dueling=True),
        dqn(False, double_q=False, dueling=False, num_atoms=5),
        sac(False, config_class=SACConfig),
        sac(False, {"fcnet_hiddens": [24, 8]}, config_class=SACConfig, twin_q=False),
    ],
    ids=["dqn", "double", "dueling", "dueling heads", "distribution", "sac", "one critic"],
)
@pytest.mark.filterwarnings("ignore")
def test_they_are_what_torch_counts_in_an_update_of_rllib(config: Any) -> None:
    learner = learner_of(config)
    module = learner.module[DEFAULT_MODULE_ID].unwrapped()
    check(module)
    update, action = operations(module, ROWS)
    with FlopCounterMode(display=False) as counter:
        learner.update(batch=batch_of(module), timesteps={STEPS: 0})
    assert counter.get_total_flops() == update
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module.forward_inference({"obs": torch.zeros(1, *module.observation_space.shape)})
    assert counter.get_total_flops() == action


@pytest.mark.filterwarnings("ignore")
def test_the_suites_own_networks_count_as_rllibs() -> None:
    fast, stock = (learner_of(sac(fast, config_class=SACConfig)) for fast in (True, False))
    ours, theirs = (operations(learner.module[DEFAULT_MODULE_ID].unwrapped(), ROWS) for learner in (fast, stock))
    assert ours == theirs


@pytest.mark.filterwarnings("ignore")
def test_networks_whose_operations_are_not_known_are_refused() -> None:
    discrete = learner_of(sac(False, env="CartPole-v1", target_entropy=0.5))
    with pytest.raises(ConfigurationError, match="of SAC with continuous actions"):
        check(discrete.module[DEFAULT_MODULE_ID].unwrapped())
    with pytest.raises(ConfigurationError, match="counts the operations of perceptrons"):
        check(learner_of(sac(False, config_class=StockSACConfig)).module[DEFAULT_MODULE_ID].unwrapped())
