"""Sensitivity as a command, from a table and from studies, and in the report."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis import AnalysisError
from analysis.document.sections import across
from science.sensitivity.command import main, table_of
from tests.support.commands import assert_refused
from tests.support.report_pages import Page, study_of
from tests.support.study_frames import make_runs, together

LRS = (1e-3, 1e-2, 1e-1)


def runs_of(envs: tuple[str, ...] = ("cartpole", "acrobot")) -> pd.DataFrame:
    """CartPole wants the smallest of three learning rates, every other environment the largest; five seeds."""
    parts = []
    for env in envs:
        means = (450, 330, 100) if env == "cartpole" else (100, 250, 460)
        scores = {
            f"lr={lr:g} {env}": [mean + 4.0 * (s - 2) for s in range(5)] for lr, mean in zip(LRS, means, strict=True)
        }
        parts.append(make_runs(scores, env=env, params={"lr": {f"lr={lr:g} {env}": lr for lr in LRS}}))
    return together(*parts)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    runs = runs_of()
    path = tmp_path / "scores.csv"
    table = runs.rename(columns={"env": "environment"}).assign(setting=[f"lr={lr:g} gamma=0.99" for lr in runs["lr"]])
    table[["environment", "setting", "seed", "score"]].to_csv(path, index=False)
    return path


def test_a_table_of_somebody_gives_a_page_and_its_short_form(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Percentiles of 100, 330, 450: 123 and 438; of 100, 250, 460: 115 and 439."""
    out = tmp_path / "new" / "page.html"
    assert main([f"table={csv}", f"out={out}"]) == 0
    said = capsys.readouterr().out
    tuned = ((450 - 123) / 315 + (460 - 115) / 324) / 2
    common = ((330 - 123) / 315 + (250 - 115) / 324) / 2
    assert said.startswith(f"all: {tuned:.3f} [")
    assert "with the best of 3 settings in each of 2 environments" in said
    assert f"{common:.3f} [" in said
    assert "with the best one for all (lr=0.01 gamma=0.99): a sensitivity of" in said
    assert "For 95% of the tuned score 1 of 2 hyperparameters have to be tuned: lr." in said
    page = Page(out.read_text())
    assert page.open == []
    assert len(page.images) == 1
    assert f"table={csv}" in page.text
    assert "5 seeds are few to choose the best of 3 settings by" in page.text
    assert "acrobot" in page.text


def test_studies_of_an_environment_each_are_one_table() -> None:
    studies = [study_of(runs_of((env,)), axes=("lr",)) for env in ("cartpole", "acrobot")]
    table = table_of(studies)
    assert table["environment"].nunique() == 2
    assert set(table["algorithm"]) == {"ppo"}
    assert set(table_of(studies, "auc")["score"]) == {0.8 * score for score in table["score"]}


def test_studies_of_the_same_algorithm_and_environment_are_told_apart() -> None:
    one = study_of(runs_of(), axes=("env", "lr"))
    table = table_of([one, replace(one, name="normalised")])
    assert set(table["algorithm"]) == {"ppo (hand)", "ppo (normalised)"}


def test_studies_that_searched_something_else_are_refused() -> None:
    runs = runs_of()
    with pytest.raises(AnalysisError, match="gamma was not searched in all"):
        table_of([study_of(runs, axes=("lr",)), study_of(runs.assign(gamma=0.9), axes=("lr", "gamma"))])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give studies= or table=, and one of them alone."),
        (["table=a.csv", "studies=[b]"], "one of them alone"),
        (["table=/nowhere/a.csv"], "table=/nowhere/a.csv: cannot be read as CSV"),
        (["table=a.csv", "measure=auc"], "measure= is of studies"),
        (["studies=[]"], "studies= names no study"),
        (["studies=[a]", "measure=return"], "measure=return: must be score or auc"),
        (["studies=[a]", "tracking_uri=sqlite:////nowhere/mlflow.db"], "/nowhere/mlflow.db"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(main, arguments, message, capsys)


def test_a_table_without_a_column_is_refused(csv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    csv.write_text(csv.read_text().replace("environment", "env"))
    assert main([f"table={csv}"]) == 2
    assert "the table has no column 'environment'; it has env, setting, seed, score." in capsys.readouterr().err


def test_the_report_of_several_environments_says_how_much_tuning_it_took() -> None:
    section = across(study_of(runs_of(), axes=("env", "lr")), runs_of(), np.random.default_rng(0))
    assert section.sentences[-1].startswith("`ppo`: 1.0")
    assert "a sensitivity of 0." in section.sentences[-1]
    assert [drawn.key for drawn in section.figures] == ["sensitivity"]
    alone = across(study_of(runs_of(("cartpole",)), axes=("lr",)), runs_of(("cartpole",)), np.random.default_rng(0))
    assert (alone.sentences, alone.figures) == ((), ())
