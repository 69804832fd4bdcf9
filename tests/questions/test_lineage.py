"""The lineage of a population, from hand-made frames."""

import pandas as pd
import pytest

from analysis.document.search import lineage_sentences
from analysis.questions.lineage import is_population, lineage, schedule, settings
from tests.support.study_frames import GENERATION, make_population, make_runs, make_search, with_status

NAN = float("nan")
GENERATIONS = [
    [("a", None, 100.0), ("b", None, 200.0), ("c", None, 300.0)],
    [("d", 2, 310.0), ("b", 1, 250.0), ("c", 2, 320.0)],
    [("d", 0, 420.0), ("e", 2, 400.0), ("c", 2, 350.0)],
]
CONFIRMED = {"d": [300.0], "e": [310.0]}
RUNS = make_population(GENERATIONS, CONFIRMED)
TREE = lineage(RUNS)


def test_every_generation_of_every_member_is_a_row_with_its_parent() -> None:
    assert list(TREE.index) == list(RUNS.index[RUNS["exploratory"]])
    assert TREE["member"].tolist() == [0, 1, 2] * 3
    assert TREE["generation"].tolist() == [0] * 3 + [1] * 3 + [2] * 3
    assert TREE["settings"].tolist() == ["a", "b", "c", "d", "b", "c", "d", "e", "c"]
    assert TREE["start_env_steps"].tolist() == [0] * 3 + [GENERATION] * 3 + [2 * GENERATION] * 3
    assert (TREE["env_steps"] - TREE["start_env_steps"]).tolist() == [GENERATION] * 9
    assert TREE["score"].tolist() == [score for members in GENERATIONS for _, _, score in members]
    assert TREE["parent_member"].isna().tolist() == [True] * 3 + [False] * 6
    assert TREE["parent_member"].tolist()[3:] == [2, 1, 2, 0, 2, 2]
    assert TREE["copied"].tolist() == [False] * 3 + [True, False, False, False, True, False]
    assert TREE["is_last"].tolist() == [False] * 6 + [True] * 3


def test_the_best_one_has_a_way_through_its_copies() -> None:
    assert TREE.index[TREE["is_best"]].tolist() == [2, 3, 6]  # member 2, which member 0 copied
    expected = pd.DataFrame(
        {
            "start_env_steps": [0, GENERATION],
            "settings": ["c", "d"],
            "member": [2, 0],
            "parent_member": pd.array([pd.NA, 2], dtype="Int64"),
            "env_steps": [GENERATION, 3 * GENERATION],
        }
    )
    pd.testing.assert_frame_equal(schedule(TREE), expected, check_dtype=False)


def test_the_sentences_tell_the_size_the_copies_and_the_schedule() -> None:
    assert lineage_sentences(TREE) == [
        "3 members, each with a seed of its own, trained side by side for 3 generations (9 trials), to 60,000 env "
        "steps. Between generations, 2 times in all, one of the worst took over the weights of one of the best, "
        "and its settings, varied. The 3 members of `g=2` descend from 1 of `g=0`.",
        "The best at the end of `g=2` is member 0, with a score of 420.0 (one seed, so no interval). "
        "Its weights went through a schedule of settings: `c` up to 20,000 env steps as member 2; "
        "then `d` up to 60,000 env steps as member 0, a copy of member 2. A confirmation takes only the last of these.",
    ]


def test_of_equal_scores_the_larger_area_under_the_curve_decides_and_then_the_first() -> None:
    members = [("a", None, 500.0), ("b", None, 500.0), ("c", None, 500.0)]
    runs = make_population([members], {})
    assert lineage(runs)["is_best"].tolist() == [True, False, False]
    tree = lineage(runs.assign(auc=[1.0, 2.0, 2.0]))
    assert tree["is_best"].tolist() == [False, True, False]
    told = lineage_sentences(tree)[1]
    assert (
        "(one seed, so no interval; 2 more end with the same score). It was no copy, and kept its settings: `b`."
        in told
    )


