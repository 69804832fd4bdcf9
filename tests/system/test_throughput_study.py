import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.rllib.algorithms import algorithm
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from analysis.document.answer import answers, closing_table
from analysis.document.caveats import caveats
from analysis.evidence import Evidence
from analysis.load import load_study
from analysis.report import build
from experiments.config.errors import ConfigurationError
from experiments.config.schema import HardwareSettings
from experiments.planning.machines import Cluster, Node
from experiments.rllib import runner_pool
from experiments.study.cluster.ray_process import start_ray
from experiments.trial.measured_trial import MeasuredTrial
from experiments.trial.tune_keys import MEASURE_SYSTEM
from tests.support.planning import plan_for
from tests.support.studies import Study
from tests.support.suite import PlanOf
from tests.support.trials import FAILURE, step, with_folder

QUICK = (
    "measurement.warmup_s=0.1",
    "measurement.seconds=0.6",
    "measurement.max_seconds=60",
    "measurement.block_s=0.15",
)
QUICK += ("measurement.precision=0.5", "measurement.max_other_cpu_percent=400")
SPACE = "study.space={algorithm.env_runners.num_env_runners:[1,2],algorithm.env_runners.num_envs_per_env_runner:[2,8]}"
SMALL = (
    "algorithm.training.train_batch_size_per_learner=256",
    "algorithm.training.minibatch_size=128",
    "algorithm.training.num_epochs=1",
)


def test_configurations_are_measured_once_in_each_round_in_an_order_drawn_anew(plan_of: PlanOf) -> None:
    plan = plan_of("study=runner_scaling", cluster=Cluster((Node(16, 0),)))
    orders = [[t.label for t in plan.trials if t.seed == seed] for seed in plan.seeds]
    assert all(sorted(order) == sorted(c.label for c in plan.configurations) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert [t.seed for t in plan.trials] == sorted(t.seed for t in plan.trials)
    assert [t.label for t in plan.trials] == [
        t.label for t in plan_of("study=runner_scaling", cluster=Cluster((Node(16, 0),))).trials
    ]


def test_throughput_is_measured_one_trial_at_a_time(plan_of: PlanOf) -> None:
    plan = plan_of("study=runner_scaling", cluster=Cluster((Node(64, 0),)))
    assert plan.concurrency == 1
    assert plan.exclusive
    assert plan.common_request is not None
    # every trial takes what the largest needs, so that one process can serve them all
    assert len(plan.common_request.bundles) == 9
    with pytest.raises(
        ConfigurationError, match=r"max_concurrent_trials=2: throughput is measured one trial at a time"
    ):
        plan_of("study=runner_scaling", "hardware.max_concurrent_trials=2", cluster=Cluster((Node(64, 0),)))


def test_more_runners_than_the_cluster_holds_are_refused_with_the_largest_number_that_fits(plan_of: PlanOf) -> None:
    with pytest.raises(
        ConfigurationError, match=r"needs 9 CPUs.*The largest number of env runners that fits is 4: num_env_runners=4"
    ):
        plan_of("study=runner_scaling", cluster=Cluster((Node(5, 0),)))


def test_a_way_to_vectorise_that_the_environment_does_not_have_is_left_out_and_named(plan_of: PlanOf) -> None:
    plan = plan_of("study=vectorization", "env=acrobot", cluster=Cluster((Node(4, 0),)))
    assert {c.point["env.vectorize_mode"] for c in plan.configurations} == {"sync", "async"}
    assert plan.left_out == ("env.vectorize_mode=vector_entry_point, which acrobot does not have",)
    everything = plan_of("study=vectorization", "env=cartpole", cluster=Cluster((Node(4, 0),)))
    assert not everything.left_out
    assert len(everything.configurations) == 6
    with pytest.raises(
        ConfigurationError, match=r"brings no vector implementation of its own. Try env.vectorize_mode=sync"
    ):
        plan_of("env=acrobot", "study.space={env.vectorize_mode:[vector_entry_point]}")


def test_runners_are_scaled_from_the_layout_that_auto_takes_but_for_algorithms_that_need_one(plan_of: PlanOf) -> None:
    machine = Cluster((Node(16, 0),))
    plan = plan_of("study=runner_scaling", cluster=machine)
    assert {c.layout.num_env_runners for c in plan.configurations} == {0, 1, 2, 4, 8}
    assert plan.common_request is not None
    assert len(plan.common_request.bundles) == 9  # one process serves them all
    impala = plan_of("study=runner_scaling", "algorithm=impala", cluster=machine)
    assert {c.layout.num_env_runners for c in impala.configurations} == {1, 2, 4, 8}
    assert impala.left_out == (
        "algorithm.env_runners.num_env_runners=0, since impala samples while it learns and needs a runner actor",
    )
    with pytest.raises(ConfigurationError, match="needs a runner actor"):
        plan_of("algorithm=impala", "study.space={algorithm.env_runners.num_env_runners:[0]}", cluster=machine)


def test_a_profile_says_how_to_vectorise_where_the_environment_can(plan_of: PlanOf) -> None:
    def mode(*overrides: str) -> set[str]:
        plan = plan_of("study.space={algorithm.training.gamma:[0.9]}", *overrides)
        return {c.suite.env.vectorize_mode for c in plan.configurations}

    assert mode("hardware.vectorize_mode=async") == {"async"}
    assert mode("hardware.vectorize_mode=vector_entry_point", "env=acrobot") == {"sync"}
    space = "study.space={env.vectorize_mode:[sync,vector_entry_point]}"
    assert {c.suite.env.vectorize_mode for c in plan_of(space, "hardware.vectorize_mode=async").configurations} == {
        "sync",
        "vector_entry_point",
    }


def test_a_measurement_is_part_of_a_configuration(plan_of: PlanOf) -> None:
    ids = [
        plan_of("study=runner_scaling", *changes, cluster=Cluster((Node(16, 0),))).configurations[0].trial(0).config_id
        for changes in ((), ("measurement.seconds=4",))
    ]
    assert ids[0] != ids[1]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, no_ray_afterwards: None) -> Study:
    if not ray.is_initialized():
        start_ray(HardwareSettings("test", num_cpus=4, num_gpus=0))
    plan = plan_for("study=runner_scaling", SPACE, "seeds=[0]", *QUICK, *SMALL, cluster=Cluster((Node(4, 0),)))
    return Study(plan, tmp_path_factory.mktemp("measured"))


