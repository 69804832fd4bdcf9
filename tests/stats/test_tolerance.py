"""What order statistics say of any distribution."""

import numpy as np
import pytest

from analysis.stats.tolerance import fewest_seeds, lower_bound, median_interval


def test_the_seeds_that_a_bound_takes_by_hand() -> None:
    # 1 - 0.9^28 = 0.9477, 1 - 0.9^29 = 0.9529.
    assert fewest_seeds(0.9, 0.95) == 29
    assert fewest_seeds(0.95, 0.95) == 59
    assert fewest_seeds(0.5, 0.95) == 5


def test_the_bound_is_the_largest_order_statistic_that_still_holds() -> None:
    """Of 46 seeds the second smallest: P(count >= 2) = 1 - 0.9^46 - 46 x 0.1 x 0.9^45 = 0.952."""
    assert np.isnan(lower_bound(np.arange(28.0)))
    assert lower_bound(np.arange(29.0)[::-1]) == 0
    assert lower_bound(np.arange(45.0)) == 0
    assert lower_bound(np.arange(46.0)) == 1


def test_a_seed_without_an_end_is_the_lowest() -> None:
    assert lower_bound(np.array([-np.inf, *range(28)])) == -np.inf
    assert lower_bound(np.array([-np.inf, *range(45)])) == 0


@pytest.mark.parametrize("num_seeds", [30, 60])
def test_the_bound_holds_in_95_percent_of_studies(num_seeds: int) -> None:
    rng = np.random.default_rng(0)
    scores = np.where(
        rng.random((1000, num_seeds)) < 0.85,
        rng.normal(460, 20, (1000, num_seeds)),
        rng.normal(150, 40, (1000, num_seeds)),
    )
    # the 10% quantile: two thirds of the low mode, whose quantile is at 0.4307 standard deviations
    truth = 150 + 40 * 0.4307
    assert np.mean([lower_bound(of_seeds) <= truth for of_seeds in scores]) >= 0.95 - 0.0138  # two standard errors


def test_five_seeds_have_the_median_between_the_worst_and_the_best_with_94_percent() -> None:
    found, right = median_interval(np.array([3.0, 1, 5, 2, 4]))
    assert (found.estimate, found.low, found.high, right) == (3, 1, 5, 1 - 2 / 2**5)
    found, right = median_interval(np.arange(10.0))  # the second: 1 - 2 (1 + 10) / 2^10
    assert (found.estimate, found.low, found.high) == (4.5, 1, 8)
    assert right == pytest.approx(1 - 22 / 1024)
    found, right = median_interval(np.array([7.0]))
    assert (found.estimate, right) == (7, 0) and np.isnan([found.low, found.high]).all()


def test_the_median_of_two_modes_is_covered() -> None:
    rng = np.random.default_rng(0)
    scores = np.where(rng.random((2000, 5)) < 0.6, rng.normal(460, 10, (2000, 5)), rng.normal(150, 10, (2000, 5)))
    truth = 450.0  # of the upper mode the lowest sixth is below the median: 460 - 0.967 * 10
    ends = [median_interval(of_seeds)[0] for of_seeds in scores]
    assert 0.92 <= np.mean([found.low <= truth <= found.high for found in ends]) <= 0.95
