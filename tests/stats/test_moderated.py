"""Intervals on moderated variances."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats as scipy_stats

from analysis.stats.comparisons import p_values
from analysis.stats.moderated import Estimates, moderate, moderated_intervals, paired_differences
from benchmarks.calibration.seeds import SHAPES, coverage

few = settings(max_examples=40, deadline=None)

# Whole numbers, as float64 adds them exactly: that two means are equal is then no matter of rounding.
whole = st.integers(0, 500).map(float)

statistics = st.sampled_from(["mean", "iqm"])

studies = st.tuples(st.integers(1, 5), st.integers(2, 7)).flatmap(lambda shape: arrays(float, shape, elements=whole))

studies_with_gaps = st.tuples(st.integers(1, 5), st.integers(1, 7)).flatmap(
    lambda shape: arrays(float, shape, elements=st.one_of(whole, st.just(np.nan)))
)


def ends(found: Estimates) -> np.ndarray:
    return np.array([found.estimate, found.low, found.high, found.se, found.df])


@pytest.mark.parametrize("num_seeds", [2, 3, 10])
def test_one_configuration_has_students_t_interval(num_seeds: int) -> None:
    values = np.random.default_rng(0).normal(300, 40, (1, num_seeds))
    found = moderated_intervals(values)
    low, high = scipy_stats.t.interval(0.95, num_seeds - 1, values.mean(), scipy_stats.sem(values[0]))
    assert_allclose([found.estimate[0], found.low[0], found.high[0]], [values.mean(), low, high])


def test_interval_of_an_iqm_by_hand() -> None:
    found = moderated_intervals(np.array([[1000.0, 10, 30, 0, 20]]), "iqm")
    # Winsorised: 10, 10, 20, 30, 30, whose squared deviations add to 400;
    # of 3 kept values the variance is 400 / (3 * 2).
    se = np.sqrt(400 / 6)
    assert_allclose([found.estimate[0], found.se[0], found.df[0]], [20, se, 2])
    # t of 2 degrees of freedom
    assert_allclose([found.low[0], found.high[0]], [20 - 4.302653 * se, 20 + 4.302653 * se], rtol=1e-6)


def test_standard_error_of_an_iqm_is_that_of_yuens_test_in_scipy() -> None:
    values = np.random.default_rng(0).gamma(2, 100, 10)
    t = scipy_stats.ttest_ind(values + 50, values, equal_var=False, trim=0.25).statistic  # 50 / (se * sqrt(2))
    assert moderated_intervals(values[None], "iqm").se[0] == pytest.approx(50 / t / np.sqrt(2))


def test_variance_is_averaged_with_that_of_the_others_by_hand() -> None:
    # variances 4, 1 and 1 with 2 degrees of freedom each
    found = moderated_intervals(np.array([[0.0, 2, 4], [10, 11, 12], [20, 21, 22]]))
    # First: the others have 1 on average, with (2 * 1 + 2 * 1)^2 / (2 * 1 + 2 * 1) = 4 degrees.
    # (4 * 1 + 2 * 4) / 6 = 2.
    # Second: the others have 2.5, with (2 * 4 + 2 * 1)^2 / (2 * 16 + 2 * 1) = 50 / 17 degrees.
    df = 50 / 17
    variances = np.array([2, (df * 2.5 + 2 * 1) / (df + 2), (df * 2.5 + 2 * 1) / (df + 2)])
    assert_allclose(found.df, [6, df + 2, df + 2])
    assert_allclose(found.se, np.sqrt(variances / 3))


def test_unknown_variance_is_that_of_the_others() -> None:
    variance, df = moderate([np.nan, 1.0, np.nan], [0, 2, 0], [4.0, 4.0, 0.0], [20, 6, 0])
    assert_array_equal(variance, [4, (6 * 4 + 2 * 1) / 8, np.nan])
    assert_array_equal(df, [8, 8, 0])


def test_others_weigh_at_most_eight_degrees_of_freedom() -> None:
    found = moderated_intervals(np.tile([0.0, 1, 2], (10, 1)))  # nine others have 18
    assert_array_equal(found.df, 10)


def test_neighbours_that_hardly_vary_count_beside_one_that_varies_a_million_times_more() -> None:
    quiet = [[0.0, 0.01, 0.02]] * 3
    by_hand = 6 + 2  # three equal variances with 2 degrees each, and its own 2
    assert_allclose(moderated_intervals(np.array([*quiet, [0, 1e6, 2e6]])).df[3], by_hand)


def test_seeds_that_all_saturate_borrow_spread_from_the_others() -> None:
    found = moderated_intervals(np.array([[500.0, 500, 500], [480, 490, 500]]), bounds=(0, 500))
    # (2 * 100 + 2 * 0) / 4 = 50 with 4 degrees of freedom, t 2.776445.
    assert_allclose([found.low[0], found.high[0]], [500 - 2.776445 * np.sqrt(50 / 3), 500], rtol=1e-6)


def test_no_spread_anywhere_and_single_seeds_give_no_interval() -> None:
    assert np.isnan(ends(moderated_intervals(np.full((3, 4), 0.1)))[1:3]).all()  # 0.1 has no exact mean in binary
    single = moderated_intervals(np.array([[400.0], [500.0]]))
    assert_array_equal(single.estimate, [400, 500])
    assert np.isnan(ends(single)[1:]).all()


def test_points_of_a_curve_are_as_if_each_were_a_study() -> None:
    values = np.random.default_rng(0).normal(size=(4, 5, 3))
    values[1, 2, 1] = np.nan
    for point, statistic in product(range(3), ("mean", "iqm")):
        alone = ends(moderated_intervals(values[..., point], statistic))
        assert_allclose(ends(moderated_intervals(values, statistic))[..., point], alone)


def test_pairs_borrow_less_than_as_many_independent_samples() -> None:
    values = np.array([[0.0, 2, 4], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    # Differences from the first have variance 4, those of the others 0. For one of the former, two others of 2
    # degrees have 4: (2 * 4 + 2 * 4)^2 / (2 * 16 + 2 * 16) = 4 degrees, times (4 - 1) / (6 - 1) as the six pairs come
    # from four configurations.
    _, _, found = paired_differences(values)
    assert_allclose(found.df[0], 4 * 3 / 5 + 2)


@few
@given(values=studies_with_gaps, statistic=statistics, data=st.data())
def test_the_order_of_seeds_and_configurations_does_not_matter(
    values: np.ndarray, statistic: str, data: st.DataObject
) -> None:
    rows = data.draw(st.permutations(range(values.shape[0])))
    columns = data.draw(st.permutations(range(values.shape[1])))
    shuffled = values[rows][:, columns]
    expected = ends(moderated_intervals(values, statistic))[:, rows]
    assert_allclose(ends(moderated_intervals(shuffled, statistic)), expected, rtol=1e-7, atol=1e-7)
    p = p_values(paired_differences(values[:, columns])[2])
    assert_allclose(p, p_values(paired_differences(values)[2]), rtol=1e-6, atol=1e-9)


@few
@given(values=studies, statistic=statistics, data=st.data())
def test_an_interval_contains_its_estimate_and_stays_in_bounds(
    values: np.ndarray, statistic: str, data: st.DataObject
) -> None:
    found = moderated_intervals(values, statistic, (0.0, 500.0))
    known = np.isfinite(found.low)
    assert (found.low <= found.estimate)[known].all() and (found.estimate <= found.high)[known].all()
    assert (found.low >= 0)[known].all() and (found.high <= 500)[known].all()
    spread = values.max(axis=1) > values.min(axis=1)
    if statistic == "mean":
        assert known[spread].all()  # whoever shows spread has an interval


@few
@given(values=studies, times=st.integers(2, 4))
def test_the_same_spread_at_more_seeds_gives_narrower_intervals_of_means(values: np.ndarray, times: int) -> None:
    # every value `times` times
    few_seeds, many_seeds = moderated_intervals(values), moderated_intervals(np.tile(values, times))
    assert_allclose(many_seeds.estimate, few_seeds.estimate)
    known = np.isfinite(few_seeds.low)
    assert (many_seeds.high - many_seeds.low < few_seeds.high - few_seeds.low)[known].all()


@few
@given(values=studies, times=st.integers(2, 4))
def test_the_same_spread_at_more_seeds_gives_narrower_intervals_of_iqms_from_four_seeds_on(
    values: np.ndarray, times: int
) -> None:
    values = np.tile(values, 4)  # below four seeds nothing is trimmed: three and six seeds estimate different things
    few_seeds, many_seeds = moderated_intervals(values, "iqm"), moderated_intervals(np.tile(values, times), "iqm")
    known = np.isfinite(few_seeds.low)
    assert (many_seeds.high - many_seeds.low < few_seeds.high - few_seeds.low)[known].all()


@few
@given(
    values=studies,
    statistic=statistics,
    factor=st.sampled_from([0.001, 0.5, 3.0, -1.0, -7.0]),
    shift=st.integers(-1000, 1000),
)
def test_intervals_shift_and_scale_with_the_values(
    values: np.ndarray, statistic: str, factor: float, shift: int
) -> None:
    found, moved = moderated_intervals(values, statistic), moderated_intervals(factor * values + shift, statistic)
    both = (found.low, found.high) if factor > 0 else (found.high, found.low)
    shows = found.se > 0  # factor * value rounds: of equal values the others may borrow nothing but rounding
    for new, old in ((moved.estimate, found.estimate), (moved.low, both[0]), (moved.high, both[1])):
        assert_allclose(new[shows], (factor * old + shift)[shows], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("num_seeds", [5, 10])
@pytest.mark.parametrize("shape", list(SHAPES))
def test_intervals_of_iqms_cover_in_92_to_98_percent(shape: str, num_seeds: int) -> None:
    found = coverage(
        SHAPES[shape], "iqm", num_configurations=15, num_seeds=num_seeds, reps=2000, rng=np.random.default_rng(0)
    )
    assert 0.92 <= found <= 0.98
