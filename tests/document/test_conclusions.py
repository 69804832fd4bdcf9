"""The conclusions of a study that ran: whatever becomes of them, it ends with its own exit code."""

from types import SimpleNamespace

import pytest

from analysis.document.conclusions import Conclusions, conclude


def test_without_a_trial_there_is_no_answer() -> None:
    assert conclude({}, []).lines(80) == ["answer      none: no trial has started"]


def test_conclusions_that_cannot_be_drawn_say_why() -> None:
    found = conclude({"axes": []}, [SimpleNamespace()])  # type: ignore[list-item]
    assert found.problem.startswith("AttributeError: ")
    assert found.lines(80) == [f"answer      none: {found.problem}"]


def test_an_answer_that_cannot_be_shown_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.document.answer.closing_table", lambda evidence: 1 / 0)
    found = Conclusions(evidence=SimpleNamespace())  # type: ignore[arg-type]
    assert found.lines(80) == ["answer      none: ZeroDivisionError: division by zero"]
