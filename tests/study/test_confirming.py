"""What runs when a recommendation is confirmed: its very configurations on fresh seeds. Without Ray."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from experiments.config.command_words import spelled_out
from experiments.config.confirm_settings import ConfirmSettings
from experiments.config.errors import ConfigurationError
from experiments.config.schema import SuiteConfig, TrackingSettings
from experiments.contract import CONFIRM, THROUGHPUT
from experiments.planning.machines import Cluster, Node
from experiments.planning.plan import Plan
from experiments.planning.record import plan_record
from experiments.planning.trials import StudyTrials
from experiments.study.confirming import Confirming
from experiments.study.files.folder import StudyFolder
from experiments.tracking.place import Place
from tests.support.commands import run_here
from tests.support.planning import composed_for
from tests.support.suite import PlanOf

GRID = ("study=smoke", "study.space={algorithm.training.lr:[0.001,0.003,0.01]}", "seeds=[0,1]")
CLUSTER = Cluster((Node(8, 0),))


def said(plan: Plan, folder: StudyFolder, *configs: str) -> dict[str, Any]:
    """What a study would have said of the first of some configurations."""
    value = {"estimate": 400.0, "low": 300.0, "high": None}
    claim = {"config": configs[0], "measure": "score", "value": value, "num_seeds": 2, "num_at_end": 0}
    claims = {"cartpole": {**claim, "beside": list(configs[1:])}}
    return {"study_run": str(folder.path), "seeds": [*plan.seeds, 7], "claims": claims}


def confirming(plan: Plan, out: Path, *configs: str, **asked: Any) -> Confirming:
    """A study that confirms what one with a plan said."""
    folder = StudyFolder(out / "studies" / "earlier")
    folder.create(plan)
    folder.close()
    suite, _ = suite_and_place(out, **asked)
    return Confirming(suite, Place.of(TrackingSettings("sqlite"), out), said(plan, folder, *configs), None, None)


def suite_and_place(out: Path, **asked: Any) -> tuple[SuiteConfig, Place]:
    plan, _ = composed_for("study=smoke", "confirm.study=earlier", *(f"confirm.{k}={v}" for k, v in asked.items()))
    return plan.suite, Place.of(plan.suite.tracking, out)


def test_the_same_configurations_run_on_seeds_that_nobody_has_seen(tmp_path: Path, plan_of: PlanOf) -> None:
    earlier = plan_of(*GRID, cluster=CLUSTER)
    plan = confirming(earlier, tmp_path, "lr=1e-2", "lr=1e-3", num_seeds=3).plan(CLUSTER)
    ids = {c.label: c.config_id for c in earlier.configurations}
    assert [(c.label, c.config_id) for c in plan.configurations] == [(n, ids[n]) for n in ("lr=1e-2", "lr=1e-3")]
    assert plan.seeds == (8, 9, 10)
    assert plan.study == earlier.study
    assert {trial.phase for trial in plan.trials} == {CONFIRM}
    assert not any(trial.exploratory for trial in plan.trials)


@pytest.mark.parametrize(
    "words",
    [
        ("search=optuna", "study.space={algorithm.training.lr:[0.001,0.003,0.01]}", "seeds=[0]"),
        (*GRID, "scheduler=asha", "repeats=1"),
        (*GRID, "max_env_steps=100000", "max_minutes=5"),
        (*GRID, "repeats=2"),
    ],
    ids=["optuna", "asha", "limits", "repeats"],
)
def test_what_chose_the_trials_of_the_earlier_study_is_left_out(
    tmp_path: Path, plan_of: PlanOf, words: tuple[str, ...]
) -> None:
    earlier = plan_of("study=smoke", *words, cluster=CLUSTER)
    label = earlier.configurations[0].label
    plan = confirming(earlier, tmp_path, label).plan(CLUSTER)
    assert [(trial.label, trial.seed, trial.phase) for trial in plan.trials] == [
        (label, seed, CONFIRM) for seed in plan.seeds
    ]
    assert plan.configurations[0].config_id == earlier.configurations[0].config_id


def test_throughput_is_measured_in_more_rounds(tmp_path: Path, plan_of: PlanOf) -> None:
    earlier = plan_of("study=runner_scaling", "study.space={hardware.num_env_runners:[0,1]}", cluster=CLUSTER)
    plan = confirming(earlier, tmp_path, earlier.configurations[0].label).plan(CLUSTER)
    assert plan.is_measured
    assert {trial.phase for trial in plan.trials} == {THROUGHPUT}


def test_what_was_claimed_is_recorded_and_is_there_when_the_study_goes_on(tmp_path: Path, plan_of: PlanOf) -> None:
    source = confirming(plan_of(*GRID, cluster=CLUSTER), tmp_path, "lr=1e-2")
    plan = source.plan(CLUSTER)
    record = json.loads(json.dumps(plan_record(StudyTrials(plan)), allow_nan=False))
    assert record["confirms"]["claims"]["cartpole"]["config"] == "lr=1e-2"
    assert record["phase"] == CONFIRM
    folder = StudyFolder(tmp_path / "studies" / "later")
    folder.create(plan)
    folder.close()
    again = folder.plan(CLUSTER, plan.suite.tracking)
    assert (again.confirms, again.seeds, again.trials) == (plan.confirms, plan.seeds, plan.trials)
    assert "lr_" not in (line := source.lines(plan)[0]) and line.startswith("confirms    what smoke (")
    assert line.endswith("on 5 seeds that it has not seen: 8 to 12")


def test_a_configuration_that_the_folder_lacks_is_refused(tmp_path: Path, plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError, match=r"confirm=earlier: .* does not have the settings of lr=7"):
        confirming(plan_of(*GRID, cluster=CLUSTER), tmp_path, "lr=7").plan(CLUSTER)


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("confirm=0123", "confirm.study=0123"),
        ("confirm={study:0123}", "confirm={study:0123}"),
        ("confirm.with=base", 'confirm.with=["base"]'),
        ("confirm.with=runner_up,lr=3e-3 b=512", 'confirm.with=["runner_up","lr=3e-3 b=512"]'),
        ("confirm.with=hiddens=[64,64],base", 'confirm.with=["hiddens=[64,64]","base"]'),
        ("confirm.with=[a,b]", "confirm.with=[a,b]"),
        ("confirm.num_seeds=3", "confirm.num_seeds=3"),
        ("env=cartpole,acrobot", "env=cartpole,acrobot"),
    ],
)
def test_the_words_are_spelled_out_for_hydra(typed: str, read: str) -> None:
    assert spelled_out([typed]) == [read]


def test_the_settings_are_read_back_as_they_are_saved() -> None:
    suite, _ = suite_and_place(Path("/nowhere"), **{"with": "[base]"})
    assert suite.confirm == ConfirmSettings("earlier", ("base",))
    plan, _ = composed_for("study=smoke", "confirm.study=earlier")
    assert asdict(plan.suite)["confirm"] == {"study": "earlier", "beside": (), "num_seeds": 5}


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["confirm="], "confirm= names no study. Write confirm=<study run id>"),
        (["confirm.with=base"], "no study is given: confirm=<study run id>"),
        (["confirm=a", "seeds=[1]"], "seeds=[1]: a recommendation is confirmed with the settings that it had. Beside"),
        (["confirm=a", "confirm.num_seeds=0"], "confirm.num_seeds"),
        (["confirm=a"], "confirm=a: "),
    ],
)
def test_what_cannot_be_confirmed_is_refused_before_anything_starts(tmp_path: Path, words: list[str], fix: str) -> None:
    done = run_here("experiments/run.py", *words, f"output_dir={tmp_path}")
    assert done.returncode == 2
    assert fix in done.stderr
    assert "Traceback" not in done.stderr
