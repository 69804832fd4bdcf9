"""Seeds in two halves, so that those that choose do not judge."""

from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

SPLITS = 200
"""At most; up to nine seeds have fewer."""


def halves(num_seeds: int, rng: np.random.Generator) -> list[npt.NDArray[np.int64]]:
    """One half of each split of seeds, the smaller one of an odd number: all that there are, or `SPLITS` random ones.

    Args:
        num_seeds: Two or more.
        rng: Where random ones come from.

    Returns:
        Places of the seeds, (num_seeds // 2,) each.
    """
    size = num_seeds // 2
    if comb(num_seeds, size) <= SPLITS:
        return [np.array(some, np.int64) for some in combinations(range(num_seeds), size)]
    return [rng.permutation(num_seeds)[:size] for _ in range(SPLITS)]
