"""Intervals of single samples."""

import math

import pytest

from analysis.stats.interval import mean_interval


def test_a_mean_has_students_interval() -> None:
    # Mean 2, standard deviation 1, t(0.975, 2) = 4.302653: 2 +- 4.302653 / sqrt(3).
    found = mean_interval([1.0, 2.0, 3.0])
    assert (found.estimate, found.low, found.high) == pytest.approx((2.0, -0.484138, 4.484138), abs=1e-6)


def test_equal_values_leave_no_doubt_and_a_single_one_nothing_but_doubt() -> None:
    same = mean_interval([500.0] * 4)
    assert (same.low, same.high) == (500.0, 500.0)
    one = mean_interval([3.0])
    assert one.estimate == 3.0
    assert math.isnan(one.low) and math.isnan(one.high)
