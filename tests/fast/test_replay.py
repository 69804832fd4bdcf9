"""The fast replay buffers beside RLlib's own: the same samples, to the bit, whatever is added."""

import copy
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import tree
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers.episode_replay_buffer import EpisodeReplayBuffer
from ray.rllib.utils.replay_buffers.prioritized_episode_buffer import PrioritizedEpisodeReplayBuffer

from experiments.fast.replay import FastEpisodeReplayBuffer, FastPrioritizedEpisodeReplayBuffer
from experiments.fast.transitions.rows import Chunk

pytestmark = pytest.mark.filterwarnings("ignore")

PAIRS: dict[str, tuple[Any, Any]] = {
    "uniform": (EpisodeReplayBuffer, FastEpisodeReplayBuffer),
    "prioritized": (PrioritizedEpisodeReplayBuffer, FastPrioritizedEpisodeReplayBuffer),
}
OBSERVATION = gym.spaces.Box(-1, 1, (3,), np.float32)
SPACES: dict[str, tuple[gym.Space[Any], gym.Space[Any]]] = {
    "discrete": (OBSERVATION, gym.spaces.Discrete(5)),
    "box": (OBSERVATION, gym.spaces.Box(-2, 2, (2,), np.float32)),
    "pixels": (gym.spaces.Box(0, 255, (4, 4, 1), np.uint8), gym.spaces.Discrete(2)),
    "numbers of 64 bits": (gym.spaces.Box(-1, 1, (2,), np.float64), gym.spaces.MultiDiscrete([2, 3])),
    "nested": (
        gym.spaces.Dict({"a": OBSERVATION, "b": gym.spaces.Tuple([gym.spaces.Discrete(3), OBSERVATION])}),
        gym.spaces.Tuple([gym.spaces.Discrete(3), gym.spaces.Box(-1, 1, (1,), np.float32)]),
    ),
}


