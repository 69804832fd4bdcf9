"""Studies that an earlier commit wrote are read as they were, reported on, evaluated and finished."""

import json
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from analysis.load import Study, load_study
from experiments.trial.usage.machine import this_machine
from tests.support.commands import run_here
from tests.support.driver import Driver
from tests.support.outputs import left_in, of_metrics_in
from tests.unchanged.old import events_of, report_of, unpack
from tests.unchanged.pinned import FOLDER


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return unpack(tmp_path_factory.mktemp("old"))


@pytest.fixture(scope="module")
def study(outputs: tuple[Path, Path]) -> Study:
    return load_study("smoke", f"sqlite:///{outputs[0]}/mlflow.db")


@pytest.mark.parametrize("name", ["runs", "curves"])
def test_frames_have_what_they_had(study: Study, name: str) -> None:
    """Columns may have come since."""
    before = pd.read_csv(FOLDER / f"{name}.csv", dtype=str, keep_default_na=False)
    now = pd.read_csv(StringIO(getattr(study, name).to_csv(index=False)), dtype=str, keep_default_na=False)
    assert set(before) <= set(now)
    pd.testing.assert_frame_equal(now[list(before)], before)


def test_a_report_says_what_it_said(study: Study, outputs: tuple[Path, Path]) -> None:
    assert report_of(study, outputs[0]) == (FOLDER / "report.txt").read_text()


@pytest.mark.slow
def test_policies_play_as_they_played(study: Study, outputs: tuple[Path, Path]) -> None:
    run = study.runs["run_id"].iloc[0]
    done = run_here(
        "experiments/evaluate.py", f"run={run}", f"tracking_uri=sqlite:///{outputs[0]}/mlflow.db", "episodes=2"
    )
    if study.runs["cpu"].iloc[0] == this_machine().cpu:
        assert (done.returncode, "the logged final/score, to the bit" in done.stdout) == (0, True), (
            done.stdout + done.stderr
        )
    else:
        assert "mean return of 5 held-out episodes" in done.stdout, done.stdout + done.stderr


@pytest.mark.ray
@pytest.mark.slow
def test_a_study_that_was_killed_is_finished(outputs: tuple[Path, Path]) -> None:
    whole, begun = outputs
    (folder,) = (begun / "studies").iterdir()
    assert Driver(begun, f"resume={folder}").end() == 0
    reference = left_in(whole / "mlflow.db")
    found = of_metrics_in(reference, left_in(begun / "mlflow.db"))
    assert set(found.statuses.values()) == {"FINISHED"}
    assert found.statuses == reference.statuses
    now, before = events_of(begun), json.loads((FOLDER / "events.json").read_text())
    for kind, fields in before.items():  # fields and metrics may have come since
        assert set(fields.pop("metrics", ())) <= set(now[kind].get("metrics", ()))
        assert {name: now[kind].get(name) for name in fields} == fields
    if {tags["cpu"] for tags in found.tags.values()} == {tags["cpu"] for tags in reference.tags.values()}:
        assert found.learned == reference.learned
        assert found.weights == reference.weights
