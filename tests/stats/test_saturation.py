import numpy as np

from analysis.stats.saturation import saturates, solving


def test_who_solves_it_ends_at_the_target_on_average_and_has_held_it() -> None:
    solve = solving([500.0, 475.0, 474.0, 500.0, 500.0], [475.0, 475.0, 475.0, 475.0, np.nan], [3, 1, 3, 0, 0])
    assert solve.tolist() == [True, True, False, False, False]


def test_one_that_solves_it_has_nobody_to_be_told_from() -> None:
    assert not saturates(np.array([True, False]))
    assert saturates(np.array([True, False, True]))
