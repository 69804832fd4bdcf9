"""The scores of real runs, from which calibration draws studies."""

import numpy as np

from benchmarks.calibration.on_pools import FAILS_BELOW, tables
from benchmarks.calibration.pools import NUM_SEEDS, pools

RANGES = {"cartpole": (0, 500), "acrobot": (-500, 0)}


def test_each_environment_has_two_configurations_whose_seeds_differ_and_do_not_all_end_at_the_top() -> None:
    found = pools()
    assert set(found) == set(RANGES) == set(FAILS_BELOW)
    for env, of_env in found.items():
        assert len(of_env) == 2
        for scores in of_env.values():
            low, high = RANGES[env]
            assert len(scores) == NUM_SEEDS
            assert (scores >= low).all() and (scores <= high).all()
            assert len(np.unique(scores)) > len(scores) / 4


def test_what_is_drawn_from_them_has_a_row_for_each() -> None:
    each, both = tables(2, np.random.default_rng(0))
    labels = [
        f"{env}, {config} ({len(scores)})" for env, of_env in pools().items() for config, scores in of_env.items()
    ]
    assert [row[0] for row in each.rows] == labels
    assert len(both.rows) == len(RANGES)
