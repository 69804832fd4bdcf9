"""Means of what is known, the interquartile mean and the optimality gap."""

import numpy as np
import pytest

from analysis.stats.aggregates import iqms, known_means, optimality_gap


def test_iqm_is_the_mean_of_the_middle_half() -> None:
    assert iqms(np.array([8, 1, 7, 2, 6, 3, 5, 4], dtype=float)) == 4.5  # 3, 4, 5 and 6 are left
    assert (
        iqms(np.array([1000, 10, 30, 0, 20], dtype=float)) == 20
    )  # a quarter of 5, rounded down, is 1: 10, 20 and 30 are left
    assert iqms(np.array([0, 10, 50], dtype=float)) == 20  # a quarter of 3, rounded down, is none


def test_optimality_gap_counts_shortfalls_and_no_surplus() -> None:
    assert optimality_gap([465, 475, 500], 475) == pytest.approx(10 / 3)  # 10, 0 and 0
    assert optimality_gap([500, 480], 475) == 0


def test_means_are_of_what_is_known() -> None:
    found = known_means(np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]]))
    assert found[0] == 2 and np.isnan(found[1])
