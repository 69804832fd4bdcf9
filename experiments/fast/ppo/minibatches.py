"""Which rows of a batch are in which minibatch, as `MiniBatchCyclicIterator` has it (utils/minibatch_utils.py)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from experiments.fast.ppo.gradient import Rows


@dataclass(frozen=True)
class Passes:
    """Passes over the rows of a batch.

    The first pass is in the rows' own order, and each further one a shuffle of the one before; a minibatch can begin in
    one pass and end in the next. RLlib shuffles the rows after the last pass as well, and so do these: the generator's
    state is the same afterwards.
    """

    num_rows: int
    size: int
    num_minibatches: int
    shuffle: bool

    @classmethod
    def over(
        cls,
        episodes: Sequence[Any],
        num_epochs: int,
        minibatch_size: int | None,
        shuffle: bool,
        num_total_minibatches: int,
    ) -> "Passes":
        """As `Learner.update` (core/learner/learner.py) understands its arguments."""
        num_rows = sum(map(len, episodes)) + len(episodes)
        size = minibatch_size or num_rows
        if not minibatch_size and num_epochs <= 1:
            return cls(num_rows, size, int(num_rows > 0), shuffle=False)
        num_minibatches = num_total_minibatches or (math.ceil(num_epochs * num_rows / size) if size else 0)
        return cls(num_rows, size, num_minibatches, shuffle and num_epochs > 1)

    def blocks(self) -> Iterator[np.ndarray]:
        """Rows of as many whole minibatches as fit into a pass, or of one: [minibatches * size]."""
        order = left = np.arange(self.num_rows)
        for first in range(0, self.num_minibatches, per_block := max(1, self.num_rows // self.size)):
            wanted, parts = self.size * min(per_block, self.num_minibatches - first), []
            while wanted >= len(left):
                parts.append(left)
                wanted -= len(left)
                if self.shuffle:
                    order = order[np.random.permutation(self.num_rows)]  # the generator that RLlib uses
                left = order
            yield np.concatenate([*parts, left[:wanted]])
            left = left[wanted:]


def minibatch_of(block: Rows, number: int, size: int) -> Rows:
    """The minibatch with this number of a block of minibatches."""
    first = number * size
    return {name: column[first : first + size or None] for name, column in block.items()}


def split(columns: Rows, size: int) -> list[Rows]:
    """All minibatches of a block, one after the other."""
    parts = [torch.split(column, size) for column in columns.values()]
    return [dict(zip(columns, minibatch, strict=True)) for minibatch in zip(*parts, strict=True)]
