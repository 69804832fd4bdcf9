"""What reports show of extensions, also of one that is wrong."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from analysis import AnalysisError
from analysis.document import sections
from analysis.document.extension import Report
from analysis.document.parts import Drawn, Part, Section
from analysis.load import Study
from analysis.report import build
from tests.support.report_pages import Page, learning, study_of
from tests.support.study_frames import make_runs


class Placed(Report):
    name, before = "placed", "seeds"

    def sections(self, part: Part) -> Sequence[Section]:
        return [Section("placed", "A section of its own", ("It says something.",)), Section("empty", "")]

    def across(self, study: Study, runs: pd.DataFrame, rng: np.random.Generator) -> tuple[list[str], list[Drawn]]:
        return ["It says something of all."], []


class Wrong(Report):
    name = "wrong"

    def sections(self, part: Part) -> Sequence[Section]:
        raise ValueError("no such column")

    def across(self, study: Study, runs: pd.DataFrame, rng: np.random.Generator) -> tuple[list[str], list[Drawn]]:
        return 1 / 0


class Misplaced(Report):
    name, before = "misplaced", "seedz"


def test_a_place_that_is_none_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "reports", lambda: [Misplaced()])
    runs = make_runs({"a": [480.0, 481.0]})
    with pytest.raises(AnalysisError, match=r"extension misplaced: .* before = 'seedz'.*There are: repeats, .*seeds"):
        build(study_of(runs, learning(runs)))


def test_a_section_stands_where_it_says_and_one_that_raises_costs_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.report.svg", lambda figure: b"<svg/>")
    monkeypatch.setattr(sections, "reports", lambda: [Placed(), Wrong()])
    runs = make_runs({"a": [480.0, 481.0]})
    text = Page(build(study_of(runs, learning(runs))).html).text
    places = [
        text.index(words) for words in ("Learning curves", "A section of its own", "Every seed", "Extension wrong")
    ]
    assert places == sorted(places)
    assert "The extension wrong shows nothing: ValueError: no such column (test_extension.py, line" in text
    assert "It says something of all." in text
    assert "The extension wrong shows nothing: ZeroDivisionError: division by zero" in text
