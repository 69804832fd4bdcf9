"""What a search found and what held-out seeds made of it, from hand-made frames."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.document.caveats import caveats
from analysis.document.notebooks import next_steps, record
from analysis.document.search import how_many, search_sentences
from analysis.evidence import Evidence
from analysis.questions.decision import decide
from analysis.questions.search import progress, spent, winners_curse
from analysis.report import StudyReport, build
from tests.support.report_pages import Page, learning, study_of
from tests.support.study_frames import (
    BUDGET,
    GENERATION,
    HELD_OUT,
    make_curves,
    make_population,
    make_search,
    with_status,
)

NAN = float("nan")
FOUND = {"a": [400.0, 420.0], "b": [430.0], "c": [300.0], "base": [250.0, 270.0], "d": [NAN]}
CONFIRMED = {"b": [380.0, 390.0, 400.0], "a": [395.0, 405.0, 415.0], "base": [240.0, 250.0, 260.0]}
RUNS = make_search(FOUND, CONFIRMED)
LR = {"a": 1e-3, "b": 3e-3, "c": 1e-2, "base": 3e-4, "d": 1e-4}


def curves_of(runs: pd.DataFrame, stopped_at: int = BUDGET // 4) -> pd.DataFrame:
    """A report in the middle, and one at the end, of which a stopped trial has none."""
    points = {}
    for row in runs.to_dict("records"):
        steps = [stopped_at, BUDGET] if np.isfinite(row["score"]) else [stopped_at]
        points[row["config"], row["seed"]] = {"eval/return_mean": [(at, 1.0, at / 1000) for at in steps]}
    return make_curves(runs, points)


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made, and not drawn: for what is said in words."""
    monkeypatch.setattr("analysis.report.svg", lambda figure: b"<svg/>")


def report_of(runs: pd.DataFrame) -> tuple[StudyReport, str]:
    runs = runs.assign(lr=runs["config"].astype(str).map(LR))
    curves = learning(runs)
    unscored = runs.loc[runs["score"].isna(), "run_id"]
    curves = curves[~curves["run_id"].isin(unscored) | ((curves["env_steps"] < BUDGET) & curves["value"].notna())]
    report = build(replace(study_of(runs, curves, ("lr",)), base="base", objectives=("score",)))
    return report, Page(report.html).text


# The winner's curse.


def test_each_confirmed_configuration_has_what_it_scored_before_and_after() -> None:
    table = winners_curse(RUNS, "base").set_index("config")
    assert list(table.index) == ["b", "a", "base"]
    assert table["is_base"].tolist() == [False, False, True]
    assert table["searched"].tolist() == [430.0, 410.0, 260.0]
    assert table["num_search_seeds"].tolist() == [1, 2, 2]
    assert table["confirmed"].tolist() == pytest.approx([390.0, 405.0, 250.0])
    assert table["num_seeds"].tolist() == [3, 3, 3]
    assert table["difference"].tolist() == pytest.approx([-40.0, -5.0, -10.0])
    half = table["confirmed_high"] - table["confirmed"]
    assert (half > 10).all()
    np.testing.assert_allclose(table["difference_high"], table["difference"] + half)


def test_intervals_end_where_scores_do() -> None:
    table = winners_curse(make_search({"a": [500.0]}, {"a": [500.0, 480.0, 400.0]}))
    assert 480.0 < table["confirmed_high"][0] < 500.0


@pytest.mark.parametrize("failed", [[HELD_OUT], [HELD_OUT, HELD_OUT + 1, HELD_OUT + 2]])
def test_a_held_out_seed_that_failed_is_left_out_and_counted(failed: list[int]) -> None:
    runs = with_status(RUNS, "b", failed, "failed")
    table = winners_curse(runs, "base").set_index("config")
    assert table.loc["b", "num_seeds"] == 3 - len(failed)
    assert table.loc["b", "confirmed"] == pytest.approx(395.0 if len(failed) == 1 else NAN, nan_ok=True)
    told = search_sentences(runs, curves_of(runs), "base")
    assert f"Of the trials, {len(failed)} failed." in told[1]
    if len(failed) == 1:  # both that were picked, on the two seeds that both have: 395 and 410 for 430 and 410
        assert (
            "scored 420.0 in the search (mean of 1 to 2 seeds each) and 402.5 on 2 held-out seeds: "
            "a difference of -17.5 ["
        ) in told[2]
    else:
        assert told[2].startswith(
            "The configuration that was picked because it led scored 410.0 in the search (mean of 2 seeds) and 405.0"
        )


