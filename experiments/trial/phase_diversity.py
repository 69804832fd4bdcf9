"""The spread of a training batch over the episode."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Spans = npt.NDArray[np.int64]
"""Chunks of episodes, [n, 2]: env steps of the episode before a chunk's first row, and after its last."""


def phase_diversity(spans: Spans, episode_len: float) -> float:
    """The circular variance of the rows' phases, 1 - |mean of exp(2 pi i t / L)| (Mardia and Jupp 2000,
    Directional Statistics, 2.3.1).

    A row's phase is the share t / L of an episode's length L that lies before it. An episode that is over begins anew,
    so the end of one is next to the beginning of another.

    Args:
        spans: Spans of the batch; one row or more.
        episode_len: Mean env steps of an episode.

    Returns:
        0 if all rows are of the same time of the episode, 1 if they are spread evenly over it. Single rows of N
        environments at random give about 1 - 0.9 / sqrt(N).
    """
    steps = np.concatenate([np.arange(start, stop) for start, stop in spans])
    return float(1 - abs(np.exp(2j * np.pi * steps / episode_len).mean()))


def mean_phase_diversity(batches: Sequence[Spans], episode_len: float) -> float:
    """The mean of `phase_diversity` over batches, one or more."""
    return float(np.mean([phase_diversity(spans, episode_len) for spans in batches]))
