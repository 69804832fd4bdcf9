"""Trials that are bound by one thing each, measured as a user would:
the diagnosis has to call every one by its name.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import psutil
import pytest
import ray

from analysis.load import load_study
from analysis.questions.bottleneck import STARVED
from analysis.questions.diagnosis import of_study
from analysis.questions.time_use import ENV, INFERENCE, LEARNER, MUCH_OTHER_PERCENT, TRANSFER
from experiments.config.schema import HardwareSettings
from experiments.contract import TIME_PARTS
from experiments.planning.machines import Cluster, Node
from experiments.study.cluster.ray_process import start_ray
from tests.support.planning import plan_for
from tests.support.studies import Study

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(900)]

LOGICAL_CPUS = 16
MOST_STARVING_CPUS = 4
"""Of the machine, for 8 runners to be too many."""

QUICK = ("measurement.warmup_s=0.3", "measurement.seconds=1.5", "measurement.max_seconds=12", "measurement.block_s=0.3")
QUICK += ("measurement.precision=0.2", "measurement.max_other_cpu_percent=400", "seeds=[0]")
ONE_ENV = "algorithm.env_runners.num_envs_per_env_runner=1"
CHEAP = "env.env_config.step_cost_ms=0.001"
MODE, COST, EPOCHS = "env.env_config.mode", "env.env_config.step_cost_ms", "algorithm.training.num_epochs"

STUDIES: Mapping[str, tuple[str, ...]] = {
    # Eight runners: what computes needs as many cores, what waits does not.
    "crowd": ("algorithm.env_runners.num_env_runners=8", ONE_ENV, f"{COST}=3", f"study.space={{{MODE}:[busy,wait]}}"),
    # All in one process. Many small layers are slow for one observation at a time, and fast for a batch of them.
    "alone": (
        "algorithm.env_runners.num_env_runners=0",
        ONE_ENV,
        "algorithm.rl_module.fcnet_hiddens=[32,32,32,32,32,32,32,32]",
        "algorithm.training.minibatch_size=512",
        f"study.space={{{COST}:[0.001,2],{EPOCHS}:[1,100]}}",
    ),
    # Rounds of 16 steps: samples are sent, and weights sent back, more often than there is something to do.
    "rounds": (
        "algorithm.env_runners.num_env_runners=2",
        ONE_ENV,
        CHEAP,
        "algorithm.rl_module.fcnet_hiddens=[16]",
        "algorithm.training.train_batch_size_per_learner=16",
        "algorithm.training.minibatch_size=16",
        f"{EPOCHS}=1",
        "study.space={}",
    ),
}


@dataclass(frozen=True)
class Case:
    """A configuration, what it is bound by, and words of the evidence and of the advice."""

    study: str
    point: Mapping[str, Any]
    bottleneck: str
    evidence: str
    advice: str


CASES = {
    "too many runners": Case(
        "crowd", {MODE: "busy"}, STARVED, "9 processes share", "algorithm.env_runners.num_env_runners="
    ),
    "waiting steps": Case("crowd", {MODE: "wait"}, ENV, "Stepping the environments takes", "env.vectorize_mode=async"),
    "computing steps": Case("alone", {COST: 2, EPOCHS: 1}, ENV, "; a step takes ", "runners"),
    "one observation at a time": Case(
        "alone",
        {COST: 0.001, EPOCHS: 1},
        INFERENCE,
        "Inference with connectors takes",
        "algorithm.env_runners.num_envs_per_env_runner=2.",
    ),
    "many epochs": Case(
        "alone", {COST: 0.001, EPOCHS: 100}, LEARNER, "Learning takes", "algorithm.training.num_epochs"
    ),
    "short rounds": Case(
        "rounds",
        {},
        TRANSFER,
        "Moving samples and weights takes",
        "algorithm.training.train_batch_size_per_learner (with its learning rate)",
    ),
}


@dataclass(frozen=True)
class Measured:
    """A study that ran, and what `analysis` says of it."""

    study: Study
    found: pd.DataFrame
    found_by_shares: pd.DataFrame  # blind to what else ran on the machine
    curves: pd.DataFrame


@pytest.fixture(scope="module")
def wide_ray(no_ray_afterwards: None) -> Iterator[None]:
    """Ray with more logical CPUs than the other tests need."""
    ray.shutdown()
    start_ray(HardwareSettings("test", num_cpus=LOGICAL_CPUS, num_gpus=0))
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def measured(wide_ray: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Measured]:
    """The study of a name, which runs once."""

    @functools.cache
    def measure(name: str) -> Measured:
        settings = ["study=runner_scaling", "env=synthetic", f"hardware.num_cpus={LOGICAL_CPUS}", *QUICK]
        plan = plan_for(*settings, *STUDIES[name], cluster=Cluster((Node(LOGICAL_CPUS, 0),)))
        study = Study(plan, tmp_path_factory.mktemp(name))
        loaded = load_study(tracking_uri=f"sqlite:///{study.out / 'mlflow.db'}")
        own = loaded.curves[~loaded.curves["metric"].str.startswith("system/")]
        return Measured(
            study,
            of_study(loaded.runs, loaded.curves, loaded.facts),
            of_study(loaded.runs, own, loaded.facts),
            loaded.curves,
        )

    return measure


def row_of(table: pd.DataFrame, label: str) -> Mapping[str, Any]:
    (row,) = table[table["config"] == label].to_dict("records")
    return row


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.nightly) if case.study == "crowd" else name for name, case in CASES.items()],
)
def test_what_holds_a_trial_up_is_called_by_its_name(name: str, measured: Callable[[str], Measured]) -> None:
    case = CASES[name]
    if case.bottleneck == STARVED and (psutil.cpu_count() or 1) > MOST_STARVING_CPUS:
        pytest.skip(f"8 runners are not too many for {psutil.cpu_count()} cores")
    of = measured(case.study)
    (label,) = (c.label for c in of.study.plan.configurations if c.point == case.point)
    assert of.study.ended(label).status == "finished"
    found = row_of(of.found, label)
    means = of.curves[of.curves["run_id"] == found["run_id"]].groupby("metric", observed=True)["value"].mean()
    shares = {part: f"{means.get(f'time/{part}_share', 0.0):.2f}" for part in TIME_PARTS}
    system = {
        key: f"{value:.4g}" for key, value in means.items() if key.startswith(("system/", "throughput/env_steps"))
    }
    print(name, label, shares, system, found["bottleneck"], found["evidence"], found["advice"], sep="\n")

    assert of.study.tags(label)["bottleneck"] == found["bottleneck"]
    if case.bottleneck != STARVED:
        assert row_of(of.found_by_shares, label)["bottleneck"] == case.bottleneck
    if found["bottleneck"] == STARVED and means["system/other_cpu_percent"] >= MUCH_OTHER_PERCENT:
        assert "Stop the other programs" in found["advice"]  # a loaded machine: no fault of the trial's
        return
    assert found["bottleneck"] == case.bottleneck
    assert case.evidence in found["evidence"]
    assert case.advice in found["advice"]
