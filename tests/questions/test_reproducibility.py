"""Whether repeats are the same to the bit, how far seeds lie apart, how many a difference needs,
and five against five others.
"""

import math
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from analysis.document.answer import answers, closing_table
from analysis.document.caveats import caveats
from analysis.document.repeats import five_against_five, sameness
from analysis.evidence import Evidence, conclusive
from analysis.questions import convergence, decision
from analysis.questions.learning_rate_batch import exponent
from analysis.questions.reproducibility import (
    bit_exactness,
    compare_repeats,
    false_differences,
    group_gaps,
    repeat_differences,
    seed_spread,
    seeds_to_see,
    typical_difference_spread,
)
from analysis.questions.throughput import time_shares
from tests.support.study_frames import make_curves, make_runs, run_again, together, with_status


def runs(scores: dict[str, list[float]]) -> pd.DataFrame:
    rows = [(config, seed, score) for config, of_config in scores.items() for seed, score in enumerate(of_config)]
    frame = pd.DataFrame(rows, columns=["config", "seed", "score"])
    frame["config"] = pd.Categorical(frame["config"], categories=list(scores), ordered=True)
    constant = {
        "env": "cartpole",
        "repeat": 0,
        "status": "finished",
        "exploratory": False,
        "target": np.nan,
        "budget_env_steps": 100,
    }
    unknown = dict.fromkeys(
        (
            "auc",
            "env_steps_to_target",
            "seconds_to_target",
            "env_steps_per_s",
            "trained_steps_per_s",
            "train_s",
            "wall_s",
        ),
        np.nan,
    )
    return frame.assign(**constant, **unknown)


def test_the_spread_of_a_configurations_own_seeds_is_the_sample_standard_deviation() -> None:
    table = seed_spread(runs({"a": [1.0, 2.0, 3.0], "b": [5.0, 5.0, 5.0]})).set_index("config")
    assert table["sd"].tolist() == [1.0, 0.0]
    assert table.loc["a", ["lowest", "mean", "highest"]].tolist() == [1.0, 2.0, 3.0]
    # Averaged with the other's variance of 1, two degrees of freedom each.
    assert table.loc["b", "sd_moderated"] == pytest.approx(np.sqrt(0.5))


def test_a_seed_that_failed_is_not_counted() -> None:
    frame = runs({"a": [1.0, 2.0, 3.0]})
    frame.loc[2, "status"] = "failed"
    assert seed_spread(frame)["num_seeds"].tolist() == [2]


def test_the_spread_of_differences_is_that_over_common_seeds() -> None:
    # Differences a - b: 0, 1, 2. Their standard deviation is 1, that of either's seeds is more.
    assert typical_difference_spread(runs({"a": [10.0, 21.0, 32.0], "b": [10.0, 20.0, 30.0]})) == pytest.approx(1.0)


@pytest.mark.parametrize("scores", [{"a": [1.0]}, {"a": [1.0], "b": [2.0]}])
def test_without_two_common_seeds_no_number_of_seeds_is_given(scores: dict[str, list[float]]) -> None:
    spread = typical_difference_spread(runs(scores))
    assert np.isnan(spread)
    assert seeds_to_see(spread).empty


def test_a_single_configuration_is_held_against_another_that_varies_as_much() -> None:
    # The variance of a difference of two independent values is twice that of one; here 1 each.
    assert typical_difference_spread(runs({"a": [1.0, 2.0, 3.0]})) == pytest.approx(np.sqrt(2))


def test_the_seeds_of_a_difference_have_the_power_they_promise() -> None:
    table = seeds_to_see(10.0, num_comparisons=5)
    assert table["difference"].is_monotonic_increasing
    assert table["difference"].between(2, 30).all()
    for row in table[table["seeds"] > 2].itertuples():
        for seeds, alpha in ((row.seeds, 0.05), (row.seeds_among_all, 0.01)):
            power = [TTestPower().power(row.difference / 10, n, alpha) for n in (seeds - 1, seeds)]
            assert power[0] < 0.8 <= power[1] + 1e-9


# Repeats.

Frames = tuple[pd.DataFrame, pd.DataFrame]


