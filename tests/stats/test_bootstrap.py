"""Bootstraps over seeds."""

import numpy as np
import pytest

from analysis.stats.bootstrap import redrawn_means, stratified_bootstrap
from analysis.stats.interval import Interval


def test_bootstrap_redraws_within_strata_only() -> None:
    def mean(draws: np.ndarray) -> np.ndarray:
        return draws.mean(axis=1)

    rng = np.random.default_rng(0)
    # 5 of 8 values are 8, in every redraw
    assert stratified_bootstrap([np.zeros(3), np.full(5, 8.0)], mean, rng) == Interval(5, 5, 5)
    # Two seeds, 0 and 1: a mean of 0, 0.5 or 1 with chances 1/4, 1/2 and 1/4.
    assert stratified_bootstrap([np.array([0.0, 1])], mean, rng) == Interval(0.5, 0, 1)


def test_the_generator_determines_the_bootstrap() -> None:
    strata = [*np.random.default_rng(0).normal(size=(4, 5))]
    first, again, other = (
        stratified_bootstrap(strata, lambda draws: draws.mean(axis=1), np.random.default_rng(seed), reps=200)
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first.estimate == other.estimate and first.low != other.low


def test_redrawn_means_spread_as_the_mean_of_so_many_seeds_does() -> None:
    """Of two seeds, 0 and 1, the standard error of the mean is 1/2; as they are drawn it would be 1/2 / sqrt(2)."""
    scores = np.array([[0.0, 1.0, np.nan], [3.0, 3.0, 3.0], [np.nan, np.nan, np.nan]])
    draws = np.stack([*redrawn_means(scores, np.random.default_rng(0), 4000)])
    assert draws.shape == (4000, 3)
    assert draws[:, 0].mean() == pytest.approx(0.5, abs=0.03)
    assert draws[:, 0].std() == pytest.approx(0.5, abs=0.02)
    assert (draws[:, 1] == 3).all() and np.isnan(draws[:, 2]).all()
