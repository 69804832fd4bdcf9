"""Which policies of a study become models, and that nothing of it can end a study."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow
import pytest
from mlflow import MlflowClient

from experiments.config.errors import ConfigurationError
from experiments.config.trial_config import TrialConfig
from experiments.contract import FAILED, FINISHED, Tag
from experiments.planning.trials import StudyTrials
from experiments.study import registration
from experiments.study.files.folder import StudyFolder
from experiments.study.outcomes import Outcomes
from experiments.study.registration import Registration
from experiments.tracking.registry import SCORES, PolicyModel
from experiments.tracking.writes import LogModel, MakeChampion
from experiments.trial.events import Ended
from tests.support.recording_writer import RecordingWriter
from tests.support.suite import PlanOf, RunSuite

GRID = (
    "study=smoke",
    "registry.models=recommended",
    "env=cartpole",
    "study.space={algorithm.training.lr:[0.001,0.003]}",
    "seeds=[0,1,2]",
)


def policies(writer: RecordingWriter, kind: type[LogModel | MakeChampion] = LogModel) -> list[PolicyModel]:
    return [write.model for _, write in writer.of(kind)]


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands where checkpoints are read and exported: names of the trials that were."""
    names: list[str] = []

    def export(self: Registration, found: Any, trial: TrialConfig, place: Path) -> None:
        if "broken" in (self.folder.path / "what").read_text():
            raise ConfigurationError("it cannot be traced")
        self._go_on()  # as every step of its evaluation does
        names.append(trial.name)
        place.mkdir(parents=True)
        (place / "MLmodel").touch()

    monkeypatch.setattr(registration.checkpoint, "read", lambda path, named: SimpleNamespace(env_steps=int(path.name)))
    monkeypatch.setattr(Registration, "_export", export)
    return names


def register(
    plan: Any,
    folder: Path,
    recommended: list[str],
    failed: tuple[int, ...] = (),
    what: str = "",
    phase: str = "fixed",
    interrupted: Callable[[], bool] = lambda: False,
) -> tuple[RecordingWriter, Registration]:
    folder.mkdir(exist_ok=True)
    (folder / "what").write_text(what)
    trials, outcomes, put = StudyTrials(plan), Outcomes(), RecordingWriter()
    for number, trial in enumerate(trials.trials):
        object.__setattr__(trial, "phase", phase)
        status = FAILED if number in failed else FINISHED
        outcomes.on_event(trial, ended(number, status))
        for env_steps in (1000, 2000):
            StudyFolder(folder).trial(trial).checkpoint(env_steps).mkdir(parents=True, exist_ok=True)
    done = Registration(trials, outcomes, StudyFolder(folder), put, interrupted)  # type: ignore[arg-type]
    done(recommended)
    return put, done


def ended(number: int, status: str) -> Ended:
    return Ended(status=status, env_steps=2000, metrics={"final/score": 100.0 + number})


def test_by_default_each_seed_of_the_recommended_configuration_becomes_a_version(
    plan_of: PlanOf, tmp_path: Path, exports: list[str]
) -> None:
    plan = plan_of(*GRID)
    label = plan.trials[-1].label
    put, _ = register(plan, tmp_path / "study", [label])
    assert exports == [f"{label} s={seed}" for seed in (0, 1, 2)]
    assert [model.registered for model in policies(put)] == ["ppo-cartpole"] * 3
    assert {model.env_steps for model in policies(put)} == {2000}


def test_what_nothing_confirmed_is_no_champion(plan_of: PlanOf, tmp_path: Path, exports: list[str]) -> None:
    plan = plan_of(*GRID)
    put, _ = register(plan, tmp_path / "study", [plan.trials[0].label])
    assert policies(put, MakeChampion) == []
    assert all(SCORES not in model.tags for model in policies(put))


def test_the_best_confirmed_seed_is_proposed_with_the_scores_of_all(
    plan_of: PlanOf, tmp_path: Path, exports: list[str]
) -> None:
    plan = plan_of(*GRID)
    put, _ = register(plan, tmp_path / "study", [plan.trials[0].label], phase="confirm")
    (model,) = policies(put, MakeChampion)
    same = [(n, t) for n, t in enumerate(plan.trials) if t.label == plan.trials[0].label]
    assert model.trial == same[-1][1].folder_name
    assert json.loads(model.tags[SCORES]) == [100.0 + number for number, _ in same]
    assert isinstance(put.puts[-1][1], MakeChampion)  # once its version is there


