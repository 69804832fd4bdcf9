"""RLlib's episode replay buffers with the transitions in arrays, instead of an episode object per sampled item.

`EpisodeReplayBuffer` and `PrioritizedEpisodeReplayBuffer` (ray/rllib/utils/replay_buffers) keep episodes, walk two trees of Python numbers
item by item, and make an episode of every transition that they sample. Here all observations, actions and rewards are in arrays and
a sample is a few gathers.

What is sampled is the same as RLlib's, to the bit: the same episodes added and the same `rng` give the same transitions, n-step returns,
importance weights and priorities. Left out is what DQN and SAC never ask for: infos, extra model outputs, and sequences for stateful
modules. Priorities are double-precision numbers, as RLlib's algorithms give them; an array of another type turns RLlib's own tree into
numbers of that type.
"""

import dataclasses
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import tree
from ray.rllib.core import DEFAULT_AGENT_ID, DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from ray.rllib.utils.replay_buffers.episode_replay_buffer import EpisodeReplayBuffer
from ray.rllib.utils.replay_buffers.prioritized_episode_buffer import PrioritizedEpisodeReplayBuffer
from ray.rllib.utils.spaces.space_utils import batch as stack

N_STEP = "n_step"
WEIGHTS = "weights"
"""Columns that RLlib's losses read beside those of `Columns`."""

_TERMINATED, _TRUNCATED = 1, 2
_LEAST_PRIORITY = 1e-12

_Structure = Any
"""An array, or a dict or tuple of such, as the space says."""


@dataclasses.dataclass(slots=True)
class StoredEpisode:
    """Where an episode is.

    Attributes:
        id_: RLlib's.
        serial: Number in the order in which episodes came.
        t_started: Env steps of the episode before the first one here.
        rows: Of its observations, in their order.
        is_done: Whether it ended.
    """

    id_: str
    serial: int
    t_started: int
    rows: array[int] = dataclasses.field(default_factory=lambda: array("q"))
    is_done: bool = False

    def __len__(self) -> int:
        """Env steps."""
        return len(self.rows) - 1

    def array(self) -> np.ndarray:
        """Its rows."""
        return np.array(self.rows, np.int64)


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """Sampled transitions.

    Attributes:
        rows: [B], of the observations they start from.
        after: [B], of the observations they lead to.
        rewards: [B], summed over the steps in between and discounted.
        ended: [B], whether they lead to the end of an episode, as bits.
        n_steps: [B], of the returns.
        weights: [B], importance weights; 1 without priorities.
    """

    rows: np.ndarray
    after: np.ndarray
    rewards: np.ndarray
    ended: np.ndarray
    n_steps: np.ndarray
    weights: np.ndarray


