"""The common part of the two fast replay buffers: episodes in arrays, samples as a training batch
or as episodes, metrics, state.
"""

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tree
from ray.rllib.core import DEFAULT_AGENT_ID, DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils import force_list
from ray.rllib.utils.metrics import NUM_ENV_STEPS_STORED, NUM_EPISODES_STORED
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from ray.rllib.utils.metrics.stats.mean import MeanStats
from ray.rllib.utils.replay_buffers.episode_replay_buffer import EpisodeReplayBuffer
from ray.rllib.utils.spaces.space_utils import batch as stack

from experiments.fast.transitions.rows import TERMINATED, TRUNCATED, Chunk, StoredEpisode, TransitionRows, gather

N_STEP, WEIGHTS = "n_step", "weights"
"""Columns that RLlib's losses read beside those of `Columns`."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Sampled transitions.

    Attributes:
        rows: [B], of the observations that they start from.
        after: [B], of the observations that they lead to.
        rewards: [B], of the steps in between: their discounted sum.
        ended: [B], how the episode ended there, as bits.
        n_steps: [B], asked for.
        weights: [B], importance weights; 1 without priorities.
        resamples: Draws that were discarded.
    """

    rows: np.ndarray
    after: np.ndarray
    rewards: np.ndarray
    ended: np.ndarray
    n_steps: np.ndarray
    weights: np.ndarray
    resamples: int = 0


