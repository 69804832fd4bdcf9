"""The training batch is that of RLlib, whatever the episodes."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.postprocessing.value_predictions import compute_value_targets

from experiments.fast.env_runner import FastEnvRunner
from experiments.fast.learner import FastPPOTorchLearner
from experiments.fast.ppo.batch import value_targets
from tests.support.fast_ppo import (
    UPDATE,
    assert_same_updates,
    batches_of,
    config_of,
    learner_of,
)

pytestmark = pytest.mark.filterwarnings("ignore")


def test_value_targets_are_those_of_rllib() -> None:
    rng = np.random.default_rng(0)
    values, rewards = rng.normal(size=(2, 500)).astype(np.float32)
    terminateds, truncateds = rng.random((2, 500)) < 0.1
    for gamma, lambda_ in ((0.99, 0.95), (1.0, 1.0), (0.9, 0.0), (0.0, 0.5)):
        expected = compute_value_targets(values, rewards, terminateds, truncateds, gamma, lambda_)
        found = value_targets(values, rewards, terminateds, truncateds, gamma, lambda_)
        assert found.dtype == expected.dtype == np.float32
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("ended", ["terminated", "truncated", "ongoing"])
def test_what_comes_after_a_chunk_is_valued_as_by_rllib(ended: str) -> None:
    config = config_of()
    episodes = [episode for batch in batches_of(config) for episode in batch if len(episode) > 2]
    assert {episode.is_terminated for episode in episodes} == {True, False}
    assert any(episode.rewards.lookback for episode in episodes)
    for episode in episodes:
        episode.is_terminated, episode.is_truncated = ended == "terminated", ended == "truncated"
    assert_same_updates(config, [episodes])


def test_episodes_may_be_lists() -> None:
    config = config_of()
    config.env_runners(episodes_to_numpy=False)
    batches = batches_of(config)
    assert not batches[0][0].is_numpy
    assert_same_updates(config, batches)


def test_episodes_of_the_fast_env_runner_are_learned_from() -> None:
    config = config_of("Pendulum-v1", envs=3)
    torch.manual_seed(5)
    runner = FastEnvRunner(config=config, worker_index=0)
    assert_same_updates(config, [runner.sample(num_timesteps=size) for size in (300, 41, 650)])


def test_episodes_stay_as_they_are() -> None:
    config = config_of()
    (episodes,) = batches_of(config, (150,))
    before = [(e.id_, e.t, len(e.observations), len(e.rewards), e.is_truncated) for e in episodes]
    fast = learner_of(FastPPOTorchLearner, config)
    fast.update(training_data=TrainingData(episodes=episodes), timesteps={}, **UPDATE)
    assert [(e.id_, e.t, len(e.observations), len(e.rewards), e.is_truncated) for e in episodes] == before


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("outputs", lambda episode: episode.extra_model_outputs.pop(Columns.ACTION_LOGP)),
        ("several agents", lambda episode: setattr(episode, "module_id", DEFAULT_MODULE_ID)),
        ("without a step", lambda episode: setattr(episode, "t", episode.t_started)),
        ("nested", lambda episode: setattr(episode.observations, "data", {"a": episode.observations.data})),
    ],
)
def test_episodes_of_another_kind_are_left_to_rllib(reason: str, change: Callable[[SingleAgentEpisode], Any]) -> None:
    config = config_of()
    (episodes,) = batches_of(config, (100,))
    fast = learner_of(FastPPOTorchLearner, config)
    for episode in (episodes[0], episodes[-1]):
        changed = copy.deepcopy(episodes)
        change(changed[episodes.index(episode)])
        assert reason in fast.why_stock(changed)
