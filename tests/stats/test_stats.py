from dataclasses import astuple
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests

from analysis.stats.aggregates import iqm, optimality_gap
from analysis.stats.bootstrap import bootstrap_intervals, stratified_bootstrap
from analysis.stats.comparisons import holm, leaders, p_values, probability_of_improvement, seeds_needed
from analysis.stats.interval import Interval
from analysis.stats.moderated import Estimates, moderated_intervals, paired_differences
from analysis.stats.shares import share_interval
from benchmarks.calibration.seeds import SHAPES, coverage, false_alarms, improvement_coverage

Z = 1.959964

few = settings(max_examples=40, deadline=None)
# Whole numbers, as float64 adds them exactly: that two means are equal is then no matter of rounding.
whole = st.integers(0, 500).map(float)
statistics = st.sampled_from(["mean", "iqm"])
studies = st.tuples(st.integers(1, 5), st.integers(2, 7)).flatmap(lambda shape: arrays(float, shape, elements=whole))
studies_with_gaps = st.tuples(st.integers(1, 5), st.integers(1, 7)).flatmap(
    lambda shape: arrays(float, shape, elements=st.one_of(whole, st.just(np.nan)))
)
pairs_of_studies = st.integers(2, 7).flatmap(lambda n: st.tuples(*[arrays(float, n, elements=whole)] * 2))


def ends(found: Estimates) -> np.ndarray:
    return np.array([found.estimate, found.low, found.high, found.se, found.df])


# Known answers


def test_iqm_is_the_mean_of_the_middle_half() -> None:
    assert iqm([8, 1, 7, 2, 6, 3, 5, 4]) == 4.5  # 3, 4, 5 and 6 are left
    assert iqm([1000, 10, 30, 0, 20]) == 20  # a quarter of 5, rounded down, is 1: 10, 20 and 30 are left
    assert iqm([0, 10, 50]) == 20  # a quarter of 3, rounded down, is none


def test_optimality_gap_counts_shortfalls_and_no_surplus() -> None:
    assert optimality_gap([465, 475, 500], 475) == pytest.approx(10 / 3)  # 10, 0 and 0
    assert optimality_gap([500, 480], 475) == 0


@pytest.mark.parametrize("shape", [(3, 1), (5, 1), (10, 4)])
def test_iqm_optimality_gap_and_probability_of_improvement_equal_rliable(shape: tuple[int, int]) -> None:
    metrics = pytest.importorskip("rliable.metrics")
    rng = np.random.default_rng(0)
    scores, others = np.minimum(500, np.round(rng.normal(470, 40, (2, *shape))))
    assert iqm(scores) == pytest.approx(metrics.aggregate_iqm(scores))
    assert optimality_gap(scores, 475) == pytest.approx(metrics.aggregate_optimality_gap(scores, 475))
    found = probability_of_improvement(scores[:, 0], others[:, 0])
    assert found.estimate == pytest.approx(metrics.probability_of_improvement(scores[:, :1], others[:, :1]))


@pytest.mark.parametrize("num_seeds", [2, 3, 10])
def test_one_configuration_has_students_t_interval(num_seeds: int) -> None:
    values = np.random.default_rng(0).normal(300, 40, (1, num_seeds))
    found = moderated_intervals(values)
    low, high = scipy_stats.t.interval(0.95, num_seeds - 1, values.mean(), scipy_stats.sem(values[0]))
    assert_allclose([found.estimate[0], found.low[0], found.high[0]], [values.mean(), low, high])


def test_interval_of_an_iqm_by_hand() -> None:
    found = moderated_intervals(np.array([[1000.0, 10, 30, 0, 20]]), "iqm")
    # Winsorised: 10, 10, 20, 30, 30, whose squared deviations add to 400; of 3 kept values the variance is 400 / (3 * 2).
    se = np.sqrt(400 / 6)
    assert_allclose([found.estimate[0], found.se[0], found.df[0]], [20, se, 2])
    assert_allclose([found.low[0], found.high[0]], [20 - 4.302653 * se, 20 + 4.302653 * se], rtol=1e-6)  # t of 2 degrees of freedom


def test_standard_error_of_an_iqm_is_that_of_yuens_test_in_scipy() -> None:
    values = np.random.default_rng(0).gamma(2, 100, 10)
    t = scipy_stats.ttest_ind(values + 50, values, equal_var=False, trim=0.25).statistic  # 50 / (se * sqrt(2))
    assert moderated_intervals(values[None], "iqm").se[0] == pytest.approx(50 / t / np.sqrt(2))


