"""The table of what every algorithm learns: its pairs can be run, its rows are kept, its verdicts are right."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.learning.pairs import COLUMNS, Pair, keep, measured, pairs
from benchmarks.learning.scores import against_sb3, verdict
from tests.support.suite import PlanOf

PAIR = Pair("ppo", "cartpole", 240.0, 30.0, "SB3 zoo", "")


@pytest.mark.parametrize("pair", pairs(), ids=str)
def test_every_pair_is_a_study_of_the_suite(pair: Pair, plan_of: PlanOf) -> None:
    plan = plan_of("study=single", f"algorithm={pair.algorithm}", f"env={pair.env}")
    assert len(plan.configurations) == 1


def rows(seed: int, score: float, env: str = "cartpole") -> pd.DataFrame:
    values = ("ppo", env, "abc", seed, 1000, score, float("nan"), 1.0, "2026-01-01", "def", "cpu")
    return pd.DataFrame([dict(zip(COLUMNS, values, strict=True))])


def test_trials_are_kept_and_the_last_measurement_of_one_counts(tmp_path: Path) -> None:
    file = tmp_path / "data" / "learning.csv"
    for seed, score, env in ((1, 10.0, "cartpole"), (0, 20.0, "cartpole"), (1, 30.0, "cartpole"), (1, 40.0, "acrobot")):
        keep(rows(seed, score, env), file)
    assert measured(file)[["env", "seed", "score"]].to_numpy().tolist() == [
        ["acrobot", 1, 40.0],
        ["cartpole", 0, 20.0],
        ["cartpole", 1, 30.0],
    ]


@pytest.mark.parametrize(("high", "words"), [(210.0, "not worse"), (209.9, "worse"), (300.0, "not worse")])
def test_worse_is_an_interval_below_the_published_score_less_its_deviation(high: float, words: str) -> None:
    assert verdict(high, PAIR) == words


def test_a_known_reason_is_named_and_nothing_published_is_no_verdict() -> None:
    assert verdict(0.0, Pair("ppo", "hopper", 240.0, 30.0, "", "gSDE")) == "worse: see the notes"
    assert verdict(0.0, Pair("appo", "cartpole", float("nan"), float("nan"), "", "")) == ""


@pytest.mark.parametrize(
    ("ours", "words"),
    [([100.0, 101.0, 99.0], "not significantly different"), ([50.0, 51.0, 49.0], "worse than"), ([150.0, 151.0, 149.0], "better than")],
)
def test_where_sb3_was_run_at_the_same_settings_it_is_the_judge(ours: list[float], words: str) -> None:
    assert against_sb3(np.array(ours), np.array([98.0, 100.0, 102.0])).startswith(words)
