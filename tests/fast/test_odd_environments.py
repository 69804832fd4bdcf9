"""Environments that use what they get and give in their own way: the same episodes as RLlib's,
and the same refusals.
"""

import tracemalloc
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from experiments.fast.env_runner import FastEnvRunner
from experiments.fast.stepping import DirectSampler
from tests.support.fast_sampling import DISCRETE, Spaces, assert_same_samples, assert_same_steps, config_of, runner_of
from tests.support.matrix import matrix

pytestmark = pytest.mark.filterwarnings("ignore")

SIZES = (20, 1, 30)


class Changing(Spaces):
    """Changes its action in place, as an environment that clips or rotates it does."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        found = super().step(action)
        action[...] = 0
        return found


CHANGED = {
    "multi-discrete": gym.spaces.MultiDiscrete([3, 2]),
    "unbounded on a side": gym.spaces.Box(0, np.inf, (2,), np.float32),
    "box": gym.spaces.Box(-2, 3, (2,), np.float32),
}


@matrix(
    strength=1,
    space=list(CHANGED),
    how=[{}, {"normalize_actions": False, "clip_actions": True}, {"normalize_actions": False}],
)
def test_an_environment_may_change_its_action(space: str, how: dict[str, bool]) -> None:
    class Env(Changing):
        def step(self, action: Any) -> Any:
            # whatever is neither scaled nor clipped
            self.action_space = gym.spaces.Box(-np.inf, np.inf, action.shape, action.dtype)
            return super().step(action)

    assert_same_samples(config_of(env=lambda context: Env(CHANGED[space]), envs=2, **how), SIZES)


class Batched(gym.vector.VectorEnv):
    """Environments in one object, which fills the same buffers at every step, or returns lists."""

    metadata: ClassVar = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs: int, gives: str) -> None:
        self.num_envs, self._gives = num_envs, gives
        self.single_observation_space, self.single_action_space = gym.spaces.Box(-1, 1, (3,), np.float32), DISCRETE
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)
        self._rewards = np.zeros(num_envs, np.float32)
        self._terminated, self._truncated = np.zeros(num_envs, bool), np.zeros(num_envs, bool)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._rng, self._steps = np.random.default_rng(seed), np.zeros(self.num_envs, int)
        self._terminated[:] = self._truncated[:] = False
        return self._observe(), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        reset = self._terminated | self._truncated
        self._steps = np.where(reset, 0, self._steps + 1)
        self._rewards[:] = np.where(reset, 0, self._rng.normal(size=self.num_envs))
        self._terminated[:] = self._steps > np.arange(self.num_envs) + 3
        self._truncated[:] = self._steps == 3
        found = self._rewards, self._terminated, self._truncated
        if self._gives == "lists":
            found = tuple(values.tolist() for values in found)
        elif self._gives == "flags as numbers":
            found = found[0], found[1].astype(np.float32), found[2].astype(np.float32)
        return self._observe(), *found, {}

    def _observe(self) -> np.ndarray:
        return self._rng.uniform(-1, 1, (self.num_envs, 3)).astype(np.float32)


def batched(gives: str, algorithm: Any = None) -> Any:
    kinds = {} if algorithm is None else {"algorithm": algorithm}
    return config_of(
        **kinds,
        env=lambda context: Batched(context["num_envs"], gives),
        envs=3,
        gym_env_vectorize_mode="vector_entry_point",
    )


GIVEN = ["the same buffers", "lists", "flags as numbers"]


@pytest.mark.parametrize("gives", GIVEN)
def test_rewards_and_flags_are_those_of_the_step(gives: str) -> None:
    assert_same_samples(batched(gives), SIZES)


@pytest.mark.parametrize("gives", GIVEN)
def test_rewards_and_flags_of_single_steps_are_those_of_the_step(gives: str) -> None:
    assert_same_steps(batched(gives, DQNConfig), 15)


class Spoilt(Spaces):
    """Observes a NaN from the fifth step on."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, *rest = super().step(action)
        return observation * (np.nan if self._total > 4 else 1), *rest


def test_dqn_refuses_observations_that_are_no_numbers_as_rllib_does() -> None:
    config = config_of(DQNConfig, env=lambda context: Spoilt(DISCRETE), envs=2)
    stock, fast = runner_of(SingleAgentEnvRunner, config), runner_of(FastEnvRunner, config)

    def steps(sample: Any) -> tuple[int, str]:
        for number in range(20):
            try:
                sample(num_timesteps=2)
            except RuntimeError as error:
                return number, str(error)
        return 20, "none"

    expected = steps(stock.sample)
    assert "invalid multinomial distribution" in expected[1]
    assert steps(DirectSampler(fast).sample) == expected
    assert steps(runner_of(FastEnvRunner, config).sample) == expected


class Endless(gym.Env[Any, Any]):
    """Episodes of 9 steps with large observations; those of the first environment that is made never end."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (1000,), np.float32), gym.spaces.Discrete(2)

    def __init__(self, made: list[int]) -> None:
        made.append(len(made))
        self._ends = len(made) > 1
        self._made = made

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return np.zeros(1000, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return np.full(1000, self._steps % 2, np.float32), 1.0, self._ends and self._steps > 8, False, {}


@pytest.mark.parametrize("horizon", [0, 1])
def test_an_endless_episode_keeps_no_more_than_itself(horizon: int) -> None:
    alive = []
    for runner_class in (SingleAgentEnvRunner, FastEnvRunner):
        made: list[int] = []
        config = config_of(env=lambda context, made=made: Endless(made), envs=8, episode_lookback_horizon=horizon)
        runner = runner_of(runner_class, config)
        tracemalloc.start()
        for _ in range(6):
            runner.sample(num_timesteps=80)
            runner.get_metrics()
        alive.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert alive[1] < 1.5 * alive[0]


def test_chunks_of_an_episode_that_goes_on_are_as_they_were() -> None:
    config = config_of(env=lambda context: Spaces(DISCRETE, longest=100), envs=2)
    torch.manual_seed(7)
    runner = runner_of(FastEnvRunner, config)
    (first, *_) = runner.sample(num_timesteps=10)
    before = first.get_observations().copy()
    runner.sample(num_timesteps=10)
    assert np.array_equal(first.get_observations(), before)
