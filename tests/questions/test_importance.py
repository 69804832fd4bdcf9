"""Which settings are shown to matter."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from analysis.evidence import Evidence
from analysis.questions.importance import FEWEST_SEEDS, importance, importance_of
from experiments.api import importance as of_study
from tests.support.report_pages import study_of
from tests.support.study_frames import make_runs, with_status

LRS, GAMMAS = (1e-4, 1e-3, 1e-2), (0.95, 0.99)
AXES = ("lr", "gamma")


def grid(num_seeds: int = 5, of_lr: Sequence[float] = (100.0, 300.0, 200.0), seed: int = 0) -> pd.DataFrame:
    """Scores that the learning rate decides, and a discount that does nothing."""
    rng = np.random.default_rng(seed)
    cells = {f"lr={lr:g} g={gamma}": (lr, gamma) for lr, gamma in itertools.product(LRS, GAMMAS)}
    means = dict(zip(LRS, of_lr, strict=True))
    scores = {config: list(rng.normal(means[lr], 20, num_seeds)) for config, (lr, _) in cells.items()}
    params = {axis: {config: cell[i] for config, cell in cells.items()} for i, axis in enumerate(AXES)}
    return make_runs(scores, target=np.nan, params=params)


def test_the_setting_that_decides_is_found_and_the_one_that_does_nothing_is_not() -> None:
    found = importance_of(Evidence(grid(), axes=AXES))
    assert found["setting"].tolist() == ["lr", "gamma"]
    lr, gamma = (row for _, row in found.iterrows())
    assert lr["total"] > lr["total_low"] > 0.8 and lr["main"] > 0.9
    assert gamma["total_low"] == gamma["main_low"] == 0 and gamma["total_high"] < 0.2
    for row in (lr, gamma):
        assert (
            row["main"] <= row["total"]
            and row["main_low"] <= row["total_low"]
            and row["main_high"] <= row["total_high"]
        )
    assert (lr["measure"], lr["num_values"], lr["num_configurations"], lr["num_seeds"]) == ("score", 3, 6, 5)


def test_what_decides_is_what_counts() -> None:
    runs = grid(of_lr=(300.0, 300.0, 300.0)).assign(objective="minutes_to_target", target=10.0)
    runs["seconds_to_target"] = 60 / runs["gamma"] ** 20 + np.random.default_rng(1).normal(0, 2, len(runs))
    runs["env_steps_to_target"] = 1000.0
    found = importance_of(Evidence(runs, axes=AXES))
    assert found["measure"].unique() == ["minutes_to_target"]
    assert found["setting"].iloc[0] == "gamma" and found["total_low"].iloc[0] > 0.5
    assert found["total_low"].iloc[1] == 0


def test_throughput_is_compared_by_its_logarithm() -> None:
    runs = grid().assign(phase="throughput", score=np.nan)
    runs["env_steps_per_s"] = 1000 * (runs["lr"] / 1e-4) * np.random.default_rng(2).normal(1, 0.01, len(runs))
    found = importance_of(Evidence(runs, axes=AXES))
    assert (found["setting"].iloc[0], found["measure"].iloc[0]) == ("lr", "env_steps_per_s")
    assert found["main"].iloc[0] > 0.99
    two_kinds = runs.assign(cpu=np.where(runs["gamma"] == 0.99, "EPYC", "Xeon"))
    assert importance_of(Evidence(two_kinds, axes=AXES)).empty


def test_crashes_count_with_the_lowest_score_and_seeds_that_are_missing_are_left_out_of_all() -> None:
    runs = with_status(grid(), "lr=0.001 g=0.95", [0, 1], "failed")
    found = importance_of(Evidence(runs, axes=AXES))
    assert found["num_seeds"].tolist() == [5, 5]
    assert found.set_index("setting").loc["gamma", "total"] > 0.05
    missing = with_status(grid(), "lr=0.001 g=0.95", [0, 1], "missing")
    assert importance_of(Evidence(missing, axes=AXES))["num_seeds"].tolist() == [3, 3]


@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(grid(), axes=("lr",)),
        Evidence(grid(num_seeds=FEWEST_SEEDS - 1), axes=AXES),
        Evidence(grid()[lambda runs: runs["config"] != "lr=0.01 g=0.99"], axes=AXES),
        Evidence(with_status(grid(), "lr=0.01 g=0.99", range(5), "failed"), axes=AXES),
        Evidence(grid().assign(phase="confirm"), axes=AXES),
        Evidence(grid().assign(phase="search", exploratory=True), axes=AXES),
        Evidence(grid().assign(gamma=lambda runs: runs["lr"] * 2), axes=AXES),
    ],
    ids=["one axis", "few seeds", "no full grid", "one always crashes", "confirmed", "searched", "no cross"],
)
def test_what_is_no_full_grid_with_seeds_enough_has_none(evidence: Evidence) -> None:
    assert importance(evidence).empty


def test_a_grid_that_was_confirmed_is_judged_by_its_own_trials() -> None:
    fixed = grid().assign(phase="fixed", exploratory=True)
    confirmed = grid(seed=1)[lambda runs: runs["lr"] == 1e-3].assign(
        phase="confirm", seed=lambda runs: runs["seed"] + 1000
    )
    found = importance(Evidence(pd.concat([fixed, confirmed], ignore_index=True), axes=AXES))
    pd.testing.assert_frame_equal(found, importance(Evidence(grid(), axes=AXES)))


def test_from_python_it_is_a_frame_of_all_environments() -> None:
    acrobot = grid(seed=3).assign(env="acrobot", run_id=lambda runs: "acrobot " + runs["run_id"])
    acrobot["config"] = acrobot["config"].cat.rename_categories(lambda name: f"{name} acrobot")
    runs = pd.concat([part.astype({"config": str}) for part in (grid(), acrobot)], ignore_index=True)
    runs = runs.astype({"config": pd.CategoricalDtype(list(dict.fromkeys(runs["config"])), ordered=True)})
    found = of_study(study_of(runs, axes=AXES))
    assert found["env"].tolist() == ["cartpole", "cartpole", "acrobot", "acrobot"]
    assert found["setting"].tolist() == ["lr", "gamma"] * 2
