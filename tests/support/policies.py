"""What an evaluation's policy does beside what RLlib's env runner does, pipelines of connectors and all;
and policies in plain loops.
"""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from experiments.policies.policy import Policy
from experiments.rllib.building import observed_environment_of
from experiments.trial.evaluation import acting, environments


def play(policy: Policy, env_seeds: Sequence[int]) -> list[float]:
    """The returns of a policy, an episode per env seed, one after the other."""
    env, returns = policy.environment(), []
    for env_seed in env_seeds:
        policy.reset()
        observation, _ = env.reset(seed=env_seed)
        episode_return, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(policy(observation))
            episode_return, over = episode_return + float(reward), terminated or truncated
        returns.append(episode_return)
    return returns


def play_together(policy: Policy, env_seeds: Sequence[int]) -> list[float]:
    """The same, side by side, and cut at the trial's budget."""
    env = observed_environment_of(policy.trial)
    envs, one_generator = environments(env, len(env_seeds)), env.vectorize_mode == "vector_entry_point"
    policy.reset()
    observations, _ = envs.reset(seed=env_seeds[0] if one_generator else list(env_seeds))
    returns, running = np.zeros(len(env_seeds)), np.ones(len(env_seeds), dtype=bool)
    for _ in range(policy.trial.budget_env_steps):
        observations, rewards, terminated, truncated, _ = envs.step(policy(observations))
        returns += np.where(running, rewards, 0)
        running &= ~(terminated | truncated)
        if not running.any():
            break
    return list(returns.tolist())


def assert_acts_as_evaluated(training: Any, runner: Any) -> None:
    """Make sure that a runner of RLlib's takes the actions that an evaluation takes on the same observations.

    Args:
        training: A trial's.
        runner: Of RLlib, with the same weights.
    """
    config, space = training.algorithm.config, runner.env.single_action_space
    (episode,) = runner.sample(num_episodes=1, explore=False)
    observations, actions = np.array(episode.get_observations()), np.array(episode.get_actions())
    act = acting(training._module(), space, config.normalize_actions, config.clip_actions, 1)
    ours = np.concatenate([act(one[np.newaxis]) for one in observations[:-1]])
    if isinstance(space, gym.spaces.Box):
        actions = space.low + (np.clip(actions, -1, 1) + 1) / 2 * (space.high - space.low)
    assert len(actions) > 1
    np.testing.assert_allclose(actions, ours, atol=1e-5)
