"""What an evaluation's policy does beside what RLlib's env runner does, pipelines of connectors and all."""

from typing import Any

import gymnasium as gym
import numpy as np

from experiments.trial.evaluation import _policy


def assert_acts_as_evaluated(training: Any, runner: Any) -> None:
    """Make sure that a runner of RLlib's takes the actions that an evaluation takes on the same observations.

    Args:
        training: A trial's.
        runner: Of RLlib, with the same weights.
    """
    config, space = training.algorithm.config, runner.env.single_action_space
    (episode,) = runner.sample(num_episodes=1, explore=False)
    observations, actions = np.array(episode.get_observations()), np.array(episode.get_actions())
    act = _policy(training._module(), space, config.normalize_actions, config.clip_actions, 1)
    ours = np.concatenate([act(one[np.newaxis]) for one in observations[:-1]])
    if isinstance(space, gym.spaces.Box):
        actions = space.low + (np.clip(actions, -1, 1) + 1) / 2 * (space.high - space.low)
    assert len(actions) > 1
    np.testing.assert_allclose(actions, ours, atol=1e-5)
