"""Regret of an environment whose configuration others choose, worked by hand and in simulation."""

import numpy as np
import pytest

from analysis.stats.regret import Regret, regret

LEVELS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
"""Four configurations of two axes with two values each."""


def exact(means: list[list[float]], num_seeds: int = 4) -> np.ndarray:
    """Scores without noise."""
    return np.repeat(np.array(means, float)[..., None], num_seeds, axis=2)


def of(scores: np.ndarray, place: int = 0, levels: np.ndarray = LEVELS) -> Regret:
    return regret(scores, place, levels, np.random.default_rng(0))


def test_without_noise_it_is_the_difference_of_the_means() -> None:
    """The other environment chooses the third. With its first axis the best is the fourth, with its second the first;
    one of the four at random comes to 0.5.
    """
    found = of(exact([[0.8, 1.0, 0.0, 0.2], [0.0, 0.1, 0.9, 0.5]]))
    assert found.whole.estimate == pytest.approx(1.0)
    assert [one.estimate for one in found.by_axis] == pytest.approx([0.8, 0.2])
    assert found.at_random.estimate == pytest.approx(0.5)
    assert (found.whole.low, found.whole.high) == pytest.approx((1.0, 1.0))


def test_the_others_choose_together_by_their_mean() -> None:
    scores = exact([[0.0, 0.6, 0.5, 1.0], [1.0, 0.0, 0.8, 0.0], [0.0, 1.0, 0.8, 0.0]])
    assert of(scores).whole.estimate == pytest.approx(0.5)  # the third, which is second best for both
    assert of(scores, place=1).whole.estimate == pytest.approx(1.0)  # the second: 0.8 on average


def test_the_own_best_may_be_one_that_the_others_did_not_run() -> None:
    scores = exact([[0.8, 0.2, 0.1, 1.0], [0.9, 0.1, 0.1, 0.0]])
    scores[1, 3] = np.nan
    found = of(scores)
    assert found.whole.estimate == pytest.approx(0.2)
    assert found.at_random.estimate == pytest.approx(1.0 - 1.1 / 3)  # of those that ran in both


def test_the_luck_of_the_best_of_many_is_no_regret() -> None:
    """All configurations are equal, so that any choice costs nothing; the best mean is well above the others' all the
    same.
    """
    rng, num = np.random.default_rng(0), 20
    levels = np.arange(num)[:, None]
    found, plain = [], []
    for _ in range(40):
        scores = rng.normal(0, 1, (2, num, 4))
        found.append(regret(scores, 0, levels, rng).whole.estimate)
        means = scores.mean(axis=2)
        plain.append(means[0].max() - means[0, means[1].argmax()])
    assert np.mean(plain) > 0.5
    assert abs(np.mean(found)) < 3 * np.std(found) / np.sqrt(len(found))


def test_its_interval_holds_the_truth() -> None:
    """The others are sure of the second configuration, which is 0.3 worse than the first; seeds vary by 0.2."""
    rng, held = np.random.default_rng(0), []
    for _ in range(60):
        own = np.array([1.0, 0.7, 0.2, 0.0])[:, None] + rng.normal(0, 0.2, (4, 5))
        others = exact([[0.0, 1.0, 0.0, 0.0]], 5)[0]
        found = regret(np.stack([own, others]), 0, LEVELS, rng).whole
        held.append(found.low <= 0.3 <= found.high)
    assert np.mean(held) >= 0.85


def test_seeds_that_judge_choose_nowhere() -> None:
    """The same trials twice, as a study with a longer budget has them: by their own seeds the best would seem to cost
    nothing.
    """
    rng, found = np.random.default_rng(0), []
    for _ in range(40):
        own = rng.normal(0, 1, (4, 4))
        found.append(of(np.stack([own, own])).whole.estimate)
    assert found == pytest.approx([0.0] * len(found))  # both choose the same from the same seeds, whoever judges


def test_a_single_seed_judges_nothing_and_one_that_is_missing_is_left_out() -> None:
    assert np.isnan(of(exact([[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]], num_seeds=1)).whole.estimate)
    scores = exact([[0.5, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    scores[0, 0, 0] = np.nan
    assert of(scores).whole.estimate == pytest.approx(0.5)


def test_the_generator_determines_it() -> None:
    scores = np.random.default_rng(0).normal(size=(3, 4, 5))
    assert of(scores) == of(scores)
