"""What constraints leave and cost, in an answer."""

import numpy as np
import pandas as pd
import pytest

from analysis.document.answer import Answer, answers, closing_table
from analysis.evidence import Evidence
from analysis.report import build
from tests.questions.test_constraints import MEMORY, SCORES, limited
from tests.support.report_pages import Page, learning, study_of
from tests.support.study_frames import make_runs, with_status


def runs_of(**limits: float) -> pd.DataFrame:
    return limited(make_runs(SCORES, target=np.nan, memory_mib=MEMORY), **limits)


def answer_of(runs: pd.DataFrame) -> Answer:
    (answer,) = answers(Evidence(runs))
    return answer


def test_without_constraints_nothing_is_said_of_them() -> None:
    assert answer_of(runs_of()).constraints == ""
    assert "constraint" not in answer_of(runs_of()).markdown()


def test_an_answer_says_what_they_cost() -> None:
    answer = answer_of(runs_of(memory_gib=4))
    assert answer.headline.startswith("Use `good`: mean score 440.5 [")
    assert answer.headline.endswith(" over 4 seeds. The other one within the constraints is significantly worse.")
    kept, _, cost = answer.constraints.partition(" Without them ")
    assert kept == "2 of 3 configurations keep the constraints, at most 4 GiB of memory."
    assert cost.startswith("it would be `best`, score 487.5 [")
    assert "], 47.0 more [" in cost and cost.endswith("], with 4.98 GiB of memory.")
    assert answer.lines()[1] == answer.constraints.replace("`", "")


def test_constraints_that_cost_nothing_say_so() -> None:
    answer = answer_of(runs_of(memory_gib=10))
    assert answer.constraints == (
        "3 of 3 configurations keep the constraints, at most 10 GiB of memory. "
        "They cost nothing: without them it would be the same."
    )


def test_where_one_is_left_it_is_said() -> None:
    answer = answer_of(runs_of(memory_gib=4, failure_probability=0.2))
    assert answer.headline.startswith("Use `good`: mean score 440.5 [")
    assert answer.headline.endswith(" over 4 seeds. It is the only one that keeps the constraints.")
    kept = "1 of 3 configurations keeps the constraints, at most 20% of seeds that fail and 4 GiB of memory."
    assert answer.constraints.startswith(kept)


def test_where_none_keeps_them_there_is_no_answer_and_what_would_be_is_told() -> None:
    answer = answer_of(runs_of(memory_gib=0.5))
    assert answer.headline == "No answer: no configuration keeps the constraints, at most 0.5 GiB of memory."
    assert answer.constraints.startswith("Without them it would be `best`, score 487.5 [")
    assert answer.constraints.endswith(", with 4.98 GiB of memory.")
    assert closing_table(Evidence(runs_of(memory_gib=0.5)))["config"].tolist() == ["best", "good", "bad"]


def test_a_study_that_is_not_whole_says_no_more_than_how_many_keep_them() -> None:
    answer = answer_of(with_status(runs_of(memory_gib=4), "bad", [3], "running"))
    assert answer.headline.startswith("Provisional, as ")
    assert answer.constraints == "2 of 3 configurations keep the constraints, at most 4 GiB of memory."


def test_the_table_has_those_that_break_them_last() -> None:
    table = closing_table(Evidence(runs_of(memory_gib=4)))
    assert table["config"].tolist() == ["good", "bad", "best"]
    assert table["leader"].tolist() == [True, False, False]


@pytest.mark.parametrize("memory_gib", [4.0, 0.5])
def test_a_report_shows_it(memory_gib: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.report.svg", lambda figure: b"<svg/>")
    runs = runs_of(memory_gib=memory_gib)
    page = Page(build(study_of(runs, learning(runs))).html)
    assert page.open == []
    assert "Without them it would be best, score 487.5 [" in page.text
