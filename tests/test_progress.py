import math
from typing import Any

import pytest
from conftest import PlanOf
from rich.console import Console

from analysis.stats import Interval, mean_interval
from experiments.progress import ProgressCallback, duration, failures, interval, outcome_table, plan_table
from experiments.summary import TrialOutcome, summarise, table


def final(score: float, reached: float | None = None) -> dict[str, float]:
    values = {"final/score": score, "final/auc": score / 2, "final/env_steps_per_s": 100.0}
    return values if reached is None else {**values, "final/env_steps_to_target": reached}


def finished(label: str, seed: int, score: float, reached: float | None = None) -> TrialOutcome:
    return TrialOutcome(label, seed, "finished", final(score, reached))


def printed(renderable: Any) -> str:
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(renderable)
    return console.export_text()


def test_students_interval_by_hand() -> None:
    # 1, 2, 3: mean 2, standard error 1 / sqrt(3), t(0.975, 2) = 4.30265
    assert mean_interval([1, 2, 3]) == Interval(2.0, pytest.approx(2 - 2.48414, abs=1e-5), pytest.approx(2 + 2.48414, abs=1e-5), 3)


def test_one_seed_has_no_interval_and_says_so() -> None:
    assert math.isnan(mean_interval([5.0]).low)
    assert "5.0 [one seed]" in printed(outcome_table(summarise([finished("a", 0, 5.0)]), exclusive=True))


def test_configurations_come_best_first_and_ties_by_area_under_the_curve() -> None:
    slow, fast = finished("slow", 0, 500.0), TrialOutcome("fast", 0, "finished", {**final(500.0), "final/auc": 400.0})
    assert [s.label for s in summarise([finished("bad", 0, 9.0), slow, fast])] == ["fast", "slow", "bad"]


def test_seeds_that_never_reach_the_target_are_counted_not_averaged_away() -> None:
    (summary,) = summarise([finished("a", 0, 500.0, 20_000), finished("a", 1, 100.0)])
    assert summary.env_steps_to_target is None
    assert "1/2 seeds reach it" in printed(outcome_table([summary], exclusive=True))


def test_failed_seeds_are_named_and_causes_grouped() -> None:
    outcomes = [finished("a", 0, 1.0), *(TrialOutcome("a", s, "failed", failure="ValueError: no") for s in range(1, 101))]
    (line,) = failures(outcomes)
    assert line.startswith("100 failed: ValueError: no")
    assert "a s=1" in line
    assert "97 more" in line
    (summary,) = summarise(outcomes)
    assert (summary.finished, summary.seeds) == (1, 101)


def test_the_table_for_mlflow_has_a_cell_for_every_configuration() -> None:
    columns = table(summarise([finished("a", 0, 1.0), TrialOutcome("b", 0, "failed")]))
    assert {len(cells) for cells in columns.values()} == {2}
    assert columns["score"] == [1.0, None]


@pytest.mark.parametrize(("seconds", "text"), [(42.4, "42 s"), (190, "3 min 10 s"), (7500, "2 h 5 min")])
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_intervals_read_well() -> None:
    assert interval(Interval(480.123, 470.0, 490.2, 3), ".1f") == "480.1 [470.0, 490.2]"
    assert interval(None, ".1f") == "-"


def test_the_plan_shows_what_a_trial_needs(plan_of: PlanOf) -> None:
    plan = plan_of()
    text = printed(plan_table(plan))
    assert all(c.label in text for c in plan.configurations)


def test_progress_without_a_terminal_is_plain_lines(plan_of: PlanOf) -> None:
    plan = plan_of("study=smoke")
    console = Console(width=140, record=True, force_terminal=False)
    with ProgressCallback(plan, console) as progress:
        progress._last_line = -math.inf
        trial = type("T", (), {"trial_id": "t", "config": {"trial": plan.trials[0].to_mapping()}, "last_result": final(7.0)})()
        progress.on_trial_start(1, [], trial)
        progress.on_trial_result(1, [], trial, {"report_env_steps": 2048, "throughput/env_steps_per_s": 10.0, "eval/return_mean": 3.0})
        progress.on_trial_complete(2, [], trial)
    assert "0/4 trials finished, 12% of the env steps" in console.export_text()
    assert "return" in printed(progress._render())
