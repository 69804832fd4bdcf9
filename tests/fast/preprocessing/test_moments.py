"""Statistics of what was sampled: known answers, Gymnasium's from the same steps, and an order that is kept."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from experiments.fast.preprocessing.moments import Gatherer, Moments, merge


def gathered(gamma: float = 0.5) -> Gatherer:
    return Gatherer(gamma, observations=True, rewards=True)


def test_moments_are_those_worked_by_hand() -> None:
    moments = Moments.of([[1.0, 2.0], [3.0, 2.0]])
    assert (moments.mean.tolist(), moments.variance.tolist(), moments.count) == ([2.0, 2.0], [1.0, 0.0], 2)


def test_merged_moments_are_those_of_all_values_together() -> None:
    merged = Moments.of([1.0, 3.0]).merged(Moments.of([8.0]))  # mean 4, deviations -3, -1, 4
    assert (float(merged.mean), merged.count) == (pytest.approx(4.0), 3)
    assert float(merged.variance) == pytest.approx(26 / 3)
    values = np.random.default_rng(0).normal(5, 3, (100, 2))
    parts = merge(Moments(np.zeros(2), np.ones(2), 0), map(Moments.of, np.split(values, [10, 11, 60])))
    np.testing.assert_allclose(parts.mean, values.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(parts.variance, values.var(axis=0), rtol=1e-12)


def test_what_was_not_sampled_changes_nothing() -> None:
    running = Moments.of([1.0, 3.0])
    assert merge(running, [None, None]) is running
    assert gathered().take().observations is None
    assert gathered().take().returns is None


def test_every_observation_counts_once_and_a_return_goes_on_over_chunks() -> None:
    gatherer = gathered()
    gatherer.add("a", True, np.array([[1.0], [2.0]]), [4.0], ended=False)
    gatherer.add("b", True, [np.array([5.0]), np.array([6.0])], [1.0], ended=True)
    first = gatherer.take()
    assert (first.observations.count, float(first.observations.mean[0])) == (4, 3.5)
    assert (first.returns.count, float(first.returns.mean)) == (2, 2.5)
    assert gatherer.episodes == {"a": 4.0}
    gatherer.add("a", False, np.array([[2.0], [9.0], [10.0]]), np.array([1.0, 2.0]), ended=True)
    then = gatherer.take()  # returns: 0.5 * 4 + 1 = 3, 0.5 * 3 + 2 = 3.5
    assert (then.observations.count, float(then.observations.mean[0])) == (2, 9.5)
    assert float(then.returns.mean) == 3.25
    assert gatherer.episodes == {}


def test_only_what_is_wanted_is_gathered() -> None:
    gatherer = Gatherer(0.5, observations=False, rewards=False)
    gatherer.add("a", True, np.zeros((2, 1)), [1.0], ended=False)
    assert gatherer.take().observations is gatherer.take().returns is None
    assert gatherer.episodes == {}


def sampled_by_gymnasium(steps: int) -> tuple[Any, Any, list[Any], list[Any]]:
    """Both of Gymnasium's wrappers after some steps of two Pendulums, and what they saw."""
    envs: Any = gym.make_vec("Pendulum-v1", num_envs=2, vectorization_mode="sync")
    observing = gym.wrappers.vector.NormalizeObservation(envs)
    rewarding = gym.wrappers.vector.NormalizeReward(observing, gamma=0.9)
    raw: list[Any] = []
    plain_reset, plain_step = envs.reset, envs.step

    def keep_reset(**kwargs: Any) -> Any:
        raw.append((plain_reset(**kwargs), None))
        return raw[-1][0]

    def keep_step(actions: Any) -> Any:
        found = plain_step(actions)
        raw.append((found, found[1]))
        return found

    envs.reset, envs.step = keep_reset, keep_step
    rewarding.reset(seed=3)
    rewarding.action_space.seed(3)
    for _ in range(steps):
        rewarding.step(rewarding.action_space.sample())
    envs.close()
    return (
        observing.obs_rms,
        rewarding.return_rms,
        [found[0].copy() for found, _ in raw],
        [reward for _, reward in raw[1:]],
    )


def test_statistics_are_gymnasiums_from_the_same_steps() -> None:
    of_observations, of_returns, observations, rewards = sampled_by_gymnasium(steps=150)
    by_env, rewards_by_env = np.stack(observations, axis=1), np.stack(rewards, axis=1)
    gatherer = Gatherer(0.9, observations=True, rewards=True)
    running = [Moments(np.zeros(3), np.ones(3), 0), Moments(np.zeros(()), np.ones(()), 0)]
    for start in (0, 50, 100):  # fragments of 50 steps of each environment
        for env in range(2):
            chunk = by_env[env][start : start + 51], rewards_by_env[env][start : start + 50]
            gatherer.add(f"episode {env}", start == 0, *chunk, ended=False)
        sampled = gatherer.take()
        running = [merge(running[0], [sampled.observations]), merge(running[1], [sampled.returns])]
    # Gymnasium begins with a variance of 1 that counts as 1e-4 values, and takes those of observations
    # in single precision.
    for moments, theirs in zip(running, (of_observations, of_returns), strict=True):
        assert moments.count == pytest.approx(theirs.count, abs=1e-3)
        np.testing.assert_allclose(moments.mean, theirs.mean, rtol=1e-4)
        np.testing.assert_allclose(moments.variance, theirs.var, rtol=1e-4)
