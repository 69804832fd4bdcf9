"""Policies as models of MLflow's, which are used without Ray."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest

from experiments.contract import Tag
from experiments.contract.sqlite_address import sqlite_uri
from experiments.policies.export import Exported, export_policy
from experiments.policies.mlflow_model import REQUIREMENTS, save_model
from experiments.tracking.registry import CHAMPION, SCORES, TASK, PolicyModel, significantly_better, supersedes
from experiments.tracking.store import Store, StoreError
from experiments.tracking.writer import Writer
from experiments.tracking.writes import LogModel, LogParams, LogReport
from tests.support.exported import LSTM, SMALL, policy_of
from tests.support.mlflow_server import Server
from tests.support.names import ODD
from tests.support.planning import plan_for
from tests.support.suite import ROOT
from tests.support.written_studies import eventually

NAME = "ppo-cartpole"
BLOCKER = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("ray", "torch", "experiments", "analysis"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocker())
"""


@dataclass
class Registry:
    """A store with a study's run, whose trials are logged as their policies are."""

    store: Store
    uri: str
    study_run: str
    folder: Path
    score: float

    def model(self, trial: str, scores: Sequence[float] = (), task: str = "CartPole") -> PolicyModel:
        confirmed = {SCORES: json.dumps(list(scores))} if scores else {}
        return PolicyModel(
            trial,
            "policy",
            self.folder,
            4096,
            NAME,
            {TASK: task, Tag.SEED: "0", **confirmed},
            f"{trial}, trained for 4,096 env steps",
        )

    def log(self, model: PolicyModel) -> str:
        """The id of the trial's run."""
        run = self.store.create_run(
            "single/ppo-cartpole", model.trial, 0, {Tag.STUDY_RUN: self.study_run, Tag.TRIAL_ID: model.trial}
        )
        report = LogReport({"final/score": self.score, "eval/return_mean": 1.0}, 4096, 7)
        self.store.log_rows(run, LogParams({"lr": 0.1}), report)
        self.store.finish(run, "FINISHED", 9)
        self.store.log_model(self.study_run, "single/ppo-cartpole", model)
        return run

    def champion(self, model: PolicyModel) -> str:
        """The trial of the champion, once a model was proposed."""
        self.store.make_champion(self.study_run, "single/ppo-cartpole", model)
        version = self.store._client.get_model_version_by_alias(NAME, CHAMPION)
        return str(self.store._client.get_run(version.run_id).info.run_name)


@dataclass
class Made:
    """What takes seconds to make: a policy, its model, and MLflow's tables."""

    exported: Exported
    model: Path
    database: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("policy") / ODD
    folder.mkdir()
    exported = export_policy(policy_of(plan_for(*SMALL, "env=cartpole").trials[0]), folder / "policy.onnx")
    save_model(exported, folder / "model")
    Store(sqlite_uri(folder / "new.db"), folder, 5.0)
    return Made(exported, folder / "model", folder / "new.db")


@pytest.fixture
def registry(made: Made, tmp_path: Path) -> Registry:
    shutil.copy(made.database, tmp_path / "mlflow.db")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    store = Store(uri, tmp_path / "mlartifacts", 5.0)
    study_run = store.create_run("studies", "study", 0, {})
    return Registry(store, uri, study_run, made.model, float(made.exported.metadata["score"]))


