"""What fresh seeds say of a recommendation."""

import math
from dataclasses import replace

import numpy as np
import pytest

from analysis.document.confirmation import sentence
from analysis.evidence import Claim, Evidence
from analysis.questions.confirmation import Confirmation, beside_of, claim_of, confirmation_of
from analysis.questions.decision import decision_of, summary_of
from analysis.stats.interval import Interval, difference_of_intervals, mean_interval
from tests.support.study_frames import Values, make_runs

SCORES: Values = {"a": [480.0, 490.0, 485.0], "b": [300.0, 320.0, 310.0], "c": [100.0, 120.0, 90.0]}
SAID = Claim("a", "score", Interval(400.0, 380.0, 420.0), 5, 0)


def confirmed(scores: Values, claim: Claim = SAID, **measures: Values) -> Confirmation:
    found = confirmation_of(Evidence(make_runs(scores, **measures), claims={"cartpole": claim}))
    assert found is not None
    return found


def test_a_study_says_what_it_recommends_by_the_measure_that_decided() -> None:
    evidence = Evidence(make_runs(SCORES))
    claim = claim_of(decision_of(evidence), summary_of(evidence), ["b"])
    assert (claim.config, claim.measure, claim.num_seeds, claim.num_at_end, claim.beside) == (
        "a",
        "score",
        3,
        3,
        ("b",),
    )
    assert claim.value.estimate == 485.0
    assert claim.value.low < 485.0 < claim.value.high


def test_of_several_that_are_about_as_good_what_is_to_be_expected_is_claimed() -> None:
    evidence = Evidence(make_runs({"a": [300.0, 320.0, 340.0], "b": [290.0, 330.0, 310.0]}))
    claim = claim_of(decision_of(evidence), summary_of(evidence), [])
    assert claim.value == decision_of(evidence).expected


def test_a_recommendation_holds_unless_it_comes_out_significantly_worse() -> None:
    as_good = confirmed({"a": [395.0, 405.0, 390.0, 408.0, 400.0]})
    assert as_good.confirmed
    assert as_good.change.low < 0 < as_good.change.high
    worse = confirmed({"a": [300.0, 310.0, 290.0, 305.0, 300.0]})
    assert not worse.confirmed
    assert worse.change.estimate == pytest.approx(-99.0)
    assert worse.change.high < 0
    assert confirmed({"a": [480.0, 490.0, 470.0, 485.0, 480.0]}).confirmed  # better is no refutation


def test_more_env_steps_to_the_target_are_worse_and_fewer_are_not() -> None:
    claim = Claim("a", "env_steps_to_target", Interval(20_000.0, 18_000.0, 22_000.0), 5, 5)
    solved: Values = {"a": [500.0] * 5}
    later = confirmed(solved, claim, env_steps_to_target={"a": [40_000.0, 42_000.0, 41_000.0, 39_000.0, 40_000.0]})
    sooner = confirmed(solved, claim, env_steps_to_target={"a": [10_000.0, 12_000.0, 11_000.0, 9_000.0, 10_000.0]})
    assert (later.confirmed, sooner.confirmed) == (False, True)


def test_what_is_significantly_better_on_the_same_seeds_refutes_it() -> None:
    claim = replace(SAID, beside=("b",))
    better = confirmed({"a": [400.0, 405.0, 395.0, 400.0], "b": [470.0, 476.0, 466.0, 471.0]}, claim)
    assert not better.confirmed
    assert better.others["b"].high < 0
    assert sentence(better).endswith(" Use `b` instead, score 470.8.")
    level = confirmed({"a": [400.0, 405.0, 395.0, 400.0], "b": [405.0, 399.0, 396.0, 401.0]}, claim)
    assert level.confirmed
    assert level.others["b"].low < 0 < level.others["b"].high


def test_the_recommendation_stands_as_the_choice_of_the_new_study_while_nothing_is_better() -> None:
    runs = make_runs({"a": [400.0, 405.0, 395.0, 400.0], "b": [405.0, 402.0, 399.0, 401.0]})
    claims = {"cartpole": replace(SAID, beside=("b",))}
    decision = decision_of(Evidence(runs, claims=claims))
    assert (decision.chosen, decision.chosen_by) == ("a", "claim")
    runs = make_runs({"a": [400.0, 405.0, 395.0, 400.0], "b": [470.0, 476.0, 466.0, 471.0]})
    assert decision_of(Evidence(runs, claims=claims)).chosen == "b"


