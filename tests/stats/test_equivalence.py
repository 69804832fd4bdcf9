"""Two one-sided tests, and the seeds that they take."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from statsmodels.stats.weightstats import ttost_paired

from analysis.stats.equivalence import equivalence_p, seeds_for_equivalence
from analysis.stats.moderated import paired_differences


def test_of_two_configurations_it_is_the_test_of_statsmodels() -> None:
    rng = np.random.default_rng(0)
    for shift in (-30, 0, 5, 60):
        a = rng.normal(400, 20, 8)
        b = a + rng.normal(shift, 15, 8)
        expected, _, _ = ttost_paired(a, b, -25, 25)
        assert_allclose(equivalence_p(paired_differences(np.stack([a, b]))[2], 25), [expected])


def test_by_hand() -> None:
    """Differences 0, 10 and 20: mean 10, standard error 10 / sqrt(3) = 5.774; t = (30 - 10) / 5.774 = 3.464
    with 2 degrees of freedom.
    """
    pairs = paired_differences(np.array([[400.0, 410, 420], [400, 400, 400]]))[2]
    assert_allclose(equivalence_p(pairs, 30), [0.0371], atol=1e-4)


@pytest.mark.filterwarnings("error")
def test_what_does_not_vary_or_has_a_single_seed_shows_no_equivalence() -> None:
    assert np.isnan(equivalence_p(paired_differences(np.full((2, 5), 500.0))[2], 10)).all()
    assert np.isnan(equivalence_p(paired_differences(np.array([[400.0], [401.0]]))[2], 10)).all()


@pytest.mark.parametrize("num_configurations", [2, 8])
@pytest.mark.parametrize("num_seeds", [5, 20])
def test_configurations_that_differ_by_delta_are_called_equivalent_in_at_most_5_percent_of_studies(
    num_configurations: int, num_seeds: int
) -> None:
    values = np.random.default_rng(0).normal(300, 20, (num_configurations, num_seeds, 1000))
    values[0] += 40
    p = equivalence_p(paired_differences(values)[2], 40)[0]  # the first pair
    assert (p <= 0.05).mean() <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 1000)
    assert (equivalence_p(paired_differences(values)[2], 120)[0] <= 0.05).mean() > 0.5


@pytest.mark.parametrize(("difference", "delta"), [(0.0, 0.5), (0.2, 0.6), (-0.2, 0.6), (0.0, 1.5)])
def test_the_seeds_show_it_in_80_percent_of_studies(difference: float, delta: float) -> None:
    num_seeds = int(np.ceil(seeds_for_equivalence(difference, 1.0, delta)))
    values = np.random.default_rng(0).normal(0, np.sqrt(0.5), (2, num_seeds, 4000))
    values[0] += difference
    assert (equivalence_p(paired_differences(values)[2], delta) <= 0.05).mean() == pytest.approx(0.82, abs=0.04)


def test_without_a_difference_and_many_seeds_it_is_the_normal_approximation() -> None:
    # (1.645 + 1.282)^2 / 0.1^2, the quantiles at 95% and 90%: half of what may go wrong on either side.
    assert seeds_for_equivalence(0, 1, 0.1) == pytest.approx(856.4, rel=0.005)


def test_a_difference_of_delta_is_never_shown_to_be_none() -> None:
    assert seeds_for_equivalence(10, 5, 10) == seeds_for_equivalence(-12, 5, 10) == np.inf
    assert seeds_for_equivalence(np.nan, 5, 10) == seeds_for_equivalence(1, np.nan, 10) == np.inf
    assert seeds_for_equivalence(0, 0, 10) == 2
    assert seeds_for_equivalence(0, 1, 1, alpha=0.01) > seeds_for_equivalence(0, 1, 1) > seeds_for_equivalence(0, 1, 2)