def twice(times: int = 1) -> Frames:
    """Two configurations, three seeds, each run again: all the same to the bit, but for the clock."""
    first = make_runs({"a": [300.0, 310.0, 480.0], "b": [480.0, 490.0, 485.0]})
    points = {
        "eval/return_mean": [(50_000, 5.0, 10.0), (100_000, 10.0, 20.0)],
        "learner/loss": [(50_000, 5.0, 0.3), (100_000, 10.0, math.nan)],
        "progress/train_s": [(50_000, 5.0, 4.0), (100_000, 10.0, 8.0)],
        "throughput/sample_share": [(50_000, 5.0, 0.5), (100_000, 10.0, 0.5)],
        "system/cpu_percent": [(50_000, 5.0, 90.0), (100_000, 10.0, 95.0)],
    }
    again, curves = run_again(first, make_curves(first, {(c, s): points for c in "ab" for s in range(3)}), times)
    of_clock = curves["metric"].isin(["progress/train_s", "throughput/sample_share", "system/cpu_percent"])
    curves.loc[of_clock, "value"] += curves["repeat"]
    again.loc[:, ["train_s", "wall_s", "env_steps_per_s"]] += again[["repeat"]].to_numpy()
    return again, curves


def where(frame: pd.DataFrame, config: str, seed: int, repeat: int = 1, metric: str | None = None) -> pd.Series:
    chosen = (frame["config"] == config) & (frame["seed"] == seed) & (frame["repeat"] == repeat)
    return chosen if metric is None else chosen & (frame["metric"] == metric)


def test_repeats_that_differ_in_time_and_load_alone_are_the_same() -> None:
    pairs = compare_repeats(*twice())
    assert pairs[["config", "seed", "repeat", "against"]].astype(str).agg(" ".join, axis=1).tolist() == [
        "a 0 1 0", "a 1 1 0", "a 2 1 0", "b 0 1 0", "b 1 1 0", "b 2 1 0",
    ]  # fmt: skip
    assert pairs["identical"].all()
    # Two metrics at two reports, score and area; and env steps to the target where it was reached.
    assert pairs["num_values"].tolist() == [6, 6, 7, 7, 7, 7]
    table = bit_exactness(*twice()).set_index("config")
    assert table[["num_seeds", "num_pairs", "num_identical", "num_values"]].to_numpy().tolist() == [
        [3, 3, 3, 19],
        [3, 3, 3, 21],
    ]
    assert table["has_weights"].all()
    assert not table[["num_unpromised", "num_left_out"]].any(axis=None)
    assert table["metric"].isna().all()


def test_a_repeat_that_parts_is_named_with_its_first_point_and_metric() -> None:
    runs_twice, curves = twice(times=2)
    late = where(curves, "b", 1, 1, "eval/return_mean") & (curves["env_steps"] == 100_000)
    curves.loc[late, "value"] = np.nextafter(20.0, 21.0)  # a single bit
    for metric in ("eval/return_mean", "learner/loss"):
        curves.loc[where(curves, "b", 2, 2, metric), "value"] += 1.0
    pairs = compare_repeats(runs_twice, curves)
    assert pairs.loc[
        ~pairs["identical"], ["config", "seed", "repeat", "env_steps", "metric", "num_parted"]
    ].to_numpy().tolist() == [
        ["b", 1, 1, 100_000, "eval/return_mean", 1],
        ["b", 2, 2, 50_000, "eval/return_mean", 2],
    ]
    row = bit_exactness(runs_twice, curves).set_index("config").loc["b"]
    assert (row["num_pairs"], row["num_identical"]) == (6, 4)
    # the earlier of the two
    assert (row["seed"], row["repeat"], row["env_steps"], row["metric"]) == (2, 2, 50_000, "eval/return_mean")
    assert (row["value_before"], row["value"], row["num_parted"]) == (10.0, 11.0, 2)


def test_weights_count_where_both_are_known() -> None:
    runs_twice, curves = twice()
    runs_twice.loc[where(runs_twice, "a", 0), "weights"] = "another"
    runs_twice.loc[where(runs_twice, "b", 0), "weights"] = ""
    pairs = compare_repeats(runs_twice, curves).set_index(["config", "seed"])
    assert pairs.loc[("a", 0), ["identical", "metric", "env_steps"]].tolist() == [False, "weights", 100_000]
    assert pairs.loc[("b", 0), ["identical", "has_weights"]].tolist() == [True, False]
    assert bit_exactness(runs_twice, curves)["has_weights"].tolist() == [True, False]


