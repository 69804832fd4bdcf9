"""Which configurations are practically the same, and what the choice makes of it."""

import numpy as np
import pandas as pd
import pytest

from analysis.document.answer import answers
from analysis.document.next_step import StudyCommand, next_step
from analysis.evidence import Evidence
from analysis.questions.convergence import by_seed
from analysis.questions.decision import decide
from analysis.questions.equivalence import delta_of, practically_best
from analysis.stats.equivalence import seeds_for_equivalence
from tests.support.study_frames import make_runs

OF_SEEDS = np.array([400.0, 380, 420, 390, 410, 405, 395, 388, 412, 400])
WIGGLE = np.array([1.0, -1, 2, -2, 0, 1, -1, 2, -2, 0])


def study(**measures: dict[str, list[float]]) -> pd.DataFrame:
    """The best, one that is 3 worse on every seed, one that varies 24 times as much, and one far below;
    delta is 2% of 500.
    """
    scores = {
        "best": OF_SEEDS,
        "cheap": OF_SEEDS - 3 + WIGGLE / 2,
        "varies": OF_SEEDS - 4 + 12 * WIGGLE,
        "bad": OF_SEEDS - 200 + WIGGLE,
    }
    costs = {"best": 100.0, "cheap": 50.0, "varies": 10.0, "bad": 1.0}
    return make_runs(
        {c: list(s) for c, s in scores.items()},
        target=np.nan,
        train_s={c: [s] * 10 for c, s in costs.items()},
        **measures,
    )


def quiet_study() -> pd.DataFrame:
    """The same without the one that varies."""
    runs = study()[lambda runs: runs["config"] != "varies"]
    return runs.assign(config=runs["config"].cat.remove_unused_categories())


def test_delta_is_what_the_study_says_or_a_fiftieth_of_the_range() -> None:
    runs = make_runs({"a": [100.0, 300.0]})
    assert delta_of(runs) == 10
    assert delta_of(runs.assign(delta=25.0)) == 25
    assert delta_of(runs.assign(delta=np.nan)) == 10


@pytest.mark.parametrize(("known", "delta"), [((np.nan, np.nan), 4.0), ((np.nan, 500.0), 8.0), ((-100.0, np.nan), 8.0)])
def test_an_end_of_the_range_that_is_not_known_is_the_score_that_was_seen(
    known: tuple[float, float], delta: float
) -> None:
    assert delta_of(make_runs({"a": [100.0, 300.0]}, score_range=known)) == pytest.approx(delta)


def test_without_a_range_nothing_is_practically_the_same() -> None:
    runs = make_runs({"a": [100.0, 100.0], "b": [100.0, 100.0]}, score_range=(np.nan, np.nan))
    assert np.isnan(delta_of(runs))
    assert practically_best(by_seed(runs, "score"), delta_of(runs)) == []


def test_of_those_that_are_practically_the_same_the_cheapest_is_chosen() -> None:
    (found,) = decide(study())
    assert found.equivalent == ("cheap", "best")
    assert found.leaders == ("cheap", "best", "varies")  # the cheapest of all varies too much to be known to be as good
    assert (found.chosen, found.chosen_by, found.delta) == ("cheap", "cost", 10)
    assert found.runner_up == "varies"


def test_one_that_is_significantly_worse_by_less_than_delta_is_practically_the_same() -> None:
    (strict,) = decide(quiet_study().assign(delta=1.0))
    assert (strict.leaders, strict.equivalent, strict.chosen) == (("best",), (), "best")
    (found,) = decide(quiet_study())
    assert (found.leaders, found.equivalent, found.chosen) == (("cheap", "best"), ("cheap", "best"), "cheap")


def test_one_that_fails_on_a_seed_is_not_taken_for_its_cost_though_its_mean_is_the_same() -> None:
    runs = study().assign(failure_below=378.0)
    runs.loc[(runs["config"] == "cheap") & (runs["seed"] == 1), "score"] = 377.9
    (found,) = decide(runs)
    assert found.equivalent == ("best", "cheap")
    assert (found.chosen, found.chosen_by) == ("best", "reliability")


def test_the_seeds_that_an_equivalence_needs_are_those_of_the_next_best() -> None:
    (found,) = decide(study())
    fewest, most = found.equivalence_seeds
    assert fewest < seeds_for_equivalence(0, found.spread, 10, 0.05 / 3) < most
    (settled,) = decide(quiet_study())
    assert (settled.runner_up, settled.equivalence_seeds, settled.telling_seeds) == ("bad", (0, 0), (0, 0))


def test_where_env_steps_decide_nothing_is_called_practically_the_same() -> None:
    (found,) = decide(make_runs({"a": [500.0, 499, 498], "b": [500.0, 498, 499]}))
    assert found.saturated
    assert (found.equivalent, found.equivalence_seeds) == ((), (0, 0))


def test_the_answer_says_what_is_the_same_what_is_open_and_what_the_set_promises() -> None:
    (answer,) = answers(Evidence(study()))
    assert answer.headline.endswith(
        " `best` (score 400.0 [390.0, 409.3]) is practically the same, within 10. "
        "`varies` (score 396.0 [382.5, 408.3]) is not significantly different."
    )
    assert answer.certainty.startswith(
        "This one, because among those practically the same it is the cheapest in training seconds. "
        "The best by score is one of these 3 with 95% confidence. To show that `varies` is within 10 of it, if it is, "
        "takes "
    )
    assert answer.certainty.endswith(" seeds of each.")


def test_what_is_practically_the_same_is_not_run_again_to_find_a_difference() -> None:
    asked = StudyCommand("0123", "python experiments/run.py")
    runs = quiet_study()
    (found,) = decide(runs)
    step = next_step(found, runs, asked)
    assert step is not None
    assert step.sentence.startswith("To confirm it: 5 fresh seeds")


def test_all_that_are_called_the_same_differ_by_less_than_delta_in_95_percent_of_studies() -> None:
    """Five that differ from the best by exactly delta."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(150):
        scores = pd.DataFrame(
            rng.normal(np.array([320, 300, 300, 300, 300, 300])[:, None], 15, (6, 10)), index=list("abcdef")
        )
        wrong += len(practically_best(scores, 20)) > 0
    assert wrong <= 150 * 0.05 + 2 * np.sqrt(150 * 0.05 * 0.95)
