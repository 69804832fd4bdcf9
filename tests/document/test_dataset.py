"""A study's tables, settings and card, read back from files."""

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from analysis.report import main
from tests.support.report_pages import learning, study_of
from tests.support.study_frames import make_runs, with_status


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the command wrote of a hand-made study."""
    runs = make_runs({"a": [480.0, 490.0, 485.0], "b|c": [100.0, 90.0, 95.0]}, params={"lr": {"a": 1e-3, "b|c": 1e-2}})
    study = study_of(with_status(runs, "b|c", [2], "failed").assign(host="my-laptop"), learning(runs), ("lr",))
    study.provenance["host"] |= {"host": "my-laptop"}
    monkeypatch.setattr("analysis.report.load_study", lambda *_, **__: study)
    monkeypatch.setattr("analysis.report.load_settings", lambda _: ({"a": {"seed": 0, "env": {"id": "X-v1"}}}, {}))
    monkeypatch.setattr("analysis.report.load_clips", lambda _: [])
    monkeypatch.setattr("analysis.report.attach", lambda *_: "")
    monkeypatch.setattr("analysis.report.svg", lambda _: b"<svg/>")
    assert main(["study=hand", "export=table", f"out={tmp_path / 'mine.html'}"]) == 0
    return tmp_path / "mine"


def test_the_tables_are_the_studys(exported: Path) -> None:
    runs, curves = (pd.read_parquet(exported / f"{name}.parquet") for name in ("runs", "curves"))
    assert runs[["config", "seed", "status"]].astype(str).to_numpy().tolist() == [
        *(["a", str(seed), "finished"] for seed in range(3)),
        *(["b|c", str(seed), "failed" if seed == 2 else "finished"] for seed in range(3)),
    ]
    assert runs["score"].tolist()[:3] == [480.0, 490.0, 485.0]
    assert set(curves["run_id"]) == set(runs["run_id"])
    assert json.loads((exported / "settings.json").read_text())["configurations"]["a"]["env"] == {"id": "X-v1"}


def test_the_card_says_what_came_out_and_what_is_missing(exported: Path) -> None:
    text = (exported / "README.md").read_text()
    head = yaml.safe_load(text.split("---")[1])
    assert [part["data_files"] for part in head["configs"]] == ["runs.parquet", "curves.parquet"]
    for words in (
        "Use a: 3 of 3 seeds end at 475 or above",
        "| a | 3 of 3 |",
        "| b\\|c | 2 of 3 |",
        "6 trials, a row each",
        "python experiments/run.py study=hand",
        "1 of 6 trials failed",
        "ray 2.60.0",
    ):
        assert words in text, words


def test_no_file_says_whose_machine_it_was(exported: Path) -> None:
    assert sorted(file.name for file in exported.iterdir()) == [
        "README.md",
        "curves.parquet",
        "runs.parquet",
        "settings.json",
    ]
    assert not any(b"my-laptop" in file.read_bytes() for file in exported.iterdir())


def test_several_studies_are_exported_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["studies=[a,b]", "export=table"]) == 2
    assert "Export each by itself, with study=." in capsys.readouterr().err
