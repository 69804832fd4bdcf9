"""RLlib's episode replay buffers with the transitions in arrays, instead of an episode object for every sampled item.

`EpisodeReplayBuffer` and `PrioritizedEpisodeReplayBuffer` (ray/rllib/utils/replay_buffers) keep episodes, walk two trees of Python numbers
item by item, and make an episode of every transition that they sample. Here observations, actions and rewards are in arrays, and a sample
is a few gathers.

What is sampled is the same as RLlib's, to the bit: the same episodes added and the same `rng` give the same transitions, n-step returns,
importance weights and priorities. Left out is what DQN and SAC do not ask for: infos, extra model outputs, and sequences for stateful
modules. Priorities are numbers of 64 bits, as RLlib's algorithms give them; of 32-bit ones RLlib makes a tree that adds in 32 bits.
"""

import copy
from abc import abstractmethod
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
from ray.rllib.utils.replay_buffers.prioritized_episode_buffer import PrioritizedEpisodeReplayBuffer
from ray.rllib.utils.spaces.space_utils import batch as stack

N_STEP, WEIGHTS = "n_step", "weights"
"""Columns that RLlib's losses read beside those of `Columns`."""

_TERMINATED, _TRUNCATED = 1, 2
_LEAST_PRIORITY = 1e-12  # as in RLlib's `update_priorities`
_COUNTED_AS_ONE = 3  # up to this n_step RLlib's uniform buffer counts every item as one


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive env steps of one episode.

    Attributes:
        id_: Of the episode.
        t_started: Its env steps before this chunk.
        observations: [T + 1, ...] for each leaf of the observation space.
        actions: [T, ...] for each leaf of the action space, as the module gave them.
        rewards: [T].
        ended: How the episode ended with the last step, as bits: 0 if it goes on.
    """

    id_: str
    t_started: int
    observations: Sequence[Any]
    actions: Sequence[Any]
    rewards: Sequence[float]
    ended: int = 0

    @staticmethod
    def of(
        id_: str,
        t_started: int,
        observations: Sequence[Any],
        actions: Sequence[Any],
        rewards: Sequence[float],
        *,
        terminated: bool = False,
        truncated: bool = False,
    ) -> "Chunk":
        """A chunk of spaces that are not nested.

        Args:
            id_: Of the episode.
            t_started: Its env steps before.
            observations: [T + 1, ...].
            actions: [T, ...].
            rewards: [T].
            terminated: The episode ended, by the environment's dynamics.
            truncated: The episode ended, by anything else.
        """
        ended = _TERMINATED * bool(terminated) | _TRUNCATED * bool(truncated)
        return Chunk(id_, t_started, (observations,), (actions,), rewards, ended)


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
        resamples: Draws that were given up.
    """

    rows: np.ndarray
    after: np.ndarray
    rewards: np.ndarray
    ended: np.ndarray
    n_steps: np.ndarray
    weights: np.ndarray
    resamples: int = 0


@dataclass(slots=True)
class _Stored:
    """An episode in the buffer; `serial` counts all that ever came, `rows` are those of its observations."""

    id_: str
    serial: int
    t_started: int
    rows: "array[int]" = field(default_factory=lambda: array("q"))
    ended: int = 0

    def __len__(self) -> int:
        return len(self.rows) - 1