def test_the_final_evaluation_counts_too() -> None:
    runs_twice, curves = twice()
    runs_twice.loc[where(runs_twice, "a", 1), "score"] += 1.0
    found = compare_repeats(runs_twice, curves)
    assert found.loc[~found["identical"], ["config", "seed", "env_steps", "metric"]].to_numpy().tolist() == [
        ["a", 1, 100_000, "final/score"]
    ]
    assert not compare_repeats(runs_twice)["identical"].all()  # the driver knows it without the curves


def test_what_differs_at_the_end_of_a_trial_that_stopped_early_differs_there() -> None:
    runs_twice, curves = twice()
    runs_twice["end_env_steps"] = 50_000
    runs_twice.loc[where(runs_twice, "a", 1), "score"] += 1.0
    runs_twice.loc[where(runs_twice, "b", 0), "weights"] = "another"
    found = compare_repeats(runs_twice, curves).query("not identical")
    assert found["env_steps"].tolist() == [50_000] * 2


@pytest.mark.parametrize(("missing", "values"), [(1, (0.3, math.nan)), (0, (math.nan, 0.3))])
def test_a_metric_that_only_one_of_the_two_logged_is_a_difference(missing: int, values: tuple[float, float]) -> None:
    runs_twice, curves = twice()
    curves = curves[~where(curves, "a", 0, missing, "learner/loss")]
    (parted,) = compare_repeats(runs_twice, curves).query("not identical").to_dict("records")
    assert (parted["metric"], parted["env_steps"]) == ("learner/loss", 50_000)
    assert str((parted["value_before"], parted["value"])) == str(values)


def test_a_missing_report_is_a_difference() -> None:
    runs_twice, curves = twice()
    curves = curves[~(where(curves, "a", 0, 1, "eval/return_mean") & (curves["env_steps"] == 50_000))]
    (parted,) = compare_repeats(runs_twice, curves).query("not identical").to_dict("records")
    assert (parted["metric"], parted["env_steps"], parted["value_before"]) == ("eval/return_mean", 50_000, 10.0)
    assert math.isnan(parted["value"])


@pytest.mark.parametrize("status", ["failed", "interrupted", "running", "missing"])
def test_a_repeat_that_did_not_finish_is_counted_but_not_compared(status: str) -> None:
    runs_twice, curves = twice(times=2)
    runs_twice.loc[where(runs_twice, "a", 0, 1) | where(runs_twice, "b", 1, 0), "status"] = status
    pairs = compare_repeats(runs_twice, curves)
    assert pairs.loc[pairs["config"] == "a", ["seed", "repeat", "against"]].to_numpy().tolist() == [
        [0, 2, 0], [1, 1, 0], [1, 2, 0], [2, 1, 0], [2, 2, 0],
    ]  # fmt: skip
    assert pairs.loc[where(pairs, "b", 1, 2), "against"].tolist() == [1]  # the first of them that finished
    assert bit_exactness(runs_twice, curves)["num_left_out"].tolist() == [1, 1]


def test_what_does_not_promise_bits_is_not_held_to_them() -> None:
    runs_twice, curves = twice()
    runs_twice.loc[runs_twice["config"] == "a", "reproducible"] = False
    runs_twice.loc[where(runs_twice, "b", 2, 0), "reproducible"] = pd.NA  # unknown: held to them
    curves.loc[where(curves, "a", 0, 1, "eval/return_mean"), "value"] += 1.0
    table = bit_exactness(runs_twice, curves).set_index("config")
    assert table.loc["a", ["num_pairs", "num_identical", "num_unpromised"]].tolist() == [0, 0, 3]
    assert table.loc["b", ["num_pairs", "num_identical", "num_unpromised"]].tolist() == [3, 3, 0]
    assert table["metric"].isna().all()


def test_a_study_that_ran_each_seed_once_has_nothing_to_compare() -> None:
    once = make_runs({"a": [1.0, 2.0]})
    assert compare_repeats(once, make_curves(once, {})).empty
    assert bit_exactness(once, make_curves(once, {})).empty
    assert repeat_differences(once).empty
    assert sameness(once) == []


