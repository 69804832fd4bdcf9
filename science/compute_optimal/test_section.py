"""Data against compute in a report, and by the command."""

import shlex

import pytest

from analysis.report import build
from science.compute_optimal.command import main
from science.compute_optimal.testing import AXES, study
from tests.support.commands import assert_refused
from tests.support.report_pages import Page, study_of


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made, and not drawn."""
    monkeypatch.setattr("analysis.report.svg", lambda figure: b"<svg/>")


def test_a_planted_law_is_told_with_a_point_that_was_not_run_and_its_command() -> None:
    report = build(study_of(*study(spread=0.05), AXES))
    text = Page(report.html).text
    for words in (
        "Data against compute",
        "With a batch of 64, env steps to the target fall towards",
        "Left out and foretold from the others, the largest configuration, 2 updates per env step and width 128",
        "the fewest env steps to the target are predicted with",
        "90% intervals for the geometric mean of 3 new seeds",
        "seeds=[3,4,5]",
        "study.name=compute_optimal_point",
    ):
        assert words in text, words
    assert "acrobot-compute.svg" in report.pictures or "compute.svg" in report.pictures


def test_where_there_is_no_law_nothing_is_predicted_and_it_is_said_why() -> None:
    text = Page(build(study_of(*study(env_steps=lambda *point: 20_000.0), AXES)).html).text
    assert "With a batch of 64, nothing is predicted: updates per env step and width make no significant" in text
    assert "env steps go as (updates per env step)^" in text
    assert "linear regression of logarithms over 36 trials" in text
    assert "0.25 updates per env step, width 32 and a batch of 64 took the fewest floating-point operations" in text
    assert "To run it" not in text


def test_a_study_that_did_not_ask_says_nothing_of_it() -> None:
    runs, curves = study()
    unasked = runs.drop(columns=["update_flops", "action_flops"])
    assert "Data against compute" not in Page(build(study_of(unasked, curves, AXES)).html).text


def test_the_command_answers_at_a_budget(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    own = study_of(*study(spread=0.05), AXES)
    monkeypatch.setattr("science.compute_optimal.command.load_study", lambda *asked, **how: own)
    assert main(["price=1e8"]) == 0
    said = capsys.readouterr().out
    assert "Where an env step costs as much as 1e8 floating-point operations, the target costs least with" in said
    (line,) = [line for line in said.splitlines() if line.startswith("run ")]
    words = shlex.split(line)
    assert words[1:4] == ["python", "experiments/run.py", "study=hand"]
    (space,) = [word for word in words if word.startswith("study.space=")]
    assert space.startswith("study.space={algorithm.update_to_data:[")
    assert "algorithm.rl_module.fcnet_hiddens:[[" in space


def test_the_command_says_what_is_known_where_no_law_holds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = study_of(*study(env_steps=lambda *point: 20_000.0), AXES)
    monkeypatch.setattr("science.compute_optimal.command.load_study", lambda *asked, **how: own)
    assert main(["price=1e8"]) == 2
    said = capsys.readouterr()
    assert "took the fewest floating-point operations to the target" in said.out
    assert "no law holds of these trials" in said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give compute=, data= or price=, and one of them alone."),
        (["compute=1e12", "data=1e4"], "one of them alone"),
        (["compute=much"], "compute=much"),
        (["compute=1e12", "tracking_uri=sqlite:////nowhere/mlflow.db"], "/nowhere/mlflow.db"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(main, arguments, message, capsys)
