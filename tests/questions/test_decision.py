import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis.document.answer import closing_table
from analysis.evidence import Evidence
from analysis.questions.batch_tradeoff import batch_tradeoff
from analysis.questions.decision import Decision, chosen_values, decide, seeds_to_show
from analysis.stats.comparisons import seeds_needed
from tests.support.study_frames import make_runs, together, with_status


def decision(runs: pd.DataFrame) -> Decision:
    (found,) = decide(runs)
    return found


def times(**thousands: list[float]) -> dict[str, dict[str, list[float]]]:
    """Env steps to target, in thousands, at a thousand per second."""
    steps = {config: [1000 * value for value in values] for config, values in thousands.items()}
    return {"env_steps_to_target": steps, "seconds_to_target": thousands}


# By score


def test_a_clear_winner_is_chosen_by_score_and_told_apart_from_all_others() -> None:
    found = decision(make_runs({"low": [100, 110, 105], "best": [400, 410, 395], "mid": [250, 240, 260]}))
    assert (found.env, found.measure, found.saturated) == ("cartpole", "score", False)
    assert found.order == ("best", "mid", "low")
    assert found.leaders == ("best",)
    assert (found.chosen, found.chosen_by, found.runner_up) == ("best", "rank", "mid")
    assert found.difference == pytest.approx((150 + 170 + 135) / 3)
    assert (found.num_seeds, found.telling_seeds) == (3, (0, 0))


def test_among_indistinguishable_leaders_within_a_standard_error_the_cheapest_is_chosen() -> None:
    scores = {
        "dear": [410, 300, 350, 390],
        "cheap": [395, 315, 330, 398],
        "cheapest": [330, 260, 400, 250],
        "bad": [10, 12, 8, 9],
    }
    train_s = {"dear": [90, 91, 92, 90], "cheap": [50, 51, 49, 50], "cheapest": [10, 11, 10, 9], "bad": [1, 1, 1, 1]}
    found = decision(make_runs(scores, train_s=train_s, target=np.nan))
    # Means 362.5, 359.5 and 310: `cheapest` is not significantly different,
    # but is more than a standard error below the best.
    assert found.leaders == ("cheap", "dear", "cheapest")
    assert (found.chosen, found.chosen_by, found.runner_up) == ("cheap", "cost", "dear")
    assert found.difference == pytest.approx(-3)  # worse, and preferred for its cost
    assert found.num_seeds == 4
    assert 50 < found.telling_seeds[0] < found.telling_seeds[1]


def test_a_cheap_configuration_that_collapses_on_one_seed_is_a_standard_error_off() -> None:
    # Differences 0, 0, 0, 0 and 450: mean 90, variance 450^2 / 5, standard error 450 / 5 = 90.
    scores = {"steady": [500] * 5, "collapses": [500, 500, 50, 500, 500]}
    found = decision(make_runs(scores, target=np.nan, train_s={"steady": [100] * 5, "collapses": [10] * 5}))
    assert found.leaders == ("steady", "collapses")
    assert found.chosen == "steady"


def test_equally_cheap_leaders_are_told_apart_by_the_area_under_their_curves() -> None:
    auc = {"late": [200, 210, 205], "early": [300, 310, 305]}
    found = decision(make_runs({"late": [410, 300, 350], "early": [400, 310, 345]}, auc=auc))
    assert (found.chosen, found.chosen_by) == ("early", "auc")


def test_the_leaders_of_a_study_are_those_of_its_scores() -> None:
    # Compared once, over all configurations: five comparisons are stricter than the one of a study of two.
    leading = {"a": [390, 430, 410], "b": [355, 410, 370]}
    bad = {"c": [100, 110, 90], "d": [120, 120, 70], "e": [90, 110, 90], "f": [100, 120, 110]}
    assert decision(make_runs(leading | bad, target=np.nan)).leaders == ("a", "b")
    assert decision(make_runs(leading, target=np.nan)).leaders == ("a",)


# By env steps to target


