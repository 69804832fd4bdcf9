import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from pandas.testing import assert_frame_equal
from scipy import stats as scipy_stats

from analysis.evidence import MEASURES, Evidence, conclusive
from analysis.questions.convergence import (
    by_seed,
    carried_on,
    curve_bands,
    pairwise,
    score_profile,
    summarise,
    target_profile,
)
from analysis.questions.environments import over_environments
from analysis.stats.comparisons import holm, p_values, probability_of_improvement
from analysis.stats.moderated import moderated_intervals, paired_differences
from tests.support.study_frames import BUDGET, make_curves, make_runs, together, with_status

RETURN = "eval/return_mean"


def line(ends_at: int, offset: float = 0, start: int = 1000, seconds: float = 10) -> list[tuple[int, float, float]]:
    """Reports every 1000 env steps and 10 s, at a return of a hundredth of the env steps."""
    return [(steps, seconds * steps / 1000, steps / 100 + offset) for steps in range(start, ends_at + 1, 1000)]


@pytest.fixture
def runs() -> pd.DataFrame:
    scores = {"a": [500, 490, 500], "b": [480, 500, 470], "c": [100, 300, 200]}
    return make_runs(scores, env_steps_to_target={"a": [20_000, 30_000, 40_000], "b": [30_000, 60_000, np.nan]})


# Which trials count


def test_seeds_of_a_fixed_design_that_confirm_are_of_both() -> None:
    """Seeds 2 and 3 confirm a, which the choice fell on, and the base, which is not of the design; nor is seed 3."""
    found = make_runs(
        {"a": [500, 490, 500, 480], "b": [480, 500, 470], "c": [100, 300, 200], "base": [400, 410, 420, 430]}
    )
    found = found[(found["config"] != "base") | (found["seed"] >= 2)].assign(phase="fixed", exploratory=True)
    confirms = found["config"].isin(["a", "base"]) & (found["seed"] >= 2)
    found.loc[confirms, "phase"], found.loc[confirms, "exploratory"] = "confirm", False
    kept = Evidence(found).design.runs
    assert sorted(zip(kept["config"], kept["seed"], strict=True)) == [
        (config, seed) for config in "abc" for seed in range(3)
    ]
    assert not kept["exploratory"].any()
    concluding = conclusive(found)
    assert sorted(zip(concluding["config"], concluding["seed"], strict=True)) == [
        (c, seed) for c in ("a", "base") for seed in (2, 3)
    ]


def test_finished_trials_count_and_crashed_ones_with_the_lowest_score(runs: pd.DataFrame) -> None:
    for seed, status in enumerate(["failed", "running", "interrupted"]):
        runs = with_status(runs, "a", [seed], status)
    runs = with_status(runs, "b", [0], "missing")
    runs.loc[(runs["config"] == "c") & (runs["seed"] == 1), "exploratory"] = True
    assert sorted(conclusive(runs)["run_id"]) == ["cartpole/b/1", "cartpole/b/2", "cartpole/c/0", "cartpole/c/2"]
    table = summarise(runs).set_index("config")
    assert table["num_planned"].tolist() == [3, 3, 3]
    assert table["num_seeds"].tolist() == [0, 2, 2] and table["num_crashed"].tolist() == [0, 0, 0]
    assert np.isnan(table.loc["a", "score"]) and table.loc["c", "score"] == 150  # of a no trial has a score
    crashed = with_status(runs, "b", [2], "failed")
    table = summarise(crashed).set_index("config")
    assert (table.loc["b", "num_seeds"], table.loc["b", "num_crashed"], table.loc["b", "score_min"]) == (2, 1, 0)
    assert table.loc["b", "num_reached"] == 1
    lowest = crashed.loc[crashed["status"] == "finished", "score"].min()
    unbounded = summarise(crashed.assign(score_range_low=np.nan)).set_index("config")
    assert unbounded.loc["b", "score_min"] == lowest


def test_a_seed_that_never_reaches_the_target_counts_with_its_budget_and_its_seconds(runs: pd.DataFrame) -> None:
    table = summarise(runs).set_index("config")
    # b: 30,000, 60,000 and, never, its budget of 100,000; at 1000 env steps per second.
    assert table.loc["b", "env_steps_to_target"] == pytest.approx(190_000 / 3)
    assert table.loc["b", "seconds_to_target"] == pytest.approx(190 / 3)
    assert table.loc["c", "env_steps_to_target"] == BUDGET
    assert table["num_reached"].tolist() == [3, 2, 0]
    assert (table["env_steps_to_target_high"].dropna() <= BUDGET).all()  # nor can the interval exceed it


