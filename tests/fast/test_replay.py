"""The fast replay buffers beside RLlib's own: the same samples, to the bit, whatever is added."""

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tree
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from experiments.fast.replay import (
    FastEpisodeReplayBuffer,
    FastPrioritizedEpisodeReplayBuffer,
    NStepEpisodeReplayBuffer,
)
from experiments.fast.transitions.rows import Chunk
from tests.support.fast_replay import (
    PAIRS,
    SPACES,
    Runner,
    assert_same_counts,
    assert_same_samples,
    both,
    exercise,
    same,
    through_its_state,
)
from tests.support.matrix import matrix

pytestmark = pytest.mark.filterwarnings("ignore")


@matrix(n_step=[1, 2, 3, 5, (1, 4)], envs=[1, 3], which=list(PAIRS))
def test_samples_are_those_of_rllib_through_adding_sampling_evicting_and_new_priorities(
    which: str, envs: int, n_step: Any
) -> None:
    fast, stock = reversed(both(which, capacity=100))
    exercise(fast, stock, Runner(envs=envs), 84, n_step)
    assert fast.get_num_episodes_evicted() > 10


@matrix(spaces=list(SPACES), numpy=[True, False], which=list(PAIRS))
def test_samples_are_those_of_rllib_for_every_kind_of_space(which: str, numpy: bool, spaces: str) -> None:
    fast, stock = reversed(both(which, capacity=100))
    exercise(fast, stock, Runner(spaces, envs=2, numpy=numpy), 40, 2)


@pytest.mark.parametrize("which", PAIRS)
@pytest.mark.parametrize("capacity", [1, 7, 20])
def test_episodes_longer_than_the_buffer_are_kept_or_given_up_as_in_rllib(which: str, capacity: int) -> None:
    fast, stock = reversed(both(which, capacity=capacity))
    runner = Runner(longest=60)
    # RLlib's prioritized buffer has nodes for at least twice its capacity, and fails beyond.
    steps = 1 if which == "prioritized" else 5
    for number in range(40):
        fragment = runner.sample(steps)
        try:
            stock.add(fragment)
        except IndexError:
            assert stock.get_num_timesteps() + steps > 2 * capacity
            break
        fast.add(fragment)
        if number % 4 == 0 and stock.get_num_timesteps():
            theirs = stock.sample(num_items=8, n_step=1, gamma=0.9, sample_episodes=True)
            assert_same_samples(fast.sample(num_items=8, n_step=1, gamma=0.9, sample_episodes=True), theirs)
        assert_same_counts(fast, stock)


@pytest.mark.parametrize("which", PAIRS)
def test_chunks_without_episodes_are_the_same_as_episodes(which: str) -> None:
    _, one = both(which, capacity=60)
    _, other = both(which, capacity=60)
    runner = Runner(envs=3, longest=9)
    for number in range(150):
        fragment = runner.sample((1, 1, 4)[number % 3])
        one.add(fragment)
        other.add_chunks(
            [
                Chunk.of(
                    episode.id_,
                    episode.t_started,
                    episode.get_observations(),
                    episode.get_actions(),
                    episode.get_rewards(),
                    terminated=episode.is_terminated,
                    truncated=episode.is_truncated,
                )
                for episode in fragment
            ]
        )
        same(one.sample_columns(8), other.sample_columns(8))
    assert one.get_num_episodes_evicted() == other.get_num_episodes_evicted() > 10


@matrix(strength=1, spaces=list(SPACES), which=list(PAIRS))
def test_columns_are_the_sampled_episodes_as_a_batch(which: str, spaces: str) -> None:
    _, one = both(which, capacity=200)
    runner = Runner(spaces, envs=2)
    for steps in (9, 1, 30):
        one.add(runner.sample(steps))
    other = pickle.loads(pickle.dumps(one))
    columns = one.sample_columns(32, n_step=2, gamma=0.9, beta=0.5)
    episodes = other.sample(32, n_step=2, gamma=0.9, beta=0.5, sample_episodes=True)
    items: dict[str, list[Any]] = {
        Columns.OBS: [e.get_observations(0) for e in episodes],
        Columns.NEXT_OBS: [e.get_observations(1) for e in episodes],
        Columns.ACTIONS: [e.get_actions(0) for e in episodes],
        Columns.REWARDS: [e.get_rewards(0) for e in episodes],
        Columns.TERMINATEDS: [e.is_terminated for e in episodes],
        Columns.TRUNCATEDS: [e.is_truncated for e in episodes],
        "weights": [e.get_extra_model_outputs("weights", 0) for e in episodes],
        "n_step": [e.get_extra_model_outputs("n_step", 0) for e in episodes],
    }
    assert list(columns) == list(items)
    for name, values in items.items():
        same(columns[name], tree.map_structure(lambda *leaves: np.stack(leaves), *values))


