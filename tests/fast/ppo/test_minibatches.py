"""Minibatches are those of RLlib, whatever their size, number and order."""

import pytest

from tests.support.fast_ppo import (
    UPDATE,
    assert_same_updates,
    batches_of,
    config_of,
)
from tests.support.matrix import matrix

pytestmark = pytest.mark.filterwarnings("ignore")


@matrix(
    strength=1,
    passes=[(64, 3), (7, 2), (50, 1), (1, 1), (1000, 3), (None, 1), (None, 3), (154, 2), (77, 2)],
    shuffle=[True, False],
)
def test_weights_are_those_of_rllib_whatever_the_minibatch(passes: tuple[int | None, int], shuffle: bool) -> None:
    size, epochs = passes
    batches = batches_of(config_of(), (30, 12, 41)) if size == 1 else None
    assert_same_updates(config_of(), batches, num_epochs=epochs, minibatch_size=size, shuffle_batch_per_epoch=shuffle)


def test_weights_are_those_of_rllib_where_minibatches_end_with_the_pass() -> None:
    config = config_of()
    (episodes,) = batches_of(config, (150,))
    rows = sum(map(len, episodes)) + len(episodes)
    for size in (rows, rows // 2, 2 * rows):
        assert_same_updates(config, [episodes] * 2, num_epochs=2, minibatch_size=size, shuffle_batch_per_epoch=True)


def test_weights_are_those_of_rllib_for_a_given_number_of_minibatches() -> None:
    assert_same_updates(config_of(), **UPDATE, num_total_minibatches=5)


def test_a_minibatch_without_a_row_that_counts_changes_nothing_but_moments() -> None:
    # Of one row each: every chunk's last one is only there for its value.
    assert_same_updates(
        config_of(), batches_of(config_of(), (12, 9)), num_epochs=2, minibatch_size=1, shuffle_batch_per_epoch=True
    )