def test_later_runs_are_compared_with_the_first_over_seeds() -> None:
    runs_twice, _ = run_again(*_scored({"a": [100.0, 200.0, 300.0], "b": [1.0, 2.0, 3.0]}), times=2)
    for repeat, changes in ((1, [0.0, 3.0, 6.0]), (2, [2.0, 5.0, 8.0])):
        runs_twice.loc[(runs_twice["config"] == "a") & (runs_twice["repeat"] == repeat), "score"] += changes
    table = repeat_differences(runs_twice).set_index("config")
    assert table.loc["a", "difference"] == pytest.approx(4.0)  # of 1, 4 and 7
    assert table.loc["a", "sd_repeats"] == pytest.approx(
        np.sqrt(np.mean([np.var(x, ddof=1) for x in ([0, 0, 2], [0, 3, 5], [0, 6, 8])]))
    )
    assert table.loc["a", "sd_seeds"] == pytest.approx(100.0)
    assert table.loc["b", ["difference", "sd_repeats"]].tolist() == [0.0, 0.0]
    alone = repeat_differences(runs_twice[runs_twice["config"] == "a"])
    low, high = stats.t.interval(0.95, 2, 4.0, 3.0 / np.sqrt(3))  # with nothing to average its variance with
    assert alone[["difference_low", "difference_high"]].to_numpy()[0] == pytest.approx([low, high])


def _scored(scores: dict[str, list[float]]) -> Frames:
    first = make_runs(scores)
    return first, make_curves(first, {})


def test_no_conclusion_changes_when_every_seed_is_run_again() -> None:
    lrs = {"lr": {"a": 1e-3, "b": 3e-3, "c": 1e-2}, "train_batch_size_total": dict.fromkeys("abc", 512)}
    scores = {"a": [300.0, 310.0, 480.0], "b": [480.0, 490.0, 485.0], "c": [480.0, 470.0, 100.0]}
    once = with_status(make_runs(scores, params=lrs), "c", [2], "failed")
    shares = {f"throughput/{part}_share": [(50_000, 5.0, 0.25)] for part in ("sample", "learn", "sync", "other")}
    points = {
        "eval/return_mean": [(50_000, 5.0, 10.0), (100_000, 10.0, 20.0)],
        "progress/train_s": [(50_000, 5.0, 4.0)],
        **shares,
    }
    curves = make_curves(once, dict.fromkeys(zip(once["config"], once["seed"], strict=True), points))
    again, more_curves = run_again(once, curves)
    repeats = again["repeat"] > 0
    # As unlike the first runs as can be: whoever counts them sees it.
    again.loc[repeats, ["score", "auc", "env_steps_to_target", "train_s", "env_steps_per_s"]] = [
        1.0,
        1.0,
        99_000.0,
        9.0,
        5.0,
    ]
    again.loc[repeats, "status"] = ["finished", "failed", "finished"] * 3
    more_curves.loc[more_curves["repeat"] > 0, "value"] = 0.9
    for conclude in (
        conclusive,
        convergence.summarise,
        convergence.pairwise,
        convergence.score_profile,
        convergence.target_profile,
        seed_spread,
        lambda r: closing_table(Evidence(r, axes=("lr",))),
        lambda r: pd.DataFrame(decision.decide(r)),
        lambda r: pd.DataFrame([exponent(r)]),
        lambda r: pd.DataFrame([typical_difference_spread(r)]),
        lambda r: false_differences(r, np.random.default_rng(0), group=1),
    ):
        pd.testing.assert_frame_equal(*(conclude(frame).reset_index(drop=True) for frame in (again, once)))
    for metric, x in (("eval/return_mean", "env_steps"), ("eval/return_mean", "wall_s")):
        bands = [convergence.curve_bands(c, r, metric, x) for c, r in ((curves, once), (more_curves, again))]
        assert len(bands[0])
        pd.testing.assert_frame_equal(*bands)
    pd.testing.assert_frame_equal(time_shares(curves, once), time_shares(more_curves, again))
    before, after = (answers(Evidence(r))[0] for r in (once, again))
    assert (after.headline, after.because, after.certainty) == (before.headline, before.because, before.certainty)
    assert caveats(Evidence(again, axes=("lr",))) == caveats(Evidence(once, axes=("lr",)))


