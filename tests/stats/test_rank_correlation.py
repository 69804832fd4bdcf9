"""Rank correlations between environments, against scipy's, and what their intervals promise."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.rank_correlation import rank_correlation, rank_correlations

ENVS, CONFIGS, SEEDS = 2, 9, 5


def drawn(means: np.ndarray, noise: float, rng: np.random.Generator, num_seeds: int = SEEDS) -> np.ndarray:
    return means[..., None] + rng.normal(0, noise, (*means.shape, num_seeds))


def test_it_is_spearmans_with_ties_at_their_mean_rank() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 5, (2, 20, 8)).astype(float)
    expected = [stats.spearmanr(a, b).statistic for a, b in zip(first, second, strict=True)]
    assert rank_correlation(first, second) == pytest.approx(expected)
    assert rank_correlation(np.array([1.0, 2, 3]), np.array([10.0, 20, 5])) == pytest.approx(-0.5)
    assert np.isnan(rank_correlation(np.array([1.0, 1, 1]), np.array([1.0, 2, 3])))


def test_an_order_that_is_the_same_everywhere_is_found_and_one_that_turns_around_too() -> None:
    rng, means = np.random.default_rng(0), np.linspace(0, 1, CONFIGS)
    found = rank_correlations(drawn(np.stack([means, means**2, 1 - means]), 0.02, rng), rng)
    assert list(found.pairs) == [(0, 1), (0, 2), (1, 2)]
    assert found.pairs[0, 1].estimate > 0.9 and found.pairs[0, 1].low > 0
    assert found.pairs[0, 2].estimate < -0.9 and found.pairs[0, 2].high < 0
    assert min(found.halves) > 0.8
    assert found.mean.estimate == pytest.approx(np.mean([one.estimate for one in found.pairs.values()]))
    assert found.mean.low <= found.mean.estimate <= found.mean.high


@pytest.mark.slow
def test_environments_with_nothing_in_common_are_seldom_called_alike() -> None:
    """Noise alone in both: the interval is above 0 in at most 2.5% of cases, as it promises, and below as often."""
    rng = np.random.default_rng(0)
    cases = [rank_correlations(drawn(np.zeros((ENVS, CONFIGS)), 1.0, rng), rng).pairs[0, 1].low > 0 for _ in range(60)]
    assert np.mean(cases) <= 0.05


def test_seeds_may_be_missing_and_settings_that_tie_have_no_order() -> None:
    rng, means = np.random.default_rng(0), np.linspace(0, 1, CONFIGS)
    scores = drawn(np.stack([means, means]), 0.01, rng)
    scores[0, :4, 3:] = np.nan
    assert rank_correlations(scores, rng).pairs[0, 1].low > 0.8
    scores[1] = 1.0
    found = rank_correlations(scores, rng)
    assert np.isnan([found.pairs[0, 1].estimate, found.pairs[0, 1].low, found.mean.estimate, found.halves[1]]).all()


def test_the_generator_determines_it() -> None:
    scores = drawn(np.random.default_rng(0).normal(size=(ENVS, CONFIGS)), 0.3, np.random.default_rng(1))
    first, again = (rank_correlations(scores, np.random.default_rng(2)) for _ in range(2))
    assert first == again
