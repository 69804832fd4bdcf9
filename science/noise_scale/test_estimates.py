"""The gradient noise scale: two equations, two unknowns."""

import math

import numpy as np
import pytest

from analysis.stats.interval import Interval
from science.noise_scale.estimates import estimates
from science.noise_scale.intervals import apart, growth, ratio


def test_two_parts_by_hand() -> None:
    # Parts of 1 and 3 rows: whole = (1 * [4, 0] + 3 * [0, 4]) / 4 = [1, 3], |whole|^2 = 10;
    # 4 / (2 - 1) * (1/4 * 18 + 3/4 * 2) = 24.
    square, noise = estimates(np.array([[4.0, 0.0], [0.0, 4.0]]), np.array([1, 3]))
    assert (square, noise) == (10 - 24 / 4, 24)


def test_equal_parts_give_the_papers_formulas() -> None:
    gradients = np.random.default_rng(0).normal(size=(4, 7))
    small, big = (gradients**2).sum(axis=1).mean(), (gradients.mean(axis=0) ** 2).sum()
    square, noise = estimates(gradients, np.array([8, 8, 8, 8]))
    assert square == pytest.approx((32 * big - 8 * small) / (32 - 8))
    assert noise == pytest.approx((small - big) / (1 / 8 - 1 / 32))


def test_estimates_are_unbiased_with_parts_of_any_size() -> None:
    rng = np.random.default_rng(1)
    gradient, rows = np.array([1.0, 2.0]), np.array([2, 5, 9])
    found = [
        estimates(np.array([(gradient + rng.normal(size=(n, 2)) * [3, 1]).mean(axis=0) for n in rows]), rows)
        for _ in range(4000)
    ]
    for values, truth in zip(np.array(found).T, (5.0, 10.0), strict=True):  # |G|^2 = 1 + 4, S = 9 + 1
        assert abs(values.mean() - truth) < 4 * values.std() / math.sqrt(len(values))


@pytest.mark.parametrize("rows", [[4], [4, 0]])
def test_fewer_than_two_parts_are_refused(rows: list[int]) -> None:
    with pytest.raises(ValueError, match="it takes two parts"):
        estimates(np.ones((len(rows), 3)), np.array(rows))


def test_the_noise_scale_is_a_ratio_of_means_and_not_a_mean_of_ratios() -> None:
    found = ratio(np.array([1.0, 3.0]), np.array([10.0, 50.0]), np.random.default_rng(0))
    assert found.estimate == 60 / 4 != (10 + 50 / 3) / 2
    assert math.isnan(found.low) and math.isnan(found.high), "two seeds are too few for an interval"


def test_a_gradient_that_does_not_stand_out_has_no_upper_end() -> None:
    found = ratio(np.array([-2.0, 0.5, 0.2, 0.2, 0.2]), np.array([10.0] * 5), np.random.default_rng(0))
    assert found.estimate == math.inf == found.high and 10 / 0.5 <= found.low < 10 / 0.2
    assert math.isnan(ratio(np.array([1.0]), np.array([1.0]), np.random.default_rng(0)).low)


def test_growth_is_seed_by_seed() -> None:
    square, noise = np.ones(5), np.array([10.0, 20.0, 40.0, 80.0, 160.0])
    found = growth((square, noise), (square, 7 * noise), np.random.default_rng(0))
    assert np.allclose((found.low, found.estimate, found.high), 7), "however different the seeds are"
    unknown = growth((-square, noise), (-square, noise), np.random.default_rng(0))
    assert math.isnan(unknown.estimate) and (unknown.low, unknown.high) == (0, math.inf)


def test_intervals_over_five_seeds_cover() -> None:
    rng, covered = np.random.default_rng(2), 0
    for _ in range(300):
        square, noise = rng.lognormal(0, 0.4, 5), 50 * rng.lognormal(0, 0.4, 5)
        found = ratio(square, noise, rng)
        covered += found.low <= 50 <= found.high
    assert covered / 300 > 0.88


def test_two_independent_intervals_are_set_apart_in_the_logarithm() -> None:
    found = apart(Interval(80, 40, 160), Interval(10, 10, 10))
    assert (found.estimate, found.low, found.high) == pytest.approx((8, 4, 16))
    both = apart(Interval(80, 40, 160), Interval(10, 5, 20))
    assert both.high == pytest.approx(8 * 2 ** math.sqrt(2))
