"""A study in a folder of any name, typed into a shell whose variables would have MLflow put it elsewhere."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import run_here
from tests.support.names import ODD
from tests.support.studies import query
from tests.support.suite import ROOT, TINY

AWAY = "http://127.0.0.1:9"
SHELL = {
    "MLFLOW_TRACKING_URI": AWAY,
    "MLFLOW_REGISTRY_URI": AWAY,
    "MLFLOW_READ_REPLICA_BACKEND_STORE_URI": "sqlite:////nowhere.db",
    "MLFLOW_RUN_ID": 32 * "0",
    "MLFLOW_EXPERIMENT_ID": "7",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "true",
    "MLFLOW_ENABLE_WORKSPACES": "true",
    "MLFLOW_SQLALCHEMYSTORE_POOLCLASS": "none",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "soon",
}


@pytest.mark.slow
def test_a_study_is_where_it_was_typed_and_whole_whatever_the_folder_and_the_shell_say(tmp_path: Path) -> None:
    folder = tmp_path / ODD
    folder.mkdir()
    words = [*TINY, "study.space={}", "seeds=[0]", "registry.models=recommended"]
    command = [sys.executable, str(ROOT / "experiments/run.py"), *words]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **SHELL}, capture_output=True, text=True, timeout=280, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "MLFLOW_RUN_ID is not read: a study makes its own runs." in done.stdout.splitlines()
    assert "1 version of models:/ppo-cartpole in MLflow's registry" in done.stdout
    assert ([path.name for path in tmp_path.iterdir()], [path.name for path in folder.iterdir()]) == (
        [ODD],
        ["outputs"],
    )
    out = folder / "outputs"
    assert query(out / "mlflow.db", "SELECT status FROM runs") == [("FINISHED",), ("FINISHED",)]
    assert query(out / "mlflow.db", "SELECT name, version FROM model_versions") == [("ppo-cartpole", 1)]
    (report,) = out.glob("reports/smoke-ppo-cartpole-*.html")
    (attached,) = out.glob("mlartifacts/studies/*/artifacts/report.html")
    assert report.read_bytes() == attached.read_bytes()
    assert run_here("experiments/evaluate.py", "study=smoke", f"output_dir={out}").returncode == 0
    assert run_here("experiments/delete.py", "study=smoke", f"output_dir={out}", "yes=true").returncode == 0
    assert [path for path in out.rglob("*") if path.is_file() and path.name[:9] != "mlflow.db"] == []
