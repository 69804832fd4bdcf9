"""Best learning rate against batch, and the critical batch."""

import math

import numpy as np
import pandas as pd
import pytest

from analysis import AnalysisError
from analysis.questions.batch_tradeoff import batch_tradeoff
from analysis.questions.learning_rate_batch import RULES, best_learning_rates, exponent, slices
from benchmarks.calibration.learning_rate_batch import (
    CURVES,
    GRIDS,
    best_lr_coverage,
    critical_batch_coverage,
    exponent_coverage,
    frame,
)
from tests.support.binomial import fewest_hits

LRS, BATCHES = GRIDS["5 x 3"]
AXES = ("lr", "train_batch_size_total")


def study(p=0.5, noise=5.0, num_seeds=3, best_lr=3e-3, lrs=LRS, batches=BATCHES, rng=0, measure="auc"):
    """Parabolas of height 440 whose best learning rate is best_lr (batch / 2000)^p."""
    away = np.log10(lrs) - np.log10(best_lr) - p * np.log10(np.array(batches) / 2000)[:, None]
    value = (440 - 100 * away**2)[..., None] + noise * np.random.default_rng(rng).standard_normal(
        (*away.shape, num_seeds)
    )
    return frame(lrs, batches, value, measure)


def steps_study(critical=2000.0, emin=10_000.0, noise=0.02, num_seeds=3, batches=(500, 2000, 8000)):
    """Env steps to target emin (1 + batch / critical) at the learning rate 3e-3, half as many again at the others."""
    lrs = (1e-3, 3e-3, 1e-2)
    steps = emin * (1 + np.array(batches) / critical)[:, None] * np.array([1.5, 1.0, 1.5])
    scatter = np.random.default_rng(0).standard_normal((*steps.shape, num_seeds))
    runs = frame(lrs, batches, steps[..., None] * np.exp(noise * scatter), "env_steps_to_target")
    return runs.assign(budget_env_steps=200_000)


def bent(until, noise=5.0, num_seeds=5):
    """Six batches whose best learning rate grows linearly up to one of them and then stays."""
    lrs, batches = GRIDS["6 x 4"][0], (256, 512, 1024, 2048, 4096, 8192)
    best = 3e-3 * np.minimum(np.array(batches) / until, 1.0)
    away = np.log10(lrs) - np.log10(best)[:, None]
    scatter = np.random.default_rng(0).standard_normal((*away.shape, num_seeds))
    return frame(lrs, batches, (440 - 100 * away**2)[..., None] + noise * scatter, "auc")


# --- the best learning rate ---


def test_the_best_learning_rate_lies_between_the_points_of_the_grid():
    table = best_learning_rates(study(p=0.0, best_lr=5e-3, noise=1.0), np.random.default_rng(0))
    assert table["train_batch_size_total"].tolist() == list(BATCHES)
    assert table["best_lr"].to_numpy() == pytest.approx(5e-3, rel=0.15)
    assert (table["best_lr_low"] <= 5e-3).all() and (table["best_lr_high"] >= 5e-3).all()
    # Without noise to speak of, the interval is as wide as the grid is coarse: from halfway between 1e-3 and 3e-3 on.
    assert table["best_lr_low"].to_numpy() == pytest.approx((1e-3 * 3e-3) ** 0.5)
    assert (table["best_lr_high"] < 6.5e-3).all()
    assert set(table["grid_best_lr"]) == {3e-3} and set(table["at_edge"]) == {""} and not table["low_open"].any()


@pytest.mark.parametrize(("best_lr", "side"), [(1e-4, "low"), (0.1, "high")])
def test_an_optimum_at_the_grids_edge_is_said_and_the_interval_is_open_there(best_lr, side):
    table = best_learning_rates(study(p=0.0, best_lr=best_lr, noise=2.0), np.random.default_rng(0))
    assert set(table["at_edge"]) == {side}
    assert table[f"{side}_open"].all() and not table["high_open" if side == "low" else "low_open"].any()
    found = exponent(study(p=0.0, best_lr=best_lr, noise=2.0))
    assert not found.can_tell and not any(found.rejected.values())
    assert f"at the {side} edge of the grid" in found.sentence


def test_a_flat_curve_has_a_wide_interval():
    flat = frame(LRS, BATCHES, 480 + 10 * np.random.default_rng(1).standard_normal((3, 5, 5)))
    table = best_learning_rates(flat, np.random.default_rng(0))
    assert (table["best_lr_high"] / table["best_lr_low"] > 20).all()
    found = exponent(flat)
    assert not found.can_tell
    assert "can't tell" in found.sentence


