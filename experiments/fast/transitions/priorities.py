"""Priorities of a prioritized replay buffer: RLlib's segment trees in arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class Priorities:
    """RLlib's segment trees (ray/rllib/execution/segment_tree.py): every node is the sum, or the minimum,
    of the two below it.

    A node follows from the leaves alone, so the nodes above all leaves that were set are updated together, when they
    are needed. The minimum does not depend on the order of the operations: blocks of leaves replace its tree.
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
        """Set leaves; of a slot that is given twice, the last value is kept."""
        if (end := max(slots) + 1) > self._size:
            self.__setstate__({**self.__getstate__(), "size": 1 << (end - 1).bit_length()})
        at = np.asarray(slots)
        self._sums[at + self._size] = values
        self._least[at] = values
        self._changed.extend(slots)

    def empty(self, slots: Sequence[int]) -> None:
        """Remove leaves."""
        at = np.asarray(slots)
        self._sums[at + self._size] = 0.0
        self._least[at] = np.inf
        self._changed.extend(slots)

    def total(self) -> float:
        """The sum of all leaves."""
        self._update_nodes()
        return float(self._sums[1])

    def least(self) -> float:
        """The smallest leaf; infinity if there is none."""
        self._update_nodes()
        return float(self._least_of_block.min())

    def tree(self, capacity: int, operation: np.ufunc, neutral: float) -> list[float]:
        """The nodes as RLlib has them, of a tree with `capacity` leaves."""
        leaves = (self.leaves() if operation is np.add else self._least)[:capacity]
        width = capacity
        nodes = np.full(2 * width, neutral)
        nodes[width : width + len(leaves)] = leaves
        while width := width >> 1:
            operation(
                nodes[2 * width : 4 * width : 2], nodes[2 * width + 1 : 4 * width : 2], out=nodes[width : 2 * width]
            )
        found: list[float] = nodes.tolist()
        return found

    def find(self, sums: np.ndarray) -> np.ndarray:
        """For each of `sums` [B] the first leaf with which the sum of the leaves
        exceeds it: `SumSegmentTree.find_prefixsum_idx`.
        """
        self._update_nodes()
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

    def _update_nodes(self) -> None:
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