def pickled(buffer: Any) -> Any:
    return pickle.loads(pickle.dumps(buffer))


@matrix(way=[pickled, through_its_state, copy.deepcopy], n_step=[1, 3], which=list(PAIRS))
def test_a_buffer_goes_on_from_its_state_as_if_nothing_had_happened(which: str, n_step: int, way: Any) -> None:
    fast, stock = reversed(both(which, capacity=100))
    runner = Runner(envs=2)
    exercise(fast, stock, runner, 40, n_step)
    fast = way(fast)
    exercise(fast, stock, runner, 40, n_step, first=40)


@pytest.mark.parametrize("which", PAIRS)
def test_a_state_goes_from_rllib_to_fast_and_back(which: str) -> None:
    fast, stock = reversed(both(which, capacity=200))
    runner = Runner(envs=1, numpy=True)
    exercise(fast, stock, runner, 50, 2)
    # Of an episode that goes on, RLlib asks for the extra model outputs that a fast buffer has not: let it end.
    while any(not episode.is_done for episode in stock.episodes):
        fragment = runner.sample(1)
        for buffer in (fast, stock):
            buffer.add(fragment)
    _, from_stock = both(which, capacity=200)
    from_stock.set_state(copy.deepcopy(stock.get_state()))
    from_fast, _ = both(which, capacity=200)
    from_fast.set_state(copy.deepcopy(fast.get_state()))
    if which == "prioritized":
        assert from_fast._sum_segment.value == stock._sum_segment.value
        assert from_fast._min_segment.value == stock._min_segment.value
    for buffer in (from_stock, from_fast):
        buffer.rng = copy.deepcopy(stock.rng)
    exercise(from_stock, from_fast, runner, 40, 2, first=50)


def test_a_checkpoint_holds_no_more_than_what_is_used() -> None:
    _, fast = both("prioritized", capacity=1_000_000)
    assert len(pickle.dumps(fast)) < 20_000
    runner = Runner(longest=300)
    for _ in range(3):
        fast.add(runner.sample(1000))
    assert len(pickle.dumps(fast)) < 3000 * 150


def test_what_is_added_may_be_changed_afterwards() -> None:
    _, fast = both("uniform", capacity=100)
    (episode,) = Runner(longest=1000).sample(5)
    fast.add(episode)
    before = fast.sample_columns(16)[Columns.OBS].copy()
    episode.observations.data[:] = 7
    fast.rng = np.random.default_rng(5)
    same(fast.sample_columns(16)[Columns.OBS], before)


def episode_of_three(terminated: bool = True, truncated: bool = False) -> SingleAgentEpisode:
    return SingleAgentEpisode(
        observations=[np.array([i], np.float32) for i in range(4)],
        actions=[0, 1, 0],
        rewards=[1.0, 10.0, 100.0],
        terminated=terminated,
        truncated=truncated,
        len_lookback_buffer=0,
    )


@pytest.mark.parametrize(("terminated", "truncated"), [(True, False), (False, True), (False, False)])
def test_returns_of_n_steps_can_end_where_their_episode_ends(terminated: bool, truncated: bool) -> None:
    buffer = NStepEpisodeReplayBuffer(capacity=100)
    buffer.add(episode_of_three(terminated, truncated))
    sample = buffer.sample_columns(64, n_step=2, gamma=0.5)
    names = (Columns.OBS, Columns.REWARDS, Columns.NEXT_OBS, Columns.TERMINATEDS, Columns.TRUNCATEDS, "n_step")
    found = set(zip(*(np.ravel(sample[name]).tolist() for name in names), strict=True))
    assert found == {
        (0.0, 6.0, 2.0, False, False, 2),
        (1.0, 60.0, 3.0, terminated, truncated, 2),
        (2.0, 100.0, 3.0, terminated, truncated, 1),
    }