@pytest.mark.parametrize("status", ["failed", "finished"])
def test_a_configuration_whose_repeats_ended_is_no_less_reliable(status: str) -> None:
    once = make_runs({"one": [400.0, 410.0, 390.0, 405.0], "other": [399.0, 408.0, 393.0, 402.0]}, target=np.nan)
    chosen = decision.decide(once)[0].chosen
    again, _ = run_again(once, make_curves(once, {}))
    again.loc[again["repeat"] == 1, "status"] = np.where(
        again.loc[again["repeat"] == 1, "config"] == chosen, status, "missing"
    )
    assert decision.decide(again)[0].chosen == chosen


def test_a_seed_whose_first_run_failed_has_crashed_whatever_its_repeat_did() -> None:
    runs_twice, _ = twice()
    failed = where(runs_twice, "b", 0, 0)
    runs_twice.loc[failed, ["status", "score"]] = ["failed", np.nan]
    counts = convergence.summarise(runs_twice).set_index("config").loc["b", ["num_planned", "num_seeds", "num_crashed"]]
    assert counts.tolist() == [3, 3, 1]


# Five against five others.


def test_splits_are_compared_as_the_study_compares_configurations() -> None:
    scores = [3.0, 8.0, 1.0, 9.0]
    drawn = false_differences(make_runs({"a": scores}), np.random.default_rng(0), group=2)
    # Every way to put two of the four against the other two, in every order: a paired t test each, by SciPy.
    ways = [(p[:2], p[2:]) for p in permutations(scores)]
    share = np.mean([stats.ttest_rel(a, b).pvalue <= 0.05 for a, b in ways])
    gaps = [abs(np.mean(a) - np.mean(b)) for a, b in ways]
    assert drawn["num_ways"].tolist() == [3]
    assert drawn["share"].tolist() == pytest.approx([share], abs=0.04)
    assert drawn[["gap_median", "gap_95"]].to_numpy()[0] == pytest.approx([np.median(gaps), max(gaps)])


@pytest.mark.slow
def test_about_a_twentieth_of_splits_differ_by_chance() -> None:
    rng = np.random.default_rng(0)
    shares = [false_differences(make_runs({"a": list(rng.normal(size=10))}), rng)["share"].iloc[0] for _ in range(60)]
    assert np.mean(shares) == pytest.approx(0.05, abs=0.01)


def test_seeds_that_all_end_alike_never_differ() -> None:
    table = false_differences(make_runs({"a": [500.0] * 10}), np.random.default_rng(0))
    assert table[["share", "gap_median", "gap_95"]].to_numpy().tolist() == [[0.0, 0.0, 0.0]]


def test_two_seeds_of_ten_that_fail_altogether_are_hardly_ever_seen_by_five_against_five() -> None:
    table = false_differences(make_runs({"a": [480.0 + i for i in range(8)] + [10.0, 20.0]}), np.random.default_rng(0))
    assert table["share"].iloc[0] < 0.05
    assert table["gap_95"].iloc[0] > 150  # whereas the means of the halves lie far apart


def test_a_configuration_with_too_few_seeds_is_not_split() -> None:
    few = with_status(
        make_runs({"a": [float(i) for i in range(10)], "b": [float(i) for i in range(10)]}), "b", [9], "failed"
    )
    rng = np.random.default_rng(0)
    assert false_differences(few, rng)["config"].tolist() == ["a"]
    assert false_differences(few, rng, group=4)[["config", "num_seeds"]].to_numpy().tolist() == [["a", 9], ["b", 9]]
    assert group_gaps(few, rng).groupby("group").size().to_dict() == {2: 2, 3: 2, 4: 2, 5: 1}
    none = with_status(few, "a", range(10), "failed")
    assert all(group_gaps(frame, rng).empty for frame in (few.iloc[:3], few.iloc[:0], none[none["config"] == "a"]))