def test_restricted_mean_is_the_area_under_the_kaplan_meier_curve() -> None:
    times = np.array([30_000, 60_000, np.nan, 45_000, np.nan])
    runs = make_runs({"a": [480] * 5}, env_steps_to_target={"a": times})
    data = scipy_stats.CensoredData.right_censored(np.nan_to_num(times, nan=BUDGET), np.isnan(times))
    survival = scipy_stats.ecdf(data).sf
    reached = np.sort(times[np.isfinite(times)])
    area = np.diff([0, *reached, BUDGET]) @ [1, *survival.evaluate(reached)]
    assert summarise(runs)["env_steps_to_target"][0] == pytest.approx(area)


def test_without_a_target_nothing_is_censored() -> None:
    table = summarise(make_runs({"a": [5, 9], "b": [8, 7]}, target=np.nan, score_range=(np.nan, np.nan)))
    assert table[["env_steps_to_target", "seconds_to_target", "score_gap"]].isna().all(axis=None)
    assert table["num_reached"].tolist() == [0, 0]
    assert table["score"].tolist() == [7, 7.5]


def test_an_infinite_measure_is_no_value() -> None:
    runs = make_runs({"a": [480, 490]}, env_steps_per_s={"a": [np.inf, 1200]})
    assert summarise(runs)["env_steps_per_s"][0] == 1200


# The summary


def test_summary_by_hand() -> None:
    runs = make_runs({"a": [500, 490, 450, 400], "b": [10, 20, 30, 40]}, params={"lr": {"a": 1e-3, "b": 1e-4}})
    table = summarise(runs, ["lr"])
    assert table["config"].tolist() == ["a", "b"] and table["config"].cat.ordered
    assert table["lr"].tolist() == [1e-3, 1e-4]
    assert table["score"].tolist() == [460, 25]
    assert table["score_median"].tolist() == [470, 25]
    assert table["score_min"].tolist() == [400, 10]
    assert table["score_gap"].tolist() == [(0 + 0 + 25 + 75) / 4, 450]


def test_summary_has_the_columns_that_it_promises(runs: pd.DataFrame) -> None:
    expected = [
        "config",
        "env",
        "lr",
        "budget_env_steps",
        "target",
        "phase",
        "num_planned",
        "num_seeds",
        "num_crashed",
        "num_reached",
        "num_at_end",
    ]
    expected += [f"{measure}{end}" for measure in MEASURES for end in ("", "_low", "_high")]
    expected += ["score_median", "score_median_low", "score_median_high", "score_min", "score_max", "score_gap"]
    table = summarise(runs.assign(lr=1e-3), ["lr"])
    assert table.columns.tolist() == expected
    assert table["config"].tolist() == ["a", "b", "c"]


def test_intervals_of_the_summary_are_those_of_the_statistics_within_the_envs_range(runs: pd.DataFrame) -> None:
    table = summarise(runs)
    scores = by_seed(runs, "score").to_numpy()
    found = moderated_intervals(scores, (0, 500))
    assert_allclose(table[["score", "score_low", "score_high"]].to_numpy().T, [found.estimate, found.low, found.high])
    times = conclusive(runs).pivot(index="config", columns="seed", values="env_steps_to_target").to_numpy()
    found = moderated_intervals(times, (0, BUDGET))
    assert_allclose(table["env_steps_to_target_low"], found.low)


def test_seeds_that_all_end_at_a_bound_are_a_count_and_have_no_interval() -> None:
    table = summarise(make_runs({"a": [500] * 5, "b": [480, 470, 490, 475, 460], "c": [450] * 5})).set_index("config")
    assert table.loc["a", "score"] == 500 and table.loc["a", ["score_low", "score_high"]].isna().all()
    assert table.loc[["b", "c"], ["score_low", "score_high"]].notna().all(axis=None)


def test_environments_are_summarised_apart() -> None:
    cartpole = make_runs({"a": [400, 500], "b": [300, 480]})
    pendulum = make_runs({"x": [-900, -100], "y": [-200, -150]}, env="pendulum", target=-300, score_range=(np.nan, 0))
    both = summarise(together(cartpole, pendulum))
    for part, env in ((cartpole, "cartpole"), (pendulum, "pendulum")):
        alone = summarise(part)
        assert_frame_equal(
            both[both["env"] == env].reset_index(drop=True), alone, check_categorical=False, check_dtype=False
        )