def test_longer_returns_than_any_episode_are_whole_ones_and_single_steps_are_those_of_rllib() -> None:
    ending, plain = NStepEpisodeReplayBuffer(capacity=100), FastEpisodeReplayBuffer(capacity=100)
    for buffer in (ending, plain):
        buffer.rng = np.random.default_rng(0)
        buffer.add(episode_of_three())
    sample = ending.sample_columns(64, n_step=(50, 60), gamma=0.5)
    assert sample[Columns.TERMINATEDS].all()
    assert set(sample[Columns.REWARDS].tolist()) == {31.0, 60.0, 100.0}
    ending.rng = np.random.default_rng(0)
    same(ending.sample_columns(64, n_step=1, gamma=0.5), plain.sample_columns(64, n_step=1, gamma=0.5))


def test_returns_of_n_steps_are_discounted_sums_up_to_the_end_of_an_episode() -> None:
    episode = episode_of_three()
    for buffer in (FastPrioritizedEpisodeReplayBuffer(capacity=100), FastEpisodeReplayBuffer(capacity=100)):
        buffer.add(episode)
        sample = buffer.sample_columns(64, n_step=2, gamma=0.5)
        found = {
            (int(obs[0]), float(reward), int(after[0]), bool(ended))
            for obs, reward, after, ended in zip(
                sample[Columns.OBS],
                sample[Columns.REWARDS],
                sample[Columns.NEXT_OBS],
                sample[Columns.TERMINATEDS],
                strict=True,
            )
        }
        whole = {(0, 6.0, 2, False), (1, 60.0, 3, True)}
        # RLlib's uniform buffer takes what there is of the last step, and forgets that the episode ended with it.
        assert found == (
            whole if isinstance(buffer, FastPrioritizedEpisodeReplayBuffer) else whole | {(2, 100.0, 3, False)}
        )


def refusals() -> Iterator[tuple[Any, dict[str, Any], str]]:
    sequences = "Sequences, as stateful modules need them, are left to RLlib"
    for buffer_class in (FastEpisodeReplayBuffer, FastPrioritizedEpisodeReplayBuffer):
        for how in ({"include_infos": True}, {"include_extra_model_outputs": True}):
            yield (
                buffer_class,
                {"n_step": 1, "sample_episodes": True, **how},
                "Infos and extra model outputs are left to RLlib",
            )
        yield buffer_class, {"n_step": 1, "sample_episodes": True, "lookback": 1}, sequences
    yield FastEpisodeReplayBuffer, {"n_step": 1, "sample_episodes": True, "batch_length_T": 20}, sequences
    yield FastEpisodeReplayBuffer, {"n_step": 1}, "without sample_episodes=True, are left to RLlib"
    yield FastEpisodeReplayBuffer, {"sample_episodes": True}, "with n_step given"
    yield FastPrioritizedEpisodeReplayBuffer, {"n_step": 50}, "as long as n_step=50"


@pytest.mark.parametrize(("buffer_class", "how", "message"), refusals())
def test_what_is_not_there_is_refused(buffer_class: Any, how: dict[str, Any], message: str) -> None:
    buffer = buffer_class(capacity=100)
    with pytest.raises(ValueError, match="nothing in the replay buffer"):
        buffer.sample(4, **{"n_step": 1, "sample_episodes": True})
    buffer.add(Runner(longest=10).sample(20))
    buffer.sample(4, n_step=1, sample_episodes=True)
    with pytest.raises(ValueError, match=message):
        buffer.sample(4, **how)


def test_chunks_that_do_not_fit_together_are_refused() -> None:
    _, fast = both("prioritized", capacity=100)
    runner = Runner(longest=1000)
    fast.add(runner.sample(3))
    runner.sample(1)
    with pytest.raises(ValueError, match="does not continue"):
        fast.add(runner.sample(1))
    fast.sample_columns(4)
    with pytest.raises(ValueError, match="3 priorities for 4"):
        fast.update_priorities(np.ones(3))