def test_a_base_that_was_never_searched_has_nothing_to_compare_with() -> None:
    runs = make_search({"a": [400.0], "b": [300.0]}, {"a": [390.0, 380.0], "base": [200.0, 210.0]})
    table = winners_curse(runs, "base").set_index("config")
    assert np.isnan(table.loc["base", ["searched", "difference", "difference_low"]].astype(float)).all()
    assert (table.loc["base", "num_search_seeds"], table.loc["base", "confirmed"]) == (0, 205.0)
    assert (
        "The base configuration, `base`, has a mean score of 205.0 ["
        in search_sentences(runs, curves_of(runs), "base")[-1]
    )


def test_one_configuration_with_one_seed_has_numbers_and_no_interval() -> None:
    runs = make_search({"a": [400.0]}, {"a": [390.0]})
    assert np.isnan(winners_curse(runs)["difference_low"][0])
    assert search_sentences(runs, curves_of(runs))[2] == (
        "The configuration that was picked because it led scored 400.0 in the search (mean of 1 seed) "
        "and 390.0 on 1 held-out seed: a difference of -10.0, without an interval."
    )


def test_what_was_stopped_in_the_search_and_picked_all_the_same_has_no_search_score() -> None:
    runs = make_search({"a": [NAN], "b": [NAN]}, {"a": [300.0, 310.0]})
    assert np.isnan(winners_curse(runs)["searched"][0])
    assert "None of those that were picked has a score of the search" in search_sentences(runs, curves_of(runs))[2]


@pytest.mark.nightly
def test_the_best_of_pure_noise_does_worse_on_seeds_that_did_not_pick_it() -> None:
    """Twenty configurations that are all alike: the three that lead were lucky,
    and their curse is about what order statistics say.
    """
    rng, differences, covered = np.random.default_rng(0), [], 0
    for _ in range(100):
        found = {f"c{i}": [250 + 20 * rng.normal()] for i in range(20)}
        best = sorted(found, key=lambda c: found[c][0], reverse=True)[:3]
        runs = make_search(found, {c: list(250 + 20 * rng.normal(size=5)) for c in best})
        table = winners_curse(runs)
        differences.append(table["difference"].mean())
        ends = table["searched"] + table["difference_low"], table["searched"] + table["difference_high"]
        covered += int(((ends[0] < 250) & (ends[1] > 250)).sum())
    # the means of the first three of 20: 1.87, 1.41, 1.13
    assert np.mean(differences) == pytest.approx(-20 * 1.47, abs=2)
    assert covered / 300 == pytest.approx(0.95, abs=0.04)
    told = search_sentences(runs, curves_of(runs))[2]
    assert "a difference of -" in told and "the winner's curse" in told


def test_a_search_that_was_unlucky_is_told_so() -> None:
    runs = make_search({"a": [300.0]}, {"a": [400.0, 405.0, 410.0]})
    assert "a difference of +105.0 [" in search_sentences(runs, curves_of(runs))[2]
    assert "did not flatter" in search_sentences(runs, curves_of(runs))[2]


# What it cost.


