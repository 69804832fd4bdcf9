"""Sequential comparisons of all pairs."""

import numpy as np
import pytest

from analysis.stats.sequential import Design, compare

ONE_LOOK = Design(seeds_per_look=3, looks=1, alpha=0.1)


def test_one_look_is_a_permutation_test_by_hand() -> None:
    """Of 20 ways to give six scores to two, two give the largest difference: p = 0.1.

    A tie with a third makes it 0.2 and more.
    """
    apart = np.array([[4.0, 5, 6], [1, 2, 3]])
    assert compare(apart, ONE_LOOK).higher.tolist() == [[False, True], [False, False]]
    assert compare(apart[::-1], ONE_LOOK).higher.tolist() == [[False, False], [True, False]]
    assert not compare(apart, Design(3, 1, 0.0999)).higher.any()
    overlapping = np.array([[4.0, 5, 6], [1, 2, 4]])  # the two fours may change places
    assert not compare(overlapping, ONE_LOOK).higher.any()
    assert compare(overlapping, Design(3, 1, 0.2)).higher[0, 1]


def test_alpha_is_spent_in_equal_parts_and_what_is_left_goes_to_the_next_look() -> None:
    """Three seeds a look and two looks: of 400 assignments, the first look may spend 0.2 of 0.4:
    differences above that of 2 + 2 ones.
    """
    scores = np.array([[4.0, 5, 6, 4, 5, 6], [1, 2, 3, 1, 2, 3]])
    early = compare(scores, Design(3, 2, 0.2))
    assert (early.looks, early.look[0, 1]) == (1, 1)  # 0.1 of 0.1
    late = compare(scores, Design(3, 2, 0.19))
    assert (late.looks, late.look[0, 1]) == (2, 2)  # none was spent: 2 of 400 are below 0.19


def test_a_pair_that_is_decided_leaves_more_for_the_others() -> None:
    """One far above two that are 3 apart: against all three pairs the small difference is no largest one,
    alone it is.
    """
    scores = np.array([[104.0, 105, 106, 107, 108], [4.0, 5, 6, 7, 8], [-1.0, 0, 1, 2, 3]])
    found = compare(scores, Design(5, 1, 0.05))
    assert found.higher.tolist() == [[False, True, True], [False, False, True], [False, False, False]]
    assert found.leaders.tolist() == [True, False, False]


def test_a_look_waits_for_the_seeds_of_those_that_are_undecided_alone() -> None:
    scores = np.full((3, 10), np.nan)
    scores[:, :5] = [[500.0, 501, 502, 503, 504], [4, 0, 2, 1, 3], [1, 4, 2, 0, 3]]
    design = Design(5, 2, 0.05)
    first = compare(scores, design)
    assert (first.looks, first.undecided.tolist(), first.leaders.tolist()) == (
        1,
        [False, True, True],
        [True, False, False],
    )
    scores[1, 5:] = [1, 0, 4, 2, 3]
    assert compare(scores, design).looks == 1
    scores[2, 5:] = [4, 2, 0, 3, 1]
    last = compare(scores, design)
    assert (last.looks, last.undecided.any()) == (2, False)


def test_a_configuration_with_a_seed_without_a_score_takes_no_further_part() -> None:
    scores = np.array([[4.0, 5, 6], [-np.inf, np.nan, np.nan], [1, 2, 3]])
    found = compare(scores, ONE_LOOK)
    assert found.higher.tolist() == [[False, False, True], [False, False, False], [False, False, False]]
    assert not found.undecided.any()


def test_scores_that_are_all_the_same_differ_nowhere() -> None:
    assert not compare(np.full((4, 6), 500.0), Design(3, 2, 0.2)).higher.any()


@pytest.mark.parametrize(
    ("seeds_per_look", "looks", "can"),
    [(2, 1, False), (3, 1, False), (4, 1, True), (2, 2, False), (2, 3, True), (1, 5, False)],
)
def test_a_design_of_too_few_seeds_can_decide_nothing(seeds_per_look: int, looks: int, can: bool) -> None:
    """Two of 6, 20, 70, 36, 216 and 32 assignments give the largest difference; alpha is 5%."""
    design = Design(seeds_per_look, looks, 0.05)
    assert design.can_decide == can
    scores = np.repeat([[1.0], [0.0]], design.most_seeds, axis=1) + 0.001 * np.arange(design.most_seeds)
    assert compare(scores, design).higher.any() == can


def test_the_same_scores_give_the_same_verdict_and_more_of_them_change_no_earlier_one() -> None:
    rng = np.random.default_rng(1)
    scores, design = rng.normal([[0.0], [1.0], [2.0], [2.0]], 1.0, (4, 25)), Design(5, 5)
    whole = compare(scores, design)
    assert np.array_equal(compare(scores, design).look, whole.look)
    for looks in range(1, 6):
        until = compare(np.where(np.arange(25) < 5 * looks, scores, np.nan), design)
        assert np.array_equal(until.look, np.where(whole.look <= looks, whole.look, 0))


@pytest.mark.parametrize("num", [2, 4])
def test_equal_configurations_are_called_different_in_at_most_alpha_of_comparisons(num: int) -> None:
    rng = np.random.default_rng(2)
    skewed = rng.beta(5, 1, (1000, num, 6))
    wrong = np.mean([compare(scores, Design(3, 2, 0.2)).higher.any() for scores in skewed])
    assert wrong <= 0.2 + 2 * np.sqrt(0.2 * 0.8 / 1000)
    assert wrong >= 0.1  # and it does not waste what it may risk