def test_speeds_are_compared_as_ratios() -> None:
    runs = make_runs({"a": [0.0] * 4}, env_steps_per_s={"a": [900.0, 910.0, 890.0, 900.0]}).assign(phase="throughput")
    claim = Claim("a", "env_steps_per_s", Interval(1000.0, 990.0, 1010.0), 4, 0)
    found = confirmation_of(Evidence(runs, claims={"cartpole": claim}))
    assert found is not None
    assert not found.confirmed
    assert found.change.estimate == pytest.approx(0.9, abs=0.01)
    assert "0.90 [0.88, 0.92] times as fast" in sentence(found)


def test_without_a_finished_seed_nothing_is_confirmed() -> None:
    runs = make_runs({"a": [1.0, 2.0]}).assign(status="failed", score=np.nan)
    found = confirmation_of(Evidence(runs, claims={"cartpole": SAID}))
    assert found is not None
    assert not found.confirmed
    assert sentence(found) == "Not confirmed: no fresh seed of `a` finished."


def test_an_ordinary_study_confirms_nothing() -> None:
    assert confirmation_of(Evidence(make_runs(SCORES))) is None


def test_the_sentence_says_whether_by_how_much_and_against_what() -> None:
    claim = replace(SAID, beside=("b", "c"))
    told = sentence(
        confirmed(
            {"a": [395.0, 405.0, 390.0, 410.0], "b": [395.0, 405.0, 390.0, 410.0], "c": [9.0, 12.0, 10.0, 11.0]}, claim
        )
    )
    assert told.startswith("Confirmed on 4 fresh seeds: `a` has score 400.0 [")
    assert "] now and 400.0 [380.0, 420.0] in the study, 0.0 more [" in told
    assert "]; 0 of 4 seeds end at 475 or above now, 0 of 5 did in the study; it is not significantly " in told
    assert told.endswith("]).")
    assert " and better than `c` (389.5 more [" in told
    told = sentence(confirmed({"a": [300.0, 310.0, 290.0, 305.0]}))
    assert told.startswith("Not confirmed on 4 fresh seeds: `a` has score 301.2 [")
    assert " in the study, 98.8 less [" in told


def test_what_runs_beside_it_is_named_by_its_part_or_its_name() -> None:
    evidence = Evidence(make_runs({"a": [480.0, 490.0], "b": [470.0, 495.0], "c": [10.0, 12.0], "d": [5.0, 3.0]}))
    chosen = decision_of(evidence).chosen
    (other,) = {"a", "b"} - {chosen}
    assert beside_of(evidence, "c", ["leaders", "base", "d", "d"]) == [other, "c", "d"]
    assert beside_of(evidence, "", ["runner_up"]) == [decision_of(evidence).runner_up]
    assert beside_of(evidence, "", [str(chosen)]) == []
    with pytest.raises(ValueError, match="base is none of leaders, runner_up, nor of its configurations: a, b, c, d"):
        beside_of(evidence, "", ["base"])


def test_the_interval_of_a_difference_is_that_of_two_means_where_both_are_symmetric() -> None:
    found = difference_of_intervals(Interval(10.0, 7.0, 13.0), 5, Interval(4.0, 0.0, 8.0), 5)
    assert (found.estimate, found.low, found.high) == (6.0, 1.0, 11.0)  # the hypotenuse of 3 and 4
    ratio = difference_of_intervals(Interval(10.0, 5.0, 20.0), 5, Interval(5.0, 5.0, 5.0), 5, relative=True)
    assert (ratio.estimate, ratio.low, ratio.high) == pytest.approx((2.0, 1.0, 4.0))


def test_a_single_value_is_taken_to_vary_like_the_others() -> None:
    single = difference_of_intervals(Interval(10.0, 8.0, 12.0), 4, Interval(9.0, math.nan, math.nan), 1)
    assert (single.low, single.high) == pytest.approx((1 - math.hypot(2, 4), 1 + math.hypot(2, 4)))
    neither = difference_of_intervals(Interval(10.0, math.nan, math.nan), 1, Interval(9.0, math.nan, math.nan), 1)
    assert neither.estimate == 1.0
    assert math.isnan(neither.low)


def test_the_interval_of_a_difference_covers_it() -> None:
    """Of two means of five draws each, by simulation: 95%, within what 2,000 of them can show."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(2000):
        a, b = (mean_interval(rng.normal(size=5)) for _ in range(2))
        found = difference_of_intervals(a, 5, b, 5)
        held += found.low <= 0 <= found.high
    assert 0.94 <= held / 2000 <= 0.985