def test_the_order_of_the_trials_does_not_matter(runs: pd.DataFrame) -> None:
    shuffled = runs.sample(frac=1, random_state=0)
    assert_frame_equal(summarise(shuffled).sort_values("config", ignore_index=True), summarise(runs))
    assert_frame_equal(pairwise(shuffled), pairwise(runs))
    assert_frame_equal(score_profile(shuffled), score_profile(runs))


def test_nothing_changes_the_frames_it_is_given(runs: pd.DataFrame) -> None:
    curves = make_curves(runs, {("a", 0): {RETURN: line(3000)}})
    before = runs.copy(deep=True), curves.copy(deep=True)
    summarise(runs)
    pairwise(runs, "env_steps_to_target")
    score_profile(runs)
    target_profile(runs)
    curve_bands(curves, runs)
    curve_bands(curves, runs, x="wall_s")
    assert_frame_equal(runs, before[0])
    assert_frame_equal(curves, before[1])


# Curves


def test_a_band_is_the_mean_and_its_interval_at_each_point(runs: pd.DataFrame) -> None:
    curves = make_curves(
        runs,
        {("a", seed): {RETURN: line(2000, offset=10 * seed), "train/return_mean": line(2000)} for seed in range(3)},
    )
    bands = curve_bands(curves, runs)
    assert bands.columns.tolist() == ["config", "env_steps", "value", "value_low", "value_high", "num_seeds"]
    assert bands["env_steps"].tolist() == [1000, 2000]
    assert bands["value"].tolist() == [20, 30]  # 10 and 20, offsets 0, 10 and 20
    found = moderated_intervals(np.array([[10.0, 20, 30]]), (0, 500))
    assert (bands["value_low"][0], bands["value_high"][0]) == (found.low[0], found.high[0])
    assert bands["num_seeds"].tolist() == [3, 3]


def test_a_band_ends_where_its_shortest_seed_does(runs: pd.DataFrame) -> None:
    points = {
        ("a", 0): {RETURN: line(4000)},
        ("a", 1): {RETURN: line(2000)},
        ("a", 2): {RETURN: line(3000)},
        ("b", 0): {RETURN: line(4000)},
    }
    runs = with_status(runs, "a", [1], "running")
    bands = curve_bands(make_curves(runs, points), runs)
    assert bands.loc[bands["config"] == "a", "env_steps"].tolist() == [1000, 2000]
    assert bands.loc[bands["config"] == "b", "env_steps"].tolist() == [1000, 2000, 3000, 4000]
    assert bands["num_seeds"].tolist() == [3] * 2 + [1] * 4


def test_a_seed_that_ended_at_the_target_keeps_its_last_return_up_to_its_budget(runs: pd.DataFrame) -> None:
    runs.loc[(runs["config"] == "a") & (runs["seed"] == 0), "end_env_steps"] = 2000
    runs["budget_env_steps"] = 4000
    points = {("a", 0): line(2000, offset=400), ("a", 1): line(4000, seconds=20), ("a", 2): line(4000)}
    curves = make_curves(runs, {trial: {RETURN: of_seed, "learner/kl": of_seed} for trial, of_seed in points.items()})
    bands = curve_bands(curves, runs)
    assert bands["env_steps"].tolist() == [1000, 2000, 3000, 4000]
    assert_allclose(
        bands["value"], [(10 + 10 + 410) / 3, (20 + 20 + 420) / 3, (30 + 30 + 420) / 3, (40 + 40 + 420) / 3]
    )
    over_seconds = curve_bands(curves, runs, x="wall_s")
    assert over_seconds["wall_s"].iloc[-1] == 40  # as far as the first that used its budget
    assert over_seconds["value"].iloc[-1] == pytest.approx((20 + 40 + 420) / 3)
    assert curve_bands(curves, runs, "learner/kl")["env_steps"].tolist() == [1000, 2000]  # it learned no further


def test_where_all_seeds_ended_at_the_target_curves_go_up_to_the_budget(runs: pd.DataFrame) -> None:
    runs = runs.assign(end_env_steps=2000, budget_env_steps=4500)
    curves = make_curves(runs, {("a", 0): {RETURN: line(2000)}, ("a", 1): {RETURN: line(1000)}})
    bands = curve_bands(curves, runs)
    assert bands["env_steps"].tolist() == [1000, 2000, 3000, 4000, 4500]
    assert bands["value"].tolist() == [10, 15, 15, 15, 15]
    assert curve_bands(curves, runs, x="wall_s")["wall_s"].iloc[[0, -1]].tolist() == [10, 20]


