"""How evenly a batch is spread over the episode, by hand."""

import math

import numpy as np
import pytest

from experiments.rllib.results import SPANS, sampled_spans
from experiments.trial.phase_diversity import mean_phase_diversity, phase_diversity


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(3, 4)], 0.0),
        ([(3, 4), (3, 4), (3, 4)], 0.0),  # in lockstep
        ([(0, 1), (4, 5)], 1.0),  # half an episode of 8 apart
        ([(0, 8)], 1.0),  # a whole one
        ([(0, 1), (2, 3)], 1 - math.sqrt(0.5)),  # a quarter apart: |1 + i| / 2
        ([(7, 9)], 1 - math.cos(math.pi / 8)),  # across the end, as anywhere
        ([(0, 8), (0, 8), (16, 24)], 1.0),  # longer than the mean
    ],
)
def test_phase_diversity_by_hand(spans: list[tuple[int, int]], expected: float) -> None:
    assert phase_diversity(np.array(spans), 8.0) == pytest.approx(expected, abs=1e-12)


def test_environments_at_random_are_nearly_as_diverse_as_evenly_spread_ones() -> None:
    rng = np.random.default_rng(0)
    drawn = [phase_diversity(np.array([(t, t + 1) for t in rng.integers(0, 200, 64)]), 200.0) for _ in range(400)]
    # the mean of Rayleigh's distribution
    assert np.mean(drawn) == pytest.approx(1 - math.sqrt(math.pi / 4 / 64), abs=0.01)


def test_batches_are_averaged_not_pooled() -> None:
    # Pooled, two batches half an episode apart would be spread evenly.
    assert mean_phase_diversity([np.array([(0, 1)]), np.array([(4, 5)])], 8.0) == 0.0


def test_what_runners_sampled_together_is_put_together() -> None:
    first, second, third = (np.array([(i, i + 1)]) for i in range(3))
    assert sampled_spans({}) == []
    assert sampled_spans({SPANS: {"0": first}}) == [[first]]  # RLlib unpacks a list of one
    assert sampled_spans({SPANS: {"1": [first, second], "2": third}}) == [[first, third], [second]]
    # In the order of runners, whatever RLlib's is: a sum in another order differs in the last bit.
    assert sampled_spans({SPANS: {"10": third, "2": second, "1": first}}) == [[first, second, third]]
