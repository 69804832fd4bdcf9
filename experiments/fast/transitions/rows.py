"""Transitions in arrays: a row for every observation of every stored episode."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tree

_LEAST_ROWS = 1024
TERMINATED, TRUNCATED = 1, 2
"""How an episode ended, as bits."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive env steps of one episode.

    Attributes:
        id_: Id of the episode.
        t_started: The episode's env steps before this chunk.
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
            id_: Id of the episode.
            t_started: The episode's env steps before this chunk.
            observations: [T + 1, ...].
            actions: [T, ...].
            rewards: [T].
            terminated: The episode ended, by the environment's dynamics.
            truncated: The episode ended, by anything else.
        """
        ended = TERMINATED * bool(terminated) | TRUNCATED * bool(truncated)
        return Chunk(id_, t_started, (observations,), (actions,), rewards, ended)


@dataclass(slots=True)
class StoredEpisode:
    """An episode in the buffer.

    Attributes:
        id_: RLlib's id of the episode.
        serial: Episodes that were added before it, in the buffer's lifetime.
        t_started: The episode's env steps before the first that is stored.
        rows: Rows of its observations.
        ended: How it ended, as bits: 0 if it goes on.
    """

    id_: str
    serial: int
    t_started: int
    rows: "array[int]" = field(default_factory=lambda: array("q"))
    ended: int = 0

    def __len__(self) -> int:
        return len(self.rows) - 1


class TransitionRows:
    """The data of all episodes: a row for every observation, with the action taken on it, its reward and the next row.

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

    capacity = 0  # of those that were saved without it

    def __init__(self, capacity: int = 0) -> None:
        """No rows.

        Args:
            capacity: Env steps that are kept, about: room for them is asked for at once, which the system gives
                as it is written to. Arrays that grow would be there twice while they are copied.
        """
        self.capacity = capacity
        self.observations: list[np.ndarray] = []
        self.actions: list[np.ndarray] = []
        self.rewards = np.zeros(0)
        self.after, self.serial, self.step, self.slot = (np.zeros(0, np.int64) for _ in range(4))
        self.ended = np.zeros(0, np.uint8)
        self._free: list[int] = []
        self._end = 0  # from here on no row was ever used

    def __getstate__(self) -> dict[str, Any]:
        """Without the rows that were never used."""
        return {name: _map_columns(value, lambda column: column[: self._end]) for name, value in self.__dict__.items()}

    def append(self, stored: StoredEpisode, chunk: Chunk) -> None:
        """Add a chunk to the episode that it belongs to."""
        rows, steps = stored.rows, len(chunk.rewards)
        if not rows:
            first = self._take(1)[0]
            _write(self.observations, first, [leaf[0] for leaf in chunk.observations], len(self.after))
            self.after[first], self.ended[first], self.serial[first], self.step[first] = -1, 0, stored.serial, 0
            rows.append(first)
        stored.ended = chunk.ended
        if steps == 1:  # the same as below, with numbers instead of arrays: faster
            last, new = rows[-1], self._take(1)[0]
            _write(self.observations, new, [leaf[1] for leaf in chunk.observations], len(self.after))
            _write(self.actions, last, [leaf[0] for leaf in chunk.actions], len(self.after))
            self.rewards[last] = chunk.rewards[0]
            self.after[last] = new
            self.after[new], self.ended[new], self.serial[new], self.step[new] = (
                -1,
                chunk.ended,
                stored.serial,
                len(rows),
            )
            rows.append(new)
        elif steps:
            taken = self._take(steps)
            to = np.array(taken, np.int64)
            on = np.array([rows[-1], *taken[:-1]], np.int64)
            _write(self.observations, to, [leaf[1:] for leaf in chunk.observations], len(self.after))
            _write(self.actions, on, chunk.actions, len(self.after))
            self.rewards[on] = chunk.rewards
            self.after[on] = to
            self.after[to[-1]] = -1
            self.ended[to] = 0
            self.ended[to[-1]] = chunk.ended
            self.serial[to] = stored.serial
            self.step[to] = np.arange(len(rows), len(rows) + steps)
            rows.extend(taken)

    def release(self, stored: StoredEpisode) -> None:
        """Make an episode's rows free for others."""
        self._free.extend(stored.rows)

    def follow(
        self, rows: np.ndarray, n_steps: int | np.ndarray, gamma: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Follow the episodes from `rows` [B] for `n_steps`, or to the last observation of the episode
        if that is nearer.

        Returns:
            The rows reached, the steps taken, and the discounted sum of their rewards; [B] each.
        """
        if isinstance(n_steps, int) and n_steps == 1:  # every row that a step starts from has a next one
            # as RLlib: never -0.0
            return self.after.take(rows), np.ones(len(rows), np.int64), self.rewards.take(rows) + 0.0
        path, at, taken = [], rows, np.zeros(len(rows), np.int64)
        for step in range(int(np.max(n_steps))):
            after = self.after.take(at)
            goes_on = (after >= 0) & (step < n_steps)
            path.append((at, goes_on))
            at = np.where(goes_on, after, at)
            taken += goes_on
        rewards = np.zeros(len(rows))
        for on, goes_on in reversed(path):  # in the order in which RLlib's linear filter adds
            rewards = np.where(goes_on, self.rewards.take(on) + gamma * rewards, rewards)
        return at, taken, rewards

    def _take(self, count: int) -> list[int]:
        """Rows that are not in use."""
        kept = max(0, len(self._free) - count)
        taken = self._free[kept:]
        del self._free[kept:]
        if new := count - len(taken):
            taken.extend(range(self._end, self._end + new))
            self._end += new
            if self._end > len(self.after):
                self._lengthen(max(self._end, 2 * len(self.after), _LEAST_ROWS))
        return taken

    def _lengthen(self, length: int) -> None:
        """Make room for so many rows, or at once for all that there will be, if the system promises it."""
        try:
            self._set_length(max(length, self.capacity + _LEAST_ROWS))
        except MemoryError:
            self._set_length(length)

    def _set_length(self, length: int) -> None:
        self.__dict__ = {
            name: _map_columns(value, lambda column: lengthened(column, length))
            for name, value in self.__dict__.items()
        }


def gather(columns: Sequence[np.ndarray], rows: Any, nested: Any) -> Any:
    """Items of some rows, as the space nests them."""
    if nested is None:
        return columns[0].take(rows, axis=0)
    return tree.unflatten_as(nested, [column.take(rows, axis=0) for column in columns])


def _write(columns: list[np.ndarray], rows: Any, leaves: Sequence[Any], length: int) -> None:
    """Write leaves into rows of columns; makes the columns, and gives them a wider dtype, if the leaves need it."""
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


def lengthened(column: np.ndarray, length: int, fill: int = 0) -> np.ndarray:
    """A copy of an array with more rows."""
    shape = (length, *column.shape[1:])
    # zeros take no memory until they are written to
    longer = np.full(shape, fill, column.dtype) if fill else np.zeros(shape, column.dtype)
    longer[: len(column)] = column
    return longer