def at_the_end(study: Study) -> Evidence:
    return study.outcome.conclusions.evidence


@pytest.mark.ray
@pytest.mark.slow
class TestAStudyThatRan:
    def test_every_trial_has_a_throughput_and_no_score(self, measured: Study) -> None:
        assert [o.status for o in measured.outcome.outcomes] == ["finished"] * 4
        runs = at_the_end(measured).runs
        assert (runs["env_steps_per_s"] > 0).all()
        assert (runs["trained_steps_per_s"] > 0).all()
        assert runs["score"].isna().all()
        label = measured.plan.configurations[0].label
        names = set(measured.curve(label))
        assert not {name for name in names if name.startswith("eval/")}
        assert {
            "throughput/env_steps_per_s",
            "time/env_step_share",
            "system/other_cpu_percent",
            "final/disturbed_share",
        } <= names

    def test_runs_say_what_they_are_and_what_held_them_up(self, measured: Study) -> None:
        tags = measured.tags(measured.plan.configurations[0].label)
        assert (tags["phase"], tags["exclusive"]) == ("throughput", "true")
        assert tags["bottleneck"] in {
            "env-bound",
            "inference-bound",
            "transfer-bound",
            "learner-bound",
            "starved",
            "balanced",
        }
        assert tags["health"]

    def test_the_parts_of_the_wall_clock_add_up(self, measured: Study) -> None:
        curve = measured.curve(measured.plan.configurations[-1].label)
        shares = [dict(points) for name, points in curve.items() if name.startswith("time/")]
        steps = sorted(shares[0])
        assert len(steps) >= 4
        for at in steps:
            assert sum(of[at] for of in shares) == pytest.approx(1)
        unexplained = [dict(curve["time/unexplained_share"])[at] for at in steps]
        assert np.mean(unexplained) < 0.5

    def test_the_answer_is_the_fastest(self, measured: Study) -> None:
        (answer,) = answers(at_the_end(measured))
        assert answer.decision.measure == "env_steps_per_s"
        assert " env steps/s. With a single measurement each, no difference is shown." in answer.headline
        assert answer.because == "Env steps/s are a geometric mean of 1 seed."
        table = closing_table(at_the_end(measured))
        assert table["chosen"].sum() == 1
        assert not any("finite score" in c for c in caveats(at_the_end(measured)))

    def test_the_report_has_the_throughput_and_where_the_time_went(self, measured: Study, tmp_path: Path) -> None:
        study = load_study(tracking_uri=f"sqlite:///{measured.out / 'mlflow.db'}")
        assert (study.runs["phase"] == "throughput").all()
        assert set(study.facts) == {c.label for c in measured.plan.configurations}
        report = build(study)
        assert "How it scales" in report.html
        assert "a fit needs 3 counts or more; the study has 1, 2" in report.html
        assert "Where the time goes" in report.html
        assert {"heatmap-throughput.svg", "throughput.svg", "time.svg"} <= set(report.pictures)
        assert "env steps to target" not in report.html


