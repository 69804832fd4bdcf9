"""Splits of seeds."""

import numpy as np
import pytest

from analysis.stats.halves import SPLITS, halves


@pytest.mark.parametrize(("num", "expected"), [(2, 2), (3, 3), (5, 10), (9, 126), (10, SPLITS)])
def test_all_splits_of_few_seeds_and_some_of_many(num: int, expected: int) -> None:
    found = halves(num, np.random.default_rng(0))
    assert len(found) == expected
    assert all(len({*half.tolist()}) == num // 2 and half.max() < num for half in found)
