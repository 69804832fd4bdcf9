"""A study that was run is given again by another name, and no trial of it is started: the real command line."""

from pathlib import Path

import pytest

from analysis.load import load_study
from analysis.report import build
from analysis.stores.executions import executions
from experiments.study import driver
from tests.support.commands import run_here
from tests.support.outputs import SMALL, left_in
from tests.system.conftest import run_to_the_end

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_study_that_was_run_starts_no_trial_the_second_time_and_comes_to_the_same_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_ray_afterwards: None
) -> None:
    out, uri = tmp_path / "out", f"sqlite:///{tmp_path}/out/mlflow.db"
    run_to_the_end(out, *SMALL)
    monkeypatch.setattr(driver, "run_trials", lambda *_: pytest.fail("a trial was started"))
    said = run_to_the_end(out, *SMALL, "study.name=again", "reuse=true", "registry.models=recommended")
    assert "known       4 of 4 trials, taken from other studies in this store and not run again" in said
    assert "known       taken from other studies, and not run again: 4 of 4 trials (tag reused_from)" in said
    again, first = executions(None, uri)
    assert (again.experiment, first.experiment) == ("again/ppo-cartpole", "smoke/ppo-cartpole")
    assert again.answers == first.answers
    assert again.answers
    folders = {name: next((out / "studies").glob(f"{name}-*")) for name in ("smoke", "again")}
    left = {name: left_in(out / "mlflow.db", folder) for name, folder in folders.items()}
    assert left["again"].learned == left["smoke"].learned
    assert left["again"].points == left["smoke"].points
    assert left["again"].weights == left["smoke"].weights
    study = load_study("again", uri)
    runs = study.runs
    assert runs["reused_from"].tolist() == load_study("smoke", uri).runs["run_id"].tolist()
    assert "4 of 4 trials finished, 4 of them in other studies" in build(study).html
    deleted = run_here("experiments/delete.py", "study=smoke", f"output_dir={out}", "yes=true")
    assert deleted.returncode == 0, deleted.stderr
    evaluated = run_here("experiments/evaluate.py", f"run={runs['run_id'].iloc[0]}", f"output_dir={out}")
    assert evaluated.returncode == 0, evaluated.stdout + evaluated.stderr
    assert "the logged final/score, to the bit" in evaluated.stdout