def test_where_scores_saturate_env_steps_to_target_decide_and_the_decision_says_so() -> None:
    scores = {"slow": [500, 500, 500], "fast": [500, 498, 500], "fails": [50, 80, 60]}
    found = decision(make_runs(scores, **times(slow=[60, 62, 61], fast=[20, 22, 21])))
    assert (found.measure, found.saturated) == ("env_steps_to_target", True)
    assert found.order == ("fast", "slow", "fails")
    assert found.leaders == ("fast",)
    assert (found.chosen, found.runner_up) == ("fast", "slow")
    assert found.difference == pytest.approx(40_000)  # env steps that it saves
    assert found.telling_seeds == (0, 0)


def test_one_configuration_at_the_target_does_not_saturate_the_study() -> None:
    found = decision(make_runs({"only": [500, 490, 495], "next": [470, 465, 471]}))
    assert (found.measure, found.saturated, found.chosen) == ("score", False, "only")


def test_among_the_fastest_the_cheapest_in_seconds_is_chosen() -> None:
    runs = make_runs(
        {"few steps": [500] * 4, "few seconds": [500] * 4, "slow": [500] * 4},
        env_steps_to_target={
            "few steps": [20e3, 30e3, 25e3, 24e3],
            "few seconds": [24e3, 27e3, 22e3, 27e3],
            "slow": [80e3, 82e3, 79e3, 83e3],
        },
        seconds_to_target={"few steps": [80, 90, 85, 84], "few seconds": [20, 22, 21, 20], "slow": [5, 5, 5, 5]},
    )
    found = decision(runs)
    assert found.leaders == ("few seconds", "few steps")
    assert (found.chosen, found.chosen_by) == ("few seconds", "cost")


def test_who_reaches_the_target_and_collapses_is_not_chosen_over_who_holds_it() -> None:
    scores = {"collapses": [100, 90, 110], "holds": [490, 495, 500], "also holds": [485, 500, 500]}
    fast = {"collapses": [5, 6, 5], "holds": [60, 62, 61], "also holds": [70, 72, 71]}
    found = decision(make_runs(scores, **times(**fast)))
    assert found.saturated
    assert found.leaders == ("holds",)
    assert found.order == ("holds", "also holds", "collapses")


@pytest.mark.parametrize("others", [0, 1, 3])
def test_who_collapses_on_one_seed_in_five_is_not_chosen_over_who_holds_it(others: int) -> None:
    # Its interquartile mean is 500, its mean 410, one standard error below the best.
    scores = {"collapses": [500, 500, 50, 500, 500], "holds": [500, 498, 497, 500, 499]}
    scores |= {f"other {i}": [480, 480, 500, 480 - i, 480] for i in range(others)}
    fast = {"collapses": [5, 6, 5, 7, 5], "holds": [60, 62, 61, 60, 59]} | {
        f"other {i}": [70, 72, 71, 75, 70] for i in range(others)
    }
    found = decision(make_runs(scores, **times(**fast)))
    assert found.saturated == (others > 0)
    assert found.chosen == "holds"


def test_who_collapses_on_a_seed_is_not_chosen_even_if_its_mean_is_at_the_target() -> None:
    # LunarLander: 280 on four seeds make up for -50 on the fifth, mean 214. It is faster by 14,000 env steps,
    # 1.7 standard errors.
    scores = {"collapses": [280, 280, -50, 280, 280], "holds": [230, 225, 240, 235, 220]}
    runs = make_runs(
        scores,
        target=200,
        score_range=(np.nan, np.nan),
        **times(collapses=[30, 50, 40, 20, 45], holds=[55, 45, 45, 60, 50]),
    )
    found = decision(runs)
    assert found.saturated
    assert found.leaders == ("holds", "collapses")
    assert (found.chosen, found.chosen_by) == ("holds", "reliability")


def test_by_score_one_seed_at_the_target_is_no_better_than_three_just_below_it() -> None:
    runs = make_runs({"lucky": [480, 330, 380], "steady": [470, 472, 471]})
    assert decision(runs).chosen == "steady"


# How many seeds