def test_a_band_has_only_the_points_that_all_its_seeds_have(runs: pd.DataFrame) -> None:
    gap = [point for point in line(3000) if point[0] != 2000]
    nan = [(1000, 10.0, np.nan), *line(3000, start=2000)]
    curves = make_curves(runs, {("a", 0): {RETURN: gap}, ("a", 1): {RETURN: line(3000)}, ("b", 0): {RETURN: nan}})
    bands = curve_bands(curves, runs)
    assert bands.loc[bands["config"] == "a", "env_steps"].tolist() == [1000, 3000]
    assert bands.loc[bands["config"] == "b", "env_steps"].tolist() == [2000, 3000]


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_seeds_that_did_not_finish_are_not_in_a_band(runs: pd.DataFrame, status: str) -> None:
    runs = with_status(runs, "a", [1], status)
    runs.loc[(runs["config"] == "a") & (runs["seed"] == 2), "exploratory"] = True
    curves = make_curves(runs, {("a", seed): {RETURN: line(2000, offset=100 * seed)} for seed in range(3)})
    bands = curve_bands(curves, runs)
    assert bands["value"].tolist() == [10, 20]
    assert bands["num_seeds"].tolist() == [1, 1]


def test_over_seconds_seeds_are_interpolated_between_the_first_and_last_second_that_all_have(
    runs: pd.DataFrame,
) -> None:
    # The second seed is half as fast: reports at 20, 40, 60 and 80 s, not at 10, 20, 30 and 40 s.
    curves = make_curves(runs, {("a", 0): {RETURN: line(4000)}, ("a", 1): {RETURN: line(4000, seconds=20)}})
    bands = curve_bands(curves, runs, x="wall_s")
    assert bands["wall_s"].iloc[[0, -1]].tolist() == [20, 40]
    assert_allclose(bands["value"], (bands["wall_s"] + bands["wall_s"] / 2) / 2)


def test_over_seconds_seeds_without_a_second_in_common_have_no_band(runs: pd.DataFrame) -> None:
    curves = make_curves(
        runs,
        {("a", 0): {RETURN: line(2000)}, ("a", 1): {RETURN: line(6000, start=4000)}, ("b", 0): {RETURN: line(1000)}},
    )
    bands = curve_bands(curves, runs, x="wall_s")
    assert bands["config"].tolist() == ["b"]  # at the one second of its only report
    assert bands["value"].tolist() == [10]


def test_returns_are_bounded_by_the_envs_range_and_other_metrics_by_nothing(runs: pd.DataFrame) -> None:
    points = {("a", 0): [(1000, 1.0, 490.0)], ("a", 1): [(1000, 1.0, 10.0)]}
    returns = make_curves(runs, {trial: {RETURN: values} for trial, values in points.items()})
    bands = curve_bands(returns, runs)
    assert 0 < bands["value_low"][0] < 30 and 470 < bands["value_high"][0] < 500
    losses = make_curves(runs, {trial: {"learner/loss": values} for trial, values in points.items()})
    bands = curve_bands(losses, runs, "learner/loss")
    assert bands["value_low"][0] < 0 and bands["value_high"][0] > 500


# Comparisons


def test_pairs_are_compared_on_their_common_seeds(runs: pd.DataFrame) -> None:
    runs = with_status(runs, "a", [0], "interrupted")
    found = pairwise(runs)
    assert list(zip(found["config_a"], found["config_b"], strict=True)) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert found["num_seeds"].tolist() == [2, 2, 3]
    assert_allclose(found["difference"], [(-10 + 30) / 2, (190 + 300) / 2, (380 + 200 + 270) / 3])
    matrix = by_seed(conclusive(runs), "score").to_numpy()
    p = p_values(paired_differences(matrix)[2])
    assert_allclose(found["p"], p)
    assert_allclose(found["p_adjusted"], holm(p))
    # Chances need no pairs: the two seeds of a against the three of b.
    of_samples = probability_of_improvement(np.array([490, 500]), np.array([480, 500, 470]))
    assert found["probability_of_improvement"][0] == of_samples.estimate == 4.5 / 6


def test_a_pair_without_common_seeds_has_no_difference(runs: pd.DataFrame) -> None:
    runs = with_status(with_status(runs, "a", [0], "interrupted"), "b", [1, 2], "interrupted")
    found = pairwise(runs).iloc[0]
    assert found["num_seeds"] == 0
    assert np.isnan(found[["difference", "p", "p_adjusted"]].astype(float)).all()
    assert found["probability_of_improvement"] == 1  # 490 and 500 against 480


