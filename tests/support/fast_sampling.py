"""A fast env runner beside one of RLlib: small environments, sampling from both, comparing the episodes to the bit."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from experiments.fast.env_runner import FastEnvRunner
from experiments.fast.stepping import DirectSampler

ODD = (50, 3, 1, 300, 37, 1)
"""Env steps of fragments of odd sizes."""


class Spaces(gym.Env[Any, Any]):
    """Episodes of random length with an action space of choice and infos; the reward is random as well."""

    def __init__(
        self,
        actions: gym.Space[Any],
        dtype: Any = np.float32,
        infos: bool = True,
        fail_at: int | None = None,
        longest: int = 8,
        shape: tuple[int, ...] = (3,),
        checks: bool = True,
    ) -> None:
        self.observation_space = gym.spaces.Box(-1, 1, shape, dtype)
        self._checks = checks
        self.action_space = actions
        self._infos, self._fail_at, self._longest, self._total = infos, fail_at, longest, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = int(self.np_random.integers(1, self._longest + 1))
        return self._observe(), {"left": self._left} if self._infos else {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert not self._checks or self.action_space.contains(action)
        self._left -= 1
        self._total += 1
        if self._total == self._fail_at:
            raise RuntimeError("the simulator crashed")
        over = self._left <= 0
        by_time = bool(self.np_random.integers(2))
        infos = {"left": self._left} if self._infos and self._left % 2 else {}
        return self._observe(), float(self.np_random.normal()), over and not by_time, over and by_time, infos

    def _observe(self) -> np.ndarray:
        return self.np_random.uniform(-1, 1, self.observation_space.shape).astype(self.observation_space.dtype)


DISCRETE = gym.spaces.Discrete(5)
ACTIONS = {
    "box": gym.spaces.Box(-2, 3, (2,), np.float32),
    "unbounded box": gym.spaces.Box(-np.inf, np.inf, (1,), np.float32),
    "discrete": DISCRETE,
    "multi-discrete": gym.spaces.MultiDiscrete([3, 2]),
    "tuple": gym.spaces.Tuple([gym.spaces.Discrete(3), gym.spaces.Box(-1, 1, (2,), np.float32)]),
}


def config_of(
    algorithm: type[AlgorithmConfig] = PPOConfig, env: Any = "CartPole-v1", envs: int = 4, **settings: Any
) -> AlgorithmConfig:
    config = algorithm()
    how = ("normalize_actions", "clip_actions")
    config.environment(env, **{name: value for name, value in settings.items() if name in how})
    settings = {
        "num_env_runners": 0,
        "gym_env_vectorize_mode": "sync",
        **{k: v for k, v in settings.items() if k not in how},
    }
    config.env_runners(num_envs_per_env_runner=envs, **settings)
    config.rl_module(model_config={"fcnet_hiddens": [16, 16]})
    config.debugging(seed=3)
    return config


def runner_of(runner_class: type[SingleAgentEnvRunner], config: AlgorithmConfig) -> Any:
    torch.manual_seed(0)
    np.random.seed(0)
    config = config.copy(copy_frozen=False)
    config.env_runners(env_runner_cls=runner_class)
    return runner_class(config=config, worker_index=0)


def both(config: AlgorithmConfig) -> tuple[Any, Any]:
    return runner_of(SingleAgentEnvRunner, config), runner_of(FastEnvRunner, config)


def sample(runner: Any, sizes: Sequence[int], **how: Any) -> tuple[list[list[SingleAgentEpisode]], torch.Tensor]:
    """Fragments, and the generator's state after them."""
    torch.manual_seed(7)
    fragments = [runner.sample(num_timesteps=size, **how) for size in sizes]
    return fragments, torch.get_rng_state()


def buffers(episode: SingleAgentEpisode) -> dict[str, Any]:
    own = {name: getattr(episode, name) for name in ("observations", "actions", "rewards", "infos")}
    return own | episode.extra_model_outputs