def test_seeds_that_tell_a_difference_that_matters_are_a_range_for_the_spread_is_not_known_well() -> None:
    few = decision(make_runs({"a": [300, 420, 360], "b": [330, 350, 340]}, target=np.nan))
    # Differences -30, 70 and 20: standard deviation 50, of 2 degrees of freedom. 10 matter, 2% of the range.
    assert (few.difference, few.spread, few.matters) == (pytest.approx(20), pytest.approx(50), 10)
    ends = [50 * np.sqrt(2 / stats.chi2.ppf(share, 2)) for share in (0.9, 0.1)]
    assert few.telling_seeds == tuple(np.ceil(seeds_needed(10, end, 0.05)) for end in ends)


def test_they_count_with_all_comparisons() -> None:
    found = decision(make_runs({"a": [300, 420, 360], "b": [330, 350, 340], "far": [10, 20, 15]}, target=np.nan))
    assert found.leaders == ("a", "b")
    assert found.telling_seeds[0] > seeds_needed(10, found.spread / np.sqrt(2), 0.05)


def test_equal_configurations_need_no_more_seeds_than_others() -> None:
    found = decision(make_runs({"a": [400, 410, 420], "b": [410, 420, 400]}, target=np.nan))
    assert found.difference == 0
    assert np.isfinite(found.telling_seeds).all()


def test_of_env_steps_a_fifth_matters() -> None:
    scores = {"slow": [500, 500, 500], "fast": [500, 498, 500]}
    found = decision(make_runs(scores, **times(slow=[20, 25, 27], fast=[20, 22, 21])))
    assert found.saturated and found.matters == pytest.approx(0.2 * 21_000)


# What a study can lack


def test_each_environment_has_its_own_decision() -> None:
    cartpole = make_runs({"a": [500, 490], "b": [100, 120]})
    pendulum = make_runs({"x": [-900, -950], "y": [-200, -150]}, env="pendulum", target=np.nan, score_range=(np.nan, 0))
    found = decide(together(cartpole, pendulum))
    assert [(d.env, d.chosen) for d in found] == [("cartpole", "a"), ("pendulum", "y")]
    assert found[0] == decision(cartpole)


def test_failed_running_and_exploratory_trials_do_not_decide() -> None:
    runs = make_runs({"a": [300, 310, 305], "b": [500, 500, 500], "c": [500, 500, 500]}, target=np.nan)
    runs = with_status(runs, "b", [0, 1, 2], "running")
    runs.loc[runs["config"] == "c", "exploratory"] = True
    found = decision(runs)
    assert found.order == ("a",)
    assert (found.chosen, found.runner_up) == ("a", None)


def test_with_an_interrupted_seed_a_configuration_is_compared_on_those_that_both_have() -> None:
    runs = with_status(make_runs({"a": [400, 410, 420, 405], "b": [100, 130, 90, 110]}), "a", [2], "interrupted")
    found = decision(runs)
    assert (found.chosen, found.num_seeds) == ("a", 3)
    assert found.difference == pytest.approx((300 + 280 + 295) / 3)


def test_what_crashes_on_three_of_five_seeds_is_not_chosen_over_what_finishes_five_of_five() -> None:
    scores = {"crashes": [478, 480, 476, 479, 477], "finishes": [454, 452, 456, 455, 453]}
    runs = with_status(make_runs(scores, target=np.nan), "crashes", [0, 1, 2], "failed")
    found = decision(runs)
    assert (found.chosen, found.num_seeds) == ("finishes", 5)
    assert found.difference == pytest.approx(454 - (479 + 477) / 5)  # a crash has the lowest score, 0
    nan = make_runs({**scores, "crashes": [np.nan] * 3 + scores["crashes"][3:]}, target=np.nan)
    assert decision(nan).chosen == "finishes"


def test_configurations_of_other_seeds_are_told_apart_by_their_means() -> None:
    high = make_runs({"high": [492, 490, 495, 493, 488]}, target=np.nan)
    low = make_runs({"low": [200, 190, 210, 205, 195]}, target=np.nan).assign(seed=lambda runs: runs["seed"] + 10)
    found = decision(together(high, low))
    assert (found.leaders, found.chosen) == (("high",), "high")