def test_a_member_that_failed_takes_over_and_ends_no_generation_early() -> None:
    tree = lineage(make_population([[("a", None, NAN), ("b", None, 200.0)], [("c", 1, 150.0), ("b", 1, 210.0)]], {}))
    assert tree["is_last"].tolist() == [False, False, True, True]
    assert tree["is_best"].tolist() == [False, True, False, True]
    failed = lineage(make_population([[("a", None, 100.0), ("b", None, NAN)]], {}))
    assert failed["is_last"].all()
    assert failed["is_best"].tolist() == [True, False]
    late = RUNS.assign(status=RUNS["status"].mask(RUNS["config"] == "d g=2", "failed"))  # after its last report
    assert lineage(late).query("is_best")["settings"].tolist() == ["c", "c", "e"]


@pytest.mark.parametrize("status", ["running", "interrupted", "missing"])
def test_a_generation_that_is_not_whole_is_not_the_last(status: str) -> None:
    tree = lineage(with_status(RUNS, "e g=2", [1], status))
    assert tree["is_last"].tolist() == [False] * 3 + [True] * 3 + [False] * 3
    assert tree.index[tree["is_best"]].tolist() == [2, 5]
    assert "The best at the end of `g=1` is member 2" in lineage_sentences(tree)[1]


def test_a_generation_of_which_some_have_not_begun_is_not_the_last() -> None:
    tree = lineage(make_population([*GENERATIONS[:2], GENERATIONS[2][:1]], {}))
    assert tree["is_last"].tolist() == [False] * 3 + [True] * 3 + [False]
    assert "for 3 generations (7 trials)" in lineage_sentences(tree)[0]


def test_without_a_whole_generation_or_a_score_nobody_is_best() -> None:
    begun = lineage(make_population(GENERATIONS[:1], {}).assign(status="running"))
    assert not begun["is_best"].any() and not begun["is_last"].any()
    assert lineage_sentences(begun)[1] == "No generation has ended as a whole yet."
    failed = lineage(make_population([[("a", None, NAN), ("b", None, NAN)]], {}))
    assert failed["is_last"].all() and not failed["is_best"].any()
    assert lineage_sentences(failed)[1] == "No member has a score at the end of `g=0`."


def test_a_parent_whose_run_was_deleted_ends_the_way_back() -> None:
    tree = lineage(with_status(RUNS, "d g=1", [0], "missing"))
    assert tree.index[tree["is_best"]].tolist() == [6]
    assert tree["parent_member"].isna().tolist() == [True] * 3 + [False] * 3 + [True, False, False]
    told = lineage_sentences(tree)
    assert "descend" not in told[0]
    assert "schedule of settings, from 40,000 env steps on: `d` up to 60,000 env steps as member 0. A" in told[1]


def test_other_searches_have_no_lineage() -> None:
    # An axis over gravity, as Pendulum has it, or one that ends in g: the number at the end of a label says nothing.
    gravity = make_search({"lr=1e-3 g=5": [1.0], "lr=1e-3 g=10": [2.0]}, {"lr=1e-3 g=5": [1.0]})
    for runs in (gravity, make_search({"a": [1.0], "b g=0": [2.0]}, {"a": [1.0]}), make_runs({"a g=0": [1.0]})):
        assert not is_population(runs)
        assert settings(runs).tolist() == runs["config"].tolist()
        assert lineage(runs).empty
        assert lineage_sentences(lineage(runs)) == []


def test_the_settings_of_a_population_may_end_as_a_generation_does() -> None:
    tree = lineage(
        make_population([[("g=0", None, 1.0), ("g=1", None, 2.0)], [("g=1", 1, 3.0), ("g=1", 1, 4.0)]], {"g=1": [3.0]})
    )
    assert (tree["settings"].tolist(), tree["generation"].tolist()) == (["g=0", "g=1", "g=1", "g=1"], [0, 0, 1, 1])


def test_what_confirms_keeps_its_name() -> None:
    assert settings(RUNS).tolist() == ["a", "b", "c", "d", "b", "c", "d", "e", "c", "d", "e"]
