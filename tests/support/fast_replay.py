"""A fast replay buffer beside one of RLlib: fragments to add to both, and comparisons of what is sampled."""

import copy
import pickle
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import tree
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers.episode_replay_buffer import EpisodeReplayBuffer
from ray.rllib.utils.replay_buffers.prioritized_episode_buffer import PrioritizedEpisodeReplayBuffer

from experiments.fast.replay import FastEpisodeReplayBuffer, FastPrioritizedEpisodeReplayBuffer

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

    def __init__(
        self, spaces: str = "discrete", envs: int = 1, longest: int = 30, numpy: bool = True, seed: int = 0
    ) -> None:
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
    for name in (
        "get_num_timesteps",
        "get_num_episodes",
        "get_num_episodes_evicted",
        "get_added_timesteps",
        "get_sampled_timesteps",
    ):
        assert getattr(fast, name)() == getattr(stock, name)(), name
    assert len(fast) == len(stock)
    assert fast.rng.bit_generator.state == stock.rng.bit_generator.state


def assert_same_metrics(fast: Any, stock: Any) -> None:
    ours, theirs = (tree.map_structure(lambda stats: stats.peek(), buffer.get_metrics()) for buffer in (fast, stock))
    tree.assert_same_structure(ours, theirs)
    for (path, our), their in zip(tree.flatten_with_path(ours), tree.flatten(theirs), strict=True):
        assert our == pytest.approx(their, nan_ok=True), path


def exercise(
    fast: Any, stock: Any, runner: Runner, rounds: int, n_step: Any = 1, batch: int = 16, first: int = 0
) -> None:
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


def through_its_state(buffer: Any) -> Any:
    """By way of a checkpoint: into a buffer that had something else in it."""
    settings = {"alpha": buffer._alpha} if hasattr(buffer, "_alpha") else {}
    other = type(buffer)(capacity=buffer.capacity, **settings)
    if not isinstance(buffer, tuple(stock for stock, _ in PAIRS.values())) or hasattr(buffer, "add_chunks"):
        other.add(Runner(seed=9).sample(3))
    other.set_state(pickle.loads(pickle.dumps(buffer.get_state())))
    return other