@pytest.mark.filterwarnings("error")
def test_one_seed_names_the_best_and_leaves_all_among_the_leaders() -> None:
    found = decision(make_runs({"a": [400], "b": [300], "c": [350]}))
    assert found.leaders == ("a", "c", "b")
    assert (found.chosen, found.runner_up) == ("a", "c")
    assert (found.uncompared, found.chosen_by) == (("a", "c", "b"), "value")
    assert np.isnan(found.spread)  # a single difference has no spread, and no number of seeds follows from it
    assert found.telling_seeds == (np.inf, np.inf)


@pytest.mark.filterwarnings("error")
def test_one_seed_decides_by_env_steps_too() -> None:
    found = decision(make_runs({"slow": [500], "fast": [499], "bad": [20]}, **times(slow=[60], fast=[30])))
    assert found.saturated
    assert found.chosen == "fast"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("score", ["failed", "NaN"])
def test_without_a_score_nothing_is_chosen(score: str) -> None:
    runs = make_runs({"a": [400, 410], "b": [300, 310]})
    if score == "failed":
        runs = with_status(with_status(runs, "a", [0, 1], "failed"), "b", [0, 1], "failed")
    found = decision(runs.assign(score=np.nan))
    assert (found.chosen, found.runner_up, found.order, found.leaders) == (None, None, (), ())
    assert found.telling_seeds == (np.inf, np.inf)


@pytest.mark.filterwarnings("error")
def test_scores_that_are_no_numbers_count_as_the_lowest() -> None:
    found = decision(make_runs({"a": [np.nan, 400, 410], "b": [100, 110, 90], "c": [np.nan] * 3}))
    assert found.order == ("a", "b")
    assert (found.chosen, found.num_seeds) == ("a", 3)


@pytest.mark.filterwarnings("error")
def test_one_configuration_is_chosen_without_a_runner_up() -> None:
    found = decision(make_runs({"only": [480, 490, 500]}))
    assert (found.chosen, found.leaders, found.runner_up, found.num_seeds) == ("only", ("only",), None, 0)
    assert np.isnan(found.difference)


@pytest.mark.filterwarnings("error")
def test_a_study_without_trials_has_no_decision() -> None:
    assert decide(make_runs({"a": [1]}).iloc[:0]) == []


scores = st.lists(
    st.lists(st.integers(0, 20).map(lambda tens: 25.0 * tens), min_size=3, max_size=3), min_size=1, max_size=5
)


@settings(max_examples=20, deadline=None)
@given(values=scores)
def test_the_chosen_one_is_a_leader_and_the_orders_agree(values: list[list[float]]) -> None:
    found = decision(make_runs({f"c{i}": of_seeds for i, of_seeds in enumerate(values)}))
    assert found.chosen == found.leaders[0] == found.order[0]
    assert sorted(found.order) == [f"c{i}" for i in range(len(values))]
    assert found.runner_up == next((c for c in found.order if c != found.chosen), None)
    assert [c for c in found.order if c in found.leaders] == list(found.leaders)


@settings(max_examples=12, deadline=None)
@given(values=scores, data=st.data())
def test_the_order_of_trials_and_seeds_changes_no_decision(values: list[list[float]], data: st.DataObject) -> None:
    runs = make_runs({f"c{i}": of_seeds for i, of_seeds in enumerate(values)})
    rows = data.draw(st.permutations(range(len(runs))))
    seeds = dict(enumerate(data.draw(st.permutations(range(3)))))
    found, shuffled = decision(runs), decision(runs.iloc[rows].assign(seed=runs["seed"].map(seeds)))
    for field in ("measure", "order", "leaders", "chosen", "chosen_by", "runner_up", "num_seeds"):
        assert getattr(shuffled, field) == getattr(found, field)
    np.testing.assert_allclose(
        [shuffled.difference, shuffled.spread], [found.difference, found.spread], rtol=1e-6, atol=1e-9
    )


