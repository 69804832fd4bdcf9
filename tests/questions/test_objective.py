"""What is recommended by another objective than the score, and that nothing better in every column is passed over."""

import numpy as np
import pandas as pd
import pytest

from analysis.document.answer import answers, best_metrics, closing_table
from analysis.document.terminal import outcome_table
from analysis.evidence import Evidence
from analysis.questions.decision import decide
from experiments.trial.target import score_in_time
from tests.support.study_frames import Values, make_runs, with_status

SOLVED: Values = {"few steps": [500.0] * 4, "soon": [500.0] * 4, "slow": [490.0] * 4}
STEPS = {"few steps": [20e3, 21e3, 22e3, 20e3], "soon": [30e3, 31e3, 29e3, 30e3], "slow": [60e3, 61e3, 62e3, 60e3]}
SECONDS = {"few steps": [20.0, 21.0, 22.0, 20.0], "soon": [6.0, 6.2, 5.8, 6.0], "slow": [60.0] * 4}


def runs(objective: str, **more: Values) -> pd.DataFrame:
    found = make_runs(SOLVED, env_steps_to_target=STEPS, seconds_to_target=SECONDS, **more)
    return found.assign(objective=objective, price_per_hour=2.0)


@pytest.mark.parametrize(
    ("objective", "chosen"),
    [
        ("score", "few steps"),
        ("env_steps_to_target", "few steps"),
        ("minutes_to_target", "soon"),
        ("cost_to_target", "soon"),
    ],
)
def test_the_objective_decides(objective: str, chosen: str) -> None:
    (decision,) = decide(runs(objective))
    assert decision.chosen == chosen
    if objective != "score":
        assert decision.measure == objective


def test_minutes_count_the_start_and_no_evaluation() -> None:
    found = runs("minutes_to_target").assign(start_s=6.0)
    table = closing_table(Evidence(found)).set_index("config")
    assert table.loc["soon", "minutes_to_target"] == pytest.approx((6 + 6) / 60)
    assert table.loc["soon", "cost_to_target"] == pytest.approx((6 + 6) / 3600 * 2)
    assert table.loc["soon", "minutes_to_target_low"] < 0.2 < table.loc["soon", "minutes_to_target_high"]
    before = closing_table(Evidence(found.drop(columns=["start_s", "price_per_hour"]))).set_index("config")
    assert before.loc["soon", "minutes_to_target"] == pytest.approx(0.1)  # what earlier versions did not record
    assert np.isnan(before.loc["soon", "cost_to_target"])


def test_it_is_told_and_a_column_where_it_decides_and_nowhere_else() -> None:
    by_clock, by_score = (Evidence(runs(objective)) for objective in ("minutes_to_target", "score"))
    (answer,) = answers(by_clock)
    told = "Use `soon`: target in 6.5 s [6.3, 6.7], starting included, by 4 seeds."
    assert answer.headline == f"{told} The 2 others take significantly longer."
    columns = [c.header for c in outcome_table(closing_table(by_clock), True, 300).columns]
    assert "time to target" in columns
    assert "time to target" not in [c.header for c in outcome_table(closing_table(by_score), True, 300).columns]
    assert best_metrics(closing_table(by_clock))["best/minutes_to_target"] == pytest.approx(0.108, abs=1e-3)
    assert not [name for name in best_metrics(closing_table(by_score)) if "minutes" in name or "cost" in name]


def test_who_is_fast_does_not_gain_by_never_reaching_the_target() -> None:
    found = make_runs(
        {"fast, never": [100.0] * 3, "slow, always": [500.0] * 3},
        train_s={"fast, never": [5.0] * 3, "slow, always": [60.0] * 3},
        seconds_to_target={"fast, never": [np.nan] * 3, "slow, always": [30.0, 31.0, 32.0]},
    ).assign(objective="minutes_to_target")
    (decision,) = decide(found)
    assert decision.chosen == "slow, always"


def test_a_configuration_that_crashes_is_not_the_soonest() -> None:
    found = with_status(runs("minutes_to_target"), "soon", [0, 1, 2], "failed")
    (decision,) = decide(found)
    assert decision.chosen == "few steps"


def test_who_fails_less_comes_first_among_those_about_as_soon() -> None:
    found = make_runs(
        {"sure": [500.0] * 4, "lucky": [500.0, 500.0, 500.0, 100.0]},
        seconds_to_target={"sure": [10.0, 12.0, 11.0, 13.0], "lucky": [3.0, 30.0, 3.0, 3.0]},
    ).assign(objective="minutes_to_target")
    (decision,) = decide(found)
    assert (decision.chosen, decision.chosen_by) == ("sure", "reliability")


def test_the_score_within_the_minutes_given_is_the_last_evaluation_by_then() -> None:
    curve, at_s = [(1000.0, 10.0), (2000.0, 20.0), (3000.0, 30.0)], [60.0, 120.0, 180.0]
    name = "final/score_in_minutes"
    assert score_in_time(curve, at_s, 150.0, (200.0, 33.0)) == {name: 20.0}
    assert score_in_time(curve, at_s, 200.0, (200.0, 33.0)) == {name: 33.0}  # it ended by then
    assert score_in_time(curve, at_s, 30.0, (200.0, 33.0)) == {}
    given = {"few steps": [10.0, 12.0, 11.0, 9.0], "soon": [90.0, 92.0, 91.0, 89.0], "slow": [1.0, 2.0, 3.0, 2.0]}
    (decision,) = decide(runs("score_in_minutes", score_in_minutes=given))
    assert (decision.chosen, decision.measure) == ("soon", "score_in_minutes")


def test_nobody_is_recommended_whom_another_beats_in_every_column() -> None:
    """On Acrobot, a grid over learning rate, batch and runners: the cheapest in env steps by next to nothing, which
    takes three times as long.
    """
    scores: Values = {"fast": [-80.0, -82.0, -81.0], "slow": [-83.0, -84.0, -82.0], "bad": [-400.0, -410.0, -405.0]}
    found = make_runs(
        scores,
        env="acrobot",
        target=-100.0,
        score_range=(-500.0, 0.0),
        env_steps_to_target={"fast": [20e3, 30e3, 25e3], "slow": [25.1e3, 25.2e3, 25.0e3]},
        env_steps_per_s={"fast": [8499.0] * 3, "slow": [3978.0] * 3, "bad": [4000.0] * 3},
        seconds_to_target={"fast": [2.4, 2.5, 2.3], "slow": [6.8, 6.9, 6.7]},
    )
    (decision,) = decide(found)
    assert decision.chosen == "fast"