def test_equal_values_everywhere_have_no_interval_and_no_exponent():
    same = frame(LRS, BATCHES, np.full((3, 5, 3), 500.0))
    table = best_learning_rates(same, np.random.default_rng(0))
    assert table["best_lr"].tolist() == [3e-3] * 3 and table["best_lr_low"].isna().all()
    assert "same at every learning rate" in exponent(same).sentence


def test_fewer_env_steps_to_target_are_better_and_unreached_targets_count_at_the_budget():
    runs = steps_study()
    runs.loc[runs["lr"] == 1e-2, "env_steps_to_target"] = np.nan
    table = best_learning_rates(runs, np.random.default_rng(0), measure="env_steps_to_target")
    assert set(table["grid_best_lr"]) == {3e-3} and (table["num_left_out"] == 0).all()
    assert (table["best_lr"] < 4e-3).all()


def test_a_diverged_run_counts_as_the_worst_and_a_crashed_one_is_left_out():
    runs = study(p=0.0, noise=1.0)
    high, low = runs["lr"] == 3e-2, (runs["lr"] == 3e-4) & (runs["seed"] == 0)
    runs.loc[high | low, ["status", "auc"]] = ["failed", np.nan]
    runs.loc[high, "diverged"] = True
    runs.loc[low, "failure"] = "RuntimeError: an infinite loop in the simulator"  # whatever its words
    table = best_learning_rates(runs, np.random.default_rng(0))
    assert table["num_left_out"].tolist() == [1, 1, 1] and set(table["num_lrs"]) == {5}


# --- the exponent ---


@pytest.mark.parametrize(("rule", "p"), RULES.items())
def test_clear_curves_keep_the_true_rule_and_reject_the_others(rule, p):
    found = exponent(study(p=p, noise=1.0, num_seeds=5))
    assert found.estimate == pytest.approx(p, abs=0.1)
    assert found.low <= p <= found.high
    assert found.rejected == {name: name != rule for name in RULES}
    assert found.can_tell and "are rejected" in found.sentence
    assert found.reference_lr * (2000 / found.reference_batch) ** p == pytest.approx(3e-3, rel=0.1)


def test_more_seeds_narrow_the_interval():
    few, many = (exponent(study(noise=20.0, num_seeds=n)) for n in (3, 30))
    assert many.high - many.low < few.high - few.low


def test_the_order_of_runs_changes_nothing():
    runs = study(noise=10.0)
    shuffled = runs.sample(frac=1, random_state=3)
    assert exponent(shuffled).low == pytest.approx(exponent(runs).low)
    first, second = (best_learning_rates(r, np.random.default_rng(0)) for r in (runs, shuffled))
    assert first["best_lr_low"].to_numpy() == pytest.approx(second["best_lr_low"].to_numpy())


def test_one_seed_gives_estimates_without_intervals():
    runs = study(noise=1.0, num_seeds=1)
    found = exponent(runs)
    assert found.estimate == pytest.approx(0.5, abs=0.15) and math.isnan(found.low) and not any(found.rejected.values())
    assert "one seed gives no interval" in found.sentence
    assert best_learning_rates(runs, np.random.default_rng(0))["best_lr_low"].isna().all()


def test_two_batches_cannot_show_a_power_law_and_one_gives_no_exponent():
    two = exponent(study(batches=(512, 4000), noise=1.0))
    assert not two.can_tell and "cannot show that a power law holds" in two.sentence and math.isfinite(two.estimate)
    one = exponent(study(batches=(512,)))
    assert math.isnan(one.estimate) and "fewer than two batches" in one.sentence


def test_another_column_may_hold_the_learning_rate():
    runs = study(noise=1.0).rename(columns={"lr": "actor_lr"})
    assert exponent(runs, lr="actor_lr").estimate == pytest.approx(0.5, abs=0.1)
    with pytest.raises(AnalysisError, match="no column 'lr'"):
        exponent(runs)


def test_a_learning_rate_that_grows_and_then_stays_is_no_power_of_the_batch():
    found = exponent(bent(until=1024))
    assert not found.can_tell
    (said,) = [reason for reason in found.reasons if reason.startswith("it bends: batch^")]
    assert " up to batch 1,024 and batch^" in said and " from 2,048 on" in said
    assert "no single power holds" in found.sentence
    straight = exponent(study(p=1.0, num_seeds=5, lrs=GRIDS["6 x 4"][0], batches=(256, 512, 1024, 2048, 4096, 8192)))
    assert straight.can_tell and not [reason for reason in straight.reasons if "bends" in reason]


# --- the critical batch ---


