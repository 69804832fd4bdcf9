"""What of a plan need not run, and what that saves."""

import pytest

from experiments.planning.estimate import study_duration
from experiments.planning.known import Known, known_line, may_be_known
from experiments.planning.terminal import time_line
from tests.support.suite import PlanOf

GRID = ("study=smoke", "study.space={algorithm.training.lr:[1e-3,3e-3]}", "seeds=[0,1]")


def test_what_is_known_takes_no_time_and_the_rest_as_long_as_it_did(plan_of: PlanOf) -> None:
    plan = plan_of(*GRID, "budget_env_steps=4096000", "report_every_env_steps=40960")
    whole, half, nothing = (
        study_duration(plan, lambda *_: [1e-4], Known(plan.trials[:number]).unused_by(plan)).duration.seconds
        for number in (0, 2, 4)
    )
    assert whole - half == pytest.approx(half - nothing)
    assert whole - half > 100
    assert nothing < 60  # what starts and ends a study
    assert time_line(plan, lambda *_: [1e-4], Known(plan.trials)) != time_line(plan, lambda *_: [1e-4])


def test_of_a_search_nobody_knows_what_it_will_ask_for(plan_of: PlanOf) -> None:
    plan = plan_of(*GRID, "search=racing", "search.max_seeds=3", "confirmation.seeds=[70,71]")
    asked = may_be_known(plan)
    assert {trial.seed for trial in asked} == {0, 1, 2, 70, 71}
    known = Known(asked[:3], 60.0)
    assert known.unused_by(plan) == 0
    assert known_line(plan, known) == (
        "known       3 trials that the search may ask for, taken from other studies in this store and not run again: "
        "up to 12,288 env steps and about 30 s less"
    )
    assert known_line(plan, Known()) == (
        "known       none of the trials that the search may ask for: no other study in this store has run one of them "
        "whole"
    )


def test_differences_are_named_but_not_all_of_them(plan_of: PlanOf) -> None:
    plan = plan_of(*GRID)
    changes = ["Python 3.11 -> 3.12", "CPU EPYC -> Xeon", "rich 13 -> 14", "scipy 1 -> 2"]
    said = known_line(plan, Known(plan.trials[:1], 60.0, 2, changes))
    assert said.startswith("known       1 of 4 trials, taken from")
    assert said.endswith("again: 2 trials (Python 3.11 -> 3.12, CPU EPYC -> Xeon, rich 13 -> 14 and 1 more)")
