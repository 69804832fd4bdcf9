"""Bootstraps over seeds."""

import numpy as np

from analysis.stats.bootstrap import stratified_bootstrap
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
