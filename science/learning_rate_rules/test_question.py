import numpy as np
import pandas as pd
import pytest

from analysis.document.wording import rules_sentence
from science.learning_rate_rules.question import compare_rules
from tests.support.study_frames import make_runs

AXES = ("train_batch_size_total", "lr_rule")
BATCHES = (512, 1024, 2048)


def runs_of(levels: dict[tuple[str, int], float], num_seeds: int = 8, noise: float = 5.0) -> pd.DataFrame:
    """Scores around a level for each rule and batch; a seed is good or bad for all alike."""
    rng = np.random.default_rng(0)
    of_seed = rng.normal(0, 30, num_seeds)
    names = {f"{rule} b={batch}": (rule, batch) for rule, batch in levels}
    scores = {name: list(levels[key] + of_seed + rng.normal(0, noise, num_seeds)) for name, key in names.items()}
    params = {
        "lr_rule": {name: rule for name, (rule, _) in names.items()},
        "train_batch_size_total": {name: batch for name, (_, batch) in names.items()},
    }
    return make_runs(scores, params=params)  # type: ignore[arg-type]


def levels_of(linear: float) -> dict[tuple[str, int], float]:
    found = {("base", 1024): 300.0}
    for batch in (512, 2048):
        found |= {("constant", batch): 300.0, ("sqrt", batch): 300.0, ("linear", batch): linear}
    return found


def test_a_rule_that_learns_less_is_rejected_by_both_measures() -> None:
    by_auc, by_score = compare_rules(runs_of(levels_of(linear=250.0)), AXES)
    assert (by_auc.measure, by_score.measure) == ("auc", "score")
    for found in (by_auc, by_score):
        assert found.rejected == ("linear",)
        assert set(found.pairs.loc[found.pairs["p_adjusted"] < 0.05, "worse"]) == {"linear"}
        assert len(found.pairs) == 6
        assert (found.pairs["difference"] >= 0).all()
        assert len(found.to_base) == 6
    row = by_score.to_base.set_index(["batch", "rule"]).loc[(512, "linear")]
    assert row["difference"] == pytest.approx(-50, abs=8)
    assert row["difference_low"] < row["difference"] < row["difference_high"] < 0
    assert "the data reject linear (at batch" in rules_sentence(by_score)
    assert "and not constant and sqrt (8 matched seeds" in rules_sentence(by_score)
    assert "Farthest from the base point: " in rules_sentence(by_score)


def test_rules_that_learn_alike_are_not_rejected() -> None:
    for found in compare_rules(runs_of(levels_of(linear=300.0)), AXES):
        assert found.rejected == ()
        assert "the data reject no rule" in rules_sentence(found)


@pytest.mark.nightly
def test_equal_rules_are_seldom_rejected() -> None:
    rng, rejected = np.random.default_rng(1), 0
    for _ in range(200):
        runs = runs_of(levels_of(linear=300.0), num_seeds=5)
        runs["score"] = 300 + rng.normal(0, 10, len(runs))
        rejected += bool(compare_rules(runs, AXES)[1].rejected)
    assert rejected <= 20  # 5% of 200, and three standard deviations


def test_other_axes_are_answered_one_by_one() -> None:
    first, second = runs_of(levels_of(linear=200.0)), runs_of(levels_of(linear=300.0))
    second["config"] = second["config"].astype(str) + " long"
    runs = pd.concat([first.assign(num_epochs=2), second.assign(num_epochs=20)], ignore_index=True)
    runs["config"] = pd.Categorical(
        runs["config"], categories=list(dict.fromkeys(runs["config"].astype(str))), ordered=True
    )
    found = compare_rules(runs, (*AXES, "num_epochs"))
    assert [f.rejected for f in found] == [("linear",), ("linear",), (), ()]
    assert [f.settings for f in found] == [{"num_epochs": 2}] * 2 + [{"num_epochs": 20}] * 2


def test_without_rules_or_seeds_there_is_no_verdict() -> None:
    runs = runs_of(levels_of(linear=250.0))
    assert compare_rules(runs, ("train_batch_size_total",)) == []
    single = compare_rules(runs[runs["seed"] == 0], AXES)
    assert all(f.rejected == () and "cannot be compared" in rules_sentence(f) for f in single)
    assert compare_rules(runs.assign(status="failed"), AXES) == []
