"""Covering arrays: the few cases of a full product in which every two values of different axes occur together."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest


def covering(sizes: Sequence[int], strength: int = 2) -> list[tuple[int, ...]]:
    """Choose cases greedily, each the first of those that cover the most combinations that are not covered yet.

    Args:
        sizes: Number of values of each axis.
        strength: Number of axes of which all combinations of values are covered: 2 for pairs,
            1 for each value by itself.

    Returns:
        Indices of the chosen cases' values, in the order of the full product.
    """
    groups = list(itertools.combinations(range(len(sizes)), strength))

    def combinations_of(case: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
        return {tuple((axis, case[axis]) for axis in group) for group in groups}

    candidates = {case: combinations_of(case) for case in itertools.product(*map(range, sizes))}
    missing = set().union(*candidates.values())
    chosen = []
    while missing:
        best = max(candidates, key=lambda case: len(candidates[case] & missing))
        missing -= candidates[best]
        chosen.append(best)
    return sorted(chosen)


def matrix(strength: int = 2, **axes: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrize a test over the full product of some axes, of which all but a covering array is marked `nightly`.

    Args:
        strength: As of `covering`.
        **axes: Values by the name of the test's parameter.
    """
    chosen = set(covering([len(values) for values in axes.values()], strength))
    cases = []
    for case in itertools.product(*(range(len(values)) for values in axes.values())):
        values = [axis[index] for axis, index in zip(axes.values(), case, strict=True)]
        cases.append(pytest.param(*values, marks=() if case in chosen else pytest.mark.nightly))
    return pytest.mark.parametrize(list(axes), cases)
