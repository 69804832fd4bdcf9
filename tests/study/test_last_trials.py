"""What a study's end takes is made ready beside its last trials."""

from dataclasses import replace

import pytest

from experiments.contract import FINISHED
from experiments.planning.trials import StudyTrials
from experiments.study.last_trials import Preparation
from experiments.study.outcomes import Outcomes
from experiments.trial.events import Ended
from tests.support.suite import PlanOf

GRID = ("study.space={algorithm.training.lr:[1e-3,1e-4]}", "seeds=[0,1,2]")


def left_when_prepared(plan_of: PlanOf, *overrides: str, each_s: float = 60.0) -> tuple[list[int], Preparation]:
    """How many trials are left each time that something is prepared, where two run side by side
    and each takes `each_s` seconds.
    """
    plan = replace(plan_of(*overrides), concurrency=2)
    trials, outcomes, prepared = StudyTrials(plan), Outcomes(), list[int]()
    end = Ended(status=FINISHED, env_steps=2000, metrics={"final/wall_s": each_s})

    def broken(trial: object) -> None:
        raise OSError

    beside = Preparation(
        trials, outcomes, [broken, lambda trial: prepared.append(len(trials.trials) - outcomes.num_ended)]
    )
    for trial in trials.trials:
        outcomes.on_event(trial, end)
        beside.on_event(trial, end)
        beside.wait()
    return prepared, beside


def test_all_is_prepared_once_when_no_trial_waits_whatever_breaks(plan_of: PlanOf) -> None:
    prepared, _ = left_when_prepared(plan_of, *GRID)
    assert prepared == [2]


def test_it_is_prepared_before_where_the_last_trials_take_seconds(plan_of: PlanOf) -> None:
    prepared, _ = left_when_prepared(plan_of, *GRID, each_s=2.5)
    assert prepared == [4]


@pytest.mark.parametrize("overrides", [("study=vectorization",), (*GRID, "search=racing")])
def test_nothing_is_prepared_beside_a_measurement_or_a_search(plan_of: PlanOf, overrides: tuple[str, ...]) -> None:
    prepared, beside = left_when_prepared(plan_of, *overrides)
    assert prepared == []
    beside.wait()  # for nothing
