"""Transforms of observations and rewards: known answers, and a state that is saved as it is."""

import math

import numpy as np
import pytest
import torch

from experiments.fast.preprocessing.moments import Moments, Sampled
from experiments.fast.preprocessing.transforms import Preprocessing


def sampled(observations: list[list[float]], returns: list[float]) -> Sampled:
    return Sampled(Moments.of(observations), Moments.of(returns))


SEEN = sampled([[0.0, 10.0], [4.0, 30.0]], [1.0, 7.0])  # standard deviations 2, 10 and 3


def test_observations_are_normalised_and_clipped() -> None:
    preprocessing = Preprocessing((2,), normalize_observations=True, clip_observations=1.5)
    raw = torch.tensor([[3.0, 20.0], [100.0, -100.0]])
    assert preprocessing.observations(raw).tolist() == [[1.5, 1.5], [1.5, -1.5]]  # before there are any statistics
    preprocessing.merge([SEEN])
    np.testing.assert_allclose(preprocessing.observations(raw), [[0.5, 0.0], [1.5, -1.5]], rtol=1e-6)


def test_a_part_that_never_changes_becomes_0() -> None:
    preprocessing = Preprocessing((1,), normalize_observations=True)
    preprocessing.merge([sampled([[7.0], [7.0]], [0.0])])
    assert preprocessing.observations(torch.tensor([[7.0]])).tolist() == [[0.0]]


def test_symlog_is_that_of_the_paper() -> None:
    found = Preprocessing((3,), symlog_observations=True).observations(torch.tensor([math.e - 1, 0.0, 1 - math.e]))
    np.testing.assert_allclose(found, [1.0, 0.0, -1.0], rtol=1e-6)


def test_rewards_are_divided_by_the_returns_spread_and_keep_their_sign() -> None:
    preprocessing = Preprocessing((2,), normalize_rewards=True, clip_rewards=2.0)
    preprocessing.merge([SEEN])
    np.testing.assert_allclose(preprocessing.rewards(torch.tensor([3.0, -1.5, -90.0])), [1.0, -0.5, -2.0], rtol=1e-6)
    assert preprocessing.of_observations is None


def test_rewards_can_be_clipped_alone() -> None:
    preprocessing = Preprocessing((2,), clip_rewards=1.0)
    assert preprocessing.rewards(torch.tensor([5.0, -0.5])).tolist() == [1.0, -0.5]
    assert not preprocessing.state_dict()


def test_a_function_that_was_asked_for_before_sees_new_statistics() -> None:
    preprocessing = Preprocessing((2,), normalize_observations=True)
    function, raw = preprocessing.observations_function(), torch.tensor([[3.0, 20.0]])
    preprocessing.merge([SEEN])
    assert torch.equal(function(raw), preprocessing.observations(raw))
    assert function(raw).tolist()[0][1] == 0.0


def test_statistics_go_on_from_what_was_saved_to_the_bit() -> None:
    preprocessing, again = (Preprocessing((1,), normalize_observations=True, normalize_rewards=True) for _ in range(2))
    third = sampled([[1 / 3], [0.1]], [1 / 7, 0.2, 5.0])
    preprocessing.merge([third])
    assert "of_observations.mean" in preprocessing.statistics()
    # as RLlib saves them
    again.load_state_dict({name: tensor.float() for name, tensor in preprocessing.state_dict().items()})
    again.set_statistics(preprocessing.statistics())
    for each in (preprocessing, again):
        each.merge([third])
    assert preprocessing.state_dict().keys() == again.state_dict().keys()
    for name, tensor in preprocessing.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_runners_are_merged_in_the_order_given(order: tuple[int, int]) -> None:
    runners = [SEEN, sampled([[1 / 3, 1 / 7]], [0.1])]
    together, apart = (Preprocessing((2,), normalize_observations=True) for _ in range(2))
    together.merge([runners[index] for index in order])
    for index in order:
        apart.merge([runners[index]])
    np.testing.assert_array_equal(
        together.statistics()["of_observations.mean"], apart.statistics()["of_observations.mean"]
    )
