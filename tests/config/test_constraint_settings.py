"""What a recommendation must keep, as a study is given it."""

import pytest

from experiments.config.errors import ConfigurationError
from experiments.planning.record import plan_record
from experiments.planning.terminal import plan_lines
from experiments.planning.trials import StudyTrials
from tests.support.suite import TINY, PlanOf

ALONE = ("hardware.max_concurrent_trials=1", "hardware.price_per_hour=2")


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ((), {}),
        (("constraints={failure_probability:0.2,memory_gib:4}",), {"failure_probability": 0.2, "memory_gib": 4}),
        (("constraints.hours=1", "constraints.cost=2", *ALONE), {"hours": 1, "cost": 2}),
    ],
)
def test_they_are_recorded_where_there_are_any(
    plan_of: PlanOf, words: tuple[str, ...], given: dict[str, float]
) -> None:
    plan = plan_of(*TINY, *words)
    assert dict(plan.suite.constraints.given) == given
    assert plan_record(StudyTrials(plan)).get("constraints", {}) == given
    assert any(line.startswith("constraints") for line in plan_lines(plan)) == bool(given)


def test_they_are_no_part_of_a_configuration(plan_of: PlanOf) -> None:
    plans = plan_of(*TINY), plan_of(*TINY, "constraints.memory_gib=4")
    assert len({plan.configurations[0].config_id for plan in plans}) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("constraints.failure_probability=1",), r"constraints\.failure_probability=1"),
        (("constraints.memory_gib=0",), r"constraints\.memory_gib=0"),
        (("constraints.hours=nan",), r"constraints\.hours=nan"),
        (("+constraints.score=400",), r"constraints\.score: there is no such setting"),
        (("constraints.hours=1",), r"constraints\.hours=1 goes by the clock.* Try hardware\.max_concurrent_trials=1"),
        (("constraints.cost=2", ALONE[0]), r"constraints\.cost=2: hardware=auto has no price\. Try hardware\.price"),
    ],
)
def test_what_no_study_can_tell_is_refused(plan_of: PlanOf, words: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        plan_of(*TINY, *words)


def test_a_study_of_throughput_has_none(plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError, match=r"constraints\.memory_gib=4: a study of throughput .* Leave it out"):
        plan_of("study=runner_scaling", "constraints.memory_gib=4")
