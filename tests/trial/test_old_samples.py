"""Samples that wait before they are learned from, in a trial."""

import pytest

from tests.support.suite import TINY, PlanOf
from tests.support.trials import Make, run

SMALL = (
    *TINY,
    "algorithm=ppo_ewma",
    "seeds=[0]",
    "study.space={}",
    "algorithm.training.minibatch_size=32",
    "report_every_env_steps=512",
)


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_samples_are_learned_from_as_many_iterations_later_by_a_policy_that_is_as_many_updates_ahead(
    plan_of: PlanOf, make: Make
) -> None:
    reports = run(make(plan_of(*SMALL, "algorithm.training.staleness=2", "budget_env_steps=2560").trials[0]))
    assert [r["progress/updates"] > 0 for r in reports] == [False, False, True, True, True]
    # Sampled before the first update, all of the first three.
    assert [r.get("learner/staleness_updates") for r in reports] == [None, None, 1, 2, 3]
