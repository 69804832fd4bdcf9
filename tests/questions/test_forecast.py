"""What more env steps are expected to bring, and what may overtake the recommended configuration."""

import math

import numpy as np
import pandas as pd
import pytest

from analysis import AnalysisError
from analysis import forecast as command
from analysis.document.answer import answers
from analysis.document.forecast import if_longer, lines_of
from analysis.evidence import Evidence
from analysis.questions.forecast import curves_of, forecast, gain_of
from analysis.report import build
from tests.support.commands import assert_refused
from tests.support.report_pages import Page, study_of
from tests.support.study_frames import BUDGET, Points, make_curves, make_runs, make_search, with_status

GRID = range(BUDGET // 10, BUDGET + 1, BUDGET // 10)
ASYMPTOTES = {"slow": (450.0, 0.8), "level": (430.0, 50.0), "poor": (60.0, 50.0)}
"""Configuration to what it grows to, and how fast."""


def grown(config: str, seed: int) -> Points:
    asymptote, rate = ASYMPTOTES[config]
    rng = np.random.default_rng([seed, *map(ord, config)])
    return [(at, at / 1000, asymptote * (1 - math.exp(-rate * at / BUDGET)) + rng.normal(0, 5)) for at in GRID]


def study(num_seeds: int = 4) -> Evidence:
    """By the budget `level` is above `slow`, which goes on to rise."""
    points = {(config, seed): grown(config, seed) for config in ASYMPTOTES for seed in range(num_seeds)}
    scores = {config: [points[config, seed][-1][2] for seed in range(num_seeds)] for config in ASYMPTOTES}
    runs = make_runs(scores, target=math.nan)
    return Evidence(runs, make_curves(runs, {key: {"eval/return_mean": of} for key, of in points.items()}))


def rising() -> Evidence:
    """The recommended one still rises."""
    evidence = study()
    kept = evidence.runs["config"] != "level"
    return Evidence(evidence.runs[kept].reset_index(drop=True), evidence.curves)


def test_what_still_rises_may_overtake_later_and_what_stays_far_below_may_not() -> None:
    found = forecast(study())
    assert list(found["config"].unique()) == ["level", "slow", "poor"]
    assert list(found["env_steps"][:2]) == [2 * BUDGET, 5 * BUDGET]
    rows = found.set_index("config")
    assert rows["recommended"]["level"].all() and not rows["rises"]["level"].any()
    assert rows["rises"]["slow"].all()
    assert list(rows["may_overtake"]["slow"]) == [False, True]  # it comes to 359, and to 442
    assert not rows["may_overtake"][["level", "poor"]].any()
    gain = gain_of(found[found["config"] == "slow"].iloc[0])
    truth = 450 * (1 - math.exp(-1.6)) - 450 * (1 - math.exp(-0.8))
    assert gain.low < truth < gain.high and gain.estimate > 0.5 * truth


def test_trials_under_way_count_where_none_of_a_configuration_finished_as_far_as_all_have_come() -> None:
    whole = study()
    assert whole.curves is not None
    runs = with_status(whole.runs, "slow", [0, 1, 2, 3], "running")
    runs = with_status(runs, "level", [3], "interrupted")
    cut = (whole.curves["config"] == "slow") & (whole.curves["env_steps"] > BUDGET // 2)
    evidence = Evidence(runs, whole.curves[~cut])
    curves = curves_of(evidence)
    assert curves["slow"].env_steps[-1] == BUDGET // 2
    assert {config: len(curve.returns) for config, curve in curves.items()} == {"slow": 4, "level": 3, "poor": 4}
    found = forecast(evidence).set_index("config")
    assert (found["env_steps_seen"]["slow"] == BUDGET // 2).all()
    assert set(found["env_steps"]["slow"]) == {2 * BUDGET, 5 * BUDGET}


def test_a_single_seed_is_excluded_from_nothing() -> None:
    found = forecast(study(num_seeds=1))
    assert found["expected_low"].isna().all()
    assert found.loc[~found["recommended"], "may_overtake"].all()


def test_too_few_evaluations_are_refused_with_what_to_do() -> None:
    evidence = study()
    assert evidence.curves is not None
    with pytest.raises(AnalysisError, match="3 evaluations or more yet: wait for them, or run the study"):
        forecast(Evidence(evidence.runs, evidence.curves[evidence.curves["env_steps"] < 3 * GRID[0]]))


def test_the_answer_says_what_twice_the_env_steps_bring_only_where_the_return_still_rises() -> None:
    evidence = rising()
    (answer,) = answers(evidence)
    assert answer.decision.chosen == "slow"
    assert answer.longer.startswith("Its return still rises: twice the env steps are expected to bring ")
    assert answer.longer.endswith("] more (90% interval).")
    assert answer.longer in answer.lines()
    assert answers(Evidence(evidence.runs))[0].longer == ""
    assert if_longer(study()) == ""


def test_the_answer_says_nothing_of_two_seeds_of_a_study_under_way_or_where_something_else_decides() -> None:
    two, whole = study(2), rising()
    assert if_longer(Evidence(two.runs[two.runs["config"] == "slow"].reset_index(drop=True), two.curves)) == ""
    assert if_longer(Evidence(with_status(whole.runs, "poor", [0], "running"), whole.curves)) == ""
    assert if_longer(Evidence(whole.runs.assign(objective="minutes_to_target", target=475.0), whole.curves)) == ""


def test_a_report_shows_the_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.report.svg", lambda figure: b"<svg/>")
    evidence = rising()
    page = Page(build(study_of(evidence.runs, evidence.curves)).html)
    assert "Its return still rises: twice the env steps are expected to bring" in page.text.split("All config")[0]


def test_the_lines_name_what_may_overtake_and_count_the_rest() -> None:
    told = lines_of(forecast(study()))
    assert told[0].startswith("recommended level: ")
    assert " at 100,000 env steps, expected " in told[0] and " at 500,000 (4 seeds)" in told[0]
    assert told[1:3] == ["            over the last half of its curve no rise is shown", told[2]]
    assert told[2].startswith("rivals      slow: ")
    assert told[3] == "behind      1 other, up to 500,000 env steps"


def given(monkeypatch: pytest.MonkeyPatch, runs: pd.DataFrame, curves: pd.DataFrame | None = None) -> None:
    monkeypatch.setattr("analysis.forecast.load_study", lambda *_, **__: study_of(runs, curves))


def test_the_command_tells_of_a_study(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    evidence = study()
    given(monkeypatch, evidence.runs, evidence.curves)
    assert command.main(["study=hand"]) == 0
    assert capsys.readouterr().out.startswith("forecast    hand/ppo-cartpole\nrecommended level: ")


def test_the_command_refuses_studies_without_a_return_to_foretell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, make_search({"a": [400.0]}, {}))
    assert_refused(command.main, ["study=hand"], "has confirmed nothing yet", capsys)
    given(monkeypatch, make_runs({"a": [math.nan]}).assign(phase="throughput"))
    assert_refused(command.main, ["study=hand"], "measured throughput", capsys)
    given(monkeypatch, make_runs({"a": [1.0, 2.0]}))
    assert_refused(command.main, ["study=hand"], "3 evaluations or more", capsys)
    assert_refused(command.main, ["studdy=hand"], "Did you mean study=?", capsys)
