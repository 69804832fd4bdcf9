"""Mean log throughput of each count, the passes' own speeds taken out by least squares."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.stats.interval import Array

LEAST_NOISE = 1e-3
"""Standard deviation of log throughput: no speed is known better than this, however alike the seeds are."""


@dataclass(frozen=True)
class Means:
    """Mean log throughput of each count, effects of the blocks taken out.

    Attributes:
        num: (num_counts,) ascending.
        mean: (num_counts,) log env steps/s, at the average block.
        shape: (num_counts, num_counts) covariance of the means, in units of the noise's variance.
        num_seeds: (num_counts,) measurements.
        noise: Standard deviation of one measurement about its count's and block's effects.
        free: Degrees of freedom of the noise.
        blocks: Their effects, by block, adding to 0; all 0 where they cannot be told from those of the counts.
        block_square: Mean square of the blocks, of which the noise's variance is a part; 0 where they are left out.
        per_block: Measurements in a block, on average.
        replicated: Noise and blocks can be judged.
    """

    num: Array
    mean: Array
    shape: Array
    num_seeds: npt.NDArray[np.int64]
    noise: float
    free: int
    blocks: pd.Series
    block_square: float
    per_block: float
    replicated: bool

    @property
    def separable(self) -> bool:
        """The blocks' effects are known apart from the counts'."""
        return self.block_square > 0


def means_of(points: pd.DataFrame) -> Means:
    """Least squares of log X on counts and blocks."""
    num, count = np.unique(points["num"].to_numpy(float), return_inverse=True)
    blocks, block = np.unique(points["block"].astype(str), return_inverse=True)
    y = np.log(points["env_steps_per_s"].to_numpy(float))
    of_count = np.eye(len(num))[count]
    # Effects that add to 0: the last block's is minus the sum of the others'.
    of_block = np.vstack([np.eye(len(blocks) - 1), -np.ones(len(blocks) - 1)])[block]
    design = np.hstack([of_count, of_block])
    if np.linalg.matrix_rank(design) < design.shape[1]:
        # Each block has counts of its own: what is the block's and what is the count's can't be told,
        # and noise is what blocks add to it.
        design = of_count
    centre = y.mean()
    inverse: Array = np.asarray(np.linalg.inv(design.T @ design), dtype=np.float64)
    effects = inverse @ design.T @ (y - centre)
    residual = y - centre - design @ effects
    free = len(y) - design.shape[1]
    noise = float(np.sqrt(residual @ residual / free)) if free > 0 else 0.0
    own = np.zeros(len(blocks))
    if design.shape[1] > len(num):
        own[:-1] = effects[len(num) :]
        own[-1] = -own[:-1].sum()
    per_block = len(y) / len(blocks)
    square = per_block * float(own @ own) / (len(blocks) - 1) if design.shape[1] > len(num) else 0.0
    return Means(
        num=num,
        mean=centre + effects[: len(num)],
        shape=inverse[: len(num), : len(num)],
        num_seeds=np.bincount(count),
        noise=noise,
        free=free,
        blocks=pd.Series(own, index=blocks),
        block_square=max(square, LEAST_NOISE**2) if design.shape[1] > len(num) else 0.0,
        per_block=per_block,
        replicated=bool(free > 0 and len(blocks) > 1),
    )
