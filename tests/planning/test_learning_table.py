"""The table of what every algorithm learns: its pairs can be run, its rows are kept, its verdicts are right."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from analysis.questions.decision import decide
from benchmarks.learning import scores
from benchmarks.learning.pairs import (
    COLUMNS,
    STUDIES,
    Pair,
    keep,
    keep_curves,
    measured,
    pairs,
    settings_of,
    trial_of,
)
from benchmarks.learning.scores import FEW, OPEN, against_sb3, verdict
from benchmarks.support.harness import DOCS, Table
from experiments.config.compose import CONF
from tests.support.suite import ROOT, PlanOf

PAIR = Pair("ppo", "cartpole", 240.0, 30.0, 100_000.0, "SB3 zoo", "", float("nan"))


@pytest.mark.parametrize("pair", pairs(), ids=str)
def test_every_pair_is_a_study_of_the_suite(pair: Pair, plan_of: PlanOf) -> None:
    plan = plan_of("study=single", *settings_of(pair))
    assert len(plan.configurations) == 1


@pytest.mark.parametrize("folder", sorted(STUDIES.iterdir()), ids=lambda folder: folder.name)
def test_tuned_settings_are_among_the_best_of_the_study_that_they_name(folder: Path) -> None:
    """No other is significantly better, and the seeds that they are measured with chose nothing."""
    pair = next(pair for pair in pairs() if f"{pair.algorithm}-{pair.env}" == folder.name)
    assert folder.relative_to(ROOT).as_posix() in (CONF / "tuned" / f"{folder.name}.yaml").read_text()
    runs = pd.read_parquet(folder / "runs.parquet")
    (decision,) = decide(runs)
    tuned = runs.loc[runs["config_id"] == trial_of(pair, 0).config_id, "config"]
    assert set(tuned) <= set(decision.leaders) and len(tuned)
    fresh = measured()
    assert set(runs["seed"]).isdisjoint(fresh[pair.of(fresh)]["seed"])
    settings = json.loads((folder / "settings.json").read_text())
    assert set(runs["config"]) == set(settings["configurations"]) and settings["command"]


def rows(seed: int, score: float, env: str = "cartpole") -> pd.DataFrame:
    values = ("ppo", env, "abc", seed, 1000, score, float("nan"), 1.0, "2026-01-01", "def", "cpu")
    return pd.DataFrame([dict(zip(COLUMNS, values, strict=True))])


def test_trials_are_kept_and_the_last_measurement_of_one_counts(tmp_path: Path) -> None:
    file = tmp_path / "data" / "learning.csv"
    for seed, score, env in ((1, 10.0, "cartpole"), (0, 20.0, "cartpole"), (1, 30.0, "cartpole"), (1, 40.0, "acrobot")):
        keep(rows(seed, score, env), file)
    assert measured(file)[["env", "seed", "score"]].to_numpy().tolist() == [
        ["acrobot", 1, 40.0],
        ["cartpole", 0, 20.0],
        ["cartpole", 1, 30.0],
    ]


def test_the_curves_of_a_trial_are_those_of_its_last_measurement(tmp_path: Path) -> None:
    file = tmp_path / "curves.parquet"
    for config_id, seed, ends in (("old", 0, (1, 2, 3)), ("old", 1, (1, 2)), ("new", 0, (2, 4))):
        known = {"algorithm": "ppo", "env": "cartpole", "config_id": config_id, "seed": seed}
        keep_curves(pd.DataFrame([{**known, "env_steps": end, "score": 1.0} for end in ends]), file)
    found = pd.read_parquet(file)
    assert found[["config_id", "seed", "env_steps"]].to_numpy().tolist() == [
        *(["new", 0, 2], ["new", 0, 4]),
        *(["old", 1, 1], ["old", 1, 2]),
    ]


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        ([210.0, 300.0], "2 of 2 seeds come to it"),
        ([209.9, 300.0], "1 of 2 seeds come to it: not all"),
        ([209.9, 0.0], "worse: 0 of 2 seeds come to it"),
    ],
)
def test_a_seed_comes_to_the_published_score_less_its_deviation(ours: list[float], words: str) -> None:
    assert verdict(np.array(ours), PAIR) == words


def test_a_known_reason_is_named() -> None:
    assert verdict(np.zeros(5), replace(PAIR, reason="gSDE")) == "worse: 0 of 5 seeds come to it, see the notes"


def test_a_seed_that_never_holds_the_target_takes_longer_than_it_was_given() -> None:
    """It is not left out: of two that hold it early the mean would be early."""
    of_seeds = pd.DataFrame({"env_steps": 1000.0, "env_steps_to_target": [100.0, 300.0, 200.0, np.nan, np.nan]})
    assert scores._to_target(of_seeds) == "300 (3 of 5)"
    assert scores._to_target(of_seeds.iloc[1:]).startswith("over 1,000 (2 of 4")
    assert scores._to_target(of_seeds.iloc[3:]) == "0 of 2"


@pytest.mark.parametrize(
    ("worst", "words", "named"),
    [(475.0, "5 of 5 seeds end at 475", "none"), (474.9, "4 of 5 seeds end at 475: not all", "impala on cartpole")],
)
def test_a_pair_of_which_nothing_is_published_is_held_to_the_target(
    worst: float, words: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scores, "trial_of", lambda *asked: SimpleNamespace(config_id="abc"))
    ended_at = (500.0, 500.0, worst, 500.0, 500.0)
    report = scores._report(
        pd.concat([rows(seed, score) for seed, score in enumerate(ended_at)]).assign(algorithm="impala")
    )
    (found,) = (row for row in report.tables[0].rows if row[0] == "impala on cartpole")
    assert found[-1] == words
    assert report.verdict.startswith(f"1 of {len(pairs())} pairs are measured. Worse than published: none; ")
    assert f"or to the target where nothing is: {named}. " in report.verdict


def test_a_pair_whose_seeds_are_not_all_measured_is_shown_and_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "trial_of", lambda *asked: SimpleNamespace(config_id="abc"))
    report = scores._report(pd.concat([rows(seed, 100.0) for seed in range(4)]))
    (found,) = (row for row in report.tables[0].rows if row[0] == "ppo on cartpole")
    assert (found[2], found[-1]) == ("4", FEW)
    assert report.verdict.startswith(f"0 of {len(pairs())} pairs are measured. Worse than published: none; ")


def test_a_pair_that_ends_as_far_as_two_cores_get_is_named_and_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "trial_of", lambda *asked: SimpleNamespace(config_id="abc"))
    report = scores._report(
        pd.concat([rows(seed, -100.0 + seed) for seed in range(5)]).assign(algorithm="sac", env="halfcheetah")
    )
    (found,) = (row for row in report.tables[0].rows if row[0] == "sac on halfcheetah")
    assert found[-1] == "ended early: not judged"
    assert report.verdict.endswith("as far as two cores get, and not judged: sac on halfcheetah.")


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        ([100.0, 101.0, 99.0], "not significantly different"),
        ([50.0, 51.0, 49.0], "worse than"),
        ([150.0, 151.0, 149.0], "better than"),
    ],
)
def test_where_sb3_was_run_at_the_same_settings_it_is_the_judge(ours: list[float], words: str) -> None:
    assert against_sb3(np.array(ours), np.array([98.0, 100.0, 102.0])).startswith(words)


@pytest.fixture(scope="module")
def table() -> Table:
    """The page's, from what was measured; all settings count as the present ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scores, "trial_of", lambda pair, seed: SimpleNamespace(config_id=last_id(pair)))
        return scores._report(measured()).tables[0]


def last_id(pair: Pair) -> str:
    return str(measured()[pair.of].sort_values("date")["config_id"].iloc[-1])


def test_the_page_shows_what_was_measured(table: Table) -> None:
    page = (DOCS / "learning.md").read_text()
    for row in table.rows:
        assert f"| {' | '.join(row[:-1])} |" in page


@pytest.mark.parametrize("pair", pairs(), ids=str)
def test_the_settings_of_a_pair_say_what_was_measured(pair: Pair, table: Table) -> None:
    file = CONF / "tuned" / f"{pair.algorithm}-{pair.env}.yaml"
    if not file.exists():
        return
    found = dict(zip(table.columns, next(row for row in table.rows if row[0] == str(pair)), strict=True))
    page = next(line for line in (DOCS / "learning.md").read_text().splitlines() if line.startswith(f"| {pair} |"))
    if page.endswith(tuple(f"| {without} |" for without in OPEN)):
        assert "Not measured here yet" in file.read_text()
    else:
        score = found["median score [worst, best]"]
        said = f"median {score} of {found['seeds']} seeds, worst and best, after {found['env steps']} env steps"
        assert f"# Measured: {said}" in file.read_text()