def test_the_critical_batch_by_hand():
    # E = 10,000 (1 + B / 2000): 12,500, 20,000 and 50,000 env steps, so 25, 10 and 6.25 updates;
    # smin = 10,000 / 2000 = 5.
    found = batch_tradeoff(steps_study(), np.random.default_rng(0))
    assert found.batches["lr"].tolist() == [3e-3] * 3 and set(found.batches["at_edge"]) == {""}
    assert found.batches["env_steps_to_target"].to_numpy() == pytest.approx([12_500, 20_000, 50_000], rel=0.05)
    assert found.batches["updates_to_target"].to_numpy() == pytest.approx([25, 10, 6.25], rel=0.05)
    assert (
        found.critical_batch.estimate == pytest.approx(2000, rel=0.1)
        and found.critical_batch.low < 2000 < found.critical_batch.high
    )
    assert found.emin.estimate == pytest.approx(10_000, rel=0.1) and found.smin.estimate == pytest.approx(5, rel=0.1)
    assert found.can_tell and "The critical batch is" in found.sentence


def test_seeds_that_never_reach_the_target_are_counted_and_said():
    runs = steps_study(noise=0.2, num_seeds=5)
    runs.loc[(runs["train_batch_size_total"] == 8000) & (runs["seed"] < 2), "env_steps_to_target"] = np.nan
    runs["budget_env_steps"] = 60_000
    found = batch_tradeoff(runs, np.random.default_rng(0))
    assert found.batches["num_seeds"].tolist() == [5, 5, 5] and found.batches["num_reached"].tolist() == [5, 5, 3]
    assert "never reach the target" in found.sentence
    assert found.critical_batch.estimate < 4000


def test_too_few_batches_that_reach_cannot_tell():
    runs = steps_study()
    runs.loc[runs["train_batch_size_total"] == 8000, "env_steps_to_target"] = np.nan
    found = batch_tradeoff(runs, np.random.default_rng(0))
    assert (
        not found.can_tell
        and "only 2 of 3 batches reach the target" in found.sentence
        and math.isnan(found.critical_batch.estimate)
    )
    assert found.batches["env_steps_to_target"].iloc[2] == 200_000


def test_noise_that_hides_the_critical_batch_is_said():
    found = batch_tradeoff(steps_study(noise=1.0), np.random.default_rng(0))
    assert not found.can_tell and "can't be told" in found.sentence


def test_a_critical_batch_beyond_those_tried_is_said():
    found = batch_tradeoff(steps_study(critical=1e7, num_seeds=10), np.random.default_rng(0))
    assert found.can_tell and "beyond all batches tried" in found.sentence


def test_one_seed_and_replayed_data_have_no_critical_batch():
    assert "one seed" in batch_tradeoff(steps_study(num_seeds=1), np.random.default_rng(0)).sentence
    replayed = batch_tradeoff(steps_study().assign(algorithm="my_sac"), np.random.default_rng(0), replays=True)
    assert "my_sac replays its data" in replayed.sentence and replayed.batches["updates_to_target"].isna().all()


def test_where_env_steps_first_fall_with_the_batch_the_tradeoff_does_not_hold():
    """A model in which they only rise called this "a larger batch still pays"."""
    steps = np.array([60_000.0, 20_000, 15_000, 16_000])[:, None] * np.array([1.5, 1.0, 1.5])
    scatter = np.random.default_rng(0).standard_normal((*steps.shape, 5))
    runs = frame(
        (1e-3, 3e-3, 1e-2), (256, 1024, 4096, 8192), steps[..., None] * np.exp(0.05 * scatter), "env_steps_to_target"
    )
    found = batch_tradeoff(runs.assign(budget_env_steps=200_000), np.random.default_rng(0))
    assert not found.can_tell and np.isnan(found.critical_batch.estimate)
    assert "batch 256 takes 4" in found.sentence and "batch 4,096, which takes the fewest" in found.sentence


# --- bad input ---


def other_setting(num_seeds=3):
    runs = study(num_seeds=num_seeds)
    second = runs.assign(config=runs["config"].astype(str) + "b", gamma=0.9)
    return pd.concat([runs.assign(config=runs["config"].astype(str), gamma=0.99), second], ignore_index=True)


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        (study().drop(columns="lr"), "no column 'lr'"),
        (study().drop(columns="train_batch_size_total"), "no column 'train_batch_size_total'"),
        (study(lrs=(1e-3,)), "one value of lr only"),
        (
            study().assign(status="failed", auc=np.nan, failure="out of memory"),
            "no run has a finite auc: 45 of 45 did not finish",
        ),
        (study().assign(auc=np.inf), "no run has a finite auc"),
        (study().assign(lr=0.0), "not a positive number"),
        (study().assign(exploratory=True), "no run has a finite auc"),
        (other_setting(), "several configurations have the same lr"),
    ],
)
def test_bad_input_is_one_clear_sentence(runs, words):
    with pytest.raises(AnalysisError, match=words):
        exponent(runs)
    with pytest.raises(AnalysisError, match=words):
        best_learning_rates(runs, np.random.default_rng(0))