def test_variance_is_averaged_with_that_of_the_others_by_hand() -> None:
    found = moderated_intervals(np.array([[0.0, 2, 4], [10, 11, 12], [20, 21, 22]]))  # variances 4, 1 and 1 with 2 degrees of freedom each
    # First: the others have 1 on average, with (2 * 1 + 2 * 1)^2 / (2 * 1 + 2 * 1) = 4 degrees. (4 * 1 + 2 * 4) / 6 = 2.
    # Second: the others have 2.5, with (2 * 4 + 2 * 1)^2 / (2 * 16 + 2 * 1) = 50 / 17 degrees.
    df = 50 / 17
    variances = np.array([2, (df * 2.5 + 2 * 1) / (df + 2), (df * 2.5 + 2 * 1) / (df + 2)])
    assert_allclose(found.df, [6, df + 2, df + 2])
    assert_allclose(found.se, np.sqrt(variances / 3))


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


def test_two_configurations_are_compared_by_students_paired_t_test() -> None:
    values = np.random.default_rng(0).normal(300, 40, (2, 6))
    values[0, 5] = np.nan  # five seeds in common
    first, second, found = paired_differences(values)
    expected = scipy_stats.ttest_rel(values[0, :5], values[1, :5])
    assert (first.tolist(), second.tolist(), found.num_seeds.tolist()) == ([0], [1], [5])
    assert p_values(found)[0] == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval()
    assert_allclose([found.low[0], found.high[0]], [low, high])


