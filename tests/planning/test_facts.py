"""What a plan records of its algorithm for the analysis."""

import pytest

from experiments.planning.record import plan_record
from experiments.planning.trials import StudyTrials
from tests.support.suite import PlanOf


@pytest.mark.parametrize(
    ("algorithm", "env", "asynchronous", "replays"),
    [
        ("ppo", "cartpole", False, False),
        ("impala", "cartpole", True, False),
        ("appo", "cartpole", True, False),
        ("dqn", "cartpole", False, True),
        ("sac", "pendulum", False, True),
        ("tqc", "pendulum", False, True),
    ],
)
def test_what_an_algorithm_does_is_told_by_its_class_whatever_its_name(
    plan_of: PlanOf, algorithm: str, env: str, asynchronous: bool, replays: bool
) -> None:
    plan = plan_of("study.space={}", f"algorithm={algorithm}", f"env={env}", "algorithm.name=mine")
    (recorded,) = plan_record(StudyTrials(plan))["configurations"]
    assert recorded["algorithm"] == "mine"
    assert (recorded["facts"]["asynchronous"], recorded["facts"]["replays"]) == (asynchronous, replays)