def ten_lines(uri: str) -> str:
    """The code of docs/export.md, on another store."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/export.md").read_text(), re.DOTALL)
    assert "sqlite:////absolute/path/outputs/mlflow.db" in code
    return str(code).replace("sqlite:////absolute/path/outputs/mlflow.db", uri)


def run_lines(python: str, code: str, folder: Path) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-c", code], cwd=folder, capture_output=True, text=True, timeout=280, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_the_ten_lines_reach_the_score_without_ray(registry: Registry, tmp_path: Path) -> None:
    model = registry.model("trial", [1.0, 2.0])
    registry.log(model)
    assert registry.champion(model) == "trial"
    reached, logged = map(float, run_lines(sys.executable, BLOCKER + ten_lines(registry.uri), tmp_path))
    assert reached == logged == registry.score


@pytest.mark.nightly
def test_the_ten_lines_reach_the_score_from_a_server(made: Made, tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        store = Store(server.uri, tmp_path / "mlartifacts", 60.0)
        registry = Registry(
            store,
            server.uri,
            store.create_run("studies", "study", 0, {}),
            made.model,
            float(made.exported.metadata["score"]),
        )
        model = registry.model("trial", [1.0, 2.0])
        registry.log(model)
        store.log_model(registry.study_run, "single/ppo-cartpole", model)  # its answer was lost
        assert registry.champion(model) == "trial"
        assert len(store._client.search_model_versions(f"name = '{NAME}'")) == 1
        reached, logged = map(float, run_lines(sys.executable, BLOCKER + ten_lines(server.uri), tmp_path))
        assert reached == logged == registry.score
    finally:
        server.kill()


def test_a_model_is_logged_once_however_often_it_is_tried_and_linked_to_its_run(registry: Registry) -> None:
    model = registry.model("trial")
    run = registry.log(model)
    registry.store.log_model(registry.study_run, "single/ppo-cartpole", model)
    client = registry.store._client
    (logged,) = client.search_logged_models([client.get_run(run).info.experiment_id])
    assert (logged.name, logged.status, logged.source_run_id, logged.params) == ("policy", "READY", run, {"lr": "0.1"})
    assert [(m.key, m.value, m.step) for m in logged.metrics] == [("final/score", registry.score, 4096)]
    assert [(o.model_id, o.step) for o in client.get_run(run).outputs.model_outputs] == [(logged.model_id, 4096)]
    assert len(client.get_metric_history(run, "final/score")) == 1
    (version,) = client.search_model_versions(f"name = '{NAME}'")
    assert (version.run_id, version.tags["model_id"], version.tags[Tag.SEED]) == (run, logged.model_id, "0")
    assert version.description == "trial, trained for 4,096 env steps"
    assert client.get_registered_model(NAME).aliases == {}
    assert json.loads(client.get_logged_model(logged.model_id).tags["mlflow.modelVersions"]) == [
        {"name": NAME, "version": "1"}
    ]


def test_a_version_is_in_the_store_of_its_run_whatever_registry_the_process_has(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", "http://127.0.0.1:9")
    # as by set_registry_uri
    monkeypatch.setattr("mlflow.tracking._model_registry.utils._registry_uri", "http://127.0.0.1:9")
    shutil.copy(made.database, tmp_path / "mlflow.db")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    store = Store(uri, tmp_path / "mlartifacts", 5.0)
    registry = Registry(store, uri, store.create_run("studies", "study", 0, {}), made.model, 0.0)
    registry.log(registry.model("trial"))
    assert [version.version for version in store._client.search_model_versions(f"name = '{NAME}'")] == [1]


def test_a_version_that_the_registry_took_and_does_not_have_is_not_said_to_be_there(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.store._client, "create_model_version", lambda *given, **named: None)
    with pytest.raises(StoreError, match=f"the registry has no version of {NAME} for policy of the run") as error:
        registry.log(registry.model("trial"))
    assert not error.value.permanent


def test_versions_are_counted_once_they_are_there_and_once_each(registry: Registry) -> None:
    models = [registry.model("first"), registry.model("second")]
    for model in models:
        registry.log(model)
    writer = Writer(lambda: registry.store)
    writer.run_ids["study"] = registry.study_run
    for model in (*models, models[0], registry.model("whose run is not there")):
        writer.put("study", LogModel("single/ppo-cartpole", model))
    eventually(lambda: writer.pending == 1)
    writer.close(wait_s=0)
    assert (writer.versions, writer.undelivered) == ({NAME: {"1", "2"}}, 1)


def test_a_model_waits_for_the_run_of_its_trial(registry: Registry) -> None:
    with pytest.raises(StoreError, match="the run of trial is not there yet") as error:
        registry.store.log_model(registry.study_run, "single/ppo-cartpole", registry.model("trial"))
    assert not error.value.permanent


def test_the_champion_moves_only_to_what_is_significantly_better(registry: Registry) -> None:
    first, lucky, better, elsewhere = (
        registry.model("first", [200.0, 230.0, 170.0]),
        registry.model("lucky", [190.0, 210.0, 290.0]),
        registry.model("better", [480.0, 500.0, 490.0]),
        registry.model("elsewhere", [900.0, 910.0, 920.0], task="CartPole with less gravity"),
    )
    champions = []
    for model in (first, lucky, better, first, elsewhere):
        if model not in (first,) or not champions:
            registry.log(model)
        champions.append(registry.champion(model))
    assert champions == ["first", "first", "better", "better", "better"]


def test_a_champion_that_a_person_chose_stays(registry: Registry) -> None:
    registry.log(registry.model("by hand"))
    registry.store._client.set_registered_model_alias(NAME, CHAMPION, "1")
    better = registry.model("better", [480.0, 500.0, 490.0])
    registry.log(better)
    assert registry.champion(better) == "by hand"


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ([500, 500, 500], [200, 210, 190], True),
        ([210, 205, 215], [200, 190, 210], False),
        ([200, 210, 190], [500, 500, 500], False),
        ([500, 500], [200, 200], False),  # no spread is no certainty
        ([500], [200, 210], False),
    ],
)
def test_significance_is_of_the_seeds(new: list[float], old: list[float], expected: bool) -> None:
    assert significantly_better(new, old) == expected


def test_scores_of_other_tasks_are_not_compared() -> None:
    new, old = {SCORES: "[500, 501, 502]", TASK: "a"}, {SCORES: "[1, 2, 3]", TASK: "b"}
    assert not supersedes(new, old)
    assert supersedes(new, {**old, TASK: "a"})
    assert not supersedes(new, {TASK: "a"})


def test_it_asks_for_no_ray_and_holds_no_pickle(registry: Registry, tmp_path: Path) -> None:
    lines = (registry.folder / "requirements.txt").read_text().split()
    assert sorted(line.partition("==")[0] for line in lines) == sorted(REQUIREMENTS)
    assert all(re.fullmatch(r"[a-z]+==[0-9.]+", line) for line in lines)
    assert not [path for path in registry.folder.rglob("*") if path.suffix in (".pkl", ".pickle")]
    model = mlflow.pyfunc.load_model(str(shutil.copytree(registry.folder, tmp_path / "model")))
    assert model.metadata.signature.inputs.to_dict() == [
        {"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": (-1, 4)}}
    ]
    assert model.predict(model.input_example).shape == (1,)


@pytest.mark.slow
def test_what_a_recurrent_policy_remembers_goes_in_and_comes_out(tmp_path: Path) -> None:
    policy = policy_of(plan_for(*SMALL, "env=pendulum", *LSTM).trials[0])
    save_model(export_policy(policy, tmp_path / "policy.onnx"), tmp_path / "model")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    inputs = {**model.input_example, "observations": np.ones((1, 3), np.float32)}
    first = model.predict(inputs)
    after = {name.replace("state_out", "state_in"): value for name, value in first.items() if name != "actions"}
    assert after.keys() == inputs.keys() - {"observations"}
    second = model.predict({**inputs, **after})
    assert second["actions"] != first["actions"]


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_fresh_environment_reaches_the_score_and_serves_it(registry: Registry, tmp_path: Path) -> None:
    model = registry.model("trial", [1.0, 2.0])
    registry.log(model)
    registry.champion(model)
    venv.create(tmp_path / "venv", with_pip=True)
    own = tmp_path / "venv/bin"
    pins = (registry.folder / "requirements.txt").read_text().split()
    subprocess.run(
        [own / "python", "-m", "pip", "install", "--quiet", *pins, "gymnasium==1.2.2"], check=True, timeout=600
    )
    reached, logged = map(float, run_lines(str(own / "python"), ten_lines(registry.uri), tmp_path))
    assert reached == logged == registry.score
    serve = [
        own / "mlflow",
        "models",
        "serve",
        "-m",
        f"models:/{NAME}@{CHAMPION}",
        "--env-manager",
        "local",
        "--port",
        "5071",
    ]
    environment = {**os.environ, "MLFLOW_TRACKING_URI": registry.uri, "PATH": f"{own}:{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)
    server = subprocess.Popen(serve, env=environment, cwd=tmp_path, start_new_session=True)
    try:
        assert (
            len(
                answer("http://127.0.0.1:5071/invocations", {"inputs": [[0.1, 0.2, 0.3, 0.4], [0, 0, 0, 0]]})[
                    "predictions"
                ]
            )
            == 2
        )
    finally:
        os.killpg(server.pid, 15)
        server.wait(30)


def answer(url: str, body: Any) -> Any:
    """What a server answers, once it does."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    for _ in range(120):
        try:
            return json.loads(urllib.request.urlopen(request, timeout=5).read())
        except urllib.error.HTTPError:
            raise
        except OSError:
            time.sleep(0.5)
    raise AssertionError("no answer")


def test_one_that_is_only_logged_becomes_no_version(registry: Registry) -> None:
    registry.log(replace(registry.model("trial"), registered=None))
    assert registry.store._client.search_registered_models() == []