def test_a_configuration_whose_seeds_crash_is_not_chosen_for_the_one_that_did_not() -> None:
    runs = make_runs({"crashes": [499.0] * 5, "lasts": [480.0, 481.0, 479.0, 482.0, 478.0]})
    (decision,) = decide(with_status(runs, "crashes", [1, 2, 3, 4], "failed"))
    assert (decision.chosen, decision.leaders) == ("lasts", ("lasts",))
    assert decision.order == ("lasts", "crashes")


def test_of_those_about_as_good_the_one_without_failures_is_chosen() -> None:
    scores = {"once": [400.0, 410.0, 390.0, 405.0], "never": [399.0, 408.0, 393.0, 402.0]}
    runs = make_runs(scores, target=np.nan)
    (decision,) = decide(with_status(runs, "once", [3], "failed"))
    assert (decision.chosen, decision.chosen_by) == ("never", "crashes")


def test_of_those_about_as_good_the_one_that_does_not_collapse_is_chosen_also_without_a_target() -> None:
    """Means 365 and 360, two seeds far apart: a standard error off is 85.

    Below 182.5, half of the best, one seed fails.
    """
    scores = {"collapses": [480, 460, 470, 50], "steady": [370, 350, 380, 340]}
    found = decision(make_runs(scores, target=np.nan, train_s={"collapses": [10] * 4, "steady": [90] * 4}))
    assert (found.chosen, found.chosen_by) == ("steady", "reliability")


def test_table_and_critical_batch_take_the_learning_rate_that_is_chosen() -> None:
    """One seed of the largest learning rate is early: a mean of logarithms would take that one."""
    lrs, batches = {"small": 1e-3, "good": 1e-2, "large": 3e-2}, (512, 2000, 8000)
    names = {f"{name} {batch}": (lr, batch) for name, lr in lrs.items() for batch in batches}
    steps = {"small": [40_000.0] * 3, "good": [20_000.0] * 3, "large": [1_000.0, 45_000.0, 50_000.0]}
    runs = make_runs(
        {name: [500.0] * 3 for name in names},
        params={
            "lr": {n: lr for n, (lr, _) in names.items()},
            "train_batch_size_total": {n: b for n, (_, b) in names.items()},
        },
        env_steps_to_target={name: steps[name.split()[0]] for name in names},
    )
    found = decide(runs)[0]
    assert found.chosen.startswith("good")
    assert closing_table(Evidence(runs))["config"].iloc[0] == found.chosen == found.order[0]
    lr_of_each = chosen_values(runs, "lr", "train_batch_size_total")
    assert lr_of_each == dict.fromkeys(batches, 1e-2)
    rng = np.random.default_rng(0)
    assert batch_tradeoff(runs, rng, lrs=lr_of_each).batches["lr"].tolist() == [1e-2] * 3
    assert batch_tradeoff(runs, rng).batches["lr"].tolist() == [3e-2] * 3


# What shows the choice


def test_the_choice_is_shown_by_its_best_and_its_median_seed() -> None:
    runs = make_runs({"low": [100, 110, 105], "best": [400, 420, 395], "mid": [250, 240, 260]})
    runs["run_id"] = [f"{config}-{seed}" for config, seed in zip(runs["config"], runs["seed"], strict=True)]
    assert [(shown.run_id, shown.role) for shown in seeds_to_show(Evidence(runs))] == [
        ("best-1", "best"),
        ("best-0", "median"),
    ]
    two = runs[runs["seed"] < 2]
    assert [(shown.run_id, shown.role) for shown in seeds_to_show(Evidence(two))] == [
        ("best-1", "best"),
        ("best-0", "median"),
    ]
    one = runs[runs["seed"] == 2]
    assert [(shown.run_id, shown.role) for shown in seeds_to_show(Evidence(one))] == [("best-2", "best")]


def test_a_study_in_which_nothing_finished_shows_nothing() -> None:
    assert seeds_to_show(Evidence(with_status(make_runs({"a": [1.0, 2.0]}), "a", [0, 1], "failed"))) == []
