"""Wilson's and Jeffreys' intervals of shares."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import special

from analysis.stats.shares import jeffreys_interval, share_interval

Z = 1.959964

few = settings(max_examples=40, deadline=None)


def test_wilsons_interval_by_hand() -> None:
    # 8 of 10: centre (0.8 + z^2 / 20) / (1 + z^2 / 10) = 0.7167,
    # half (z sqrt(0.016 + z^2 / 400)) / (1 + z^2 / 10) = 0.2266.
    low, high = share_interval(8, 10)
    assert_allclose([low, high], [0.4902, 0.9433], atol=1e-4)
    low, high = share_interval([0, 3], 3)
    assert_allclose(low, [0, 3 / (3 + Z**2)])
    assert_allclose(high, [Z**2 / (3 + Z**2), 1])
    assert (low[0], high[1]) == (0, 1)


@few
@given(data=st.data(), total=st.integers(1, 50))
def test_wilsons_interval_contains_the_share(data: st.DataObject, total: int) -> None:
    count = data.draw(st.integers(0, total))
    low, high = share_interval(count, total)
    assert 0 <= low <= count / total <= high <= 1
    wider = share_interval(count, total, confidence=0.99)
    assert wider[0] <= low and high <= wider[1]


def test_jeffreys_interval_against_published_values() -> None:
    """Brown, Cai and DasGupta (2001), table 5: of 7, with 0, 1 and 3; the ends at 0 are theirs as well."""
    low, high = jeffreys_interval([0, 1, 3], 7)
    assert_allclose(low, [0, 0.016, 0.139], atol=6e-4)
    assert_allclose(high, [0.292, 0.501, 0.766], atol=6e-4)


@pytest.mark.parametrize("num_seeds", [5, 10, 30])
def test_jeffreys_interval_covers_95_percent_on_average_over_probabilities(num_seeds: int) -> None:
    """By summing over all counts, without a draw."""
    probabilities = np.linspace(0.005, 0.5, 100)
    counts = np.arange(num_seeds + 1)
    low, high = jeffreys_interval(counts, num_seeds)
    held = (low[:, None] <= probabilities) & (probabilities <= high[:, None])
    chances = special.bdtr(counts[:, None], num_seeds, probabilities)
    chances[1:] -= chances[:-1].copy()
    assert 0.94 < (held * chances).sum(axis=0).mean() < 0.97
