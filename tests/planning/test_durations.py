"""How long work takes and how sure that is: known answers, and what more is known must narrow."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.planning.durations import ENDING_S, Duration, by_earlier, estimated, so_far


def test_the_ends_are_a_factor_to_either_side_that_holds_ninety_percent() -> None:
    found = estimated(0.5, within=4.0).over(100)
    assert (found.low, found.seconds, found.high) == pytest.approx((12.5, 50, 200))
    assert str(found) == "about 12 s to 3 min"
    assert found.bound == "at most about 3 min"


def test_what_cuts_a_study_off_cuts_its_time_off() -> None:
    found = Duration(600, 0.5).cut_off(300)
    assert (found.low, found.seconds, found.high) == (pytest.approx(300 * math.exp(-1.645 / 2)), 300, 300)


def test_what_a_study_takes_when_its_trials_have_ended_is_known_better_than_these() -> None:
    trials, short = Duration(600, 0.5), Duration(1, 0.5)
    assert trials.ended.seconds == 600 + ENDING_S and 0.49 < trials.ended.error < 0.5
    assert 0.3 < short.ended.error < 0.35
    assert trials.cut_off(300).ended.high == 300 + ENDING_S


def test_the_more_trials_ran_before_the_surer_their_pace_but_never_beyond_what_another_study_differs_by() -> None:
    few, many = by_earlier([1e-3, 2e-3]), by_earlier([1e-3, 2e-3] * 1000)
    assert few.seconds == many.seconds == pytest.approx(2e-3)
    assert few.error > many.error > 0.19
    assert by_earlier([3.0, 1.0, 200.0]).seconds == pytest.approx(3.0)


@given(st.integers(1, 50), st.floats(0.0, 1.0))
def test_what_has_not_begun_widens_the_time_left(num_seen: int, unseen: float) -> None:
    known, guessed = (so_far(60, 10, 5, 5 * share, num_seen) for share in (0.0, unseen))
    assert known.seconds == guessed.seconds == 6.0
    assert known.error <= guessed.error <= so_far(60, 10, 5, 5, 1).error
