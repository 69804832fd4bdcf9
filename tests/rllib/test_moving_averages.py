import math

import pytest
import torch

from experiments.rllib.moving_averages import AverageModule, decay_at, scaled_decay, standardised, window_decay


def test_a_center_of_mass_is_a_decay() -> None:
    assert decay_at(0) == 0
    assert decay_at(8) == pytest.approx(8 / 9)


def test_a_batch_a_16th_as_large_moves_the_center_of_mass_16_times_as_far_back() -> None:
    assert scaled_decay(0.9, 16) == pytest.approx(144 / 145)  # 9 updates back, then 144
    assert scaled_decay(0.999, 1) == 0.999, "to the bit"
    assert scaled_decay(144 / 145, 1 / 16) == pytest.approx(0.9)
    assert scaled_decay(0.0, 16) == 0


def test_moments_span_as_many_values_as_a_base_batch_has() -> None:
    assert window_decay(4) == 0.75
    assert window_decay(1) == window_decay(0.25) == 0


def test_an_average_of_weights_weighs_the_first_no_more_than_later_ones_with_the_same_age() -> None:
    layer = torch.nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(1.0)
    average = AverageModule(layer)
    average.begin()
    for weight, expected in ((4.0, (0.5 * 1 + 4) / 1.5), (0.0, (0.25 * 1 + 0.5 * 4) / 1.75)):
        layer.weight.data.fill_(weight)
        average.begin()  # does nothing any more
        average.add(decay=0.5)
        assert average.module.weight.item() == average.weights.item() == pytest.approx(expected)
    assert layer.weight.item() == 0
    average.weights.fill_(7.0)  # as a checkpoint is restored
    assert average.module.weight.item() == 7


def test_values_are_standardised_over_earlier_ones_as_well() -> None:
    sums = torch.zeros(3, dtype=torch.float64)
    assert standardised(torch.tensor([0.0, 2.0]), sums, 0.5, 1e-4).tolist() == [-1, 1]
    # Half of 2 values whose sum is 2 and whose squares sum to 4, and 2 whose sum is 8 and whose squares sum to 34.
    second = standardised(torch.tensor([3.0, 5.0]), sums, 0.5, 1e-4)
    assert sums.tolist() == [3, 9, 36]
    assert second.tolist() == pytest.approx([0, 2 / math.sqrt(3)])


def test_values_that_do_not_vary_are_divided_by_the_least() -> None:
    assert standardised(torch.tensor([2.0, 2.0]), torch.zeros(3, dtype=torch.float64), 0.5, 1e-4).tolist() == [0, 0]
