"""Wilson's interval of shares."""

from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from analysis.stats.shares import share_interval

Z = 1.959964

few = settings(max_examples=40, deadline=None)


def test_wilsons_interval_by_hand() -> None:
    # 8 of 10: centre (0.8 + z^2 / 20) / (1 + z^2 / 10) = 0.7167, half (z sqrt(0.016 + z^2 / 400)) / (1 + z^2 / 10) = 0.2266.
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
