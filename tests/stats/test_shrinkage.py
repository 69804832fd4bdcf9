"""What is expected of a configuration that was picked for its numbers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from analysis.stats.comparisons import leaders
from analysis.stats.moderated import moderated_intervals
from analysis.stats.shrinkage import shrunken


def test_by_hand() -> None:
    # squares 4 + 0 + 4 = 8, of which chance explains max(0, 1) * 2: three quarters are kept
    assert_allclose(shrunken(np.array([8.0, 10, 12]), np.sqrt(np.full(3, 2.0))), [8.5, 10, 11.5])
    assert_array_equal(shrunken(np.array([8.0, 12]), np.array([100.0, 100])), [10, 10])  # it explains all


def test_what_nothing_is_known_of_stays() -> None:
    assert_array_equal(shrunken(np.array([3.0]), np.array([1.0])), [3])
    assert_array_equal(shrunken(np.array([3.0, 5]), np.full(2, np.nan)), [3, 5])
    assert_array_equal(shrunken(np.array([5.0, 5]), np.ones(2)), [5, 5])


@pytest.mark.parametrize(
    ("truth", "num_seeds"),
    [(np.zeros(9), 5), (np.zeros(100), 3), (np.r_[np.zeros(8), 3.0], 5), (np.r_[np.full(50, -8.0), np.zeros(50)], 3)],
    ids=["nine equal", "a hundred equal", "one stands out", "half are bad"],
)
def test_the_moved_interval_of_the_best_covers_and_its_own_does_not(truth: np.ndarray, num_seeds: int) -> None:
    rng, moved, own = np.random.default_rng(0), [], []
    for _ in range(200):
        values = rng.normal(truth[:, None], 1, (len(truth), num_seeds))
        found, among = moderated_intervals(values), leaders(values, larger_is_better=True)
        best = int(found.estimate.argmax())
        by = shrunken(found.estimate[among], found.se[among]).max() - found.estimate[best]
        own.append(found.low[best] <= truth[best] <= found.high[best])
        moved.append(found.low[best] + by <= truth[best] <= found.high[best] + by)
    assert np.mean(moved) >= 0.92
    assert np.mean(own) < 0.9 or truth.max() > 0
