"""A fast PPO learner beside one of RLlib: building both, updating both from the same episodes,
comparing all there is.
"""

import copy
import functools
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics.stats import StatsBase

from experiments.fast.learner import FastPPOTorchLearner

TIMED = ("timer", "throughput")
UPDATE = {"num_epochs": 3, "minibatch_size": 64, "shuffle_batch_per_epoch": True}
IMAGES = {"conv_filters": [[4, 4, 2], [8, 4, 2]], "head_fcnet_hiddens": [16]}


class MultiDiscrete(gym.Env[Any, Any]):
    """Episodes of random length, with actions of two parts."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float64)
    action_space = gym.spaces.MultiDiscrete([3, 2])

    def __init__(self, context: Any = None) -> None:
        self._left = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = int(self.np_random.integers(1, 9))
        return self.np_random.uniform(-1, 1, 3), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        over, by_time = self._left <= 0, bool(self.np_random.integers(2))
        return (
            self.np_random.uniform(-1, 1, 3),
            float(self.np_random.normal()),
            over and not by_time,
            over and by_time,
            {},
        )


class Images(MultiDiscrete):
    """The same, with small pictures to look at and one action to choose."""

    observation_space = gym.spaces.Box(0, 1, (42, 42, 3), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(self, **how: Any) -> tuple[Any, dict[str, Any]]:
        return self._draw(super().reset(**how)[0]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, *rest = super().step(action)
        return self._draw(observation), *rest

    def _draw(self, observation: np.ndarray) -> np.ndarray:
        return np.broadcast_to(np.abs(observation), (42, 42, 3)).astype(np.float32)


class Valueless(TorchRLModule):
    """A policy without a value function."""

    def setup(self) -> None:
        self.policy = torch.nn.Linear(4, 2)

    def _forward(self, batch: dict[str, Any], **how: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.policy(batch[Columns.OBS])}


def config_of(
    env: Any = "CartPole-v1", model: dict[str, Any] | None = None, envs: int = 4, **training: Any
) -> PPOConfig:
    config = PPOConfig().environment(env)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=envs, gym_env_vectorize_mode="sync")
    config.training(**{"lr": 1e-2, **training})
    config.rl_module(model_config={"fcnet_hiddens": [16, 16], "vf_share_layers": False, **(model or {})})
    config.debugging(seed=3, log_level="ERROR")
    config.reporting(log_gradients=True)
    return config


def learner_of(learner_class: type[Learner], config: PPOConfig, env: Any = None) -> Any:
    torch.manual_seed(0)
    np.random.seed(0)
    config = config.copy(copy_frozen=False)
    config.learners(learner_class=learner_class)
    made = gym.make(config.env) if isinstance(config.env, str) else config.env(None)
    return config.build_learner(env=made)


def both(config: PPOConfig) -> tuple[Any, Any]:
    return learner_of(PPOTorchLearner, config), learner_of(FastPPOTorchLearner, config)


def batches_of(config: PPOConfig, sizes: Sequence[int] = (150, 61, 200)) -> list[list[SingleAgentEpisode]]:
    """Episodes of some fragments; they are chunks, that go on in the next and look back on the last,
    but for those that end.

    They are sampled once by an untrained default network, whatever the configuration's network.
    """
    return copy.deepcopy(_batches(config.env, config.num_envs_per_env_runner, config.episodes_to_numpy, tuple(sizes)))


@functools.cache
def _batches(env: Any, envs: int, episodes_to_numpy: bool, sizes: tuple[int, ...]) -> list[list[SingleAgentEpisode]]:
    torch.manual_seed(5)
    np.random.seed(5)
    config = config_of(env, IMAGES if env is Images else None, envs=envs).env_runners(
        episodes_to_numpy=episodes_to_numpy
    )
    runner = SingleAgentEnvRunner(config=config, worker_index=0)
    return [runner.sample(num_timesteps=size) for size in sizes]


def update(learner: Any, episodes: list[SingleAgentEpisode], number: int = 0, **how: Any) -> Any:
    """An update from copies of the episodes, with generators in a state of their own; its results."""
    np.random.seed(100 + number)
    torch.manual_seed(100 + number)
    timesteps = {"num_env_steps_sampled_lifetime": 150 * number, "num_module_steps_trained_lifetime": 0}
    return learner.update(episodes=copy.deepcopy(episodes), timesteps=timesteps, **(how or UPDATE))


def values(results: Any, prefix: str = "") -> dict[str, Any]:
    """A learner's results by path."""
    if isinstance(results, StatsBase):
        return {prefix: results.peek()}
    return {path: value for key, part in results.items() for path, value in values(part, f"{prefix}/{key}").items()}


def assert_same_results(ours: Any, theirs: Any) -> None:
    found, expected = values(ours), values(theirs)
    assert list(found) == list(expected)
    for path, value in expected.items():
        if not any(word in path for word in TIMED):
            assert float(found[path]) == pytest.approx(float(value), rel=1e-5, abs=1e-6, nan_ok=True), path
    for path in found:
        if "timer" in path and "learner_thread_in_queue_wait_timer" not in path:  # of a thread that was given nothing
            assert found[path] >= 0


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and np.array_equal(one.detach().numpy(), other.detach().numpy(), equal_nan=True)


def assert_same_weights(our: Any, their: Any) -> None:
    """And the state of the optimizers."""
    ours, theirs = our.module[DEFAULT_MODULE_ID].state_dict(), their.module[DEFAULT_MODULE_ID].state_dict()
    assert list(ours) == list(theirs)
    for name, weights in theirs.items():
        assert same(ours[name], weights), name
    for (ours_name, one), (theirs_name, other) in zip(
        our._named_optimizers.items(), their._named_optimizers.items(), strict=True
    ):
        assert ours_name == theirs_name
        found, expected = one.state_dict(), other.state_dict()
        assert found["param_groups"] == expected["param_groups"]
        assert found["state"].keys() == expected["state"].keys()
        for number, state in expected["state"].items():
            assert found["state"][number].keys() == state.keys()
            for name, value in state.items():
                assert same(found["state"][number][name], value), name
    assert our._weights_seq_no == their._weights_seq_no
    assert our.module[DEFAULT_MODULE_ID].training == their.module[DEFAULT_MODULE_ID].training


def assert_same_learners(our: Any, their: Any) -> None:
    assert_same_weights(our, their)
    assert our.curr_kl_coeffs_per_module == their.curr_kl_coeffs_per_module
    for parameter, its in zip(
        our.module[DEFAULT_MODULE_ID].parameters(), their.module[DEFAULT_MODULE_ID].parameters(), strict=True
    ):
        assert (parameter.grad is None) == (its.grad is None)
        assert parameter.grad is None or same(parameter.grad, its.grad)


def assert_same_updates(
    config: PPOConfig, batches: Sequence[list[SingleAgentEpisode]] | None = None, **how: Any
) -> tuple[Any, Any]:
    """Update both learners from the same episodes, one batch after the other, and compare all there is after each."""
    stock, fast = both(config)
    for number, episodes in enumerate(batches or batches_of(config)):
        assert fast.why_stock(episodes) is None
        theirs = update(stock, episodes, number, **how)
        state = np.random.get_state()[1:3], torch.get_rng_state()
        ours = update(fast, episodes, number, **how)
        assert_same_results(ours, theirs)
        assert_same_learners(fast, stock)
        now = np.random.get_state()[1:3]
        assert np.array_equal(state[0][0], now[0]) and state[0][1] == now[1]
        assert torch.equal(state[1], torch.get_rng_state())
    assert not fast._logged_reasons
    return stock, fast
