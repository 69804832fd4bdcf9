"""RLlib's episode replay buffers with the transitions in arrays, instead of an episode object for every sampled item.

`EpisodeReplayBuffer` and `PrioritizedEpisodeReplayBuffer` (ray/rllib/utils/replay_buffers) keep episodes, walk two
trees of Python numbers item by item, and make an episode of every transition that they sample. Here observations,
actions and rewards are in arrays, and a sample is a few gathers.

What is sampled is the same as RLlib's, to the bit: the same episodes added and the same `rng` give the same
transitions, n-step returns, importance weights and priorities. Left out is what DQN and SAC do not ask for: infos,
extra model outputs, and sequences for stateful modules. Priorities are numbers of 64 bits, as RLlib's algorithms give
them; of 32-bit ones RLlib makes a tree that adds in 32 bits.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers.prioritized_episode_buffer import PrioritizedEpisodeReplayBuffer

from experiments.fast.transitions.base import ColumnarReplayBuffer, Sample, refuse
from experiments.fast.transitions.priorities import Priorities
from experiments.fast.transitions.rows import Chunk, StoredEpisode, lengthened

_LEAST_PRIORITY = 1e-12  # as in RLlib's `update_priorities`
_COUNTED_AS_ONE = 3  # up to this n_step RLlib's uniform buffer counts every item as one


class FastEpisodeReplayBuffer(ColumnarReplayBuffer):
    """Drop-in for `EpisodeReplayBuffer`, which samples all steps with the same probability.

    DQN takes it by its dotted path: `.training(replay_buffer_config={"type":
    "experiments.fast.replay.FastEpisodeReplayBuffer", ...})`.
    """

    def _clear(self) -> None:
        super()._clear()
        self._order = np.zeros(1024, np.int64)  # the rows that steps start from, in the order in which they were added
        self._first = self._end = 0  # of what is in use of it

    def add(self, episodes: Any) -> None:
        """Add episodes, or chunks of such; the oldest episodes are evicted while there are more steps than fit."""
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
                order = self._order[self._first : self._end]
                if (self._rows.serial[order[: len(evicted)]] == evicted.serial).all():
                    self._first += len(evicted)
                else:
                    order = order[self._rows.serial[order] != evicted.serial]
                    self._order[self._first : self._first + len(order)] = order
                    self._end = self._first + len(order)
        self._count_add()

    def _push(self, rows: list[int]) -> None:
        if self._end + len(rows) > len(self._order):
            order = self._order[self._first : self._end]
            self._order = lengthened(order, 2 * (len(order) + len(rows)))
            self._first, self._end = 0, len(order)
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

        The arguments are RLlib's. An n-step return that would go beyond the end of an episode ends there, and its
        `n_step` is the one asked for, as in RLlib.

        Raises:
            ValueError: Something is asked for that is not stored, or there is nothing to sample from.
        """
        refuse(**others)
        if not sample_episodes:
            raise ValueError(
                "Rows of consecutive steps, without sample_episodes=True, are left to RLlib's EpisodeReplayBuffer."
            )
        if n_step is None:
            raise ValueError("Episodes are sampled with n_step given.")
        sample = self._sample(num_items or batch_size_B or self.batch_size_B, n_step, gamma, 0.0)
        return self._sampled_episodes(sample, ids=True)

    def _draw(self, num_items: int, n_step: Any, gamma: float, beta: float) -> Sample:
        rows, steps, left = [], [], num_items
        count = self._end - self._first
        while left > 0:  # never more than RLlib would draw
            if isinstance(n_step, tuple):
                drawn = self.rng.integers(count, size=1)
                asked = self.rng.integers(n_step[0], n_step[1], size=1)
            else:
                drawn = self.rng.integers(count, size=left)
                asked = np.full(left, n_step)
            found = self._order[self._first + drawn]
            rows.append(found)
            steps.append(asked)
            if asked.max() <= _COUNTED_AS_ONE:
                left -= len(found)
            else:  # RLlib removes drawn items again for each that is too near to the end of its episode
                _, taken, _ = self._rows.follow(found, asked, gamma)
                counted = np.where(taken < asked - 1, taken - asked + 2, 1)
                left -= int(np.where(counted == 0, 1, counted).sum())
        starts, n_steps = np.concatenate(rows), np.concatenate(steps)
        after, taken, rewards = self._rows.follow(starts, n_steps, gamma)
        # RLlib does not report the end of those that are cut short
        ended = np.where(taken == n_steps, self._rows.ended.take(after), 0)
        return Sample(starts, after, rewards, ended, n_steps, np.ones(len(starts)))

    def get_state(self) -> dict[str, Any]:
        """As RLlib's."""
        order, rows = self._order[self._first : self._end], self._rows
        pairs = zip(rows.serial[order].tolist(), rows.step[order].tolist(), strict=True)
        return super().get_state() | {"_indices": list(pairs)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state, of such a buffer or of RLlib's `EpisodeReplayBuffer`."""
        super().set_state(state)
        by_serial = {stored.serial: stored for stored in self._stored.values()}
        self._push([by_serial[serial].rows[step] for serial, step in state["_indices"]])


class NStepEpisodeReplayBuffer(FastEpisodeReplayBuffer):
    """Samples all steps with the same probability, with returns of n steps that end where their episode ends
    (Sutton and Barto 2018, section 7.1).

    Both of RLlib's buffers lose these ends: the prioritised one never samples the last n - 1 steps of an episode, and
    `EpisodeReplayBuffer` takes a return that would reach beyond a terminal state for one that goes on from there.
    Here such a return has the steps that there are, as `n_step`, and ends as the episode does. That of an episode which
    goes on has the steps so far. With n = 1 the samples are those of `EpisodeReplayBuffer`.
    """

    def _draw(self, num_items: int, n_step: Any, gamma: float, beta: float) -> Sample:
        count = self._end - self._first
        starts = self._order[self._first + self.rng.integers(count, size=num_items)]
        if isinstance(n_step, tuple):
            asked = self.rng.integers(n_step[0], n_step[1], size=num_items)
        else:
            asked = np.full(num_items, n_step)
        after, taken, rewards = self._rows.follow(starts, asked, gamma)
        return Sample(starts, after, rewards, self._rows.ended.take(after), taken, np.ones(num_items))


N_STEP_BUFFER_PATH = f"{NStepEpisodeReplayBuffer.__module__}.{NStepEpisodeReplayBuffer.__qualname__}"
"""As RLlib's DQN takes it, which looks for the words EpisodeReplayBuffer in a type, and takes no class."""


class FastPrioritizedEpisodeReplayBuffer(ColumnarReplayBuffer, PrioritizedEpisodeReplayBuffer):  # type: ignore[misc]
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

    def _clear(self) -> None:
        super()._clear()
        self._priorities = Priorities()
        self._row_of = np.full(1024, -1)  # of the step whose priority is in the slot
        self._assigned_as = np.zeros(1024, np.int64)  # the step's number, of all that were ever assigned a slot
        self._num_assigned = 0
        self._free_slots: list[int] = []
        self._slots_end = 0  # from here on no slot was ever used

    def add(self, episodes: Any, weight: float | None = None) -> None:
        """Add episodes, or chunks of such; the oldest episodes are evicted while there are more steps than fit.

        Args:
            episodes: Episodes of RLlib's.
            weight: Priority of their steps; by default the largest that ever was.
        """
        self.add_chunks(self._chunks(episodes), weight)

    def add_chunks(self, chunks: Sequence[Chunk], weight: float | None = None) -> None:
        """The same as `add`, of chunks that are no episodes of RLlib's."""
        priority = (self._max_priority if weight is None else weight) ** self._alpha
        adding: dict[str, int] = {}
        for chunk in chunks:
            adding[chunk.id_] = adding.get(chunk.id_, 0) + len(chunk.rewards)
        steps = sum(adding.values())
        evicted: list[StoredEpisode] = []
        # As in RLlib: an episode is evicted together with the chunk of it that is added,
        # unless nothing else would remain.
        while (
            self._num_timesteps + steps > self.capacity
            and self._stored
            and len(self._stored.keys() | adding.keys()) != 1
        ):
            evicted.append(self._evict())
            steps -= adding.pop(evicted[-1].id_, 0)
        if evicted:
            self._release([slot for stored in evicted for slot in self._rows.slot[stored.rows[:-1]].tolist()])
        self._num_timesteps_added += steps
        for chunk in chunks:
            if chunk.id_ in adding:
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
                    self._row_of, self._assigned_as = (
                        lengthened(self._row_of, 2 * slot, -1),
                        lengthened(self._assigned_as, 2 * slot),
                    )
            self._row_of[slot], self._rows.slot[row], self._assigned_as[slot] = row, slot, self._num_assigned
            self._num_assigned += 1
            slots.append(slot)
        return slots

    def _release(self, slots: list[int]) -> None:
        if not slots:
            return
        slots.sort(key=self._assigned_as.__getitem__)
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
        """Sample transitions with probabilities by their priorities, as episodes of one step;
        `sample_columns` is the fast way.

        The arguments are RLlib's.

        Raises:
            ValueError: Something is asked for that is not stored, or there is nothing to sample from.
        """
        refuse(**{**others, "batch_length_T": 0})  # which RLlib's takes and does not look at
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
                _, taken, _ = self._rows.follow(rows, asked, gamma)
                fits &= taken == asked
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
        weights = np.array(
            [(value / total * items) ** -beta / largest for value in self._priorities.leaves()[slots].tolist()]
        )
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
            module_id: RLlib's id of the module; not used.
        """
        values = np.maximum(np.asarray(priorities, np.float64), _LEAST_PRIORITY).tolist()
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
        slots = slots[np.argsort(self._assigned_as[slots])]
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
        """Restore a state, of such a buffer or of RLlib's `PrioritizedEpisodeReplayBuffer`."""
        super().set_state(state)
        sums, free = state["_sum_segment"], list(state["_free_nodes"])
        by_serial = {stored.serial: stored for stored in self._stored.values()}
        self._slots_end = len(sums) // 2
        while free and free[-1] == self._slots_end - 1:
            self._slots_end = free.pop()
        self._free_slots = free[::-1]
        self._row_of, self._assigned_as = (
            np.full(max(1024, self._slots_end), -1),
            np.zeros(max(1024, self._slots_end), np.int64),
        )
        for serial, step, slot in state["_indices"]:
            row = by_serial[serial].rows[step]
            self._row_of[slot], self._rows.slot[row], self._assigned_as[slot] = row, slot, self._num_assigned
            self._num_assigned += 1
        if state["_indices"]:
            slots = [slot for _, _, slot in state["_indices"]]
            self._priorities.set(slots, [float(sums[len(sums) // 2 + slot]) for slot in slots])
        self._max_priority = float(state["_max_priority"])
        self._last_sampled_indices = list(state["_last_sampled_indices"])
