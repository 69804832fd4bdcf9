"""The memory that a process keeps from one trial to the next, and when it had better not take another."""

import gc

from experiments.trial.usage.resource_usage import own_memory_bytes

MOST_GROWTH = 512 * 2**20
"""Bytes by which a process may grow from its first trial's start: a trial leaves 3 to 4 MB behind,
and more after large replay buffers."""


class ProcessMemory:
    """The memory of a process that one trial after another is trained in."""

    def __init__(self) -> None:
        self._first_bytes = 0  # when it built its first algorithm
        self._frozen = 0  # times that objects were taken out of Python's full collections

    def begin(self) -> None:
        """An algorithm was built."""
        self._first_bytes = self._first_bytes or own_memory_bytes()

    def freeze_once(self) -> None:
        """Take what the first algorithm came with out of Python's full collections."""
        if not self._frozen:
            freeze()
            self._frozen = 1

    def collect(self) -> None:
        """Free what an algorithm left behind."""
        if self._frozen == 1:  # with the first algorithm, which is gone
            freeze()
            self._frozen = 2
        else:
            gc.collect()

    @property
    def has_grown(self) -> bool:
        """True if it is larger than what trials leave behind by themselves."""
        return own_memory_bytes() - self._first_bytes > MOST_GROWTH


def freeze() -> None:
    """Take what is there now, such as RLlib's modules, out of Python's full collections: they took 180 ms each."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
