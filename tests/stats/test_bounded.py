"""Intervals of means of bounded scores."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from analysis.stats.bounded import certain_interval, dispersion


def test_a_dispersion_is_the_share_of_the_largest_variance() -> None:
    mean, variance = np.array([250.0, 100, 500, 0, 250]), np.array([62_500.0, 10_000, 0, 0, 70_000])
    assert_allclose(dispersion(mean, variance, (0, 500)), [1, 0.25, np.nan, np.nan, 1])  # two of 0 and 500 have more


@pytest.mark.parametrize("num", [1, 2, 5])
def test_of_equal_scores_at_a_bound_the_certain_interval_is_by_hand(num: int) -> None:
    """All at the highest: the chance of what lies below is the first of a flat Dirichlet distribution, Beta(1, num)."""
    low, high = certain_interval(np.full((1, num), 500.0), (0.0, 500.0), 0.95)
    assert high[0] == pytest.approx(500)
    assert low[0] == pytest.approx(500 * 0.025 ** (1 / num), rel=0.06)


def test_of_what_has_only_two_values_it_is_clopper_and_pearsons() -> None:
    values = np.array([[0.0, 0, 1, 1, 1, 1, 1, np.nan]])
    low, high = certain_interval(values, (0.0, 1.0), 0.95)
    exact = stats.binomtest(5, 7).proportion_ci()
    assert_allclose([low[0], high[0]], [exact.low, exact.high], atol=0.01)


def test_without_values_it_is_the_range() -> None:
    assert_array_equal(certain_interval(np.full((2, 3), np.nan), (-1.0, 2.0), 0.95), [[-1, -1], [2, 2]])


def test_it_covers_where_scores_have_two_modes() -> None:
    rng = np.random.default_rng(0)
    values = np.where(rng.random((1000, 5)) < 0.7, rng.normal(0.9, 0.02, (1000, 5)), rng.normal(0.2, 0.05, (1000, 5)))
    low, high = certain_interval(values, (0.0, 1.0), 0.95)
    assert ((low <= 0.69) & (high >= 0.69)).mean() > 0.95
