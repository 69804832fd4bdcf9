"""Studies that an earlier commit wrote are read as they were, reported on, evaluated and finished."""

import json
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from analysis.load import Study, load_study
from experiments.limits import mkl
from experiments.limits.processor import this_processor
from experiments.tracking.provenance import arithmetic
from tests.support.driver import Driver
from tests.support.outputs import left_in, of_metrics_in
from tests.unchanged.old import events_of, report_of, unpack
from tests.unchanged.pinned import FOLDER


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return unpack(tmp_path_factory.mktemp("old"))


@pytest.fixture(scope="module")
def computes_as_then(outputs: tuple[Path, Path]) -> bool:
    """Whether this machine has the instructions and libraries that both were written with.

    MKL took the kernels that it comes with: tests that ask have it take them again.
    """
    record = next((outputs[1] / "mlartifacts/studies").glob("*/artifacts/provenance.json"))
    before = json.loads(record.read_text())["arithmetic"]
    now = arithmetic()
    return {name: now.get(name) for name in before} == before and not this_processor().is_intel


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
def test_policies_play_as_they_played(
    study: Study, outputs: tuple[Path, Path], computes_as_then: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(mkl.VARIABLE, mkl.SHIPPED)
    run, store = study.runs["run_id"].iloc[0], f"sqlite:///{outputs[0]}/mlflow.db"
    done = Driver.typed(
        f"python experiments/evaluate.py run={run} tracking_uri={store} episodes=2", tmp_path / "evaluated"
    )
    ended, said = done.end(), done.stdout
    if computes_as_then:
        assert (ended, "the logged final/score, to the bit" in said) == (0, True), said + done.stderr
    else:
        assert "mean return of 5 held-out episodes" in said, said + done.stderr


@pytest.mark.ray
@pytest.mark.slow
def test_a_study_that_was_killed_is_finished(
    outputs: tuple[Path, Path], computes_as_then: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(mkl.VARIABLE, mkl.SHIPPED)
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
    if computes_as_then:
        assert found.learned == reference.learned
        assert found.weights == reference.weights