class Runner:
    """Fragments as RLlib's env runner returns them: the episodes that ended, and chunks of those that go on."""

    def __init__(self, spaces: str = "discrete", envs: int = 1, longest: int = 30, numpy: bool = True, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.observations, self.actions = copy.deepcopy(SPACES[spaces])
        self.observations.seed(seed)
        self.actions.seed(seed)
        self._longest, self._numpy = longest, numpy
        self._going = [self._begin() for _ in range(envs)]

    def _begin(self) -> SingleAgentEpisode:
        episode = SingleAgentEpisode(observation_space=self.observations, action_space=self.actions)
        episode.add_env_reset(self.observations.sample())
        episode.custom_data["left"] = int(self.rng.integers(1, self._longest))
        return episode

    def sample(self, steps: int) -> list[SingleAgentEpisode]:
        """`steps` env steps of each environment."""
        done, going = [], []
        for episode in self._going:
            for _ in range(steps):
                if episode.is_done:
                    done.append(episode)
                    episode = self._begin()
                left = episode.custom_data["left"] = episode.custom_data["left"] - 1
                by_time = bool(self.rng.integers(2))
                episode.add_env_step(
                    self.observations.sample(),
                    self.actions.sample(),
                    float(self.rng.normal()),
                    terminated=left == 0 and not by_time,
                    truncated=left == 0 and by_time,
                    extra_model_outputs={"weights_seq_no": 1},
                )
            going.append(episode)
        self._going = [self._begin() if episode.is_done else episode.cut(len_lookback_buffer=1) for episode in going]
        found = [*done, *going]
        return [episode.to_numpy() for episode in found] if self._numpy else found


def both(which: str, **settings: Any) -> tuple[Any, Any]:
    buffers = [buffer_class(**settings) for buffer_class in PAIRS[which]]
    for buffer in buffers:
        buffer.rng = np.random.default_rng(5)
    return buffers[0], buffers[1]


def same(one: Any, other: Any) -> None:
    tree.assert_same_structure(one, other)
    for a, b in zip(tree.flatten(one), tree.flatten(other), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tobytes() == b.tobytes()


def assert_same_samples(ours: Sequence[SingleAgentEpisode], theirs: Sequence[SingleAgentEpisode]) -> None:
    assert len(ours) == len(theirs)
    for our, their in zip(ours, theirs, strict=True):
        our.validate()
        for t in (0, 1):
            same(our.get_observations(t), their.get_observations(t))
        same(our.get_actions(0), their.get_actions(0))
        same(our.get_rewards(0), their.get_rewards(0))
        for name in ("weights", "n_step"):
            same(our.get_extra_model_outputs(name, 0), their.get_extra_model_outputs(name, 0))
        assert (our.is_terminated, our.is_truncated, our.t_started, our.t) == (
            their.is_terminated,
            their.is_truncated,
            their.t_started,
            their.t,
        )
        assert (our.observation_space, our.action_space) == (their.observation_space, their.action_space)


def assert_same_counts(fast: Any, stock: Any) -> None:
    for name in ("get_num_timesteps", "get_num_episodes", "get_num_episodes_evicted", "get_added_timesteps", "get_sampled_timesteps"):
        assert getattr(fast, name)() == getattr(stock, name)(), name
    assert len(fast) == len(stock)
    assert fast.rng.bit_generator.state == stock.rng.bit_generator.state


def assert_same_metrics(fast: Any, stock: Any) -> None:
    ours, theirs = (tree.map_structure(lambda stats: stats.peek(), buffer.get_metrics()) for buffer in (fast, stock))
    tree.assert_same_structure(ours, theirs)
    for (path, our), their in zip(tree.flatten_with_path(ours), tree.flatten(theirs), strict=True):
        assert our == pytest.approx(their, nan_ok=True), path


def exercise(fast: Any, stock: Any, runner: Runner, rounds: int, n_step: Any = 1, batch: int = 16, first: int = 0) -> None:
    """Add, sample and update in both, and compare."""
    how = {"n_step": n_step, "gamma": 0.97, "sample_episodes": True}
    if isinstance(stock, PrioritizedEpisodeReplayBuffer):
        how["beta"] = 0.4
    for number in range(first, first + rounds):
        fragment = runner.sample((1, 1, 2, 1, 7, 1, 13)[number % 7])
        for buffer in (fast, stock):
            buffer.add(fragment)
        for _ in range(number % 3 if number > 5 else 0):  # there are episodes of n steps then
            theirs = stock.sample(num_items=batch, **copy.deepcopy(how))
            assert_same_samples(fast.sample(num_items=batch, **how), theirs)
            if "beta" in how:
                errors = np.abs(runner.rng.normal(size=len(theirs))).astype(np.float32).astype(np.float64)
                for buffer in (fast, stock):
                    buffer.update_priorities(errors.copy())
        assert_same_counts(fast, stock)
        if first == 0:  # a state has no metrics, RLlib's neither
            assert_same_metrics(fast, stock)


@pytest.mark.parametrize("n_step", [1, 2, 3, 5, (1, 4)])
@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("which", PAIRS)
def test_samples_are_those_of_rllib_through_adding_sampling_evicting_and_new_priorities(which: str, envs: int, n_step: Any) -> None:
    fast, stock = reversed(both(which, capacity=300))
    exercise(fast, stock, Runner(envs=envs), 150, n_step)
    assert fast.get_num_episodes_evicted() > 10


@pytest.mark.parametrize("spaces", SPACES)
@pytest.mark.parametrize("numpy", [True, False])
@pytest.mark.parametrize("which", PAIRS)
def test_samples_are_those_of_rllib_for_every_kind_of_space(which: str, numpy: bool, spaces: str) -> None:
    fast, stock = reversed(both(which, capacity=100))
    exercise(fast, stock, Runner(spaces, envs=2, numpy=numpy), 60, 2)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_a_large_buffer_of_single_steps_samples_as_rllib_does(alpha: float) -> None:
    fast, stock = reversed(both("prioritized", capacity=5000, alpha=alpha))
    runner = Runner(longest=400, seed=3)
    for _ in range(6):
        fragment = runner.sample(1000)
        for buffer in (fast, stock):
            buffer.add(fragment)
    for _ in range(250):
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


@pytest.mark.parametrize("spaces", SPACES)
@pytest.mark.parametrize("which", PAIRS)
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


def through_its_state(buffer: Any) -> Any:
    """By way of a checkpoint: into a buffer that had something else in it."""
    settings = {"alpha": buffer._alpha} if hasattr(buffer, "_alpha") else {}
    other = type(buffer)(capacity=buffer.capacity, **settings)
    if not isinstance(buffer, tuple(stock for stock, _ in PAIRS.values())) or hasattr(buffer, "add_chunks"):
        other.add(Runner(seed=9).sample(3))
    other.set_state(pickle.loads(pickle.dumps(buffer.get_state())))
    return other


@pytest.mark.parametrize("way", [pickled, through_its_state, copy.deepcopy])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("which", PAIRS)
def test_a_buffer_goes_on_from_its_state_as_if_nothing_had_happened(which: str, n_step: int, way: Any) -> None:
    fast, stock = reversed(both(which, capacity=200))
    runner = Runner(envs=2)
    exercise(fast, stock, runner, 60, n_step)
    fast = way(fast)
    exercise(fast, stock, runner, 60, n_step, first=60)


def test_priorities_can_be_given_after_a_restart() -> None:
    fast, stock = reversed(both("prioritized", capacity=200))
    runner = Runner()
    exercise(fast, stock, runner, 30)
    theirs = stock.sample(num_items=8, n_step=1)
    assert_same_samples(fast.sample(num_items=8, n_step=1), theirs)
    fast = pickled(through_its_state(fast))
    for buffer in (fast, stock):
        buffer.update_priorities(np.arange(8.0))
    exercise(fast, stock, runner, 30, first=30)


@pytest.mark.parametrize("which", PAIRS)
def test_a_state_goes_from_rllib_to_fast_and_back(which: str) -> None:
    fast, stock = reversed(both(which, capacity=200))
    runner = Runner(envs=1, numpy=True)
    exercise(fast, stock, runner, 80, 2)
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
    exercise(from_stock, from_fast, runner, 60, 2, first=80)


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


def test_priorities_steer_what_is_sampled_and_weights_take_it_back() -> None:
    fast = FastPrioritizedEpisodeReplayBuffer(capacity=100, alpha=1.0)
    observations = [np.array([i], np.float32) for i in range(5)]
    fast.add(SingleAgentEpisode(observations=observations, actions=[0] * 4, rewards=[1.0, 2.0, 3.0, 4.0], len_lookback_buffer=0))
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


def test_returns_of_n_steps_are_discounted_sums_up_to_the_end_of_an_episode() -> None:
    episode = SingleAgentEpisode(
        observations=[np.array([i], np.float32) for i in range(4)],
        actions=[0, 1, 0],
        rewards=[1.0, 10.0, 100.0],
        terminated=True,
        len_lookback_buffer=0,
    )
    for buffer in (FastPrioritizedEpisodeReplayBuffer(capacity=100), FastEpisodeReplayBuffer(capacity=100)):
        buffer.add(episode)
        sample = buffer.sample_columns(64, n_step=2, gamma=0.5)
        found = {
            (int(obs[0]), float(reward), int(after[0]), bool(ended))
            for obs, reward, after, ended in zip(
                sample[Columns.OBS], sample[Columns.REWARDS], sample[Columns.NEXT_OBS], sample[Columns.TERMINATEDS], strict=True
            )
        }
        whole = {(0, 6.0, 2, False), (1, 60.0, 3, True)}
        # RLlib's uniform buffer takes what there is of the last step, and forgets that the episode ended with it.
        assert found == (whole if isinstance(buffer, FastPrioritizedEpisodeReplayBuffer) else whole | {(2, 100.0, 3, False)})


def refusals() -> Iterator[tuple[Any, dict[str, Any], str]]:
    sequences = "Sequences, as stateful modules need them, are left to RLlib"
    for buffer_class in (FastEpisodeReplayBuffer, FastPrioritizedEpisodeReplayBuffer):
        for how in ({"include_infos": True}, {"include_extra_model_outputs": True}):
            yield buffer_class, {"n_step": 1, "sample_episodes": True, **how}, "Infos and extra model outputs are left to RLlib"
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