def test_environments_are_split_apart_and_the_generator_decides() -> None:
    rng = np.random.default_rng(3)
    both = together(
        make_runs({"a": list(rng.normal(size=10))}), make_runs({"c": list(rng.normal(size=12))}, env="acrobot")
    )
    first, second = (false_differences(both, np.random.default_rng(7)) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)
    assert first[["config", "num_seeds"]].to_numpy().tolist() == [["a", 10], ["c", 12]]


def test_more_seeds_lie_less_apart() -> None:
    gaps = group_gaps(make_runs({"a": list(np.random.default_rng(0).normal(size=20))}), np.random.default_rng(0))
    assert gaps["group"].tolist() == list(range(2, 11))
    assert gaps["gap_95"].iloc[-1] < gaps["gap_95"].iloc[0] / 2  # about as one over the root of their number


# In words.


def test_the_answer_counts_the_repeats_that_are_the_same() -> None:
    runs_twice, curves = twice()
    words = (
        "6 of 6 repeats are the same to the bit as the first run of their seed "
        "(2 configurations x 3 seeds x 2 repeats; "
    )
    assert words + "40 logged values and the final weights)." in answers(Evidence(runs_twice, curves))[0].markdown()
    assert words + "16 logged values and the final weights)." in answers(Evidence(runs_twice))[0].markdown()
    assert answers(Evidence(runs_twice, curves))[0].markdown().endswith("final weights).")


def test_the_answer_names_the_first_repeat_that_parts() -> None:
    runs_twice, curves = twice()
    curves.loc[where(curves, "b", 2, 1, "learner/loss") & (curves["env_steps"] == 50_000), "value"] = 0.25
    assert sameness(runs_twice, curves)[0].endswith(
        "Those that differ are of `b`; the first to part is `b s=2 r=1`, at 50,000 env steps "
        "in `learner/loss` (0.3, then 0.25)."
    )


def test_where_bits_are_not_promised_the_scores_are_compared() -> None:
    runs_twice, curves = twice()
    runs_twice["reproducible"] = pd.array([False] * len(runs_twice), dtype="boolean")
    later = runs_twice["repeat"] == 1
    (said,) = sameness(runs_twice, curves)
    assert "`b`: in all 3 seeds the later runs score exactly what the first did; seeds have" in said
    runs_twice.loc[later, "score"] += [5.0, -5.0, 1.0] * 2
    (said,) = sameness(runs_twice, curves)
    assert said.startswith("6 repeats need not be the same to the bit: the algorithm is asynchronous")
    assert "no more than chance explains" in said
    runs_twice.loc[later, "score"] += 1000.0
    assert ", more than chance explains" in sameness(runs_twice, curves)[0]


def test_repeats_that_could_not_be_compared_are_counted() -> None:
    runs_twice, curves = twice()
    runs_twice.loc[where(runs_twice, "a", 0), "status"] = "failed"
    assert sameness(runs_twice, curves)[-1].startswith("1 repeat could not be compared")


def test_five_against_five_is_said_only_of_ten_seeds() -> None:
    ten = make_runs({"a": [400.0 + 3 * i for i in range(10)], "b": [1.0] * 3})
    (said,) = five_against_five(group_gaps(ten, np.random.default_rng(0)), "score")
    assert said.startswith("Five seeds of `a` against five others of its 10, by score: ")


def test_caveats_name_trials_that_were_taken_up_again_and_those_that_promise_no_bits() -> None:
    runs_twice, _ = twice()
    assert not [c for c in caveats(Evidence(runs_twice)) if "taken up" in c or "bits" in c]
    runs_twice.loc[where(runs_twice, "a", 1, 1) | where(runs_twice, "b", 0, 0), "restarts"] = 2
    runs_twice.loc[where(runs_twice, "b", 2, 1), "reproducible"] = False
    runs_twice["algorithm"] = runs_twice["config"].astype(str).map({"a": "ppo", "b": "dqn"})
    found = caveats(Evidence(runs_twice))
    assert "2 trials were taken up again after a fault or an interruption: b s=0, a s=1 r=1." in found
    assert any(c.startswith("1 trial of dqn (b s=2 r=1) does not promise the same bits") for c in found)
    runs_twice.loc[runs_twice["algorithm"] == "dqn", "reproducible"] = False
    found = caveats(Evidence(runs_twice))
    assert any(c.startswith("The trials of dqn do not promise the same bits") for c in found)
