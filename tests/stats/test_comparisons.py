"""Differences between configurations, leaders, seeds needed, probability of improvement."""

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests

from analysis.stats.aggregates import iqms, optimality_gap
from analysis.stats.comparisons import holm, leaders, p_values, probability_of_improvement, seeds_needed, unpaired
from analysis.stats.moderated import POSITIVE, UNBOUNDED, Estimates, moderated_intervals, paired_differences
from benchmarks.calibration.seeds import SHAPES, false_alarms, improvement_coverage

Z = 1.959964

few = settings(max_examples=40, deadline=None)

# Whole numbers, as float64 adds them exactly: that two means are equal is then no matter of rounding.
whole = st.integers(0, 500).map(float)

studies = st.tuples(st.integers(1, 5), st.integers(2, 7)).flatmap(lambda shape: arrays(float, shape, elements=whole))

pairs_of_studies = st.integers(2, 7).flatmap(lambda n: st.tuples(*[arrays(float, n, elements=whole)] * 2))


@pytest.mark.parametrize("shape", [(3, 1), (5, 1), (10, 4)])
def test_iqm_optimality_gap_and_probability_of_improvement_equal_rliable(shape: tuple[int, int]) -> None:
    metrics = pytest.importorskip("rliable.metrics")
    rng = np.random.default_rng(0)
    scores, others = np.minimum(500, np.round(rng.normal(470, 40, (2, *shape))))
    assert iqms(scores.ravel()) == pytest.approx(metrics.aggregate_iqm(scores))
    assert optimality_gap(scores, 475) == pytest.approx(metrics.aggregate_optimality_gap(scores, 475))
    found = probability_of_improvement(scores[:, 0], others[:, 0])
    assert found.estimate == pytest.approx(metrics.probability_of_improvement(scores[:, :1], others[:, :1]))


def test_two_configurations_are_compared_by_students_paired_t_test() -> None:
    values = np.random.default_rng(0).normal(300, 40, (2, 6))
    values[0, 5] = np.nan  # five seeds in common
    first, second, found = paired_differences(values)
    expected = scipy_stats.ttest_rel(values[0, :5], values[1, :5])
    assert (first.tolist(), second.tolist(), found.num_seeds.tolist()) == ([0], [1], [5])
    assert p_values(found)[0] == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval()
    assert_allclose([found.low[0], found.high[0]], [low, high])


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


def test_leaders_are_those_within_the_test_at_alpha_of_two_the_two_sided_one() -> None:
    # Differences from the first: 1, 2, 3 (mean 2, se 0.58, t 3.46) with variance 1 and 2 degrees,
    # and nobody else to borrow from.
    two = np.array([[11.0, 12, 13], [10, 10, 10]])
    p = 2 * scipy_stats.t.sf(2 / np.sqrt(1 / 3), 2)  # 0.074
    assert leaders(two, larger_is_better=True, alpha=p * 1.01).tolist() == [True, False]
    assert leaders(two, larger_is_better=True, alpha=p * 0.99).tolist() == [True, True]
    assert leaders(two, larger_is_better=False, alpha=p * 1.01).tolist() == [False, True]


def test_with_one_seed_a_configuration_stays_among_the_leaders_and_without_values_it_is_none() -> None:
    values = np.array([[500.0, 490, np.nan], [np.nan, np.nan, 10], [np.nan, np.nan, np.nan]])
    assert leaders(values, larger_is_better=True).tolist() == [True, True, False]
    assert leaders(np.full((2, 3), np.nan), larger_is_better=True).tolist() == [False, False]


def test_without_common_seeds_the_means_are_compared() -> None:
    nan = np.full(5, np.nan)
    high, low = 492 + np.array([3.0, -2, 5, 0, -6]), 200 + np.array([-9.0, 4, 11, 0, -6])
    apart = np.array([np.concatenate([high, nan]), np.concatenate([nan, low])])
    assert leaders(apart, larger_is_better=True).tolist() == [True, False]
    near = np.array([np.concatenate([high, nan]), np.concatenate([nan, high - 1])])
    assert leaders(near, larger_is_better=True).tolist() == [True, True]


