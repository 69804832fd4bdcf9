"""No recommendation breaks a constraint, and what the constraints cost is known."""

import numpy as np
import pandas as pd
import pytest

from analysis.document.confirmation import sentence
from analysis.evidence import Claim, Evidence
from analysis.questions.confirmation import confirmation_of
from analysis.questions.constraints import breaking, difference, limits_of, uses
from analysis.questions.decision import decide, decision_of
from analysis.stats.interval import Interval
from experiments.config.constraint_settings import ConstraintSettings
from experiments.contract import CONSTRAINTS
from tests.support.study_frames import Values, make_runs, make_search, with_status

SCORES: Values = {
    "best": [480.0, 490.0, 485.0, 495.0],
    "good": [440.0, 445.0, 435.0, 442.0],
    "bad": [100.0, 110.0, 105.0, 95.0],
}
MEMORY = {"best": [5000.0, 5100.0, 4900.0, 5000.0], "good": [3000.0, 2900.0, 3100.0, 3000.0], "bad": [1000.0] * 4}


def limited(runs: pd.DataFrame, **limits: float) -> pd.DataFrame:
    return runs.assign(**{f"constraint_{name}": limits.get(name, np.nan) for name in CONSTRAINTS})


def study(**limits: float) -> pd.DataFrame:
    return limited(make_runs(SCORES, target=np.nan, memory_mib=MEMORY), **limits)


def test_what_can_be_limited_are_the_settings() -> None:
    given = dict.fromkeys(CONSTRAINTS, 0.5)
    assert dict(ConstraintSettings(**given).given) == given
    assert limits_of(limited(make_runs(SCORES), **given)) == given
    assert limits_of(make_runs(SCORES)) == limits_of(limited(make_runs(SCORES))) == {}


def test_of_memory_hours_and_cost_the_most_of_any_trial_counts_and_of_failures_their_share() -> None:
    seconds = {"best": [3600.0, 7200.0, 3600.0, 3600.0]}
    runs = make_runs(SCORES, target=460.0, memory_mib=MEMORY, train_s=seconds).assign(price_per_hour=2.0, start_s=36.0)
    row = uses(with_status(runs, "best", [0], "failed")).loc["best"]
    assert row.to_dict() == pytest.approx(
        {"failure_probability": 0.25, "memory_gib": 5100 / 1024, "hours": 2.01, "cost": 4.02}
    )


def test_a_decision_is_among_those_that_keep_the_constraints() -> None:
    (free,) = decide(study())
    assert (free.chosen, free.free, free.forgone) == ("best", None, None)
    (found,) = decide(study(memory_gib=4))
    assert (found.chosen, found.order) == ("good", ("good", "bad"))
    assert found.free is not None and found.free.order == ("best", "good", "bad")
    assert found.forgone is not None
    assert found.forgone.estimate == pytest.approx(np.mean(SCORES["best"]) - np.mean(SCORES["good"]))
    assert 0 < found.forgone.low < found.forgone.estimate < found.forgone.high


def test_a_constraint_that_the_best_keeps_changes_nothing() -> None:
    (free,), (found,) = decide(study()), decide(study(memory_gib=10))
    assert (found.chosen, found.order, found.leaders) == (free.chosen, free.order, free.leaders)
    assert found.forgone is None


@pytest.mark.parametrize("limits", [{"memory_gib": 0.5}, {"memory_gib": 4, "failure_probability": 0, "hours": 0.001}])
def test_where_none_keeps_them_none_is_recommended(limits: dict[str, float]) -> None:
    (found,) = decide(study(**limits))
    assert (found.chosen, found.order, found.leaders) == (None, (), ())
    assert found.free is not None and found.free.chosen == "best"
    assert set(breaking(study(**limits))) == set(SCORES)


def test_who_fails_too_often_is_not_recommended_though_its_mean_is_the_best() -> None:
    scores: Values = {"lucky": [500.0, 500.0, 500.0, 500.0, 380.0], "sure": [400.0, 401.0, 399.0, 400.0, 402.0]}
    runs = make_runs(scores, target=np.nan).assign(failure_below=390.0)
    assert decide(runs)[0].chosen == "lucky"
    assert decide(limited(runs, failure_probability=0.2))[0].chosen == "lucky"
    assert decide(limited(runs, failure_probability=0.1))[0].chosen == "sure"
    assert breaking(limited(runs, failure_probability=0.1)) == {"lucky": {"failure_probability": 0.2}}