def assert_same_leaves(one: Any, other: Any, where: str) -> None:
    assert type(one) is type(other), where
    if isinstance(one, dict | tuple):
        for key in one if isinstance(one, dict) else range(len(one)):
            assert_same_leaves(one[key], other[key], where)
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), where
        assert one.tobytes() == other.tobytes(), where
    else:
        assert one == other, where


def assert_same(ours: Sequence[SingleAgentEpisode], theirs: Sequence[SingleAgentEpisode]) -> None:
    assert len(ours) == len(theirs)
    for our, their in zip(ours, theirs, strict=True):
        assert list(buffers(our)) == list(buffers(their))
        for name, buffer in buffers(our).items():
            expected = buffers(their)[name]
            assert_same_leaves(buffer.data, expected.data, name)
            assert (buffer.lookback, buffer.finalized, buffer.space) == (
                expected.lookback,
                expected.finalized,
                expected.space,
            ), name
            assert buffer.space_struct == expected.space_struct
        for name in (
            "t",
            "t_started",
            "is_terminated",
            "is_truncated",
            "agent_id",
            "module_id",
            "multi_agent_episode_id",
            "custom_data",
        ):
            assert getattr(our, name) == getattr(their, name), name
        assert our.observation_space == their.observation_space
        assert our.action_space == their.action_space
        our.validate()
        assert 0 <= our.get_duration_s() < 60


def assert_same_samples(config: AlgorithmConfig, sizes: Sequence[int], **how: Any) -> Any:
    stock, fast = both(config)
    expected, state = sample(stock, sizes, **how)
    found, our_state = sample(fast, sizes, **how)
    for ours, theirs in zip(found, expected, strict=True):
        assert_same(ours, theirs)
    assert torch.equal(state, our_state)  # what is sampled next is the same as well
    assert_same_chunks(found, expected)
    assert keys(fast.get_metrics()) == keys(stock.get_metrics())
    return fast


def assert_same_steps(config: AlgorithmConfig, number: int) -> Any:
    """One env step of each environment at a time, as DQN and SAC ask for them."""
    stock, fast = both(config)
    sampler = DirectSampler(fast)
    torch.manual_seed(7)
    steps = [stock.sample(num_timesteps=stock.num_envs) for _ in range(number)]
    state = torch.get_rng_state()
    torch.manual_seed(7)
    for episodes in steps:
        chunks = sampler.sample(fast.num_envs)
        for chunk, episode in zip(chunks, episodes, strict=True):
            assert (chunk.t_started, len(chunk.rewards)) == (episode.t_started, len(episode))
            for ours, theirs in (
                (chunk.observations[0], episode.get_observations()),
                (chunk.actions[0], episode.get_actions()),
                (chunk.rewards, episode.get_rewards()),
            ):
                assert_same_leaves(np.asarray(ours), theirs, "chunk")
            assert chunk.ended == bool(episode.is_terminated) + 2 * bool(episode.is_truncated)
    assert torch.equal(state, torch.get_rng_state())
    sampler.finish()
    # The same go on, with all that RLlib has in them.
    (found, _), (expected, _) = sample(fast, [8]), sample(stock, [8])
    for ours, theirs in zip(found[0], expected[0], strict=True):
        for name in ("actions", "rewards", *theirs.extra_model_outputs):
            assert_same_leaves(buffers(ours)[name].get(), buffers(theirs)[name].get(), name)
    return fast


def assert_same_chunks(
    found: Sequence[Sequence[SingleAgentEpisode]], expected: Sequence[Sequence[SingleAgentEpisode]]
) -> None:
    """Which chunks are of one episode; the ids themselves are random."""

    def pattern(fragments: Sequence[Sequence[SingleAgentEpisode]]) -> list[int]:
        ids = [episode.id_ for fragment in fragments for episode in fragment]
        return [ids.index(one) for one in ids]

    assert pattern(found) == pattern(expected)


def keys(metrics: Any, prefix: str = "") -> set[str]:
    if not isinstance(metrics, dict):
        return {prefix}
    return {key for name, value in metrics.items() for key in keys(value, f"{prefix}/{name}")}