class _Rows:
    """The data of all episodes: a row for each observation, with the action taken on it and what came of it.

    Attributes:
        observations: An array [rows, ...] for each leaf of the observation space.
        actions: The same of the action space.
        rewards: [rows].
        after: [rows], the row of the next observation; -1 for the last of an episode, which has no action.
        ended: [rows], how the episode ended with this observation, as bits.
        serial: [rows], of the episode.
        step: [rows], steps of the episode before.
    """

    def __init__(self) -> None:
        self.observations: list[np.ndarray] = []
        self.actions: list[np.ndarray] = []
        self.rewards = np.zeros(0)
        self.after = np.zeros(0, np.int64)
        self.ended = np.zeros(0, np.uint8)
        self.serial = np.zeros(0, np.int64)
        self.step = np.zeros(0, np.int64)
        self._free: list[int] = []
        self._end = 0  # no row from here on was ever used

    def __getstate__(self) -> dict[str, Any]:
        """Without the rows that were never used."""
        state = self.__dict__.copy()
        for name, value in state.items():
            if isinstance(value, np.ndarray):
                state[name] = value[: self._end].copy()
        for name in ("observations", "actions"):
            state[name] = [column[: self._end].copy() for column in state[name]]
        return state

    def begin(self, episode: StoredEpisode, observations: Sequence[Any]) -> None:
        """The first observation of an episode: a leaf [...] each."""
        (row,) = self._take(1)
        self._fit(self.observations, observations)
        for column, leaf in zip(self.observations, observations, strict=True):
            column[row] = leaf
        self.after[row] = -1
        self.ended[row] = 0
        self.serial[row] = episode.serial
        self.step[row] = 0
        episode.rows.append(row)

    def append_step(self, episode: StoredEpisode, observations: Sequence[Any], actions: Sequence[Any], reward: float, ended: int) -> None:
        """One more step of an episode: actions on its last observation, and the observation it led to; a leaf [...] each."""
        last = episode.rows[-1]
        row = self._free.pop() if self._free else self._take(1)[0]
        for column, leaf in zip(self.observations, observations, strict=True):
            column[row] = leaf
        if not self.actions:
            self._fit(self.actions, actions)
        for column, leaf in zip(self.actions, actions, strict=True):
            column[last] = leaf
        self.rewards[last] = reward
        self.after[last] = row
        self.after[row] = -1
        self.ended[row] = ended
        self.serial[row] = episode.serial
        self.step[row] = len(episode.rows)
        episode.rows.append(row)
        episode.is_done = bool(ended)

    def append(
        self, episode: StoredEpisode, observations: Sequence[np.ndarray], actions: Sequence[np.ndarray], rewards: np.ndarray, ended: int
    ) -> None:
        """More steps of an episode.

        Args:
            episode: It has begun.
            observations: After each step: a leaf [T, ...] each.
            actions: Before each step: a leaf [T, ...] each.
            rewards: [T].
            ended: Whether the episode ended with the last step, as bits.
        """
        steps = len(rewards)
        self._fit(self.observations, [leaf[0] for leaf in observations])
        self._fit(self.actions, [leaf[0] for leaf in actions])
        new = np.array(self._take(steps), np.int64)
        from_ = np.concatenate([[episode.rows[-1]], new[:-1]])
        for column, leaf in zip(self.observations, observations, strict=True):
            column[new] = leaf
        for column, leaf in zip(self.actions, actions, strict=True):
            column[from_] = leaf
        self.rewards[from_] = rewards
        self.after[from_] = new
        self.after[new[-1]] = -1
        self.ended[new] = 0
        self.ended[new[-1]] = ended
        self.serial[new] = episode.serial
        self.step[new] = np.arange(len(episode.rows), len(episode.rows) + steps)
        episode.rows.extend(new.tolist())
        episode.is_done = bool(ended)

    def release(self, episode: StoredEpisode) -> None:
        """Give an episode's rows back."""
        self._free.extend(episode.rows)

    def follow(self, rows: np.ndarray, n_steps: np.ndarray, gamma: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Go on from `rows` [B] by `n_steps` [B], or to the last observation of the episode.

        Returns:
            The rows led to, how many steps there were, and the discounted sum of their rewards; [B] each.
        """
        path, row, steps = [], rows, np.zeros_like(rows)
        for step in range(int(n_steps.max())):
            after = self.after[row]
            goes_on = (step < n_steps) & (after >= 0)
            path.append((row, goes_on))
            row = np.where(goes_on, after, row)
            steps += goes_on
        rewards = np.zeros(len(rows))
        for on, goes_on in reversed(path):  # in the order in which RLlib's linear filter adds
            rewards = np.where(goes_on, self.rewards[on] + gamma * rewards, rewards)
        return row, steps, rewards

    def _take(self, count: int) -> list[int]:
        """Rows that are not in use."""
        kept = max(0, len(self._free) - count)
        rows = self._free[kept:]
        del self._free[kept:]
        if new := count - len(rows):
            rows.extend(range(self._end, self._end + new))
            self._end += new
            if self._end > len(self.after):
                self._grow(max(self._end, 2 * len(self.after), 1024))
        return rows

    def _grow(self, length: int) -> None:
        for name, value in self.__dict__.items():
            if isinstance(value, np.ndarray):
                self.__dict__[name] = _longer(value, length)
        self.observations = [_longer(column, length) for column in self.observations]
        self.actions = [_longer(column, length) for column in self.actions]

    def _fit(self, columns: list[np.ndarray], leaves: Sequence[Any]) -> None:
        """Have columns that can hold such leaves."""
        if not columns:
            columns.extend(np.zeros((len(self.after), *np.shape(leaf)), np.asarray(leaf).dtype) for leaf in leaves)
        for number, (column, leaf) in enumerate(zip(columns, leaves, strict=True)):
            dtype = np.asarray(leaf).dtype
            if dtype != column.dtype and not np.can_cast(dtype, column.dtype):
                columns[number] = column.astype(np.promote_types(dtype, column.dtype))


class _Priorities:
    """RLlib's segment trees (ray/rllib/execution/segment_tree.py), whose nodes are the sum and the minimum of the two below.

    A node follows from the leaves alone, so what was set is carried up in one go when it is asked for. The minimum does not depend on the
    order in which it is taken, so blocks of leaves serve instead of a tree.
    """

    _BLOCK = 64
    _WHOLE = 256  # levels up to this width are summed whole: faster than picking nodes out of them

    def __init__(self, size: int = 1024) -> None:
        self._allocate(size)

    def _allocate(self, size: int) -> None:
        self._size = size
        self._sums = np.zeros(2 * size)  # node i has the children 2 i and 2 i + 1; the leaves are the last half
        self._least = np.full(size, np.inf)
        self._least_of_block = np.full(size // self._BLOCK, np.inf)
        self._changed: list[int] = []

    def __getstate__(self) -> dict[str, Any]:
        """The leaves."""
        used = int(np.flatnonzero(np.isfinite(self._least)).max(initial=-1)) + 1
        return {"size": self._size, "leaves": self._sums[self._size : self._size + used].copy(), "least": self._least[:used].copy()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._allocate(state["size"])
        used = len(state["leaves"])
        self._sums[self._size : self._size + used] = state["leaves"]
        self._least[:used] = state["least"]
        self._changed.extend(range(used))

    def __getitem__(self, leaves: np.ndarray) -> np.ndarray:
        """Values of leaves."""
        return self._sums[leaves + self._size]

    def set(self, leaves: Sequence[int], values: Sequence[float] | float) -> None:
        """Set leaves; of one that is named twice the last value counts."""
        if max(leaves) >= self._size:
            old = self.__getstate__()
            self.__setstate__({**old, "size": max(2 * self._size, 1 << int(max(leaves)).bit_length())})
        at = np.asarray(leaves)
        self._sums[at + self._size] = values
        self._least[at] = values
        self._changed.extend(leaves)

    def free(self, leaves: Sequence[int]) -> None:
        """Empty leaves."""
        at = np.asarray(leaves)
        self._sums[at + self._size] = 0.0
        self._least[at] = np.inf
        self._changed.extend(leaves)

    def total(self) -> float:
        """The sum of all leaves."""
        self._carry_up()
        return float(self._sums[1])

    def least(self) -> float:
        """The smallest leaf; infinity without leaves."""
        self._carry_up()
        return float(self._least_of_block.min())

    def find(self, prefix_sums: np.ndarray) -> np.ndarray:
        """The leaves [B] up to which the sums are `prefix_sums` [B]: `SumSegmentTree.find_prefixsum_idx`."""
        self._carry_up()
        sums = self._sums
        rest = np.where(prefix_sums >= sums[1], sums[1] - 1e-5, prefix_sums)
        node = np.ones(len(rest), np.int64)
        for _ in range(self._size.bit_length() - 1):
            node <<= 1
            left = sums.take(node)
            right = left <= rest
            left *= right
            rest -= left
            node += right
        return node - self._size

    def _carry_up(self) -> None:
        if not self._changed:
            return
        sums, width = self._sums, self._size >> 1
        at = np.array(self._changed, np.int64)
        self._changed.clear()
        if 4 * len(at) < self._size:
            blocks = at // self._BLOCK
            self._least_of_block[blocks] = self._least.reshape(-1, self._BLOCK)[blocks].min(axis=1)
            node = (at + self._size) >> 1
            while width > self._WHOLE:
                child = node << 1
                sums[node] = sums.take(child) + sums.take(child + 1)
                node >>= 1
                width >>= 1
        else:
            self._least_of_block = self._least.reshape(-1, self._BLOCK).min(axis=1)
        while width:
            np.add(sums[2 * width : 4 * width : 2], sums[2 * width + 1 : 4 * width : 2], out=sums[width : 2 * width])
            width >>= 1


class _Columnar(EpisodeReplayBuffer):  # type: ignore[misc]  # RLlib ships no type information
    """What the two buffers share."""

    def __init__(
        self,
        capacity: int = 10000,
        *,
        batch_size_B: int = 16,  # noqa: N803  # RLlib's name, as the next
        batch_length_T: int = 1,  # noqa: N803
        metrics_num_episodes_for_smoothing: int = 100,
        **kwargs: Any,
    ) -> None:
        # Not RLlib's: it makes lists of several times the capacity.
        self.capacity = capacity
        self.batch_size_B = batch_size_B
        self.batch_length_T = batch_length_T
        self.rng = np.random.default_rng()
        self.metrics = MetricsLogger(root=False)
        self.sampled_timesteps = 0
        self._metrics_num_episodes_for_smoothing = metrics_num_episodes_for_smoothing
        self._num_timesteps = self._num_timesteps_added = self._num_episodes_evicted = 0
        self._last_sampled_indices: list[int] = []
        self._spaces: tuple[gym.Space[Any] | None, gym.Space[Any] | None] = None, None
        self._structures: dict[str, Any] = {}  # an example of a nested observation or action
        self._came = 0
        self._added = {"num_episodes_added": 0, "num_env_steps_added": 0, "num_episodes_evicted": 0, "num_env_steps_evicted": 0}
        self._adds = 0
        self._sampled = {"num_env_steps_sampled": 0, "num_episodes_per_sample": 0, "num_env_steps_per_sample": 0, "num_resamples": 0}
        self._samples, self._sum_of_n_steps = 0, 0.0
        self._clear()

    def _clear(self) -> None:
        self._rows = _Rows()
        self._stored: dict[str, StoredEpisode] = {}  # the oldest first

    # What there is.

    @property
    def episodes(self) -> list[SingleAgentEpisode]:
        """The episodes, made anew: without infos and extra model outputs, and slow."""
        return [self._episode(stored) for stored in self._stored.values()]

    def get_num_episodes(self, module_id: Any = None) -> int:
        """How many episodes there are."""
        return len(self._stored)

    def get_num_timesteps(self, module_id: Any = None) -> int:
        """How many env steps there are."""
        return self._num_timesteps

    # Adding.

    def add_step(
        self,
        episode: StoredEpisode,
        observation: Any,
        action: Any,
        reward: float,
        *,
        terminated: bool = False,
        truncated: bool = False,
    ) -> None:
        """Add one env step, of spaces that are not nested, without an episode object: the same as `add` with a chunk of this step.

        Args:
            episode: From `new_episode`.
            observation: The one after the step.
            action: As the module gave it.
            reward: Of the step.
            terminated: By the environment's dynamics.
            truncated: By anything else.
        """
        raise NotImplementedError

    def begin_episode(self, id_: str, observation: Any) -> StoredEpisode:
        """Where `add_step` adds to.

        Args:
            id_: Of the episode.
            observation: The first one.

        Returns:
            An episode that is not in the buffer until its first step.
        """
        episode = StoredEpisode(id_, -1, 0)
        raise NotImplementedError

    def _count_added(self, **counts: int) -> None:
        self._adds += 1
        for name, count in counts.items():
            self._added[name] += count