def test_env_steps_are_those_that_were_reported() -> None:
    runs = with_status(RUNS, "c", [0], "failed")
    cost = spent(runs, curves_of(runs))
    assert cost.loc["search"].to_dict() == {
        "num_configurations": 5, "num_seeds": 2, "num_trials": 7, "num_finished": 5, "num_stopped": 1, "num_failed": 1,
        "env_steps": 5 * BUDGET + 2 * (BUDGET // 4),
    }  # fmt: skip
    assert cost.loc["confirm", ["num_configurations", "num_seeds", "num_trials", "num_finished"]].tolist() == [
        3,
        3,
        9,
        9,
    ]
    assert cost.loc["confirm", "env_steps"] == 9 * BUDGET


def test_without_curves_a_trial_has_used_what_it_came_to() -> None:
    # the one that was stopped
    runs = RUNS.assign(end_env_steps=RUNS["end_env_steps"].where(RUNS["score"].notna(), 20_000))
    runs.loc[0, "end_env_steps"] = 30_000  # it held the target
    cost = spent(runs, make_curves(runs, {}))
    assert cost["env_steps"].tolist() == [5 * BUDGET + 50_000, 9 * BUDGET]
    assert cost.loc["search", ["num_finished", "num_stopped"]].tolist() == [6, 1]


def test_a_trial_at_full_budget_whose_score_is_no_number_was_not_stopped() -> None:
    runs = make_search({"a": [NAN]}, {})
    cost = spent(runs, curves_of(runs, stopped_at=BUDGET))
    assert cost.loc["search", ["num_finished", "num_stopped"]].tolist() == [1, 0]


# How it went.


def test_progress_is_in_the_order_of_ends_with_the_best_mean_so_far() -> None:
    runs = with_status(RUNS, "c", [0], "failed")
    runs.loc[runs["config"] == "a", "ended"] += pd.Timedelta(hours=1)
    found = progress(runs, curves_of(runs))
    assert found["config"].tolist() == ["b", "c", "base", "d", "base", "a", "a"]
    assert found["outcome"].tolist() == [
        "finished",
        "failed",
        "finished",
        "stopped",
        "finished",
        "finished",
        "finished",
    ]
    assert found["env_steps"].tolist() == [100_000, 125_000, 225_000, 250_000, 350_000, 450_000, 550_000]
    # d: its last evaluation
    assert found["score"].tolist() == pytest.approx([430.0, NAN, 250.0, 25.0, 270.0, 400.0, 420.0], nan_ok=True)
    assert found["best"].tolist() == [430.0] * 7


def test_the_best_so_far_falls_when_the_leader_does() -> None:
    runs = make_search({"a": [NAN], "b": [400.0, 300.0]}, {})
    assert progress(runs, curves_of(runs))["best"].tolist() == pytest.approx([NAN, 400.0, 350.0], nan_ok=True)


def test_trials_that_run_are_not_there_yet() -> None:
    runs = with_status(RUNS, "a", [1], "running")
    runs.loc[runs["status"] == "running", "ended"] = pd.NaT
    assert len(progress(runs, curves_of(runs))) == 6
    assert "1 without an end" in search_sentences(runs, curves_of(runs))[0]


# In words.


def test_the_sentences_say_what_was_searched_what_is_left_and_what_counts() -> None:
    assert search_sentences(RUNS, curves_of(RUNS), "base")[:2] == [
        "The search tried 5 configurations in 7 trials, 1 to 2 seeds each: 625,000 env steps. "
        "Of the trials, 1 stopped early.",
        "3 configurations were run again at full budget, on 3 held-out seeds: 9 trials, 900,000 env steps. "
        "Conclusions rest on these alone.",
    ]
    curse = search_sentences(RUNS, curves_of(RUNS), "base")[2]
    assert curse.startswith(
        "The 2 configurations that were picked because they led scored 420.0 in the search (mean of 1 to 2 seeds each) "
        "and 397.5 on 3 held-out seeds: a difference of -22.5 ["
    )
    assert curse.endswith("which may be chance.")  # 10 over seeds, t with 2 degrees of freedom: 22.5 is not 24.8


def test_a_fixed_design_has_nothing_to_say() -> None:
    assert search_sentences(RUNS.assign(exploratory=False), curves_of(RUNS)) == []
    assert winners_curse(RUNS.assign(exploratory=False)).empty


@pytest.mark.parametrize(
    ("counts", "words"), [([1], "1 seed"), ([2, 2], "2 seeds"), ([0, 1], "0 to 1 seed"), ([1, 3], "1 to 3 seeds")]
)
def test_numbers_are_counted_in_words(counts: list[int], words: str) -> None:
    assert how_many(pd.Series(counts), "seed") == words


def test_what_the_search_aimed_at_is_told_unless_it_is_the_score_alone() -> None:
    assert search_sentences(RUNS, curves_of(RUNS), "base", ["score"]) == search_sentences(RUNS, curves_of(RUNS), "base")
    told = search_sentences(RUNS, curves_of(RUNS), "base", ["score", "train_s"])
    assert "625,000 env steps. It aimed at score and training seconds. Of the trials, 1 stopped early." in told[0]
    assert "because they led by score and training seconds scored 420.0" in told[2]
    (told, _) = search_sentences(
        make_search(FOUND, {}), curves_of(make_search(FOUND, {})), objectives=["env_steps_to_target"]
    )
    assert "It aimed at env steps to target." in told


# A population.


POPULATION = make_population(
    [
        [("a", None, 100.0), ("b", None, 200.0), ("c", None, 300.0)],
        [("d", 2, 310.0), ("b", 1, 250.0), ("c", 2, 320.0)],
        [("d", 0, 420.0), ("d", 2, 400.0), ("c", 2, 350.0)],
    ],
    {"d": [300.0, 310.0, 305.0], "c": [340.0, 350.0, 345.0], "base": [90.0, 95.0, 100.0]},
)


def reports_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Two reports of each trial that ended, the second one at its end."""
    ended = runs[runs["score"].notna()].to_dict("records")
    points = {
        (row["config"], row["seed"]): {
            "eval/return_mean": [
                (row["start_env_steps"] + GENERATION // 2, 1.0, row["score"] / 2),
                (row["budget_env_steps"], 2.0, row["score"]),
            ]
        }
        for row in ended
    }
    return make_curves(runs, points)


def test_a_generation_costs_what_it_was_trained_and_was_not_stopped() -> None:
    cost = spent(POPULATION, reports_of(POPULATION))
    assert cost.loc["search"].to_dict() == {
        "num_configurations": 4, "num_seeds": 3, "num_trials": 9, "num_finished": 9, "num_stopped": 0, "num_failed": 0,
        "env_steps": 9 * GENERATION,
    }  # fmt: skip
    assert cost.loc["confirm", ["num_configurations", "env_steps"]].tolist() == [3, 9 * BUDGET]
    assert spent(POPULATION, make_curves(POPULATION, {}))["env_steps"].tolist() == [9 * GENERATION, 9 * BUDGET]
    halfway = reports_of(POPULATION)
    halfway = halfway[(halfway["run_id"] != "2/1") | (halfway["env_steps"] < 3 * GENERATION)]
    failed = with_status(POPULATION, "d g=2", [1], "failed")
    assert spent(failed, halfway).loc["search", ["num_failed", "env_steps"]].tolist() == [1, 8.5 * GENERATION]
    # failed before it reported
    assert spent(failed, halfway[halfway["run_id"] != "2/1"]).loc["search", "env_steps"] == 8 * GENERATION


def test_members_with_the_same_settings_are_not_seeds_of_one_configuration() -> None:
    found = progress(POPULATION, reports_of(POPULATION))
    assert found["env_steps"].tolist() == [GENERATION * (i + 1) for i in range(9)]
    assert found["best"].tolist() == [100.0, 200.0, 300.0, 310.0, 310.0, 320.0, 420.0, 420.0, 420.0]
    assert set(found["outcome"]) == {"finished"}


def test_settings_are_confirmed_against_what_members_ended_with_them() -> None:
    table = winners_curse(POPULATION, "base").set_index("config")
    assert table["searched"].tolist() == pytest.approx([410.0, 350.0, NAN], nan_ok=True)
    assert table["num_search_seeds"].tolist() == [2, 1, 0]
    assert table["difference"].tolist() == pytest.approx([-105.0, -5.0, NAN], nan_ok=True)


def test_the_sentences_say_that_a_schedule_is_compared_with_its_last_settings() -> None:
    told = search_sentences(POPULATION, reports_of(POPULATION), "base", ["score"])
    assert told[0] == (
        "A population of 3 members tried 4 configurations in 9 trials, a generation of a member each: "
        "180,000 env steps."
    )
    assert told[2].startswith(
        "The members that ended with the 2 configurations that were picked scored 380.0 (mean of 1 to 2 members each), "
        "with weights that may have gone through other settings before. Trained from scratch with these settings "
        "alone, they scored 325.0 on 3 held-out seeds: a difference of -55.0 ["
    )
    assert told[2].endswith(", which may be the winner's curse, or what earlier settings gave the weights.")
    one = POPULATION[~POPULATION["config"].isin(["c"])]
    told = search_sentences(one, reports_of(one), "base")[2]
    assert "ended with the configuration that was picked scored 410.0 (mean of 2 members), " in told
    assert "settings alone, it scored 305.0" in told


def test_before_the_last_generation_is_whole_the_one_before_it_is_compared() -> None:
    begun = POPULATION[~((POPULATION["trial_id"] == "g2_s1") | (POPULATION["config"] == "base"))]
    table = winners_curse(begun).set_index("config")
    assert table["searched"].tolist() == [310.0, 320.0]


# In the report.


def test_the_report_begins_with_the_search_and_rests_on_what_was_confirmed() -> None:
    report, text = report_of(RUNS)
    assert "The best is `a`" in report.answers[0].headline  # though b led the search
    assert report.table["config"].tolist() == ["a", "b", "base"]
    assert list(report.pictures)[:2] == ["search-progress.svg", "search-confirmed.svg"]
    assert text.index("What the search found") < text.index("Learning curves") < text.index("Every seed")
    for words in (
        (
            "5 configurations searched in 7 trials, 3 confirmed \u00d7 3 held-out seeds, "
            "15 of 16 trials finished, 1 stopped early"
        ),
        "budget_env_steps=200000",
        "The recommended configuration is the best of 3 on the seeds that confirm, which flatters it a little.",
        "0, 1 in the search; 1000, 1001, 1002 held out, to confirm",
        "Search and confirmation.",
    ):
        assert words in text, words
    for words in ("so they flatter it", "exploratory", "Learning rate and batch"):
        assert words not in text, words
    # among all that were searched
    assert "is the smallest that was tried" not in text and "is the largest that was tried" not in text


@pytest.mark.parametrize("status", ["", "running", "failed"])
def test_with_nothing_confirmed_there_is_the_search_alone(status: str) -> None:
    runs = make_search(FOUND, CONFIRMED if status else {})
    for config in CONFIRMED if status else ():
        runs = with_status(runs, config, range(HELD_OUT, HELD_OUT + 3), status)
    report, text = report_of(runs)
    assert list(report.pictures) == ["search-progress.svg"]
    assert "Nothing is confirmed yet." in text
    assert "no conclusion" in text
    assert report.answers[0].decision.chosen is None
    assert ("none confirmed" in text) == (not status)


def test_caveats_of_a_single_confirmed_configuration_do_not_speak_of_a_choice() -> None:
    runs = make_search({"a": [400.0], "b": [300.0]}, {"a": [390.0, 395.0]})
    assert not [c for c in caveats(Evidence(runs)) if "flatter" in c]
    assert decide(runs[~runs["exploratory"]])[0].chosen == "a"


def test_a_confirmed_one_at_the_end_of_what_was_searched_is_told() -> None:
    runs = RUNS.assign(lr=RUNS["config"].astype(str).map({**LR, "a": 3e-2}))
    found = caveats(Evidence(runs, axes=("lr",)))
    assert [c for c in found if "lr = 0.03 is the largest that was tried" in c]


def test_the_report_says_whether_what_earlier_studies_found_holds_here() -> None:
    runs = RUNS.assign(lr=RUNS["config"].astype(str).map(LR))
    study = replace(study_of(runs, reports_of(runs), ("lr",)), base="base", objectives=("score",))
    earlier = (("a/ppo-cartpole", "r1", 0.83), ("b/ppo-acrobot", "r2", 0.0), ("c/ppo-pendulum", "r3", None))
    text = Page(build(replace(study, earlier=earlier)).html).text
    for words in (
        "The search started from what was found in a/ppo-cartpole (run r1), whose order of settings holds here (rank "
        "correlation 0.83), and was used;",
        "b/ppo-acrobot (run r2), whose order of settings was not seen to hold here: beyond the first trials it was not "
        "used;",
        "c/ppo-pendulum (run r3), and whether its order of settings holds here is not recorded.",
    ):
        assert words in text, words
    assert "The search started from" not in Page(build(study).html).text


def test_the_report_of_a_population_says_who_was_copied_from_whom() -> None:
    runs = POPULATION.assign(lr=POPULATION["config"].astype(str).str[0].map(LR))
    report = build(replace(study_of(runs, reports_of(runs), ("lr",)), base="base", objectives=("score",)))
    page = Page(report.html)
    assert list(report.pictures)[:3] == ["search-progress.svg", "search-confirmed.svg", "lineage.svg"]
    order = [
        page.text.index(title) for title in ("What the search found", "Lineage of the population", "Learning curves")
    ]
    assert order == sorted(order)
    for words in (
        "4 configurations searched in 9 trials, 3 confirmed \u00d7 3 held-out seeds, 18 of 18 trials finished",
        "a generation of a member each",
        "a seed per member",
        "0, 1, 2 in the search; 1000, 1001, 1002 held out, to confirm",
    ):
        assert words in page.text, words
    assert "lineage.svg" not in report_of(RUNS)[0].pictures


# In the notebooks.


def test_a_notebook_tries_again_on_seeds_that_nothing_has_seen() -> None:
    study = replace(
        study_of(RUNS.assign(lr=RUNS["config"].astype(str).map(LR)), curves_of(RUNS), ("lr",)), seeds=(0, 1)
    )
    (step,) = next_steps(study)
    assert "budget_env_steps=200000" in step  # no seed reached the target
    assert record(study).loc["seeds", "recorded"] == "0, 1 in the search; 1000, 1001, 1002 held out, to confirm"
    fixed = replace(study, runs=study.runs.assign(exploratory=False), seeds=(0, 1))
    assert record(fixed).loc["seeds", "recorded"] == "0, 1"
