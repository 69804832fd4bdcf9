"""A file in an empty folder, from the command line."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.load import load_study
from tests.support.commands import run_here
from tests.support.own_files import SOURCE
from tests.support.suite import ROOT

SMALL = (
    "study=single",
    "seeds=[0]",
    "repeats=2",
    "budget_env_steps=4096",
    "report_every_env_steps=2048",
    "evaluation.final_episodes=5",
)


@pytest.mark.ray
@pytest.mark.slow
def test_a_file_in_an_empty_folder_is_trained_evaluated_and_reported_on_by_one_command(tmp_path: Path) -> None:
    file, prices = tmp_path / "my_env.py", tmp_path / "prices of 2020.csv"
    reads = (
        "size=3, prices=None):\n"
        "        open(prices).close()\n        open(__file__.replace('my_env.py', 'beside.txt')).close()"
    )
    # A curriculum kept on the class: rewards grow with the resets that the process has seen.
    curriculum = SOURCE.replace(
        "        self.t = 0\n", "        self.t, MyEnv.resets = 0, getattr(MyEnv, 'resets', 0) + 1\n"
    )
    curriculum = curriculum.replace("float(action)", "float(action) * (1 + MyEnv.resets // 10)")
    file.write_text(curriculum.replace('"ID"', '"MyEnv-v0"').replace("size=3):", reads))
    prices.write_text("1")
    (tmp_path / "beside.txt").write_text("2")
    chosen = ("modules=[my_env.py]", "env=gym", "env.id=MyEnv-v0", "env.env_config={prices: 'prices of 2020.csv'}")
    own = ("algorithm.rl_module.module_class=my_env.MyRLModule", "algorithm.rl_module.model_config={width:8}")
    # a process that has imported nothing yet
    runners = ("hardware.num_env_runners=1", "hardware.num_cpus=2", "hardware.num_gpus=0")
    command = [sys.executable, str(ROOT / "experiments/run.py"), *chosen, *own, *runners, *SMALL]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {
        "my_env.py",
        "beside.txt",
        prices.name,
        "outputs",
    }
    store = tmp_path / "outputs/mlflow.db"
    study = load_study("single/ppo-myenv-v0", f"sqlite:///{store}")
    assert list(study.runs["status"]) == ["finished"] * 2
    assert 20 < study.runs["score"].iloc[0] <= 100
    # the second trial found nothing of the first
    assert study.runs["score"].nunique() == study.runs["weights"].nunique() == 1
    (report,) = tmp_path.glob("outputs/reports/single-ppo-myenv-v0-*.html")
    assert "modules=[my_env.py]" in report.read_text()  # in the command that is recommended next
    for kept in ("outputs/studies/*/modules", "outputs/mlartifacts/studies/*/artifacts/modules"):
        (copies,) = tmp_path.glob(kept)
        assert {copy.name: copy.read_bytes() for copy in copies.iterdir()} == {
            "my_env.py": file.read_bytes(),
            "beside.txt": b"2",
        }

    # A run in a store is no reason to run what the store holds, nor another file of the name.
    with sqlite3.connect(store) as database:
        (run,) = database.execute("SELECT run_uuid FROM tags WHERE key = 'kind' AND value = 'trial'").fetchone()
    again = ("experiments/reproduce.py", f"run={run}", f"tracking_uri=sqlite:///{store}")
    refused = run_here(*again)
    assert refused.returncode == 2
    assert "name your copies: modules=[my_env.py]" in refused.stderr
    file.write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    refused = run_here(*again, f"modules=[{file}]")
    assert refused.returncode == 2
    assert "my_env is not the one that was recorded" in refused.stderr
    assert not (tmp_path / "imported").exists()