def test_an_improvement_in_time_is_to_be_faster(runs: pd.DataFrame) -> None:
    found = pairwise(runs, "env_steps_to_target").iloc[0]
    assert found["difference"] == pytest.approx((20 + 30 + 40 - 30 - 60 - 100) * 1000 / 3)  # a is faster
    # 20,000 is below all three of b, 30,000 below two and equal to one, 40,000 below two.
    assert found["probability_of_improvement"] == pytest.approx((3 + 2.5 + 2) / 9)


def test_configurations_of_different_environments_are_not_compared() -> None:
    runs = together(make_runs({"a": [1, 2], "b": [3, 5]}), make_runs({"x": [1, 2], "y": [8, 9]}, env="acrobot"))
    found = pairwise(runs)
    assert list(zip(found["config_a"], found["config_b"], strict=True)) == [("a", "b"), ("x", "y")]
    assert_allclose(found["p_adjusted"], holm(found["p"].to_numpy()))  # over all pairs of the study


# Profiles


def test_score_profile_is_rliables_share_of_runs_above_each_threshold(runs: pd.DataFrame) -> None:
    found = score_profile(runs, num_thresholds=5)
    for config, part in found.groupby("config", observed=True):
        scores = runs.loc[runs["config"] == config, "score"].to_numpy()
        # rliable.library.run_score_deviation: np.mean(scores > tau)
        assert part["threshold"].tolist() == [100, 200, 300, 400, 500]
        assert part["share"].tolist() == [np.mean(scores > tau) for tau in (100, 200, 300, 400, 500)]
    # By hand, c with 100, 200 and 300: two of three above 100, one above 200, none above 300.
    assert_allclose(found.loc[found["config"] == "c", "share"], [2 / 3, 1 / 3, 0, 0, 0])
    assert ((found["share_low"] <= found["share"]) & (found["share"] <= found["share_high"])).all()


def test_the_area_under_a_score_profile_is_the_mean(runs: pd.DataFrame) -> None:
    found = score_profile(runs, num_thresholds=401)
    for config, mean in runs.groupby("config", observed=True)["score"].mean().items():
        part = found[found["config"] == config]
        assert 100 + np.trapezoid(part["share"], part["threshold"]) == pytest.approx(mean, abs=1)


def test_target_profile_is_the_share_of_seeds_that_hold_it_by_then(runs: pd.DataFrame) -> None:
    found = target_profile(runs, num_points=11).pivot(index="env_steps", columns="config", values="share")
    assert_allclose(found["a"], np.array([0, 0, 1, 2, 3, 3, 3, 3, 3, 3, 3]) / 3)
    # the third is cut off at the budget, not there by then
    assert_allclose(found["b"], np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2]) / 3)
    assert (found["c"] == 0).all()


# Bad input


def unknown(runs: pd.DataFrame) -> pd.DataFrame:
    for config in runs["config"].cat.categories:
        runs = with_status(runs, config, [0, 1, 2], "failed")
    return runs


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("what", ["all failed", "no trials", "NaN scores", "no target"])
def test_without_values_every_frame_is_empty_or_nan_and_nothing_warns(runs: pd.DataFrame, what: str) -> None:
    runs = {
        "all failed": unknown(runs),
        "no trials": runs.iloc[:0],
        "NaN scores": runs.assign(score=np.nan, auc=np.nan),
        "no target": runs.assign(target=np.nan, env_steps_to_target=np.nan, seconds_to_target=np.nan),
    }[what]
    table = summarise(runs)
    assert len(table) == runs["config"].nunique()
    measure = "env_steps_to_target" if what == "no target" else "score"
    assert table[[measure, f"{measure}_low", f"{measure}_high"]].isna().all(axis=None)
    profile = target_profile(runs) if what == "no target" else score_profile(runs)
    assert pairwise(runs, measure).empty
    assert profile.empty
    assert "share" in profile


@pytest.mark.filterwarnings("error")
def test_one_seed_gives_estimates_and_no_intervals(runs: pd.DataFrame) -> None:
    one = runs[runs["seed"] == 0]
    table = summarise(one)
    assert table["score"].tolist() == [500, 480, 100]
    assert table.filter(regex="_(low|high)$").isna().all(axis=None)
    found = pairwise(one)
    assert found["difference"].tolist() == [20, 400, 380]
    assert found[["difference_low", "difference_high", "p", "p_adjusted"]].isna().all(axis=None)
    bands = curve_bands(make_curves(one, {("a", 0): {RETURN: line(2000)}}), one)
    assert bands["value"].tolist() == [10, 20]
    assert bands[["value_low", "value_high"]].isna().all(axis=None)


