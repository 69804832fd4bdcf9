"""The scores of real runs, from which calibration draws studies."""

import numpy as np

from benchmarks.calibration.on_pools import FAILS_BELOW, statistics
from benchmarks.calibration.pools import NUM_SEEDS, pools
from benchmarks.calibration.statistic import Statistic

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


def test_what_is_drawn_from_them_has_a_share_for_each() -> None:
    found = {one.name: one.shares for one in statistics(2, np.random.default_rng(0))}
    configs = [f"{env}, {config}" for env, of_env in pools().items() for config in of_env]
    assert list(found["Real scores: two equal ones called different"]) == configs
    assert set(found["Two real ones: called different"]) == set(RANGES)


def test_a_row_names_the_studies_in_which_a_statistic_does_worst() -> None:
    shares = {"few seeds": 0.921, "more seeds": 0.95, "many seeds": 0.9211}
    assert Statistic("interval", "95", shares, 1000).row() == ("interval", "95", "92.1-95.0", "few seeds", "1,000")
    assert Statistic("alarm", "at most 5", shares, 0, risk=True, digits=0).row() == (
        "alarm",
        "at most 5",
        "92-95",
        "more seeds",
        "",
    )