@pytest.fixture
def own_pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Measured trials in the test's own process leave no runners behind, and RLlib as it was."""
    monkeypatch.setattr(algorithm, "EnvRunnerGroup", EnvRunnerGroup)
    yield
    runner_pool.clear()


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.alone  # where others take the machine, a short measurement may end before the learner's first update
@pytest.mark.usefixtures("ray_instance", "own_pool")
def test_trials_take_over_each_others_runners_and_are_measured_whatever_the_algorithm(
    plan_of: PlanOf, tmp_path: Path
) -> None:
    def settings(number: int, *overrides: str) -> dict[str, Any]:
        given = ("+measurement=throughput", "study.space={}", "seeds=[0]", *QUICK, *overrides)
        (trial,) = plan_of(*given, cluster=Cluster((Node(4, 0),))).trials
        return {**with_folder(trial, tmp_path / str(number)), MEASURE_SYSTEM: True}

    def measure(trial: MeasuredTrial) -> tuple[list[dict[str, Any]], set[int]]:
        pids: set[int] = set()
        results = []
        while True:
            result = step(trial)
            results.append(result)
            assert not result.get(FAILURE), result[FAILURE]
            group = trial._training.algorithm.env_runner_group
            pids |= set(group.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False))
            envs = set(group.foreach_env_runner(lambda runner: runner.env.num_envs, local_env_runner=False))
            assert envs == {trial._training.algorithm.config.num_envs_per_env_runner}
            if result["done"]:
                return results, pids

    runners = "algorithm.env_runners.num_env_runners"
    trial = MeasuredTrial(settings(0, f"{runners}=2", "algorithm.env_runners.num_envs_per_env_runner=2", *SMALL))
    try:
        first, pids = measure(trial)
        # for some updates of a learner that tells of them when it is asked
        longer = ("measurement.seconds=3", "measurement.block_s=0.5")
        trial.reset_config(
            settings(1, "algorithm=impala", f"{runners}=1", "algorithm.env_runners.num_envs_per_env_runner=4", *longer)
        )
        second, fewer = measure(trial)
    finally:
        trial.cleanup()
    assert len(pids) == 2
    assert len(fewer) == 1
    assert fewer <= pids
    assert all(results[-1]["final/env_steps_per_s"] > 0 for results in (first, second))
    # The learner tells of its updates when some are done: not every short block has any.
    assert any(result.get("learner/staleness_updates", -1) >= 0 for result in second)
    assert max(result["time/learn_share"] for result in second) > 0