@pytest.mark.parametrize(("num_configurations", "num_seeds"), [(2, 5), (2, 10), (3, 5), (9, 5)])
@pytest.mark.parametrize("shape", ["normal", "saturating"])
def test_of_equal_configurations_one_is_called_better_than_all_others_in_at_most_5_percent_of_studies(
    num_configurations: int, num_seeds: int, shape: str
) -> None:
    rng = np.random.default_rng(7)
    draws = rng.normal(300, 60, (1000, num_configurations, num_seeds))
    alone = [leaders(np.minimum(values, 330) if shape == "saturating" else values, True).sum() == 1 for values in draws]
    assert np.mean(alone) <= 0.07  # 5%, and what 1,000 draws may add to it


def test_seeds_needed_are_those_of_the_tables() -> None:
    # Cohen (1988), paired t test, two-sided 5%, power 80%: d = 0.5 takes 34, d = 0.8 takes 15, d = 1 takes 10.
    assert [np.ceil(seeds_needed(d, 1)) for d in (0.5, 0.8, 1)] == [34, 15, 10]
    assert seeds_needed(5, 10) == pytest.approx(seeds_needed(0.5, 1))  # the ratio counts
    assert seeds_needed(0, 1) == seeds_needed(np.nan, 1) == seeds_needed(1, np.nan) == np.inf
    assert seeds_needed(1, 0) == 2


def test_larger_effects_never_need_more_seeds_and_a_stricter_test_never_fewer() -> None:
    effects = np.geomspace(1e-2, 1e4, 60)
    counts = np.array(
        [[seeds_needed(effect, 1, alpha) for effect in effects] for alpha in (0.05, 0.05 / 14, 0.05 / 105)]
    )
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
    # 1 - theta = z^2 theta (1 + 2 ((1 - theta) / (2 - theta) + theta / (1 + theta))) / 9,
    # whose right side is 0.498 at theta = 0.5.
    assert low == pytest.approx(0.501, abs=1e-3)


@few
@given(values=studies, larger=st.booleans(), constant=st.integers(-1000, 1000), data=st.data())
def test_leaders_contain_the_best_and_do_not_mind_a_constant(
    values: np.ndarray, larger: bool, constant: int, data: st.DataObject
) -> None:
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


@pytest.mark.parametrize("shape", list(SHAPES))
def test_identical_configurations_are_called_different_in_at_most_5_percent_of_studies(shape: str) -> None:
    different, best_left_out = false_alarms(
        SHAPES[shape], num_configurations=15, num_seeds=5, reps=500, rng=np.random.default_rng(0)
    )
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
    for bounds in (UNBOUNDED, POSITIVE, (0.0, 500.0)):
        found = moderated_intervals(values, bounds)
        known = np.isfinite(values).any(axis=1)
        assert np.isfinite(found.estimate[known]).all() and np.isnan(found.estimate[~known]).all()
        assert np.isnan(found.low[~known]).all()
    assert_array_equal(leaders(values, larger_is_better=False), known)
    p = p_values(paired_differences(values)[2])
    assert len(holm(p)) == len(p)


def test_an_unpaired_difference_is_welchs_by_hand() -> None:
    means = Estimates(*(np.array(v) for v in ([10.0, 4.0], [0, 0], [0, 0], [3.0, 4.0], [4.0, 9.0], [5, 10])))
    found = unpaired(means, 0, 1)
    df = 25**2 / (9**2 / 4 + 16**2 / 9)
    half = scipy_stats.t.ppf(0.975, df) * 5
    assert_allclose([found.estimate[0], found.se[0], found.df[0]], [6, 5, df])
    assert_allclose([found.low[0], found.high[0]], [6 - half, 6 + half])
    assert_array_equal(found.num_seeds, [5])


def test_an_unpaired_test_is_wrong_in_about_5_percent_of_studies() -> None:
    rng = np.random.default_rng(0)
    p = []
    for _ in range(2000):
        values = np.full((6, 9), np.nan)
        values[:3, :4], values[3:, 4:] = rng.normal(100, 10, (3, 4)), rng.normal(100, 10, (3, 5))  # no seed in common
        p.append(p_values(unpaired(moderated_intervals(values), 0, 3))[0])
    assert 0.03 <= np.mean(np.array(p) < 0.05) <= 0.06