def test_pairs_borrow_less_than_as_many_independent_samples() -> None:
    values = np.array([[0.0, 2, 4], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    # Differences from the first have variance 4, those of the others 0. For one of the former, two others of 2 degrees have 4:
    # (2 * 4 + 2 * 4)^2 / (2 * 16 + 2 * 16) = 4 degrees, times (4 - 1) / (6 - 1) as the six pairs come from four configurations.
    _, _, found = paired_differences(values)
    assert_allclose(found.df[0], 4 * 3 / 5 + 2)


def test_p_is_1_where_nothing_differs_and_nan_where_nothing_is_known() -> None:
    assert p_values(paired_differences(np.full((2, 3), 500.0))[2])[0] == 1
    assert np.isnan(p_values(paired_differences(np.array([[1.0], [2.0]]))[2])[0])


def test_holm_by_hand() -> None:
    # In order 0.01 * 3, 0.03 * 2 and 0.04 * 1, none below its forerunner.
    assert_allclose(holm(np.array([0.01, 0.04, np.nan, 0.03])), [0.03, 0.06, np.nan, 0.06])
    assert np.isnan(holm(np.array([np.nan]))).all() and len(holm(np.array([]))) == 0


def test_holm_is_that_of_statsmodels() -> None:
    p = np.random.default_rng(0).uniform(0, 0.2, 40)
    assert_allclose(holm(p), multipletests(p, method="holm")[1])


def test_leaders_are_those_within_the_one_sided_test_at_alpha_over_the_comparisons() -> None:
    # Differences from the first: 1, 2, 3 (mean 2, se 0.58, t 3.46) with variance 1 and 2 degrees, and nobody else to borrow from.
    two = np.array([[11.0, 12, 13], [10, 10, 10]])
    p = scipy_stats.t.sf(2 / np.sqrt(1 / 3), 2)  # 0.037
    assert leaders(two, larger_is_better=True, alpha=p * 1.01).tolist() == [True, False]
    assert leaders(two, larger_is_better=True, alpha=p * 0.99).tolist() == [True, True]
    assert leaders(two, larger_is_better=False, alpha=p * 1.01).tolist() == [False, True]


def test_without_common_seeds_a_configuration_stays_among_the_leaders_and_without_values_it_is_none() -> None:
    values = np.array([[500.0, 490, np.nan], [np.nan, np.nan, 10], [np.nan, np.nan, np.nan]])
    assert leaders(values, larger_is_better=True).tolist() == [True, True, False]
    assert leaders(np.full((2, 3), np.nan), larger_is_better=True).tolist() == [False, False]


def test_seeds_needed_are_those_of_the_tables() -> None:
    # Cohen (1988), paired t test, two-sided 5%, power 80%: d = 0.5 takes 34, d = 0.8 takes 15, d = 1 takes 10.
    assert [np.ceil(seeds_needed(d, 1)) for d in (0.5, 0.8, 1)] == [34, 15, 10]
    assert seeds_needed(5, 10) == pytest.approx(seeds_needed(0.5, 1))  # the ratio counts
    assert seeds_needed(0, 1) == seeds_needed(np.nan, 1) == seeds_needed(1, np.nan) == np.inf
    assert seeds_needed(1, 0) == 2


def test_larger_effects_never_need_more_seeds_and_a_stricter_test_never_fewer() -> None:
    effects = np.geomspace(1e-2, 1e4, 60)
    counts = np.array([[seeds_needed(effect, 1, alpha) for effect in effects] for alpha in (0.05, 0.05 / 14, 0.05 / 105)])
    assert (np.diff(counts, axis=1) <= 1e-6).all()
    assert (np.diff(counts, axis=0) >= -1e-6).all()
    assert (counts >= 2).all()
    assert seeds_needed(8, 1, 0.05 / 1000) > 5  # with 2 seeds t has to exceed 12,000


def test_that_many_seeds_see_the_difference_in_four_of_five_studies() -> None:
    num_seeds = int(np.ceil(seeds_needed(0.8, 1)))
    differences = np.random.default_rng(0).normal(0.8, 1, (4000, num_seeds))
    assert (scipy_stats.ttest_1samp(differences, 0, axis=1).pvalue < 0.05).mean() == pytest.approx(0.81, abs=0.02)


def test_probability_of_improvement_by_hand() -> None:
    # 3 beats 1 and 2, 2 beats 1 and ties with 2: (2 + 1 + 0.5) / 4.
    assert probability_of_improvement(np.array([3.0, 2]), np.array([1.0, 2])).estimate == 3.5 / 4


def test_ends_of_the_probability_of_improvement_solve_newcombes_equation() -> None:
    estimate, low, high = astuple(probability_of_improvement(np.array([1.0, 5, 6, 9]), np.array([2.0, 3, 4, 7, 8])))
    assert estimate == (0 + 3 + 3 + 5) / 20
    for theta in (low, high):
        spread = 1 + 3.5 * ((1 - theta) / (2 - theta) + theta / (1 + theta))  # (4 + 5) / 2 - 1
        assert abs(theta - estimate) == pytest.approx(Z * np.sqrt(theta * (1 - theta) * spread / 20), rel=1e-5)


def test_three_seeds_without_overlap_are_no_proof_of_a_certain_improvement() -> None:
    estimate, low, high = astuple(probability_of_improvement(np.array([4.0, 5, 6]), np.array([1.0, 2, 3])))
    assert (estimate, high) == (1, 1)
    # 1 - theta = z^2 theta (1 + 2 ((1 - theta) / (2 - theta) + theta / (1 + theta))) / 9, whose right side is 0.498 at theta = 0.5.
    assert low == pytest.approx(0.501, abs=1e-3)


def test_wilsons_interval_by_hand() -> None:
    # 8 of 10: centre (0.8 + z^2 / 20) / (1 + z^2 / 10) = 0.7167, half (z sqrt(0.016 + z^2 / 400)) / (1 + z^2 / 10) = 0.2266.
    low, high = share_interval(8, 10)
    assert_allclose([low, high], [0.4902, 0.9433], atol=1e-4)
    low, high = share_interval([0, 3], 3)
    assert_allclose(low, [0, 3 / (3 + Z**2)])
    assert_allclose(high, [Z**2 / (3 + Z**2), 1])
    assert (low[0], high[1]) == (0, 1)


def test_bootstrap_redraws_within_strata_only() -> None:
    def mean(draws: np.ndarray) -> np.ndarray:
        return draws.mean(axis=1)

    rng = np.random.default_rng(0)
    assert stratified_bootstrap([np.zeros(3), np.full(5, 8.0)], mean, rng) == Interval(5, 5, 5)  # 5 of 8 values are 8, in every redraw
    # Two seeds, 0 and 1: a mean of 0, 0.5 or 1 with chances 1/4, 1/2 and 1/4.
    assert stratified_bootstrap([np.array([0.0, 1])], mean, rng) == Interval(0.5, 0, 1)


def test_bootstrap_of_many_samples_equals_that_of_each() -> None:
    samples = np.random.default_rng(0).gamma(2, 100, (3, 2, 10))
    for statistic, of_rows in (("mean", np.mean), ("iqm", lambda rows, axis: scipy_stats.trim_mean(rows, 0.25, axis=axis))):
        estimate, low, high = bootstrap_intervals(samples, statistic, np.random.default_rng(1), reps=4000)
        for index in np.ndindex(3, 2):
            rng = np.random.default_rng(2)
            alone = stratified_bootstrap([samples[index]], lambda draws, of=of_rows: of(draws, axis=1), rng, reps=4000)
            assert estimate[index] == pytest.approx(alone.estimate)
            assert_allclose([low[index], high[index]], [alone.low, alone.high], atol=0.1 * (alone.high - alone.low))


def test_the_generator_determines_the_bootstrap() -> None:
    values = np.random.default_rng(0).normal(size=(4, 5))
    first, again, other = (bootstrap_intervals(values, "iqm", np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert_array_equal(first, again)
    assert not np.array_equal(first, other)


# Properties


@few
@given(values=studies_with_gaps, statistic=statistics, data=st.data())
def test_the_order_of_seeds_and_configurations_does_not_matter(values: np.ndarray, statistic: str, data: st.DataObject) -> None:
    rows = data.draw(st.permutations(range(values.shape[0])))
    columns = data.draw(st.permutations(range(values.shape[1])))
    shuffled = values[rows][:, columns]
    expected = ends(moderated_intervals(values, statistic))[:, rows]
    assert_allclose(ends(moderated_intervals(shuffled, statistic)), expected, rtol=1e-7, atol=1e-7)
    p = p_values(paired_differences(values[:, columns])[2])
    assert_allclose(p, p_values(paired_differences(values)[2]), rtol=1e-6, atol=1e-9)


@few
@given(values=studies, statistic=statistics, data=st.data())
def test_an_interval_contains_its_estimate_and_stays_in_bounds(values: np.ndarray, statistic: str, data: st.DataObject) -> None:
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
    few_seeds, many_seeds = moderated_intervals(values), moderated_intervals(np.tile(values, times))  # every value `times` times
    assert_allclose(many_seeds.estimate, few_seeds.estimate)
    known = np.isfinite(few_seeds.low)
    assert (many_seeds.high - many_seeds.low < few_seeds.high - few_seeds.low)[known].all()


@few
@given(values=studies, times=st.integers(2, 4))
def test_the_same_spread_at_more_seeds_gives_narrower_intervals_of_iqms_from_four_seeds_on(values: np.ndarray, times: int) -> None:
    values = np.tile(values, 4)  # below four seeds nothing is trimmed: three and six seeds estimate different things
    few_seeds, many_seeds = moderated_intervals(values, "iqm"), moderated_intervals(np.tile(values, times), "iqm")
    known = np.isfinite(few_seeds.low)
    assert (many_seeds.high - many_seeds.low < few_seeds.high - few_seeds.low)[known].all()


@few
@given(values=studies, statistic=statistics, factor=st.sampled_from([0.001, 0.5, 3.0, -1.0, -7.0]), shift=st.integers(-1000, 1000))
def test_intervals_shift_and_scale_with_the_values(values: np.ndarray, statistic: str, factor: float, shift: int) -> None:
    found, moved = moderated_intervals(values, statistic), moderated_intervals(factor * values + shift, statistic)
    both = (found.low, found.high) if factor > 0 else (found.high, found.low)
    shows = found.se > 0  # factor * value rounds: of equal values the others may borrow nothing but rounding
    for new, old in ((moved.estimate, found.estimate), (moved.low, both[0]), (moved.high, both[1])):
        assert_allclose(new[shows], (factor * old + shift)[shows], rtol=1e-6, atol=1e-6)


@few
@given(values=studies, larger=st.booleans(), constant=st.integers(-1000, 1000), data=st.data())
def test_leaders_contain_the_best_and_do_not_mind_a_constant(values: np.ndarray, larger: bool, constant: int, data: st.DataObject) -> None:
    among = leaders(values, larger)
    means = values.sum(axis=1)
    assert among[means == (means.max() if larger else means.min())].any()
    assert_array_equal(leaders(values + constant, larger), among)
    assert_array_equal(leaders(-values, not larger), among)
    # A seed that is kind to all configurations alike is none of their merits.
    of_seeds = data.draw(arrays(float, values.shape[1], elements=whole))
    assert_array_equal(leaders(values + of_seeds, larger), among)


@few
@given(values=studies, data=st.data())
def test_the_order_of_configurations_changes_no_leader(values: np.ndarray, data: st.DataObject) -> None:
    means = values.sum(axis=1)
    if (means == means.max()).sum() == 1:  # of equal means the first is compared with
        rows = data.draw(st.permutations(range(len(values))))
        assert_array_equal(leaders(values[rows], larger_is_better=True), leaders(values, larger_is_better=True)[rows])


@few
@given(p=arrays(float, st.integers(1, 12), elements=st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)))
def test_correction_never_lowers_a_p_value_nor_changes_their_order(p: np.ndarray) -> None:
    corrected = holm(p)
    assert (corrected >= p).all() and (corrected <= 1).all()
    assert (np.diff(corrected[np.argsort(p)]) >= 0).all()


@few
@given(samples=pairs_of_studies)
def test_an_improvement_one_way_is_a_loss_the_other_way(samples: tuple[np.ndarray, np.ndarray]) -> None:
    estimate, low, high = astuple(probability_of_improvement(*samples))
    back = astuple(probability_of_improvement(*samples[::-1]))
    assert 0 <= low <= estimate <= high <= 1
    assert_allclose(back, [1 - estimate, 1 - high, 1 - low], atol=1e-6)


@few
@given(data=st.data(), total=st.integers(1, 50))
def test_wilsons_interval_contains_the_share(data: st.DataObject, total: int) -> None:
    count = data.draw(st.integers(0, total))
    low, high = share_interval(count, total)
    assert 0 <= low <= count / total <= high <= 1
    wider = share_interval(count, total, confidence=0.99)
    assert wider[0] <= low and high <= wider[1]


# Calibration


@pytest.mark.parametrize("num_seeds", [5, 10])
@pytest.mark.parametrize("shape", list(SHAPES))
def test_intervals_of_iqms_cover_in_92_to_98_percent(shape: str, num_seeds: int) -> None:
    found = coverage(SHAPES[shape], "iqm", num_configurations=15, num_seeds=num_seeds, reps=2000, rng=np.random.default_rng(0))
    assert 0.92 <= found <= 0.98


@pytest.mark.parametrize("shape", list(SHAPES))
def test_identical_configurations_are_called_different_in_at_most_5_percent_of_studies(shape: str) -> None:
    different, best_left_out = false_alarms(SHAPES[shape], num_configurations=15, num_seeds=5, reps=500, rng=np.random.default_rng(0))
    assert different <= 0.05
    assert best_left_out <= 0.05


@pytest.mark.parametrize("gap", [2.0, 20.0])
def test_the_truly_best_is_left_out_in_at_most_5_percent_of_studies(gap: float) -> None:
    rng = np.random.default_rng(0)
    truth = 400 - gap * np.arange(8)[:, None]
    found = [leaders(rng.normal(truth, 40, (8, 5)), larger_is_better=True)[0] for _ in range(500)]
    assert np.mean(found) >= 0.95


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_intervals_of_the_probability_of_improvement_cover(shift: float) -> None:
    assert 0.92 <= improvement_coverage(num_seeds=10, shift=shift, reps=400, rng=np.random.default_rng(0)) <= 0.98


# Bad input


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "values",
    [
        np.full((3, 4), np.nan),
        np.full((2, 1), 5.0),
        np.array([[1.0, np.nan, np.nan], [np.nan, 2, 3], [np.nan, np.nan, np.nan]]),
        np.full((3, 3), 500.0),
        np.empty((0, 3)),
    ],
    ids=["no values", "one seed", "gaps", "all equal", "no configurations"],
)
def test_gaps_give_nan_without_a_warning(values: np.ndarray) -> None:
    for statistic in ("mean", "iqm"):
        found = moderated_intervals(values, statistic)
        known = np.isfinite(values).any(axis=1)
        assert np.isfinite(found.estimate[known]).all() and np.isnan(found.estimate[~known]).all()
        assert np.isnan(found.low[~known]).all()
    assert_array_equal(leaders(values, larger_is_better=False), known)
    p = p_values(paired_differences(values)[2])
    assert len(holm(p)) == len(p)
