"""Priorities beside RLlib's segment trees: the same samples, whatever the size, the exponent and the state."""

import pickle

import numpy as np
import pytest
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from experiments.fast.replay import FastPrioritizedEpisodeReplayBuffer
from tests.support.fast_replay import Runner, assert_same_counts, assert_same_samples, both, exercise, through_its_state

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(
    "alpha", [pytest.param(0.0, marks=pytest.mark.nightly), 0.6, pytest.param(1.0, marks=pytest.mark.nightly)]
)
def test_a_large_buffer_of_single_steps_samples_as_rllib_does(alpha: float) -> None:
    fast, stock = reversed(both("prioritized", capacity=5000, alpha=alpha))
    runner = Runner(longest=400, seed=3)
    for _ in range(6):
        fragment = runner.sample(1000)
        for buffer in (fast, stock):
            buffer.add(fragment)
    for _ in range(120):
        fragment = runner.sample(1)
        for buffer in (fast, stock):
            buffer.add(fragment)
        theirs = stock.sample(num_items=32, n_step=1, beta=0.4, gamma=0.99)
        assert_same_samples(fast.sample(num_items=32, n_step=1, beta=0.4, gamma=0.99), theirs)
        errors = runner.rng.exponential(size=32)
        for buffer in (fast, stock):
            buffer.update_priorities(errors)
    assert_same_counts(fast, stock)
    assert fast.get_num_episodes_evicted() > 0


def test_priorities_can_be_given_after_a_restart() -> None:
    fast, stock = reversed(both("prioritized", capacity=200))
    runner = Runner()
    exercise(fast, stock, runner, 30)
    theirs = stock.sample(num_items=8, n_step=1)
    assert_same_samples(fast.sample(num_items=8, n_step=1), theirs)
    fast = pickle.loads(pickle.dumps(through_its_state(fast)))
    for buffer in (fast, stock):
        buffer.update_priorities(np.arange(8.0))
    exercise(fast, stock, runner, 30, first=30)


def test_priorities_steer_what_is_sampled_and_weights_take_it_back() -> None:
    fast = FastPrioritizedEpisodeReplayBuffer(capacity=100, alpha=1.0)
    observations = [np.array([i], np.float32) for i in range(5)]
    fast.add(
        SingleAgentEpisode(
            observations=observations, actions=[0] * 4, rewards=[1.0, 2.0, 3.0, 4.0], len_lookback_buffer=0
        )
    )
    fast.rng = np.random.default_rng(0)
    wanted = np.array([1.0, 2.0, 3.0, 10.0])
    for _ in range(200):  # until all have been drawn
        drawn = fast.sample_columns(16)[Columns.OBS][:, 0].astype(int)
        fast.update_priorities(wanted[drawn])
    sample = fast.sample_columns(40_000, beta=1.0)
    drawn = sample[Columns.OBS][:, 0].astype(int)
    # 5 standard errors of a share of 10/16 in 40,000 draws are 0.012.
    assert np.bincount(drawn) / 40_000 == pytest.approx(wanted / wanted.sum(), abs=0.012)
    # Worked by hand: (N p_i)^-1 over that of the least probable, 1/16.
    assert sample["weights"] == pytest.approx((1 / wanted)[drawn])
