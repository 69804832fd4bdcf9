"""Covering arrays cover what they say with few cases, and leave the rest to the nightly tests."""

import itertools
import math

import pytest

from tests.support.matrix import covering, matrix


@pytest.mark.parametrize("sizes", [(3, 2), (2, 2, 2), (3, 2, 2, 4), (5, 2, 2), (3, 3, 3, 3)])
@pytest.mark.parametrize("strength", [1, 2])
def test_every_combination_of_values_occurs_in_few_cases(sizes: tuple[int, ...], strength: int) -> None:
    cases = covering(sizes, strength)
    for axes in itertools.combinations(range(len(sizes)), strength):
        wanted = set(itertools.product(*(range(sizes[axis]) for axis in axes)))
        assert {tuple(case[axis] for axis in axes) for case in cases} == wanted
    least = math.prod(sorted(sizes)[-strength:])
    assert least <= len(cases) <= 1.5 * least
    assert cases == covering(sizes, strength)


def test_the_rest_of_the_product_is_nightly() -> None:
    (names, cases) = matrix(one=["a", "b"], other=[1, 2], third=[True, False]).args
    assert names == ["one", "other", "third"]
    assert [case.values for case in cases] == list(itertools.product(["a", "b"], [1, 2], [True, False]))
    assert sum(not case.marks for case in cases) == 4
    assert {mark.name for case in cases for mark in case.marks} == {"nightly"}