def test_an_env_without_a_target_and_an_unknown_measure_are_refused():
    with pytest.raises(AnalysisError, match="no target"):
        batch_tradeoff(steps_study().assign(target=np.nan), np.random.default_rng(0))
    with pytest.raises(AnalysisError, match="'loss' is unknown"):
        exponent(study(), measure="loss")


def test_a_study_of_other_settings_is_split():
    parts = slices(other_setting(), (*AXES, "gamma"))
    assert [label for label, _ in parts] == ["gamma=0.99", "gamma=0.9"]
    assert all(math.isfinite(exponent(part).estimate) for _, part in parts)
    whole = study()
    assert slices(whole, AXES)[0][0] == "" and slices(whole, AXES)[0][1] is whole


@pytest.mark.parametrize("num_seeds", [1, 3])
def test_only_the_studys_axes_split_it_and_not_what_its_trials_came_to(num_seeds):
    runs = other_setting(num_seeds)
    own = runs["config"].astype("category").cat.codes
    results = {
        "bottleneck": own.map(lambda code: ("env-bound", "learner-bound")[code % 2]),
        "health": own.map(lambda code: f"signal {code}"),
    }
    names = {
        "trial_id": runs["config"] + "_s" + runs["seed"].astype(str),
        "disturbed_share": own / 100,
        "trained_steps_per_s": 100.0 + own,
    }
    parts = slices(runs.assign(**results, **names, parent="", copied=False, start_env_steps=0), (*AXES, "gamma"))
    assert [(label, len(part)) for label, part in parts] == [
        ("gamma=0.99", 15 * num_seeds),
        ("gamma=0.9", 15 * num_seeds),
    ]


def test_single_non_finite_values_are_left_out_and_counted():
    runs = study(noise=1.0)
    runs.loc[0, "auc"] = np.nan
    assert best_learning_rates(runs, np.random.default_rng(0))["num_left_out"].tolist() == [1, 0, 0]


# --- calibration: docs/benchmarks has the coverage by case, with more studies ---


CASES = [
    (name, p, "5 x 3")
    for name in ("area under the curve", "saturated score", "collapsing seeds")
    for p in RULES.values()
]
CASES += [("area under the curve", 0.5, "6 x 4"), ("saturated score", 0.5, "6 x 4")]


def hits(found):
    return round(sum(c.share * c.num_studies for c in found)), sum(c.num_studies for c in found)


@pytest.mark.slow
def test_the_exponents_interval_covers():
    rng = np.random.default_rng(21)
    found = [
        exponent_coverage(CURVES[name], p, grid, num_seeds, 2, rng) for name, p, grid in CASES for num_seeds in (3, 10)
    ]
    held, num = hits(found)
    assert held >= fewest_hits(num)
    assert np.median([c.width for c in found]) < 1.5  # of the 4 that were considered


def test_the_best_learning_rates_interval_covers():
    rng = np.random.default_rng(22)
    names = ("area under the curve", "saturated score")
    held, num = hits(
        [best_lr_coverage(CURVES[name], "5 x 3", num_seeds, 2, rng) for name in names for num_seeds in (3, 5, 10)]
    )
    assert held >= fewest_hits(num)


def test_the_critical_batchs_interval_covers():
    held, num = hits([critical_batch_coverage(3000, 5, 12, np.random.default_rng(23))])
    assert held >= fewest_hits(num)


@pytest.mark.nightly
@pytest.mark.parametrize("num_seeds", [3, 5, 10])
def test_the_exponents_interval_covers_at_its_nominal_rate(num_seeds):
    rng = np.random.default_rng(21)
    shares = [exponent_coverage(CURVES[name], p, grid, num_seeds, 16, rng).share for name, p, grid in CASES]
    # 92 to 98%, and a standard error of 176 studies above.
    assert 0.92 <= np.mean(shares) <= 0.99


@pytest.mark.nightly
@pytest.mark.parametrize("num_seeds", [3, 5, 10])
def test_the_best_learning_rates_interval_covers_at_its_nominal_rate(num_seeds):
    rng = np.random.default_rng(22)
    shares = [
        best_lr_coverage(CURVES[name], "5 x 3", num_seeds, 12, rng).share
        for name in ("area under the curve", "saturated score")
    ]
    assert np.mean(shares) >= 0.92  # three batches a study: 72 intervals