class ColumnarReplayBuffer(EpisodeReplayBuffer):  # type: ignore[misc]  # RLlib ships no type information
    """Stores what episodes hold, without the episodes; a subclass chooses the transitions of a sample.

    `get_metrics` logs what was added and sampled since its last call; `metrics` does not show it before.
    """

    def __init__(
        self,
        capacity: int = 10000,
        *,
        batch_size_B: int = 16,  # noqa: N803  # RLlib's names
        batch_length_T: int = 64,  # noqa: N803
        metrics_num_episodes_for_smoothing: int = 100,
        **kwargs: Any,
    ) -> None:
        # Without RLlib's constructor, which makes lists of several times the capacity.
        self.capacity = capacity
        self.batch_size_B = batch_size_B
        self.batch_length_T = batch_length_T
        self.rng = np.random.default_rng()
        self.metrics = MetricsLogger(root=False)
        self._metrics_num_episodes_for_smoothing = metrics_num_episodes_for_smoothing
        self.sampled_timesteps = 0
        self._num_timesteps_added = 0
        self._last_sampled_indices: list[int] = []
        self._spaces: tuple[Any, Any] = (None, None)
        self._nested: tuple[Any, Any] = (None, None)  # how observations and actions are nested, if they are
        self._counts: dict[str, int] = {}
        self._clear()

    def __getstate__(self) -> dict[str, Any]:
        slots = [name for name in EpisodeReplayBuffer.__slots__ if name != "episodes" and hasattr(self, name)]
        return {**self.__dict__, **{name: getattr(self, name) for name in slots}}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def _clear(self) -> None:
        """Remove all episodes."""
        self._rows = TransitionRows(self.capacity)
        self._stored: dict[str, StoredEpisode] = {}  # the oldest first
        self._num_timesteps = 0
        self._num_episodes_evicted = 0

    def get_num_episodes(self, module_id: Any = None) -> int:
        """Number of episodes."""
        return len(self._stored)

    def get_num_timesteps(self, module_id: Any = None) -> int:
        """Number of env steps."""
        return self._num_timesteps

    @property
    def episodes(self) -> list[SingleAgentEpisode]:
        """The episodes, the oldest first: made anew, without infos and extra model outputs."""
        return [self._episode(stored) for stored in self._stored.values()]

    @abstractmethod
    def add_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Add the data of episodes; the oldest episodes are evicted while there are more steps than fit."""

    @abstractmethod
    def _draw(self, num_items: int, n_step: Any, gamma: float, beta: float) -> Sample:
        """Choose transitions, with the random numbers that RLlib would draw."""

    def _chunks(self, episodes: Any) -> list[Chunk]:
        """The data of RLlib's episodes, without lookbacks."""
        chunks = []
        for episode in force_list(episodes):
            observations, actions = _leaves(episode.observations), _leaves(episode.actions)
            if self._spaces[0] is None:
                self._spaces = episode.observation_space, episode.action_space
            if not self._rows.actions and len(episode):
                self._nested = _nesting(episode.observations), _nesting(episode.actions)
            ended = TERMINATED * bool(episode.is_terminated) | TRUNCATED * bool(episode.is_truncated)
            rewards = episode.rewards.data[episode.rewards.lookback :]
            chunks.append(Chunk(episode.id_, episode.t_started, observations, actions, rewards, ended))
        return chunks

    def _append(self, chunk: Chunk) -> "tuple[StoredEpisode, list[int]]":
        """Store a chunk. Returns its episode, and the rows that its steps start from."""
        stored = self._stored.get(chunk.id_)
        if stored is None:
            stored = self._stored[chunk.id_] = StoredEpisode(
                chunk.id_, len(self._stored) + self._num_episodes_evicted, chunk.t_started
            )
            self._count(num_episodes_added=1)
        elif stored.ended or stored.t_started + len(stored) != chunk.t_started:
            raise ValueError(
                f"A chunk from step {chunk.t_started} does not continue episode {chunk.id_}, of which there "
                f"are {len(stored)} steps from {stored.t_started}{', and which ended' if stored.ended else ''}."
            )
        steps = len(chunk.rewards)
        self._rows.append(stored, chunk)
        self._count(num_env_steps_added=steps)
        return stored, stored.rows[-1 - steps : -1].tolist()

    def _evict(self) -> StoredEpisode:
        """Evict the oldest episode."""
        stored = self._stored.pop(next(iter(self._stored)))
        self._rows.release(stored)
        self._num_timesteps -= len(stored)
        self._num_episodes_evicted += 1
        self._count(num_episodes_evicted=1, num_env_steps_evicted=len(stored))
        return stored

    def _sample(self, num_items: int, n_step: Any, gamma: float, beta: float) -> Sample:
        if not self._num_timesteps:
            raise ValueError("There is nothing in the replay buffer to sample from.")
        sample = self._draw(num_items, n_step, gamma, beta)
        self.sampled_timesteps += num_items
        self._count(
            samples=1,
            num_env_steps_sampled=num_items,
            num_episodes_per_sample=len(set(self._rows.serial.take(sample.rows).tolist())),
            num_env_steps_per_sample=len(set(sample.rows.tolist())),
            n_steps=int(sample.n_steps.sum()),
            num_resamples=sample.resamples,
        )
        return sample

    def sample_columns(
        self,
        num_items: int,
        *,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        beta: float = 0.0,
        **others: Any,
    ) -> dict[str, Any]:
        """Sample transitions as a training batch: what RLlib's learner connectors make of the episodes
        that `sample` returns.

        Args:
            num_items: Transitions.
            n_step: Steps of the returns; of a tuple, drawn for each from the first to before the second.
            gamma: Discount of the returns.
            beta: Exponent of the importance weights.
            **others: Other arguments of RLlib's `sample`.

        Returns:
            Arrays [B, ...], or structures of such where a space is nested: the columns `obs`, `new_obs`, `actions`,
            `rewards`, `terminateds`, `truncateds`, `weights` and `n_step`.

        Raises:
            ValueError: Something is asked for that is not stored, or there is nothing to sample from.
        """
        refuse(**others)
        sample, rows = self._sample(num_items, n_step, gamma, beta), self._rows
        return {
            Columns.OBS: gather(rows.observations, sample.rows, self._nested[0]),
            Columns.NEXT_OBS: gather(rows.observations, sample.after, self._nested[0]),
            Columns.ACTIONS: gather(rows.actions, sample.rows, self._nested[1]),
            Columns.REWARDS: sample.rewards,
            Columns.TERMINATEDS: (sample.ended & TERMINATED) > 0,
            Columns.TRUNCATEDS: (sample.ended & TRUNCATED) > 0,
            WEIGHTS: sample.weights,
            N_STEP: sample.n_steps,
        }

    def _sampled_episodes(self, sample: Sample, ids: bool) -> list[SingleAgentEpisode]:
        """A sample as RLlib has it: an episode of one step for each transition."""
        rows, episodes = self._rows, []
        by_serial = {stored.serial: stored.id_ for stored in self._stored.values()} if ids else {}
        for number, (row, after) in enumerate(zip(sample.rows.tolist(), sample.after.tolist(), strict=True)):
            ended = int(sample.ended[number])
            episodes.append(
                SingleAgentEpisode(
                    by_serial.get(int(rows.serial[row])),
                    observations=[gather(rows.observations, on, self._nested[0]) for on in (row, after)],
                    observation_space=self._spaces[0],
                    actions=[gather(rows.actions, row, self._nested[1])],
                    action_space=self._spaces[1],
                    rewards=[sample.rewards[number]],
                    terminated=bool(ended & TERMINATED),
                    truncated=bool(ended & TRUNCATED),
                    extra_model_outputs={
                        WEIGHTS: [float(sample.weights[number])],
                        N_STEP: [int(sample.n_steps[number])],
                    },
                    t_started=int(rows.step[row]),
                    len_lookback_buffer=0,
                )
            )
        return episodes

    def _episode(self, stored: StoredEpisode) -> SingleAgentEpisode:
        rows, at = self._rows, np.array(stored.rows)
        on = at[:-1]
        return SingleAgentEpisode(
            stored.id_,
            observations=InfiniteLookbackBuffer(gather(rows.observations, at, self._nested[0])),
            observation_space=self._spaces[0],
            actions=InfiniteLookbackBuffer(gather(rows.actions, on, self._nested[1])) if len(on) else [],
            action_space=self._spaces[1],
            rewards=InfiniteLookbackBuffer(rows.rewards[on]) if len(on) else [],
            terminated=bool(stored.ended & TERMINATED),
            truncated=bool(stored.ended & TRUNCATED),
            t_started=stored.t_started,
            len_lookback_buffer=0,
        )

    def _count_add(self) -> None:
        self._count(adds=1, episodes_stored=len(self._stored), env_steps_stored=self._num_timesteps)

    def _count(self, **counts: int) -> None:
        for name, count in counts.items():
            self._counts[name] = self._counts.get(name, 0) + count

    def get_metrics(self) -> Any:
        """Log what was added and sampled since the last call, and reduce it, as RLlib does.

        A mean counts as often as there was a sample: RLlib's algorithm calls this for every one, and takes the mean
        over an iteration.
        """
        counts, self._counts = self._counts, {}
        adds, samples = counts.get("adds", 0), counts.get("samples", 0)
        if adds:
            names = ("num_episodes_added", "num_env_steps_added", "num_episodes_evicted", "num_env_steps_evicted")
            self._update_add_metrics(**_per_agent({name: counts.get(name, 0) for name in names}))
        if samples:
            names = ("num_env_steps_sampled", "num_episodes_per_sample", "num_env_steps_per_sample", "num_resamples")
            found = {name: counts[name] for name in names} | {
                "sampled_n_step": counts["n_steps"] / counts["num_env_steps_sampled"]
            }
            self._update_sample_metrics(**_per_agent(found))
        results = super().get_metrics()
        stored = {
            NUM_EPISODES_STORED: counts.get("episodes_stored", 0),
            NUM_ENV_STEPS_STORED: counts.get("env_steps_stored", 0),
        }
        for path, stats in tree.flatten_with_path(results) if max(adds, samples) > 1 else ():
            if isinstance(stats, MeanStats):
                values = [stored[path[0]] / adds] if adds and path[0] in stored else list(stats.values)
                stats.values = values * max(1, min(adds, samples) if path[0] in stored else samples)
        return results

    def get_state(self) -> dict[str, Any]:
        """The state in the form of RLlib's buffer, which can go on from it; and that of the random generator."""
        return {
            "episodes": [episode.get_state() for episode in self.episodes],
            "episode_id_to_index": [(stored.id_, stored.serial) for stored in self._stored.values()],
            "_num_episodes_evicted": self._num_episodes_evicted,
            "_num_timesteps": self._num_timesteps,
            "_num_timesteps_added": self._num_timesteps_added,
            "sampled_timesteps": self.sampled_timesteps,
            "rng": copy.deepcopy(self.rng),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state, of such a buffer or of RLlib's."""
        self._clear()
        self._num_episodes_evicted = state["_num_episodes_evicted"]
        for chunk in self._chunks([SingleAgentEpisode.from_state(episode) for episode in state["episodes"]]):
            self._append(chunk)
        self._counts.clear()
        self._num_timesteps = state["_num_timesteps"]
        self._num_timesteps_added = state["_num_timesteps_added"]
        self.sampled_timesteps = state["sampled_timesteps"]
        self.rng = copy.deepcopy(state.get("rng", self.rng))


def refuse(
    batch_length_T: int | None = None,  # noqa: N803
    lookback: int = 0,
    min_batch_length_T: int = 0,  # noqa: N803
    include_infos: bool = False,
    include_extra_model_outputs: bool = False,
    **others: Any,
) -> None:
    """Raise a ValueError if a sample of something that is not stored is asked for."""
    if batch_length_T or lookback or min_batch_length_T:
        raise ValueError("Sequences, as stateful modules need them, are left to RLlib's EpisodeReplayBuffer.")
    if include_infos or include_extra_model_outputs:
        raise ValueError("Infos and extra model outputs are left to RLlib's replay buffers.")


def _per_agent(counts: Mapping[str, float]) -> dict[str, Any]:
    """Counts, and the same by agent and by module, under the names of RLlib's arguments."""
    by = {"agent_to_": DEFAULT_AGENT_ID, "module_to_": DEFAULT_MODULE_ID}
    nested = {
        prefix + name.replace("env_steps", "steps"): {id_: count}
        for prefix, id_ in by.items()
        for name, count in counts.items()
    }
    return {**counts, **nested}


def _leaves(buffer: InfiniteLookbackBuffer) -> list[np.ndarray]:
    """The data of a buffer behind its lookback, [T, ...] for each leaf; empty if there is none."""
    data, lookback = buffer.data, buffer.lookback
    if not buffer.finalized:
        if len(data) == lookback:
            return []
        data, lookback = stack(data[lookback:]), 0
    return [leaf[lookback:] for leaf in ([data] if isinstance(data, np.ndarray) else tree.flatten(data))]


def _nesting(buffer: InfiniteLookbackBuffer) -> Any:
    """A structure like that of a buffer's items; None if they are not nested."""
    item = buffer.data if buffer.finalized else buffer.data[0]
    return tree.map_structure(lambda leaf: 0, item) if isinstance(item, dict | tuple) else None