def test_what_is_not_known_may_be_anything() -> None:
    runs = study(memory_gib=4)
    runs.loc[runs["config"] == "good", "memory_mib"] = np.nan
    assert decide(runs)[0].chosen == "bad"
    assert np.isnan(breaking(runs)["good"]["memory_gib"])


@pytest.mark.parametrize("objective", ["env_steps_to_target", "minutes_to_target", "cost_to_target"])
def test_they_hold_whatever_decides(objective: str) -> None:
    steps = {"best": [10e3, 11e3, 10e3, 12e3], "good": [40e3, 41e3, 42e3, 40e3], "bad": [90e3, 91e3, 92e3, 90e3]}
    seconds = {config: [value / 1000 for value in values] for config, values in steps.items()}
    scores = dict.fromkeys(steps, [500.0] * 4)
    runs = make_runs(scores, memory_mib=MEMORY, env_steps_to_target=steps, seconds_to_target=seconds)
    runs = runs.assign(objective=objective, price_per_hour=1.0)
    assert decide(runs)[0].chosen == "best"
    (found,) = decide(limited(runs, memory_gib=4))
    assert (found.chosen, found.measure) == ("good", objective)
    assert found.forgone is not None and found.forgone.high < 0  # of what is better when it is smaller


def test_a_sequential_comparison_is_among_those_that_keep_them() -> None:
    """All pairs differ at the first look, so that the only leader is the one that takes too much memory."""
    scores = {config: [float(of[0] + i % 5) for i in range(10)] for config, of in SCORES.items()}
    memory = {config: [of[0]] * 10 for config, of in MEMORY.items()}
    runs = make_runs(scores, target=np.nan, memory_mib=memory).assign(
        comparison_seeds_per_look=5.0, comparison_looks=2.0, comparison_alpha=0.05
    )
    assert decide(runs)[0].leaders == ("best",)
    assert decide(limited(runs, memory_gib=4))[0].leaders == ("good",)


def test_of_a_search_what_was_confirmed_can_be_recommended() -> None:
    found = make_search({"best": [490.0], "good": [450.0]}, {"best": SCORES["best"], "good": SCORES["good"]})
    found["memory_mib"] = np.where(found["config"] == "best", 5000.0, 3000.0)
    evidence = Evidence(limited(found, memory_gib=4)).concluding
    assert decision_of(evidence).chosen == "good"


def test_fresh_seeds_refute_a_recommendation_that_breaks_a_constraint() -> None:
    claim = Claim("best", "score", Interval(480.0, 470.0, 490.0), 5, 5, ("good",))
    confirmed = confirmation_of(Evidence(study(memory_gib=10), claims={"cartpole": claim}))
    assert confirmed is not None and confirmed.confirmed and not confirmed.broken
    refuted = confirmation_of(Evidence(study(memory_gib=4), claims={"cartpole": claim}))
    assert refuted is not None and not refuted.confirmed
    assert sentence(refuted).startswith("Not confirmed on 4 fresh seeds: `best` has score ")
    assert "; it breaks the constraints, with 4.98 GiB of memory; it is better than `good`" in sentence(refuted)


def test_nobody_is_named_instead_of_a_recommendation_who_breaks_a_constraint() -> None:
    claim = Claim("good", "score", Interval(440.0, 430.0, 450.0), 5, 0, ("best",))
    runs, claims = study(), {"cartpole": claim}
    free, found = (confirmation_of(Evidence(of, claims=claims)) for of in (runs, limited(runs, memory_gib=4)))
    assert free is not None and " Use `best` instead" in sentence(free)
    assert found is not None and " instead" not in sentence(found)


def test_a_difference_of_two_is_paired_by_seed() -> None:
    found = difference(Evidence(study()).counted, "score", "best", "good")
    assert found.estimate == pytest.approx(47.0)
    single = difference(Evidence(study()[lambda runs: runs["seed"] == 0]).counted, "score", "best", "good")
    assert (single.estimate, np.isnan(single.low)) == (40.0, True)
