"""The plan of a study that looks for learning settings and a layout together."""

import re

import pytest

from experiments.config.errors import ConfigurationError
from experiments.contract import CONFIRM, THROUGHPUT
from experiments.limits.cpus import usable_cpus
from experiments.planning.machines import Cluster, Node
from experiments.planning.terminal import plan_lines
from experiments.planning.trials import StudyTrials
from experiments.search.strategy import Ask
from tests.support.suite import PlanOf

DECLARED = Cluster((Node(4, 0),))
"""CPUs, on whatever machine."""
SMALL = (
    "study=joint",
    "study.space={learning_rate:{distribution:multiples,factors:[0.3,1]},"
    "algorithm.env_runners.num_env_runners:[0,2,40],algorithm.env_runners.num_envs_per_env_runner:[4,16]}",
)


def test_a_joint_search_learns_in_the_simplest_layout_and_leaves_out_what_does_not_fit(plan_of: PlanOf) -> None:
    plan = plan_of(*SMALL, cluster=DECLARED)
    assert {c.layout.num_env_runners for c in plan.configurations} == {0, 2}
    assert plan.left_out == (f"40 runners, which need 41 CPUs: {plan.cluster}",)
    said = next(line for line in plan_lines(plan) if line.startswith("trials"))
    assert "4 layouts measured alone in 2 rounds, at most 70 trials that learn, then the 3 soonest and the base" in said
    assert plan.concurrency == min(4, usable_cpus().usable)  # by CPUs that there are, not those that are declared
    assert plan.env_steps_in_all() == (70 + 4 * 5) * plan.suite.budget_env_steps


def test_trials_that_wait_may_learn_beside_more_than_there_are_cpus_for(plan_of: PlanOf) -> None:
    assert plan_of(*SMALL, "hardware.max_concurrent_trials=3", cluster=DECLARED).concurrency == 3


@pytest.mark.parametrize("algorithm", ["dqn", "sac", "appo", "impala"])
def test_it_is_planned_for_other_algorithms(algorithm: str, plan_of: PlanOf) -> None:
    env = "env=pendulum" if algorithm == "sac" else "env=cartpole"
    plan = plan_of("study=joint", f"algorithm={algorithm}", env, cluster=DECLARED)
    fewest = min(c.layout.num_env_runners for c in plan.configurations)
    assert fewest == int(algorithm in ("appo", "impala"))
    assert len({c.layout for c in plan.configurations}) > 2
    assert len(plan.left_out) <= 7


def test_the_base_of_a_search_is_the_point_of_its_space_that_says_the_same(plan_of: PlanOf) -> None:
    search = plan_of(*SMALL, cluster=DECLARED).search
    assert search is not None
    assert search.base_label == "lr=3e-3 runners=0 envs=16"


def test_a_measurement_of_a_joint_search_is_a_configuration_of_its_own(plan_of: PlanOf) -> None:
    plan = plan_of(*SMALL, "hardware.max_concurrent_trials=2", cluster=DECLARED)
    trials = StudyTrials(plan)
    point = plan.configurations[0].point
    alone, learns = trials.take(Ask(point, 0, THROUGHPUT, alone=True)), trials.take(Ask(point, 0))
    assert (alone.label, alone.phase) == (f"{learns.label}, speed", THROUGHPUT)
    assert alone.measurement is not None and learns.measurement is None
    assert alone.config_id != learns.config_id
    assert alone.exploratory and learns.exploratory and not trials.take(Ask(point, 1000, CONFIRM)).exploratory
    assert (plan.runs_alone(alone), plan.runs_alone(learns)) == (True, False)
    assert trials.request_of(alone) == plan.common_request != trials.request_of(learns)


WRONG = {
    ("objective=score",): "Try objective=minutes_to_target, or search=racing",
    ("scheduler=asha",): "Try scheduler=fifo",
    ("env=pendulum", "env.target=null"): "env=pendulum has no target to reach. Set one with env.target=",
    ("study.space={algorithm.training.lr:[1e-3,3e-3]}",): "study.space has no layout. Try study=joint",
    ("study.space={algorithm.env_runners.num_env_runners:[0,1]}",): "study.space has no setting of learning",
    (
        "study.space={algorithm.training.grad_clip_by:[norm,value],algorithm.env_runners.num_env_runners:[0,1]}",
    ): "algorithm.training.grad_clip_by with search=joint has to be a list of positive numbers",
    ("study.space={env:[cartpole,acrobot],algorithm.env_runners.num_env_runners:[0,1]}",): (
        "study.space: env with search=joint, which is of one algorithm on one environment"
    ),
    ("search.rounds=0",): "search.rounds=0",
    ("repeats=2",): "Try repeats=1",
}


@pytest.mark.parametrize("overrides", WRONG, ids=" ".join)
def test_what_cannot_be_searched_together_is_refused_with_the_fix(overrides: tuple[str, ...], plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(WRONG[overrides])):
        plan_of("study=joint", *overrides)
