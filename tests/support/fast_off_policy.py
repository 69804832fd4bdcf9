"""DQN and SAC, fast and as RLlib has them: small configurations, and comparisons to the bit."""

from typing import Any

import numpy as np
import torch
import tree
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig

from experiments.fast.switch import make_fast

STEPS = "num_env_steps_sampled_lifetime"
SMALL = {"fcnet_hiddens": [16, 16], "head_fcnet_hiddens": []}
SMALL_SAC = {"fcnet_hiddens": [16, 16], "fusionnet_hiddens": [16]}


def dqn(fast: bool, model: dict[str, Any] | None = None, envs: int = 1, **training: Any) -> Any:
    config = DQNConfig().environment("CartPole-v1")
    config.rl_module(model_config={**SMALL, **(model or {})})
    return configured(config, fast, envs, **training)


def sac(
    fast: bool,
    model: dict[str, Any] | None = None,
    envs: int = 1,
    env: Any = "Pendulum-v1",
    config_class: Any = SACConfig,
    **training: Any,
) -> Any:
    config = config_class().environment(env)
    config.rl_module(model_config={**SMALL_SAC, **(model or {})})
    return configured(config, fast, envs, **{"train_batch_size_per_learner": 16, **training})


def configured(config: Any, fast: bool, envs: int, **training: Any) -> Any:
    config.training(**{"num_steps_sampled_before_learning_starts": 60, **training})
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=envs)
    config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=110, log_gradients=True)
    config.debugging(seed=3, log_level="ERROR")
    return make_fast(config) if fast else config


def same(one: Any, other: Any) -> None:
    """Structures of tensors and numbers, to the bit."""
    ones, others = tree.flatten_with_path(one), tree.flatten_with_path(other)
    assert [path for path, _ in ones] == [path for path, _ in others]
    for (path, a), (_, b) in zip(ones, others, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), path


def assert_same_learners(fast: Any, stock: Any) -> None:
    same(fast.module.get_state(), stock.module.get_state())
    same(fast._get_optimizer_state(), stock._get_optimizer_state())
    assert fast._weights_seq_no == stock._weights_seq_no
    assert dict(fast.last_update_ts_by_mid) == dict(stock.last_update_ts_by_mid)


def leaves(results: Any) -> dict[tuple[str, ...], Any]:
    return dict(tree.flatten_with_path(results))


def runner_of(runner_class: Any, config: Any) -> Any:
    config = config.copy(copy_frozen=False)
    config.env_runners(env_runner_cls=runner_class)
    torch.manual_seed(0)
    return runner_class(config=config, worker_index=0)


def train(config: Any, iterations: int, algorithm: Any = None) -> tuple[Any, list[Any]]:
    algorithm = algorithm or config.build_algo()
    algorithm.local_replay_buffer.rng = np.random.default_rng(7)
    return algorithm, [algorithm.train() for _ in range(iterations)]


def weights(algorithm: Any) -> Any:
    return algorithm.learner_group._learner.module.get_state()
