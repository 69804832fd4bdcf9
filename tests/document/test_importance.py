"""Which settings matter, as a report says it."""

import pandas as pd
import pytest

from analysis.document.importance import sentence
from analysis.report import build
from tests.support.report_pages import Page, learning, study_of
from tests.support.study_frames import make_runs

GRID = {
    "lr": {"x": 1e-3, "y": 1e-3, "z": 1e-2, "w": 1e-2},
    "train_batch_size_total": {"x": 512, "y": 2000, "z": 512, "w": 2000},
}
SCORES = {
    "x": [300.0, 310.0, 305.0, 290.0],
    "y": [302.0, 305.0, 301.0, 296.0],
    "z": [120.0, 130.0, 110.0, 125.0],
    "w": [122.0, 121.0, 118.0, 126.0],
}


def row(setting: str, *total: float) -> dict[str, object]:
    ends = dict(zip(("total", "total_low", "total_high"), total, strict=True))
    return {"setting": setting, "measure": "score", **ends}


def test_a_sentence_names_what_is_shown_to_matter_and_what_is_not() -> None:
    both = [row("lr", 0.83, 0.7, 0.92), row("gamma", 0.02, 0.0, 0.09)]
    assert sentence(pd.DataFrame(both)) == (
        "Shown to matter for score, with shares of its variance between configurations: "
        "learning rate (83% [70%, 92%]); not shown to: gamma (2% [0%, 9%])."
    )
    assert sentence(pd.DataFrame(both[:1])).endswith("configurations: learning rate (83% [70%, 92%]).")
    assert sentence(pd.DataFrame(both[1:])).startswith("No setting is shown to matter for score, with shares of ")


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.report.svg", lambda figure: b"<svg/>")


@pytest.mark.usefixtures("undrawn")
def test_a_report_of_a_grid_has_a_table_of_its_settings_after_the_grid() -> None:
    runs = make_runs(SCORES, params=GRID)
    page = Page(build(study_of(runs, learning(runs), ("lr", "train_batch_size_total"))).html)
    assert page.open == []
    before, section = page.text.split("Which settings matter", 1)
    section = section.split("Every seed", 1)[0]
    assert "Learning rate and batch" in before
    assert "Shown to matter for score, with shares of its variance between configurations: learning rate (" in section
    assert "not shown to: train batch (0% [0%, " in section
    assert {"setting", "values", "by itself", "with its interactions", "learning rate", "train batch"} <= {*page.texts}
    assert "all 4 configurations of the grid over 4 seeds" in section


@pytest.mark.usefixtures("undrawn")
def test_other_reports_have_none() -> None:
    runs = make_runs(SCORES, params=GRID)
    one_axis = build(study_of(runs, learning(runs), ("lr",))).html
    two_seeds = build(study_of(runs[runs["seed"] < 2], learning(runs[runs["seed"] < 2]), tuple(GRID))).html
    assert "Which settings matter" not in one_axis + two_seeds