@pytest.mark.filterwarnings("error")
def test_one_configuration_has_nobody_to_be_compared_with() -> None:
    runs = make_runs({"a": [500, 490, 400]})
    assert pairwise(runs).empty
    assert summarise(runs)["score"][0] == pytest.approx(1390 / 3)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("x", ["env_steps", "wall_s"])
def test_a_metric_that_was_never_logged_gives_an_empty_band(runs: pd.DataFrame, x: str) -> None:
    curves = make_curves(runs, {("a", 0): {RETURN: line(2000)}})
    for found in (curve_bands(curves, runs, "learner/kl", x), curve_bands(curves.iloc[:0], runs, x=x)):
        assert found.empty
        assert found.columns.tolist() == ["config", x, "value", "value_low", "value_high", "num_seeds"]


@pytest.mark.filterwarnings("error")
def test_a_score_that_is_no_number_counts_as_a_crash() -> None:
    table = summarise(
        make_runs({"a": [np.nan, 480, 500], "b": [470, 460, 450]}, env_steps_to_target={"a": [20_000, 30_000, 40_000]})
    )
    assert table["score_min"].tolist() == [0, 450] and table["num_crashed"].tolist() == [1, 0]
    assert_allclose(table["env_steps_to_target"], [(BUDGET + 70_000) / 3, BUDGET])


def test_scores_over_environments_are_rliables_aggregates() -> None:
    metrics = pytest.importorskip("rliable.metrics")
    rng = np.random.default_rng(0)
    scores = rng.uniform(0, 600, (5, 2))  # seeds x envs; the range is 0 to 500, the target 475
    runs = together(
        *(
            make_runs({f"a on {env}": scores[:, i]}, env=env, params={"lr": {f"a on {env}": 1e-3}})
            for i, env in enumerate("xy")
        )
    )
    (row,) = over_environments(runs, ["lr", "env"], rng).to_dict("records")
    normalised = scores / 475
    assert row["setting"] == "lr=0.001"
    assert (row["num_envs"], row["num_seeds"]) == (2, 5)
    assert row["iqm"] == pytest.approx(metrics.aggregate_iqm(normalised))
    assert row["mean"] == pytest.approx(metrics.aggregate_mean(normalised))
    assert row["median"] == pytest.approx(metrics.aggregate_median(normalised))
    assert row["optimality_gap"] == pytest.approx(metrics.aggregate_optimality_gap(normalised))
    for measure in ("iqm", "mean", "median", "optimality_gap"):
        assert row[f"{measure}_low"] <= row[measure] <= row[f"{measure}_high"]


def test_settings_over_environments_are_told_apart_by_their_values_and_not_by_their_words() -> None:
    settings = {"one": ("1 b=2", "3"), "other": ("1", "2 b=3")}  # both read a=1 b=2 b=3
    parts = []
    for env in "xy":
        params = {
            axis: {f"{name} on {env}": values[i] for name, values in settings.items()} for i, axis in enumerate("ab")
        }
        parts.append(make_runs({f"{name} on {env}": [100.0, 110.0] for name in settings}, env=env, params=params))  # type: ignore[arg-type]
    assert len(over_environments(together(*parts), ["a", "b", "env"], np.random.default_rng(0))) == 2


def test_one_environment_has_nothing_to_aggregate() -> None:
    runs = make_runs({"a": [480.0, 481.0]})
    assert over_environments(runs, [], np.random.default_rng(0)).empty
    assert over_environments(make_runs({"a": [1.0]}, target=np.nan), [], np.random.default_rng(0)).empty


def test_an_axis_that_is_no_column_is_left_out() -> None:
    assert "tuned" not in summarise(make_runs({"a": [480.0, 481.0]}), ["tuned"])


def test_a_curve_that_begins_late_is_carried_on_by_the_report_grid() -> None:
    curve = pd.DataFrame({"env_steps": [3000, 4000, 5000], "value": [1.0, 2.0, 3.0]})
    more = carried_on(curve, 8000)
    assert more["env_steps"].tolist() == [3000, 4000, 5000, 6000, 7000, 8000]
    assert more["value"].tolist() == [1.0, 2.0, 3.0, 3.0, 3.0, 3.0]
