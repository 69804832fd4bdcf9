"""The plan of a study that looks for learning settings and a layout together."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from ray.rllib.algorithms.impala import IMPALAConfig

from experiments.config.errors import ConfigurationError
from experiments.contract import CONFIRM, THROUGHPUT
from experiments.contract.words import mib
from experiments.limits.cpus import usable_cpus
from experiments.planning.machines import Cluster, Node
from experiments.planning.terminal import plan_lines
from experiments.planning.trials import StudyTrials
from experiments.rllib.building import build_algorithm_config
from experiments.search.strategy import Ask
from experiments.study.files.folder import StudyFolder
from tests.support.algorithms import class_of, env_of
from tests.support.suite import ALGORITHMS, PlanOf

DECLARED = Cluster((Node(4, 0),))
"""CPUs, on whatever machine."""
SMALL = (
    "study=joint",
    "study.space={learning_rate:{distribution:multiples,factors:[0.3,1]},"
    "algorithm.env_runners.num_env_runners:[0,2,40],algorithm.env_runners.num_envs_per_env_runner:[4,16]}",
)
ASYNCHRONOUS = (
    "study=joint",
    "env=cartpole",
    "study.space={learning_rate:{distribution:multiples,factors:[0.3,1]},"
    "algorithm.env_runners.num_env_runners:[1,2],algorithm.env_runners.num_envs_per_env_runner:[1,4]}",
)


def test_a_joint_search_learns_in_the_simplest_layout_and_leaves_out_what_does_not_fit(plan_of: PlanOf) -> None:
    plan = plan_of(*SMALL, cluster=DECLARED)
    assert {c.layout.num_env_runners for c in plan.configurations} == {0, 2}
    assert plan.left_out == (f"40 runners, which need 41 CPUs: {plan.cluster}",)
    said = next(line for line in plan_lines(plan) if line.startswith("trials"))
    assert "4 layouts measured alone in 2 rounds, 20 to 70 trials that learn, then the 3 soonest and the base" in said
    assert plan.concurrency == min(4, usable_cpus().usable)  # by CPUs that there are, not those that are declared
    assert plan.env_steps_in_all() == (70 + 4 * 5) * plan.suite.budget_env_steps
    assert plan.search is not None and plan.search.least_learning == (20, 5)
    alone, small = (
        max(sum(c.predicted_bytes) for c in plan.configurations if c.layout.num_env_runners == n) for n in (2, 0)
    )
    at_once = mib(max(alone, plan.concurrency * small))  # the largest run alone
    assert any(line.startswith("memory") and line.endswith(f"up to {at_once} at once") for line in plan_lines(plan))
    # of 8 configurations with 5 seeds
    assert any("62% to 225%, at full budgets, of the grid at these 5 seeds (8 " in line for line in plan_lines(plan))


def test_layouts_that_do_not_fit_are_told_of_together(plan_of: PlanOf) -> None:
    plan = plan_of("study=joint", cluster=DECLARED)
    assert plan.left_out == (f"4, 8, 16, 32, 64 runners, of which 4 need 5 CPUs: {plan.cluster}",)


def test_layouts_whose_memory_is_not_there_are_left_out(plan_of: PlanOf) -> None:
    everything = plan_of(*SMALL, cluster=DECLARED)
    sizes = {c.layout.num_env_runners: sum(c.predicted_bytes) for c in everything.configurations}
    (node,) = DECLARED.nodes
    small = replace(DECLARED, nodes=(replace(node, memory=(sizes[0] + sizes[2]) // 2),))
    plan = plan_of(*SMALL, cluster=small)
    assert {c.layout.num_env_runners for c in plan.configurations} == {0}
    assert plan.left_out[-1] == f"runners x envs 2 x 4, 2 x 16, whose memory is not there: {plan.cluster}"
    with pytest.raises(ConfigurationError, match="is predicted to take"):
        plan_of(*SMALL, cluster=replace(DECLARED, nodes=(replace(node, memory=sizes[0] // 2),)))


def test_trials_that_wait_may_learn_beside_more_than_there_are_cpus_for(plan_of: PlanOf) -> None:
    assert plan_of(*SMALL, "hardware.max_concurrent_trials=3", cluster=DECLARED).concurrency == 3


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_it_is_planned_for_every_algorithm(algorithm: str, plan_of: PlanOf) -> None:
    plan = plan_of("study=joint", f"algorithm={algorithm}", f"env={env_of(algorithm)}", cluster=DECLARED)
    fewest = min(c.layout.num_env_runners for c in plan.configurations)
    assert fewest == int(issubclass(class_of(algorithm), IMPALAConfig))
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


@pytest.mark.parametrize(("algorithm", "most"), [("impala", 80), ("appo", 80), ("ppo", 70)])
def test_the_plan_counts_trials_whose_samples_are_made_older(algorithm: str, most: int, plan_of: PlanOf) -> None:
    plan = plan_of(*ASYNCHRONOUS, f"algorithm={algorithm}", cluster=DECLARED)
    said = next(line for line in plan_lines(plan) if line.startswith("trials"))
    assert f"20 to {most} trials that learn" in said


def test_samples_of_rllibs_own_classes_cannot_be_made_older(plan_of: PlanOf) -> None:
    theirs = "algorithm.config_class=ray.rllib.algorithms.impala.IMPALAConfig"
    plan = plan_of(*ASYNCHRONOUS, "algorithm=impala", theirs, cluster=DECLARED)
    assert "20 to 70 trials that learn" in next(line for line in plan_lines(plan) if line.startswith("trials"))


def test_trials_whose_samples_are_made_older_are_a_configuration_of_their_own_also_after_a_resume(
    plan_of: PlanOf, tmp_path: Path
) -> None:
    plan = plan_of(*ASYNCHRONOUS, "algorithm=impala", cluster=DECLARED)
    point = plan.configurations[0].point
    asks = [Ask(point, 0), Ask(point, 0, note={"staleness": 3}), Ask(point, 1), Ask(point, 0, THROUGHPUT, alone=True)]
    trials = StudyTrials(plan)
    learns, older, again, alone = map(trials.take, asks)
    assert older.label == f"{learns.label} staleness=3"
    assert (build_algorithm_config(learns).staleness, build_algorithm_config(older).staleness) == (0, 3)
    assert len({learns.config_id, older.config_id, alone.config_id}) == 3
    assert again.config_id == learns.config_id
    folder = StudyFolder(tmp_path / "study")
    folder.create(plan)
    folder.keep_configurations(trials)
    folder.close()
    resumed = StudyTrials(folder.plan(plan.cluster, plan.suite.tracking))
    assert [resumed.take(ask) for ask in asks] == trials.trials
    assert resumed.plan.axes == plan.axes


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
