"""One user seed to independent random streams for every part of a trial.

RLlib seeds runner `i` with `seed + i` and environment `j` of a runner with that `+ j` (`rllib/env/env_runner.py`,
`gymnasium/vector/sync_vector_env.py`), so neighbouring seeds share most of their environments. Here each stream is a
child of one `numpy.random.SeedSequence`, told apart by what it is for, and by the environment's number within the
trial: the same environments are seen however they are spread over runners.

A trial derives its streams anew at every checkpoint, so that going on from it needs no generator's
state: see `checkpoints.py`.

Trials of different configurations with the same seed share their streams on purpose: they are compared in pairs.
"""

from enum import IntEnum

import numpy as np

_DOMAIN = 0x5CA11A6  # sets this suite's streams apart from other uses of small seeds


class Role(IntEnum):
    """The purpose of a stream. The numbers are part of every recorded result: never renumber them."""

    ALGORITHM = 0
    """The trial's main process and its learners: initial weights, minibatch order."""
    RUNNER = 1
    """A runner's process: the sampling of actions. Index: the runner's."""
    ENV = 2
    """An environment. Index: the number of the environment within the trial."""
    EVALUATION = 3
    """An evaluation episode on the way. Index: the episode's."""
    FINAL_EVALUATION = 4
    """An episode of the final evaluation. Index: the episode's."""
    REPLAY = 5
    """The draws from the replay buffer."""


def stream_seed(seed: int, role: Role, index: int = 0, segment: int = 0) -> int:
    """The seed of one stream.

    Args:
        seed: The user's replicate number, 0 or above.
        role: Purpose of the stream.
        index: Which one of its role, from 0.
        segment: Which stretch between two checkpoints of the trial, from 0.

    Returns:
        An integer in [0, 2**63): wide enough that no two of a large study's streams meet by chance.
    """
    sequence = np.random.SeedSequence(
        entropy=(_DOMAIN, seed), spawn_key=(int(role), index, *([segment] if segment else []))
    )
    return int(sequence.generate_state(1, np.uint64)[0] >> 1)


def stream_seeds(seed: int, role: Role, count: int, start: int = 0, segment: int = 0) -> list[int]:
    """The seeds of `count` streams of one role, from index `start` on."""
    return [stream_seed(seed, role, index, segment) for index in range(start, start + count)]


def process_seed(seed: int, role: Role, index: int = 0, segment: int = 0) -> int:
    """As `stream_seed`, in [0, 2**31): NumPy's legacy generator takes 32 bits,
    and RLlib adds small offsets to what it is given.
    """
    return stream_seed(seed, role, index, segment) % 2**31
