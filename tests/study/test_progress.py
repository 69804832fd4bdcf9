import math
from dataclasses import asdict
from typing import Any

import pytest
from rich.console import Console

from analysis.document.answer import closing_table
from analysis.document.conclusions import runs_of
from analysis.document.terminal import outcome_table
from experiments.metrics import FINISHED
from experiments.planning.plan import Plan
from experiments.planning.record import plan_record
from experiments.planning.terminal import duration, plan_table
from experiments.planning.trials import StudyTrials
from experiments.study.outcomes import TrialOutcome
from experiments.study.progress import Progress, failures
from experiments.trial.events import Ended, Reported, Started
from tests.support.suite import PlanOf


def final(score: float, reached: float | None = None) -> dict[str, float]:
    values = {"final/score": score, "final/auc": score / 2, "final/env_steps_per_s": 100.0}
    return values if reached is None else {**values, "final/env_steps_to_target": reached}


def finished(label: str, seed: int, score: float, reached: float | None = None) -> TrialOutcome:
    return TrialOutcome(label, seed, "finished", final(score, reached))


def printed(renderable: Any) -> str:
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(renderable)
    return console.export_text()


def closing(plan: Plan, outcomes: list[TrialOutcome]) -> str:
    return printed(
        outcome_table(closing_table(runs_of(plan_record(StudyTrials(plan)), [asdict(outcome) for outcome in outcomes]), []), exclusive=True)
    )


def test_one_seed_has_no_interval(plan_of: PlanOf) -> None:
    line = next(x for x in closing(plan_of("study=smoke"), [finished("gamma=0.98", 0, 5.0)]).splitlines() if "gamma=0.98" in x)
    assert "5.0" in line
    assert "[" not in line


def test_configurations_come_best_first_and_the_best_is_marked(plan_of: PlanOf) -> None:
    scores = {"gamma=0.98": (9.0, 10.0), "gamma=0.99": (400.0, 401.0)}
    text = closing(
        plan_of("study=smoke"), [finished(label, seed, score) for label, pair in scores.items() for seed, score in enumerate(pair)]
    )
    best, worse = (next(x for x in text.splitlines() if label in x) for label in ("gamma=0.99", "gamma=0.98"))
    assert text.index("gamma=0.99") < text.index("gamma=0.98")
    assert best.startswith("*")
    assert not worse.startswith("*")


def test_seeds_that_never_reach_the_target_count_with_the_budget(plan_of: PlanOf) -> None:
    plan = plan_of("study=smoke")  # a budget of 4096
    text = closing(plan, [finished("gamma=0.98", 0, 500.0, 2048), finished("gamma=0.98", 1, 100.0), finished("gamma=0.99", 0, 1.0)])
    assert ">= 3,072" in text
    assert "1/2" in text
    assert "not in 4,096" in text


def test_failed_seeds_are_named_and_causes_grouped() -> None:
    outcomes = [finished("a", 0, 1.0), *(TrialOutcome("a", s, "failed", failure="ValueError: no") for s in range(1, 101))]
    (line,) = failures(outcomes)
    assert line.startswith("100 failed: ValueError: no")
    assert "a s=1" in line
    assert "97 more" in line


def test_a_configuration_without_a_finished_seed_keeps_its_row(plan_of: PlanOf) -> None:
    text = closing(plan_of("study=smoke"), [finished("gamma=0.98", 0, 1.0), TrialOutcome("gamma=0.99", 0, "failed")])
    assert "0/2" in next(x for x in text.splitlines() if "gamma=0.99" in x)


@pytest.mark.parametrize(("seconds", "text"), [(42.4, "42 s"), (190, "3 min 10 s"), (7500, "2 h 5 min")])
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_plan_shows_what_a_trial_needs(plan_of: PlanOf) -> None:
    plan = plan_of()
    text = printed(plan_table(plan))
    assert all(c.label in text for c in plan.configurations)


def test_progress_without_a_terminal_is_plain_lines(plan_of: PlanOf) -> None:
    plan = plan_of("study=smoke")
    console = Console(width=140, record=True, force_terminal=False)
    with Progress(plan, console) as progress:
        progress._last_line = -math.inf
        trial = plan.trials[0]
        progress.on_event(trial, Started())
        progress.on_event(trial, Reported(env_steps=2048, metrics={"throughput/env_steps_per_s": 10.0, "eval/return_mean": 3.0}))
        progress.on_event(trial, Ended(status=FINISHED, env_steps=4096, metrics=final(7.0)))
    assert "0/4 trials finished, 12% of the env steps" in console.export_text()
    assert "return" in printed(progress._render())