def test_trials_that_failed_have_none(plan_of: PlanOf, tmp_path: Path, exports: list[str]) -> None:
    plan = plan_of(*GRID)
    register(plan, tmp_path / "study", [plan.trials[0].label], failed=(0,))
    assert exports == [t.name for t in plan.trials if t.label == plan.trials[0].label][1:]


@pytest.mark.parametrize(("models", "logged", "registered"), [("all", 6, 3), ("checkpoints", 12, 3), ("none", 0, 0)])
def test_more_or_none_are_logged_on_request(
    plan_of: PlanOf, tmp_path: Path, exports: list[str], models: str, logged: int, registered: int
) -> None:
    plan = plan_of(*GRID, f"registry.models={models}")
    put, _ = register(plan, tmp_path / "study", [plan.trials[0].label])
    found = policies(put)
    assert (len(found), sum(model.registered is not None for model in found)) == (logged, registered)
    assert len({(model.trial, model.name) for model in found}) == logged


def test_one_that_cannot_be_exported_is_said_and_left_out(
    plan_of: PlanOf, tmp_path: Path, exports: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    plan = plan_of(*GRID)
    label = plan.trials[0].label
    put, _ = register(plan, tmp_path / "study", [label], what="broken", phase="confirm")
    assert put.puts == []
    assert [r.getMessage() for r in caplog.records] == [
        f"{label} s={seed} is not in MLflow's registry: it cannot be traced" for seed in (0, 1, 2)
    ]


def test_an_export_under_way_ends_when_the_study_is_asked_to_stop(
    plan_of: PlanOf, tmp_path: Path, exports: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    plan = plan_of(*GRID)
    asked = iter([False, False, False])  # once before each policy, once in its evaluation: the second one's
    put, _ = register(plan, tmp_path / "study", [plan.trials[0].label], interrupted=lambda: next(asked, True))
    assert [exports, len(policies(put))] == [[plan.trials[0].name], 1]
    assert caplog.records == []


def test_what_was_exported_is_put_again_by_a_resume_and_not_made_again(
    plan_of: PlanOf, tmp_path: Path, exports: list[str]
) -> None:
    plan = plan_of(*GRID)
    first, _ = register(plan, tmp_path / "study", [plan.trials[0].label])
    again, _ = register(plan, tmp_path / "study", [plan.trials[0].label])
    assert again.puts == first.puts
    assert len(exports) == 3


@pytest.mark.parametrize(("models", "exported"), [("recommended", ["2000"]), ("none", [])])
def test_a_first_export_is_prepared_where_policies_are_wanted(
    plan_of: PlanOf,
    tmp_path: Path,
    exports: list[str],
    monkeypatch: pytest.MonkeyPatch,
    models: str,
    exported: list[str],
) -> None:
    plan, prepared = plan_of(*GRID, f"registry.models={models}"), list[str]()
    monkeypatch.setattr(
        Registration, "_write", lambda self, found, trial, folder, origin: prepared.append(str(found.env_steps))
    )
    _, done = register(plan, tmp_path / "study", [])
    done.prepare(plan.trials[0])
    assert prepared == exported


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.usefixtures("ray_instance")
def test_a_study_leaves_a_confirmed_champion_that_has_the_score_of_its_run(
    suite_here: RunSuite, tmp_path: Path
) -> None:
    confirmed = ("seeds=[0]", "confirmation.always=true", "confirmation.seeds=[10,11]", "study.space={}")
    done = suite_here("study=smoke", "registry.models=recommended", *confirmed, with_ray=True)
    assert done.returncode == 0, done.stderr
    assert "policies    2 versions of models:/ppo-cartpole in MLflow's registry" in done.stdout
    client = MlflowClient(f"sqlite:///{tmp_path / 'out/mlflow.db'}")
    champion = client.get_model_version_by_alias("ppo-cartpole", "champion")
    run = client.get_run(champion.run_id)
    assert run.data.tags[Tag.PHASE] == "confirm"
    policy = mlflow.pyfunc.load_model(champion.source)
    assert (
        float(policy.metadata.metadata["score"])
        == run.data.metrics["final/score"]
        == max(json.loads(champion.tags[SCORES]))
    )
    assert policy.metadata.metadata["run"] == champion.run_id
