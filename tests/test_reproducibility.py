"""How far seeds lie apart, and how many a difference needs."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.power import TTestPower

from analysis.reproducibility import seed_spread, seeds_to_see, typical_difference_spread


def runs(scores: dict[str, list[float]]) -> pd.DataFrame:
    rows = [(config, seed, score) for config, of_config in scores.items() for seed, score in enumerate(of_config)]
    frame = pd.DataFrame(rows, columns=["config", "seed", "score"])
    frame["config"] = pd.Categorical(frame["config"], categories=list(scores), ordered=True)
    constant = {"env": "cartpole", "status": "finished", "exploratory": False, "target": np.nan, "budget_env_steps": 100}
    unknown = dict.fromkeys(("auc", "env_steps_to_target", "seconds_to_target", "env_steps_per_s", "train_s", "wall_s"), np.nan)
    return frame.assign(**constant, **unknown)


def test_the_spread_of_a_configurations_own_seeds_is_the_sample_standard_deviation() -> None:
    table = seed_spread(runs({"a": [1.0, 2.0, 3.0], "b": [5.0, 5.0, 5.0]})).set_index("config")
    assert table["sd"].tolist() == [1.0, 0.0]
    assert table.loc["a", ["lowest", "mean", "highest"]].tolist() == [1.0, 2.0, 3.0]
    # Averaged with the other's variance of 1, two degrees of freedom each.
    assert table.loc["b", "sd_moderated"] == pytest.approx(np.sqrt(0.5))


def test_a_seed_that_failed_is_not_counted() -> None:
    frame = runs({"a": [1.0, 2.0, 3.0]})
    frame.loc[2, "status"] = "failed"
    assert seed_spread(frame)["num_seeds"].tolist() == [2]


def test_the_spread_of_differences_is_that_over_common_seeds() -> None:
    # Differences a - b: 0, 1, 2. Their standard deviation is 1, that of either's seeds is more.
    assert typical_difference_spread(runs({"a": [10.0, 21.0, 32.0], "b": [10.0, 20.0, 30.0]})) == pytest.approx(1.0)


@pytest.mark.parametrize("scores", [{"a": [1.0, 2.0]}, {"a": [1.0], "b": [2.0]}])
def test_without_two_common_seeds_no_number_of_seeds_is_given(scores: dict[str, list[float]]) -> None:
    spread = typical_difference_spread(runs(scores))
    assert np.isnan(spread)
    assert seeds_to_see(spread).empty


def test_the_seeds_of_a_difference_have_the_power_they_promise() -> None:
    table = seeds_to_see(10.0, num_comparisons=5)
    assert table["difference"].is_monotonic_increasing
    assert table["difference"].between(2, 30).all()
    for row in table[table["seeds"] > 2].itertuples():
        for seeds, alpha in ((row.seeds, 0.05), (row.seeds_among_all, 0.01)):
            power = [TTestPower().power(row.difference / 10, n, alpha) for n in (seeds - 1, seeds)]
            assert power[0] < 0.8 <= power[1] + 1e-9
