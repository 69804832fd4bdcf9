"""How often seeds fail."""

import numpy as np
import pandas as pd
import pytest

from analysis.questions.failures import failure_threshold, failures
from tests.support.study_frames import make_runs, together, with_status


def test_a_seed_fails_below_the_target() -> None:
    table = failures(make_runs({"holds": [500, 480, 475], "collapses": [500, 500, 20], "bad": [10, 20, 30]}))
    assert (table["failure_below"] == 475).all()
    assert table["num_failures"].tolist() == [0, 1, 3]
    assert table["failure_probability"].tolist() == pytest.approx([0, 1 / 3, 1])
    # Quantiles of Beta(1.5, 2.5).
    assert table.loc["collapses", ["failure_probability_low", "failure_probability_high"]].tolist() == pytest.approx(
        [0.0387, 0.8233], abs=5e-4
    )


def test_a_seed_that_collapses_does_not_take_the_target_away() -> None:
    assert failure_threshold(make_runs({"collapses": [500, 490, 480, 500, 20]})) == 475  # its mean is 398


@pytest.mark.parametrize(
    ("target", "low", "below"),
    [
        (475, 0, 475),  # also where nobody ends there
        (np.nan, 0, 150),  # half of 300
        (np.nan, -100, 100),  # halfway from the lowest possible return
        (np.nan, np.nan, 150),  # above 0, where that is unknown
        (250, 0, 250),
    ],
)
def test_without_a_target_half_of_the_best_counts(target: float, low: float, below: float) -> None:
    runs = make_runs({"best": [300, 310, 290], "other": [100, 90, 110]}, target=target, score_range=(low, 500))
    assert failure_threshold(runs) == below


def test_negative_returns_without_a_bound_fail_at_half_as_much_again() -> None:
    runs = make_runs({"a": [-300.0, -500.0, -280.0], "b": [-340.0, -350.0, -330.0]}, target=np.nan)
    runs = with_status(runs.assign(score_range_low=np.nan), "b", [1], "failed")
    best = -335.0  # of b's two that finished
    assert failure_threshold(runs) == pytest.approx(1.5 * best)
    assert failures(runs)["num_failures"].tolist() == [0, 1]


def test_a_threshold_that_was_given_counts() -> None:
    runs = make_runs({"a": [300, 310, 290]}).assign(failure_below=295.0)
    assert failures(runs)["num_failures"].tolist() == [1]


def test_a_crash_and_a_score_that_is_no_number_are_failures_and_an_interruption_is_not() -> None:
    runs = make_runs({"a": [500, 500, np.nan, 500, 500]})
    runs = with_status(with_status(runs, "a", [3], "failed"), "a", [4], "interrupted")
    row = failures(runs).loc["a"]
    assert (row["num_ended"], row["num_failures"]) == (4, 2)


@pytest.mark.filterwarnings("error")
def test_what_has_not_ended_or_was_measured_has_no_probability() -> None:
    running = with_status(make_runs({"a": [1.0, 2.0]}), "a", [0, 1], "running")
    measured = make_runs({"a": [np.nan, np.nan]}).assign(phase="throughput")
    for runs in (running, measured):
        assert failures(runs)[["failure_probability", "failure_probability_low"]].isna().all(axis=None)


def test_each_environment_has_its_own_threshold() -> None:
    runs = together(
        make_runs({"a": [480.0, 481.0]}),
        make_runs({"c": [-80.0, -120.0]}, env="acrobot", target=-100, score_range=(-500, 0)),
    )
    assert failures(runs)["failure_below"].tolist() == [475, -100]


def test_what_most_seeds_reach_at_least_is_an_order_statistic_from_29_seeds_on() -> None:
    scores = [float(score) for score in np.random.default_rng(0).permutation(np.arange(450, 480))]
    runs = make_runs({"many": scores, "few": [100.0] * 28})
    assert failures(runs)["score_tolerance"].to_dict() == pytest.approx({"many": 450, "few": np.nan}, nan_ok=True)
    crashed = with_status(runs, "many", [0], "failed")
    assert failures(crashed).loc["many", "score_tolerance"] == -np.inf


def test_the_order_of_trials_changes_nothing() -> None:
    runs = make_runs({"a": [500, 20, 480], "b": [300, 310, 290]})
    pd.testing.assert_frame_equal(failures(runs.iloc[::-1]).loc[["a", "b"]], failures(runs))