class _Rows:
    """The data of all episodes: a row for every observation, with the action taken on it and what came of that.

    Attributes:
        observations: [rows, ...] for each leaf of the observation space.
        actions: [rows, ...] for each leaf of the action space.
        rewards: [rows].
        after: [rows], the row of the next observation; -1 for an episode's last, which has no action.
        ended: [rows], how the episode ended with this observation, as bits.
        serial: [rows], of the episode.
        step: [rows], stored steps of the episode before.
        slot: [rows], where the step's priority is.
    """

    def __init__(self) -> None:
        self.observations: list[np.ndarray] = []
        self.actions: list[np.ndarray] = []
        self.rewards = np.zeros(0)
        self.after, self.serial, self.step, self.slot = (np.zeros(0, np.int64) for _ in range(4))
        self.ended = np.zeros(0, np.uint8)
        self._free: list[int] = []
        self._end = 0  # from here on no row was ever used

    def __getstate__(self) -> dict[str, Any]:
        """Without the rows that were never used."""
        return {name: _map_columns(value, lambda column: column[: self._end].copy()) for name, value in self.__dict__.items()}

    def append(self, stored: _Stored, chunk: Chunk) -> None:
        """Add a chunk to the episode that it belongs to."""
        rows, steps = stored.rows, len(chunk.rewards)
        if not rows:
            first = self._take(1)[0]
            _put(self.observations, first, [leaf[0] for leaf in chunk.observations], len(self.after))
            self.after[first], self.ended[first], self.serial[first], self.step[first] = -1, 0, stored.serial, 0
            rows.append(first)
        stored.ended = chunk.ended
        if steps == 1:  # the same as below, with numbers
            last, new = rows[-1], self._take(1)[0]
            _put(self.observations, new, [leaf[1] for leaf in chunk.observations], len(self.after))
            _put(self.actions, last, [leaf[0] for leaf in chunk.actions], len(self.after))
            self.rewards[last] = chunk.rewards[0]
            self.after[last] = new
            self.after[new], self.ended[new], self.serial[new], self.step[new] = -1, chunk.ended, stored.serial, len(rows)
            rows.append(new)
        elif steps:
            taken = self._take(steps)
            to = np.array(taken, np.int64)
            on = np.array([rows[-1], *taken[:-1]], np.int64)
            _put(self.observations, to, [leaf[1:] for leaf in chunk.observations], len(self.after))
            _put(self.actions, on, chunk.actions, len(self.after))
            self.rewards[on] = chunk.rewards
            self.after[on] = to
            self.after[to[-1]] = -1
            self.ended[to] = 0
            self.ended[to[-1]] = chunk.ended
            self.serial[to] = stored.serial
            self.step[to] = np.arange(len(rows), len(rows) + steps)
            rows.extend(taken)

    def release(self, stored: _Stored) -> None:
        """Give an episode's rows back."""
        self._free.extend(stored.rows)

    def follow(self, rows: np.ndarray, n_steps: int | np.ndarray, gamma: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Go on from `rows` [B] by `n_steps`, or to the last observation of the episode if that is nearer.

        Returns:
            The rows led to, the steps gone, and the discounted sum of their rewards; [B] each.
        """
        if isinstance(n_steps, int) and n_steps == 1:  # every row that a step starts from has a next one
            return self.after.take(rows), np.ones(len(rows), np.int64), self.rewards.take(rows) + 0.0  # as RLlib: never -0.0
        path, at, gone = [], rows, np.zeros(len(rows), np.int64)
        for step in range(int(np.max(n_steps))):
            after = self.after.take(at)
            goes_on = (after >= 0) & (step < n_steps)
            path.append((at, goes_on))
            at = np.where(goes_on, after, at)
            gone += goes_on
        rewards = np.zeros(len(rows))
        for on, goes_on in reversed(path):  # in the order in which RLlib's linear filter adds
            rewards = np.where(goes_on, self.rewards.take(on) + gamma * rewards, rewards)
        return at, gone, rewards

    def _take(self, count: int) -> list[int]:
        """Rows that are not in use."""
        kept = max(0, len(self._free) - count)
        taken = self._free[kept:]
        del self._free[kept:]
        if new := count - len(taken):
            taken.extend(range(self._end, self._end + new))
            self._end += new
            if self._end > len(self.after):
                length = max(self._end, 2 * len(self.after), 1024)
                self.__dict__ = {name: _map_columns(value, lambda column: _longer(column, length)) for name, value in self.__dict__.items()}
        return taken


class _Priorities:
    """RLlib's segment trees (ray/rllib/execution/segment_tree.py): every node is the sum, or the minimum, of the two below it.

    A node follows from the leaves alone, so what was set is carried up all at once when it is needed. For the minimum, which does not
    depend on the order in which it is taken, blocks of leaves do instead of a tree.
    """

    _BLOCK = 64
    _WHOLE = 256  # levels of at most this width are summed as a whole: faster than picking nodes

    def __init__(self, size: int = 1024) -> None:
        self._size = size
        self._sums = np.zeros(2 * size)  # the children of node i are 2 i and 2 i + 1; the leaves are the second half
        self._least = np.full(size, np.inf)
        self._least_of_block = np.full(size // self._BLOCK, np.inf)
        self._changed: list[int] = []

    def __getstate__(self) -> dict[str, Any]:
        """The leaves up to the last one in use."""
        used = np.flatnonzero(self._least < np.inf).max(initial=-1) + 1
        return {"size": self._size, "leaves": self.leaves()[:used].copy(), "least": self._least[:used].copy()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(state["size"])  # type: ignore[misc]
        used = len(state["leaves"])
        self.leaves()[:used] = state["leaves"]
        self._least[:used] = state["least"]
        self._changed.extend(range(used))

    def leaves(self) -> np.ndarray:
        """All leaves, 0 where there is none: a view."""
        return self._sums[self._size :]

    def set(self, slots: Sequence[int], values: Sequence[float] | float) -> None:
        """Set leaves; where one is named twice, its last value counts."""
        if (end := max(slots) + 1) > self._size:
            self.__setstate__({**self.__getstate__(), "size": 1 << (end - 1).bit_length()})
        at = np.asarray(slots)
        self._sums[at + self._size] = values
        self._least[at] = values
        self._changed.extend(slots)

    def empty(self, slots: Sequence[int]) -> None:
        """Take leaves out."""
        at = np.asarray(slots)
        self._sums[at + self._size] = 0.0
        self._least[at] = np.inf
        self._changed.extend(slots)

    def total(self) -> float:
        """The sum of all leaves."""
        self._carry_up()
        return float(self._sums[1])

    def least(self) -> float:
        """The smallest leaf; infinity if there is none."""
        self._carry_up()
        return float(self._least_of_block.min())

    def tree(self, capacity: int, operation: np.ufunc, neutral: float) -> list[float]:
        """The nodes as RLlib has them, of a tree with `capacity` leaves."""
        leaves = (self.leaves() if operation is np.add else self._least)[:capacity]
        width = capacity
        nodes = np.full(2 * width, neutral)
        nodes[width : width + len(leaves)] = leaves
        while width := width >> 1:
            operation(nodes[2 * width : 4 * width : 2], nodes[2 * width + 1 : 4 * width : 2], out=nodes[width : 2 * width])
        found: list[float] = nodes.tolist()
        return found

    def find(self, sums: np.ndarray) -> np.ndarray:
        """For each of `sums` [B] the first leaf with which the sum of the leaves exceeds it: `SumSegmentTree.find_prefixsum_idx`."""
        self._carry_up()
        nodes, total = self._sums, self._sums[1]
        rest = np.where(sums >= total, total - 1e-5, sums)
        at = np.ones(len(rest), np.int64)
        for _ in range(self._size.bit_length() - 1):
            at <<= 1
            left = nodes.take(at)
            right = left <= rest
            left *= right
            rest -= left
            at += right
        return at - self._size

    def _carry_up(self) -> None:
        if not self._changed:
            return
        nodes, width = self._sums, self._size >> 1
        changed = np.array(self._changed, np.int64)
        self._changed.clear()
        if 8 * len(changed) < self._size:
            blocks = changed // self._BLOCK
            self._least_of_block[blocks] = self._least.reshape(-1, self._BLOCK)[blocks].min(axis=1)
            at = (changed + self._size) >> 1
            while width > self._WHOLE:
                child = at << 1
                nodes[at] = nodes.take(child) + nodes.take(child + 1)
                at >>= 1
                width >>= 1
        else:
            self._least_of_block = self._least.reshape(-1, self._BLOCK).min(axis=1)
        while width:
            np.add(nodes[2 * width : 4 * width : 2], nodes[2 * width + 1 : 4 * width : 2], out=nodes[width : 2 * width])
            width >>= 1


class _InColumns(EpisodeReplayBuffer):  # type: ignore[misc]  # RLlib ships no type information
    """What the two buffers share.

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
        # Not RLlib's as well: it makes lists of several times the capacity.
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
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        slots = [name for name in EpisodeReplayBuffer.__slots__ if name != "episodes" and hasattr(self, name)]
        return {**self.__dict__, **{name: getattr(self, name) for name in slots}}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def _forget(self) -> None:
        """Have no episodes."""
        self._rows = _Rows()
        self._stored: dict[str, _Stored] = {}  # the oldest first
        self._num_timesteps = 0
        self._num_episodes_evicted = 0

    def get_num_episodes(self, module_id: Any = None) -> int:
        """How many episodes there are."""
        return len(self._stored)

    def get_num_timesteps(self, module_id: Any = None) -> int:
        """How many env steps there are."""
        return self._num_timesteps

    @property
    def episodes(self) -> list[SingleAgentEpisode]:
        """The episodes, the oldest first: made anew, without infos and extra model outputs."""
        return [self._episode(stored) for stored in self._stored.values()]

    @abstractmethod
    def add_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Add what episodes hold, without the episodes."""

    @abstractmethod
    def _draw(self, num_items: int, n_step: Any, gamma: float, beta: float) -> Sample:
        """Choose transitions, with the random numbers that RLlib would draw."""

    def _chunks(self, episodes: Any) -> list[Chunk]:
        """What RLlib's episodes hold, without lookbacks."""
        chunks = []
        for episode in force_list(episodes):
            observations, actions = _leaves(episode.observations), _leaves(episode.actions)
            if self._spaces[0] is None:
                self._spaces = episode.observation_space, episode.action_space
            if not self._rows.actions and len(episode):
                self._nested = _nesting(episode.observations), _nesting(episode.actions)
            ended = _TERMINATED * bool(episode.is_terminated) | _TRUNCATED * bool(episode.is_truncated)
            rewards = episode.rewards.data[episode.rewards.lookback :]
            chunks.append(Chunk(episode.id_, episode.t_started, observations, actions, rewards, ended))
        return chunks

    def _append(self, chunk: Chunk) -> "tuple[_Stored, list[int]]":
        """Store a chunk. Returns its episode, and the rows that its steps start from."""
        stored = self._stored.get(chunk.id_)
        if stored is None:
            stored = self._stored[chunk.id_] = _Stored(chunk.id_, len(self._stored) + self._num_episodes_evicted, chunk.t_started)
            self._count(num_episodes_added=1)
        elif stored.ended or stored.t_started + len(stored) != chunk.t_started:
            raise ValueError(
                f"A chunk from step {chunk.t_started} does not continue episode {chunk.id_}, of which there are {len(stored)} steps "
                f"from {stored.t_started}{', and which ended' if stored.ended else ''}."
            )
        steps = len(chunk.rewards)
        self._rows.append(stored, chunk)
        self._count(num_env_steps_added=steps)
        return stored, stored.rows[-1 - steps : -1].tolist()

    def _evict(self) -> _Stored:
        """Give up the oldest episode."""
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
        self, num_items: int, *, n_step: int | tuple[int, int] = 1, gamma: float = 0.99, beta: float = 0.0, **others: Any
    ) -> dict[str, Any]:
        """Sample transitions as a training batch: what RLlib's learner connectors make of the episodes that `sample` returns.

        Args:
            num_items: Transitions.
            n_step: Steps of the returns; of a tuple, drawn for each from the first to before the second.
            gamma: Discount of the returns.
            beta: Exponent of the importance weights.
            **others: What else RLlib's `sample` takes.

        Returns:
            Arrays [B, ...], or structures of such where a space is nested: the columns `obs`, `new_obs`, `actions`, `rewards`,
            `terminateds`, `truncateds`, `weights` and `n_step`.

        Raises:
            ValueError: Something is asked for that is not stored, or there is nothing to sample from.
        """
        _refuse(**others)
        sample, rows = self._sample(num_items, n_step, gamma, beta), self._rows
        return {
            Columns.OBS: _gather(rows.observations, sample.rows, self._nested[0]),
            Columns.NEXT_OBS: _gather(rows.observations, sample.after, self._nested[0]),
            Columns.ACTIONS: _gather(rows.actions, sample.rows, self._nested[1]),
            Columns.REWARDS: sample.rewards,
            Columns.TERMINATEDS: (sample.ended & _TERMINATED) > 0,
            Columns.TRUNCATEDS: (sample.ended & _TRUNCATED) > 0,
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
                    observations=[_gather(rows.observations, on, self._nested[0]) for on in (row, after)],
                    observation_space=self._spaces[0],
                    actions=[_gather(rows.actions, row, self._nested[1])],
                    action_space=self._spaces[1],
                    rewards=[sample.rewards[number]],
                    terminated=bool(ended & _TERMINATED),
                    truncated=bool(ended & _TRUNCATED),
                    extra_model_outputs={WEIGHTS: [float(sample.weights[number])], N_STEP: [int(sample.n_steps[number])]},
                    t_started=int(rows.step[row]),
                    len_lookback_buffer=0,
                )
            )
        return episodes

    def _episode(self, stored: _Stored) -> SingleAgentEpisode:
        rows, at = self._rows, np.array(stored.rows)
        on = at[:-1]
        return SingleAgentEpisode(
            stored.id_,
            observations=InfiniteLookbackBuffer(_gather(rows.observations, at, self._nested[0])),
            observation_space=self._spaces[0],
            actions=InfiniteLookbackBuffer(_gather(rows.actions, on, self._nested[1])) if len(on) else [],
            action_space=self._spaces[1],
            rewards=InfiniteLookbackBuffer(rows.rewards[on]) if len(on) else [],
            terminated=bool(stored.ended & _TERMINATED),
            truncated=bool(stored.ended & _TRUNCATED),
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

        A mean counts as often as there was a sample: RLlib's algorithm calls this for every one, and takes the mean over an iteration.
        """
        counts, self._counts = self._counts, {}
        adds, samples = counts.get("adds", 0), counts.get("samples", 0)
        if adds:
            names = ("num_episodes_added", "num_env_steps_added", "num_episodes_evicted", "num_env_steps_evicted")
            self._update_add_metrics(**_per_agent({name: counts.get(name, 0) for name in names}))
        if samples:
            names = ("num_env_steps_sampled", "num_episodes_per_sample", "num_env_steps_per_sample", "num_resamples")
            found = {name: counts[name] for name in names} | {"sampled_n_step": counts["n_steps"] / counts["num_env_steps_sampled"]}
            self._update_sample_metrics(**_per_agent(found))
        results = super().get_metrics()
        stored = {NUM_EPISODES_STORED: counts.get("episodes_stored", 0), NUM_ENV_STEPS_STORED: counts.get("env_steps_stored", 0)}
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
        """Go on from a state, of such a buffer or of RLlib's."""
        self._forget()
        self._num_episodes_evicted = state["_num_episodes_evicted"]
        for chunk in self._chunks([SingleAgentEpisode.from_state(episode) for episode in state["episodes"]]):
            self._append(chunk)
        self._counts.clear()
        self._num_timesteps = state["_num_timesteps"]
        self._num_timesteps_added = state["_num_timesteps_added"]
        self.sampled_timesteps = state["sampled_timesteps"]
        self.rng = copy.deepcopy(state.get("rng", self.rng))


class FastEpisodeReplayBuffer(_InColumns):
    """Drop-in for `EpisodeReplayBuffer`, which samples all steps with the same probability.

    DQN takes it by its dotted path: `.training(replay_buffer_config={"type": "experiments.fast.replay.FastEpisodeReplayBuffer", ...})`.
    """

    def _forget(self) -> None:
        super()._forget()
        self._order = np.zeros(1024, np.int64)  # the rows that steps start from, in the order in which they came
        self._begin = self._end = 0  # of what is in use of it

    def add(self, episodes: Any) -> None:
        """Add episodes, or chunks of such; the oldest episodes are given up while there are more steps than fit."""
        self.add_chunks(self._chunks(episodes))

    def add_chunks(self, chunks: Sequence[Chunk]) -> None:
        """The same as `add`, of chunks that are no episodes of RLlib's."""
        for chunk in chunks:
            _, rows = self._append(chunk)
            self._push(rows)
            self._num_timesteps += len(rows)
            self._num_timesteps_added += len(rows)
            while self._num_timesteps > self.capacity and len(self._stored) > 1:
                evicted = self._evict()
                order = self._order[self._begin : self._end]
                if (self._rows.serial[order[: len(evicted)]] == evicted.serial).all():
                    self._begin += len(evicted)
                else:
                    order = order[self._rows.serial[order] != evicted.serial]
                    self._order[self._begin : self._begin + len(order)] = order
                    self._end = self._begin + len(order)
        self._count_add()

    def _push(self, rows: list[int]) -> None:
        if self._end + len(rows) > len(self._order):
            order = self._order[self._begin : self._end]
            self._order = _longer(order, 2 * (len(order) + len(rows)))
            self._begin, self._end = 0, len(order)
        self._order[self._end : self._end + len(rows)] = rows
        self._end += len(rows)

    def sample(
        self,
        num_items: int | None = None,
        *,
        batch_size_B: int | None = None,  # noqa: N803
        n_step: int | tuple[int, int] | None = None,
        gamma: float = 0.99,
        to_numpy: bool = False,
        beta: float | None = 0.0,
        sample_episodes: bool = False,
        **others: Any,
    ) -> list[SingleAgentEpisode]:
        """Sample transitions, as episodes of one step; `sample_columns` is the fast way.

        The arguments are RLlib's. Of an n-step return that goes beyond the end of an episode there is what there is, and `n_step` is
        what was asked for, as in RLlib.

        Raises:
            ValueError: Something is asked for that is not stored, or there is nothing to sample from.
        """
        _refuse(**others)
        if not sample_episodes:
            raise ValueError("Rows of consecutive steps, without sample_episodes=True, are left to RLlib's EpisodeReplayBuffer.")
        if n_step is None:
            raise ValueError("Episodes are sampled with n_step given.")
        sample = self._sample(num_items or batch_size_B or self.batch_size_B, n_step, gamma, 0.0)
        return self._sampled_episodes(sample, ids=True)

    def _draw(self, num_items: int, n_step: Any, gamma: float, beta: float) -> Sample:
        rows, steps, left = [], [], num_items
        count = self._end - self._begin
        while left > 0:  # never more than RLlib would draw
            if isinstance(n_step, tuple):
                drawn = self.rng.integers(count, size=1)
                asked = self.rng.integers(n_step[0], n_step[1], size=1)
            else:
                drawn = self.rng.integers(count, size=left)
                asked = np.full(left, n_step)
            found = self._order[self._begin + drawn]
            rows.append(found)
            steps.append(asked)
            if asked.max() <= _COUNTED_AS_ONE:
                left -= len(found)
            else:  # RLlib takes back items that it has for every one too near to the end of its episode
                _, gone, _ = self._rows.follow(found, asked, gamma)
                taken_back = np.where(gone < asked - 1, gone - asked + 2, 1)
                left -= int(np.where(taken_back == 0, 1, taken_back).sum())
        starts, n_steps = np.concatenate(rows), np.concatenate(steps)
        after, gone, rewards = self._rows.follow(starts, n_steps, gamma)
        ended = np.where(gone == n_steps, self._rows.ended.take(after), 0)  # RLlib forgets it in those that are cut short
        return Sample(starts, after, rewards, ended, n_steps, np.ones(len(starts)))

    def get_state(self) -> dict[str, Any]:
        """As RLlib's."""
        order, rows = self._order[self._begin : self._end], self._rows
        pairs = zip(rows.serial[order].tolist(), rows.step[order].tolist(), strict=True)
        return super().get_state() | {"_indices": list(pairs)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state, of such a buffer or of RLlib's `EpisodeReplayBuffer`."""
        super().set_state(state)
        by_serial = {stored.serial: stored for stored in self._stored.values()}
        self._push([by_serial[serial].rows[step] for serial, step in state["_indices"]])


class FastPrioritizedEpisodeReplayBuffer(_InColumns, PrioritizedEpisodeReplayBuffer):  # type: ignore[misc]
    """Drop-in for `PrioritizedEpisodeReplayBuffer` (Schaul et al., 1511.05952).

    DQN takes it by its dotted path:
    `.training(replay_buffer_config={"type": "experiments.fast.replay.FastPrioritizedEpisodeReplayBuffer", ...})`.
    """

    def __init__(self, capacity: int = 10000, *, batch_length_T: int = 1, alpha: float = 1.0, **others: Any) -> None:  # noqa: N803
        if alpha < 0:
            raise ValueError(f"alpha={alpha}: must not be negative.")
        self._alpha = alpha
        self._max_priority = 1.0
        super().__init__(capacity, batch_length_T=batch_length_T, **others)

    def _forget(self) -> None:
        super()._forget()
        self._priorities = _Priorities()
        self._row_of = np.full(1024, -1)  # of the step whose priority is in the slot
        self._came = np.zeros(1024, np.int64)  # which step it was, of all that ever came
        self._steps_that_came = 0
        self._free_slots: list[int] = []
        self._slots_end = 0  # from here on no slot was ever used

    def add(self, episodes: Any, weight: float | None = None) -> None:
        """Add episodes, or chunks of such; the oldest episodes are given up while there are more steps than fit.

        Args:
            episodes: RLlib's.
            weight: Priority of their steps; by default the largest that ever was.
        """
        self.add_chunks(self._chunks(episodes), weight)

    def add_chunks(self, chunks: Sequence[Chunk], weight: float | None = None) -> None:
        """The same as `add`, of chunks that are no episodes of RLlib's."""
        priority = (self._max_priority if weight is None else weight) ** self._alpha
        coming: dict[str, int] = {}
        for chunk in chunks:
            coming[chunk.id_] = coming.get(chunk.id_, 0) + len(chunk.rewards)
        came = sum(coming.values())
        given_up: list[_Stored] = []
        # As in RLlib: an episode is given up with the chunk of it that comes, unless nothing else would remain.
        while self._num_timesteps + came > self.capacity and self._stored and len(self._stored.keys() | coming.keys()) != 1:
            given_up.append(self._evict())
            came -= coming.pop(given_up[-1].id_, 0)
        if given_up:
            self._release([slot for stored in given_up for slot in self._rows.slot[stored.rows[:-1]].tolist()])
        self._num_timesteps_added += came
        for chunk in chunks:
            if chunk.id_ in coming:
                _, rows = self._append(chunk)
                self._num_timesteps += len(rows)
                if rows:
                    self._priorities.set(self._assign(rows), priority)
        self._count_add()

    def _assign(self, rows: list[int]) -> list[int]:
        """Slots for steps, in the order in which RLlib takes nodes of its trees."""
        slots = []
        for row in rows:
            if self._free_slots:
                slot = self._free_slots.pop()
            else:
                slot = self._slots_end
                self._slots_end += 1
                if slot == len(self._row_of):
                    self._row_of, self._came = _longer(self._row_of, 2 * slot, -1), _longer(self._came, 2 * slot)
            self._row_of[slot], self._rows.slot[row], self._came[slot] = row, slot, self._steps_that_came
            self._steps_that_came += 1
            slots.append(slot)
        return slots

    def _release(self, slots: list[int]) -> None:
        if not slots:
            return
        slots.sort(key=self._came.__getitem__)
        self._priorities.empty(slots)
        self._row_of[slots] = -1
        self._free_slots.extend(slots)

    def sample(
        self,
        num_items: int | None = None,
        *,
        batch_size_B: int | None = None,  # noqa: N803
        n_step: int | tuple[int, int] | None = None,
        beta: float = 0.0,
        gamma: float = 0.99,
        to_numpy: bool = False,
        sample_episodes: bool = True,
        **others: Any,
    ) -> list[SingleAgentEpisode]:
        """Sample transitions with probabilities by their priorities, as episodes of one step; `sample_columns` is the fast way.

        The arguments are RLlib's.

        Raises:
            ValueError: Something is asked for that is not stored, or there is nothing to sample from.
        """
        _refuse(**{**others, "batch_length_T": 0})  # which RLlib's takes and does not look at
        sample = self._sample(num_items or batch_size_B or self.batch_size_B, n_step or 1, gamma, beta)
        episodes = self._sampled_episodes(sample, ids=False)
        return [episode.to_numpy() for episode in episodes] if to_numpy else episodes

    def _draw(self, num_items: int, n_step: Any, gamma: float, beta: float) -> Sample:
        total = self._priorities.total()
        drawn: list[np.ndarray] = []
        steps: list[np.ndarray] = []
        left, resamples = num_items, 0
        while left:  # never more than RLlib would draw
            count = 1 if isinstance(n_step, tuple) else left
            slots = self._priorities.find(self.rng.random(count) * total)
            asked = np.full(count, self.rng.integers(*n_step) if isinstance(n_step, tuple) else n_step)
            rows = self._row_of.take(slots)
            fits = rows >= 0  # rounding can lead to a slot without a step: RLlib's buffer fails there
            if n_step != 1:
                _, gone, _ = self._rows.follow(rows, asked, gamma)
                fits &= gone == asked
            if not fits.all():
                slots, asked = slots[fits], asked[fits]
                resamples += count - len(slots)
                if not len(slots):
                    self._check_lengths(n_step)
            drawn.append(slots)
            steps.append(asked)
            left -= len(slots)
        slots, n_steps = np.concatenate(drawn), np.concatenate(steps)
        starts = self._row_of.take(slots)
        after, _, rewards = self._rows.follow(starts, n_steps, gamma)
        # With Python's numbers: NumPy's power of arrays differs in the last bit.
        items = self._num_timesteps
        largest = (self._priorities.least() / total * items) ** -beta
        weights = np.array([(value / total * items) ** -beta / largest for value in self._priorities.leaves()[slots].tolist()])
        self._last_sampled_indices = slots.tolist()
        return Sample(starts, after, rewards, self._rows.ended.take(after), n_steps, weights, resamples)

    def _check_lengths(self, n_step: Any) -> None:
        least = n_step[0] if isinstance(n_step, tuple) else n_step
        if all(len(stored) < least for stored in self._stored.values()):
            raise ValueError(f"No episode in the replay buffer is as long as n_step={n_step}.")

    def update_priorities(self, priorities: Any, module_id: Any = None) -> None:
        """Set the priorities of the transitions that were sampled last.

        Args:
            priorities: [B], absolute TD errors.
            module_id: RLlib's.
        """
        values = [max(value, _LEAST_PRIORITY) for value in np.asarray(priorities, np.float64).tolist()]
        slots = self._last_sampled_indices
        if len(values) != len(slots):
            raise ValueError(f"{len(values)} priorities for {len(slots)} transitions that were sampled.")
        if slots:
            self._priorities.set(slots, [value**self._alpha for value in values])
            self._max_priority = max(self._max_priority, *values)
        self._last_sampled_indices = []

    def get_state(self) -> dict[str, Any]:
        """As RLlib's."""
        slots = np.flatnonzero(self._row_of >= 0)
        slots = slots[np.argsort(self._came[slots])]
        on, capacity = self._row_of[slots], 2 * (1 << max(0, self.capacity - 1).bit_length())
        places = slots.tolist()
        return super().get_state() | {
            "_indices": list(zip(self._rows.serial[on].tolist(), self._rows.step[on].tolist(), places, strict=True)),
            "_sum_segment": self._priorities.tree(capacity, np.add, 0.0),
            "_min_segment": self._priorities.tree(capacity, np.minimum, np.inf),
            "_free_nodes": [*reversed(self._free_slots), *range(self._slots_end, capacity)],
            "_max_priority": self._max_priority,
            "_max_idx": max(places, default=0),
            "_tree_idx_to_sample_idx": [(slot, number) for number, slot in enumerate(places)],
            "_last_sampled_indices": list(self._last_sampled_indices),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state, of such a buffer or of RLlib's `PrioritizedEpisodeReplayBuffer`."""
        super().set_state(state)
        sums, free = state["_sum_segment"], list(state["_free_nodes"])
        by_serial = {stored.serial: stored for stored in self._stored.values()}
        self._slots_end = len(sums) // 2
        while free and free[-1] == self._slots_end - 1:
            self._slots_end = free.pop()
        self._free_slots = free[::-1]
        self._row_of, self._came = np.full(max(1024, self._slots_end), -1), np.zeros(max(1024, self._slots_end), np.int64)
        for serial, step, slot in state["_indices"]:
            row = by_serial[serial].rows[step]
            self._row_of[slot], self._rows.slot[row], self._came[slot] = row, slot, self._steps_that_came
            self._steps_that_came += 1
        if state["_indices"]:
            slots = [slot for _, _, slot in state["_indices"]]
            self._priorities.set(slots, [float(sums[len(sums) // 2 + slot]) for slot in slots])
        self._max_priority = float(state["_max_priority"])
        self._last_sampled_indices = list(state["_last_sampled_indices"])


def _refuse(
    batch_length_T: int | None = None,  # noqa: N803
    lookback: int = 0,
    min_batch_length_T: int = 0,  # noqa: N803
    include_infos: bool = False,
    include_extra_model_outputs: bool = False,
    **others: Any,
) -> None:
    """Refuse to sample what is not there."""
    if batch_length_T or lookback or min_batch_length_T:
        raise ValueError("Sequences, as stateful modules need them, are left to RLlib's EpisodeReplayBuffer.")
    if include_infos or include_extra_model_outputs:
        raise ValueError("Infos and extra model outputs are left to RLlib's replay buffers.")


def _per_agent(counts: Mapping[str, float]) -> dict[str, Any]:
    """Counts, and the same by agent and by module, under the names of RLlib's arguments."""
    by = {"agent_to_": DEFAULT_AGENT_ID, "module_to_": DEFAULT_MODULE_ID}
    nested = {prefix + name.replace("env_steps", "steps"): {id_: count} for prefix, id_ in by.items() for name, count in counts.items()}
    return {**counts, **nested}


def _leaves(buffer: InfiniteLookbackBuffer) -> list[np.ndarray]:
    """What a buffer holds behind its lookback, [T, ...] for each leaf; nothing of an empty one."""
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


def _gather(columns: Sequence[np.ndarray], rows: Any, nested: Any) -> Any:
    """Items of some rows, as the space nests them."""
    if nested is None:
        return columns[0].take(rows, axis=0)
    return tree.unflatten_as(nested, [column.take(rows, axis=0) for column in columns])


def _put(columns: list[np.ndarray], rows: Any, leaves: Sequence[Any], length: int) -> None:
    """Write leaves into rows of columns, which are made, or made wider, as the leaves need it."""
    if not columns:
        items = [np.asarray(leaf) for leaf in leaves]
        dims = 0 if isinstance(rows, int) else 1
        columns.extend(np.zeros((length, *item.shape[dims:]), item.dtype) for item in items)
    for number, (column, leaf) in enumerate(zip(columns, leaves, strict=True)):
        dtype = getattr(leaf, "dtype", column.dtype)
        if dtype != column.dtype and not np.can_cast(dtype, column.dtype):
            columns[number] = column = column.astype(np.promote_types(dtype, column.dtype))
        column[rows] = leaf


def _map_columns(value: Any, function: Callable[[np.ndarray], np.ndarray]) -> Any:
    """Apply a function to an array, or to each of a list of arrays; leave anything else."""
    if isinstance(value, list) and all(isinstance(item, np.ndarray) for item in value):
        return [function(item) for item in value]
    return function(value) if isinstance(value, np.ndarray) else value


def _longer(column: np.ndarray, length: int, fill: int = 0) -> np.ndarray:
    """A copy of an array with more rows."""
    longer = np.full((length, *column.shape[1:]), fill, column.dtype)
    longer[: len(column)] = column
    return longer
