"""Intervals on moderated variances."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats as scipy_stats
from statsmodels.stats.proportion import proportion_confint

from analysis.stats.bounded import certain_interval
from analysis.stats.comparisons import p_values
from analysis.stats.moderated import (
    POSITIVE,
    UNBOUNDED,
    Estimates,
    moderate,
    moderated_intervals,
    neighbour_weights,
    paired_differences,
)
from benchmarks.calibration.intervals import Kind, coverage, kinds, results
from benchmarks.calibration.seeds import SHAPES

few = settings(max_examples=40, deadline=None)

# Whole numbers, as float64 adds them exactly: that two means are equal is then no matter of rounding.
whole = st.integers(0, 500).map(float)

all_bounds = st.sampled_from([UNBOUNDED, POSITIVE, (0.0, 500.0)])

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


def test_seeds_that_all_saturate_borrow_dispersion_from_the_others() -> None:
    found = moderated_intervals(np.array([[500.0, 500, 500], [480, 490, 500]]), (0, 500))
    # 100 of the largest variance, 490 * 10, with 2 degrees of freedom, t 4.302653; where p is 1, Wilson's lower end is
    # 1 / (1 + t^2 / n).
    assert_allclose([found.low[0], found.high[0]], [500 / (1 + 4.302653**2 * 100 / 4900 / 3), 500], rtol=1e-6)


def test_where_scores_are_as_far_apart_as_can_be_the_interval_is_wilsons() -> None:
    values = np.repeat([[0.0, 1.0]], 20, axis=1)  # their variance is 40 / 39 of p (1 - p): no more than that counts
    found = moderated_intervals(values, (0, 1))
    low, high = proportion_confint(20, 40, alpha=2 * scipy_stats.norm.sf(scipy_stats.t.ppf(0.975, 39)), method="wilson")
    least, most = certain_interval(values, (0.0, 1.0), 0.95)
    assert_allclose([found.low[0], found.high[0]], [max(low, least[0]), min(high, most[0])])


def test_neighbours_lend_most() -> None:
    weights = neighbour_weights(np.array([[0.0, 0], [1, 0], [3, 0], [0, 4]]), np.array([True, False]))
    assert weights[0, 1] == weights[0, 3] > weights[0, 2]  # a step on the one axis, and another value on the other
    values = np.array([[300.0, 310, 305], [200, 210, 205], [0, 250, 500], [280, 290, 285]])
    near, alike = (moderated_intervals(values, (0, 500), lends) for lends in (weights, None))
    assert near.high[0] - near.low[0] < alike.high[0] - alike.low[0]
    for bounds in ((0.0, 500.0), UNBOUNDED, POSITIVE):  # with equal weights nothing changes
        equal, none = (moderated_intervals(values, bounds, lends) for lends in (np.ones((4, 4)), None))
        assert_allclose(ends(equal), ends(none))


def test_positive_values_have_an_interval_of_factors_by_hand() -> None:
    found = moderated_intervals(np.array([[1.0, 2, 3]]), POSITIVE)
    factor = np.exp(4.302653 * 0.5 / np.sqrt(3))  # a standard deviation of half the mean
    assert_allclose([found.estimate[0], found.low[0], found.high[0]], [2, 2 / factor, 2 * factor], rtol=1e-6)


@pytest.mark.parametrize("bounds", [(0.0, 500.0), POSITIVE])
def test_values_outside_the_bounds_have_the_interval_of_those_without(bounds: tuple[float, float]) -> None:
    values = np.array([[-1.0, 400, 450], [300, 320, 310]])
    found, without = moderated_intervals(values, bounds), moderated_intervals(values)
    assert_allclose(found.low, np.minimum(np.maximum(without.low, bounds[0]), without.estimate))
    assert_allclose(found.se, without.se)


def test_no_spread_anywhere_and_single_seeds_give_no_interval() -> None:
    assert np.isnan(ends(moderated_intervals(np.full((3, 4), 0.1)))[1:3]).all()  # 0.1 has no exact mean in binary
    single = moderated_intervals(np.array([[400.0], [500.0]]))
    assert_array_equal(single.estimate, [400, 500])
    assert np.isnan(ends(single)[1:]).all()


def test_points_of_a_curve_are_as_if_each_were_a_study() -> None:
    values = np.random.default_rng(0).uniform(1, 500, (4, 5, 3))
    values[1, 2, 1] = np.nan
    near = neighbour_weights(np.arange(4.0)[:, None], np.array([True]))
    for point, bounds in product(range(3), (UNBOUNDED, POSITIVE, (0.0, 500.0))):
        alone = ends(moderated_intervals(values[..., point], bounds, near))
        assert_allclose(ends(moderated_intervals(values, bounds, near))[..., point], alone)


def test_pairs_borrow_less_than_as_many_independent_samples() -> None:
    values = np.array([[0.0, 2, 4], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    # Differences from the first have variance 4, those of the others 0. For one of the former, two others of 2
    # degrees have 4: (2 * 4 + 2 * 4)^2 / (2 * 16 + 2 * 16) = 4 degrees, times (4 - 1) / (6 - 1) as the six pairs come
    # from four configurations.
    _, _, found = paired_differences(values)
    assert_allclose(found.df[0], 4 * 3 / 5 + 2)


@few
@given(values=studies_with_gaps, bounds=all_bounds, data=st.data())
def test_the_order_of_seeds_and_configurations_does_not_matter(
    values: np.ndarray, bounds: tuple[float, float], data: st.DataObject
) -> None:
    rows = data.draw(st.permutations(range(values.shape[0])))
    columns = data.draw(st.permutations(range(values.shape[1])))
    shuffled = values[rows][:, columns]
    expected = ends(moderated_intervals(values, bounds))[:, rows]
    assert_allclose(ends(moderated_intervals(shuffled, bounds)), expected, rtol=1e-7, atol=1e-7)
    p = p_values(paired_differences(values[:, columns])[2])
    assert_allclose(p, p_values(paired_differences(values)[2]), rtol=1e-6, atol=1e-9)


@few
@given(values=studies, bounds=all_bounds)
def test_an_interval_contains_its_estimate_and_stays_in_bounds(values: np.ndarray, bounds: tuple[float, float]) -> None:
    found = moderated_intervals(values, bounds)
    known = np.isfinite(found.low)
    assert (found.low <= found.estimate)[known].all() and (found.estimate <= found.high)[known].all()
    assert (found.low >= bounds[0])[known].all() and (found.high <= bounds[1])[known].all()
    spread = values.max(axis=1) > values.min(axis=1)
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
@given(
    values=studies,
    factor=st.sampled_from([0.001, 0.5, 3.0, -1.0, -7.0]),
    shift=st.integers(-1000, 1000),
)
def test_intervals_shift_and_scale_with_the_values(values: np.ndarray, factor: float, shift: int) -> None:
    found, moved = moderated_intervals(values), moderated_intervals(factor * values + shift)
    both = (found.low, found.high) if factor > 0 else (found.high, found.low)
    shows = found.se > 0  # factor * value rounds: of equal values the others may borrow nothing but rounding
    for new, old in ((moved.estimate, found.estimate), (moved.low, both[0]), (moved.high, both[1])):
        assert_allclose(new[shows], (factor * old + shift)[shows], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("num_seeds", [5, 10])
@pytest.mark.parametrize("shape", list(SHAPES))
def test_intervals_of_means_cover(shape: str, num_seeds: int) -> None:
    found = coverage(SHAPES[shape], num_configurations=15, num_seeds=num_seeds, reps=2000, rng=np.random.default_rng(0))
    assert 0.91 <= found <= 0.985


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
def test_intervals_of_bounded_scores_cover_of_each_kind_and_cost_no_more(kind: Kind) -> None:
    found = results(kind, num_seeds=5, reps=40, rng=np.random.default_rng(0))
    assert found["score"].overall >= 0.92
    assert found["score"].score <= 1.1 * found["t"].score


def test_intervals_of_positive_values_cover() -> None:
    rng, size = np.random.default_rng(0), (6, 5, 2000)
    for values, truth in ((rng.gamma(4, 5, size), 20.0), (rng.lognormal(0, 0.5, size), np.exp(0.125))):
        found = moderated_intervals(values, POSITIVE)
        assert 0.93 <= ((found.low <= truth) & (truth <= found.high)).mean() <= 0.98
