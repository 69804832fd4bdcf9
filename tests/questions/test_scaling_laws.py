"""Amdahl's law and the Universal Scalability Law: what is found, what is predicted, and what can't be told."""

import math
from dataclasses import astuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from analysis import AnalysisError
from analysis.document.wording import fit_sentence, held_out_sentence
from analysis.questions.scaling_laws import HeldOut, ScalingFit, fit, hold_out
from benchmarks.calibration.scaling_laws import COUNTS, KINKED, LAM, LAWFUL, Truth, coverage, kinked, law, simulate
from tests.support.binomial import fewest_hits

COUNTS_TO_16 = (1, 2, 4, 8, 16)


def study(
    truth: Truth,
    counts: tuple[int, ...] = COUNTS_TO_16,
    noise: float = 0.01,
    between: float = 0.0,
    num_blocks: int = 3,
    seed: int = 0,
) -> pd.DataFrame:
    return simulate(truth, counts, np.random.default_rng(seed), noise, between, num_blocks)


def fitted(points: pd.DataFrame, axis: str = "num_env_runners") -> ScalingFit:
    return fit(points, np.random.default_rng(1), axis)


def held(points: pd.DataFrame) -> HeldOut:
    return hold_out(points, np.random.default_rng(1))


def ends(found: ScalingFit, name: str) -> tuple[float, float, float]:
    return astuple(getattr(found, name))


# --- what is found ---


@pytest.mark.parametrize(("sigma", "kappa"), [(0.1, 0.01), (0.3, 0.002), (0.03, 0.02)])
def test_the_universal_law_is_recovered_without_noise(sigma: float, kappa: float) -> None:
    truth = law(sigma, kappa)
    found = fitted(study(truth, noise=0.0))
    assert found.law == "usl" and found.usl_probability > 0.95
    assert found.lam.estimate == pytest.approx(LAM, rel=2e-3)
    assert found.sigma.estimate == pytest.approx(sigma, rel=0.1)
    assert found.kappa.estimate == pytest.approx(kappa, rel=0.1)
    assert found.peak.estimate == pytest.approx(truth.peak, rel=0.03)
    assert found.knee.estimate == pytest.approx(truth.knee, abs=1)
    assert found.counts["efficiency"].tolist() == pytest.approx([truth.of(n) / n for n in COUNTS_TO_16], rel=3e-3)
    assert found.predict([3, 12])["env_steps_per_s"].tolist() == pytest.approx(
        [LAM * truth.of(3), LAM * truth.of(12)], rel=5e-3
    )


@pytest.mark.parametrize("sigma", [0.05, 0.3])
def test_amdahls_law_is_recovered_without_noise(sigma: float) -> None:
    found = fitted(study(law(sigma, 0.0), noise=0.0))
    assert found.law == "amdahl" and found.kappa.low == 0
    assert found.sigma.estimate == pytest.approx(sigma, rel=0.03)
    assert found.peak.high == math.inf
    amdahl = found.laws.set_index("law").loc["amdahl"]
    assert amdahl["sigma"] == pytest.approx(sigma, rel=0.03) and amdahl["kappa"] == amdahl["kappa_high"] == 0


def test_linear_scaling_has_no_contention_and_no_end_in_sight() -> None:
    found = fitted(study(LAWFUL["linear"], noise=0.01))
    assert found.sigma.low == found.kappa.low == 0 and found.sigma.high < 0.05
    assert found.knee.high == found.peak.high == found.peak_env_steps_per_s.high == math.inf
    assert found.knee.low >= 16
    assert not found.can_tell
    assert (
        "throughput still rises at 16 env runners: the peak is known from below only, so add larger counts"
        in found.reasons
    )
    assert "can't be told" in fit_sentence(found) and "No peak is within sight" in fit_sentence(found)


def test_efficiency_of_one_runner_is_1_by_definition() -> None:
    first = fitted(study(law(0.1, 0.01))).counts.iloc[0]
    assert first[["efficiency", "efficiency_low", "efficiency_high"]].tolist() == [1, 1, 1]


def test_measured_throughput_is_the_geometric_mean_over_seeds() -> None:
    points = study(law(0.1, 0.01), between=0.03)
    table = fitted(points).counts
    for row in table.itertuples():
        speeds = points.loc[points["num"] == row.num, "env_steps_per_s"]
        assert row.env_steps_per_s == pytest.approx(float(np.exp(np.log(speeds).mean())))
        assert row.env_steps_per_s_low < row.env_steps_per_s < row.env_steps_per_s_high
        assert row.num_seeds == 3


def test_the_peak_is_where_the_law_turns_and_the_knee_before_it() -> None:
    truth = law(0.05, 0.01)
    found = fitted(study(truth, (1, 2, 4, 8, 16, 24)))
    estimate, low, high = ends(found, "peak")
    assert low <= truth.peak <= high and low <= estimate <= high
    assert found.knee.low <= truth.knee <= found.knee.high and found.knee.estimate < found.peak.estimate
    assert found.peak_env_steps_per_s.low <= LAM * truth.of(truth.peak) <= found.peak_env_steps_per_s.high
    assert found.can_tell and "Throughput peaks at" in fit_sentence(found)


def test_a_curve_that_falls_from_the_start_peaks_at_one_runner() -> None:
    found = fitted(study(law(0.5, 0.6)))
    assert found.peak.estimate == 1 and found.knee.estimate == 1


# --- invariances ---


@settings(max_examples=3, deadline=None)
@given(factor=st.floats(1e-3, 1e6), seed=st.integers(0, 100))
def test_the_unit_of_throughput_scales_lam_and_nothing_else(factor: float, seed: int) -> None:
    points = study(law(0.1, 0.01), (1, 2, 4, 8), noise=0.03, seed=seed)
    one, other = fitted(points), fitted(points.assign(env_steps_per_s=factor * points["env_steps_per_s"]))
    for name in ("sigma", "kappa", "misfit", "peak", "knee"):
        assert ends(other, name) == pytest.approx(ends(one, name), rel=1e-6)
    for name in ("lam", "peak_env_steps_per_s"):
        assert ends(other, name) == pytest.approx(tuple(factor * v for v in ends(one, name)), rel=1e-6)
    assert other.law == one.law and other.reasons == one.reasons


@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 1000))
def test_the_order_of_measurements_and_the_names_of_blocks_do_not_matter(seed: int) -> None:
    points = study(law(0.1, 0.01), (1, 2, 4, 8), noise=0.03, between=0.03)
    mixed = points.sample(frac=1, random_state=seed).reset_index(drop=True)
    mixed["block"] = mixed["block"].map({0: "a", 1: "b", 2: "c"})
    one, other = fitted(points), fitted(mixed)
    for name in ("lam", "sigma", "kappa", "knee"):
        assert ends(other, name) == pytest.approx(ends(one, name), rel=1e-6)


def test_a_faster_pass_moves_no_parameter_but_widens_the_level() -> None:
    points = study(law(0.1, 0.01), noise=0.01)
    faster = points.assign(env_steps_per_s=points["env_steps_per_s"] * np.where(points["block"] == 1, 1.2, 1.0))
    one, other = fitted(points), fitted(faster)
    for name in ("sigma", "kappa", "peak", "knee"):
        assert ends(other, name) == pytest.approx(ends(one, name), rel=1e-6)
    assert other.lam.high / other.lam.low > 1.2 * one.lam.high / one.lam.low
    wide, narrow = (found.predict([8]).iloc[0] for found in (other, one))
    assert wide["high"] / wide["low"] > 1.2 * narrow["high"] / narrow["low"]


def test_the_same_generator_gives_the_same_fit() -> None:
    points = study(law(0.1, 0.01), noise=0.03)
    one, other = fitted(points), fitted(points)
    assert fit_sentence(one) == fit_sentence(other)
    assert_frame_equal(one.predict([1, 3, 40]), other.predict([1, 3, 40]))
    assert_frame_equal(one.predict([1, 3, 40]).iloc[[2]].reset_index(drop=True), one.predict([40]))


# --- predictions ---


def test_predictions_beyond_the_counts_are_marked_and_widen() -> None:
    frame = fitted(study(law(0.05, 0.001), (2, 4, 8, 16), noise=0.02)).predict([1, 2, 5, 16, 20, 32, 64])
    assert frame["extrapolated"].tolist() == [True, False, False, False, True, True, True]
    width = np.log(frame["high"] / frame["low"]).to_numpy()
    assert (np.diff(width[3:]) > 0).all() and width[0] > width[1]
    assert (frame["low"] <= frame["mean_low"]).all() and (frame["mean_high"] <= frame["high"]).all()


def test_beyond_the_counts_an_interval_holds_the_chance_of_a_limit() -> None:
    found = fitted(study(LAWFUL["linear"], (1, 2, 4, 8), noise=0.01))
    row = found.predict([16]).iloc[0]
    assert row["low"] < 0.75 * 16 * LAM and row["env_steps_per_s"] > 0.9 * 16 * LAM
    inside = found.predict([6]).iloc[0]
    assert inside["low"] > 0.9 * 6 * LAM


def test_a_kink_is_named_and_the_curve_still_goes_through_the_points() -> None:
    found = fitted(study(kinked(4, 0.0), (1, 2, 4, 8, 16, 32), noise=0.005))
    assert found.misfit.estimate > 0.05
    at = found.predict([4, 8, 32])
    assert at["env_steps_per_s"].tolist() == pytest.approx([4 * LAM] * 3, rel=0.03)
    assert found.misfit.low > fitted(study(law(0.1, 0.01), (1, 2, 4, 8, 16, 32), noise=0.005)).misfit.low


def test_counts_below_1_cannot_be_predicted() -> None:
    with pytest.raises(AnalysisError, match=r"num_env_runners=0\.5 cannot be predicted: counts start at 1"):
        fitted(study(law(0.1, 0.01))).predict([2, 0.5])


# --- hold-out ---


def test_the_largest_count_is_predicted_from_the_others() -> None:
    truth = law(0.05, 0.005)
    found = held(study(truth, noise=0.01))
    assert (found.num, found.largest_fitted, found.num_seeds) == (16, 8, 3)
    assert found.inside and found.low < found.measured < found.high
    assert found.error_percent == pytest.approx(100 * (found.env_steps_per_s / found.measured - 1))
    assert found.measured == pytest.approx(LAM * truth.of(16), rel=0.02)
    assert "Fitted up to 8 env runners" in held_out_sentence(
        found
    ) and "inside the 95% prediction interval" in held_out_sentence(found)


def test_what_is_held_out_has_no_part_in_its_prediction() -> None:
    points = study(law(0.05, 0.005), noise=0.01)
    changed = points.assign(env_steps_per_s=points["env_steps_per_s"] * np.where(points["num"] == 16, 0.2, 1.0))
    one, other = held(points), held(changed)
    assert (one.env_steps_per_s, one.low, one.high) == (other.env_steps_per_s, other.low, other.high)
    assert not other.inside and "outside the 95% prediction interval" in held_out_sentence(other)


def test_a_fast_pass_does_not_widen_a_hold_out_of_the_same_passes() -> None:
    points = study(law(0.05, 0.005), noise=0.01)
    faster = points.assign(env_steps_per_s=points["env_steps_per_s"] * np.where(points["block"] == 1, 1.3, 1.0))
    one, other = held(points), held(faster)
    assert other.high / other.low == pytest.approx(one.high / one.low)
    # Were only the fast pass left at the largest count, the prediction is of that pass.
    only = held(faster[(faster["num"] < 16) | (faster["block"] == 1)])
    assert only.env_steps_per_s == pytest.approx(1.3 ** (2 / 3) * other.env_steps_per_s, rel=0.02) and only.inside


# --- what can't be told ---


def test_one_seed_gives_no_interval_and_says_so() -> None:
    found = fitted(study(law(0.1, 0.01), num_blocks=1))
    assert found.sigma.estimate > 0 and math.isnan(found.sigma.low) and math.isnan(found.knee.high)
    assert not found.can_tell and "one seed gives no interval" in found.reasons
    frame = found.predict([4])
    assert (
        frame[["low", "high", "mean_low", "mean_high"]].isna().all(axis=None) and frame["env_steps_per_s"].notna().all()
    )
    assert found.counts[["env_steps_per_s_low", "efficiency_high"]].isna().all(axis=None)
    out = held(study(law(0.1, 0.01), num_blocks=1))
    assert not out.inside and not out.can_tell and "one seed gives no interval" in held_out_sentence(out)
    assert "nan" not in fit_sentence(found) + held_out_sentence(out)


def test_three_counts_are_said_to_fit_whatever_they_are() -> None:
    assert any("3 counts fit" in reason for reason in fitted(study(law(0.1, 0.01), (1, 2, 4))).reasons)


def test_a_wide_prediction_is_named() -> None:
    found = fitted(study(law(0.1, 0.01), (1, 2, 4), noise=0.3, num_blocks=2))
    assert not found.can_tell
    assert any("the prediction spans a factor of" in reason for reason in found.reasons)


def test_blocks_with_a_count_each_are_noise() -> None:
    points = study(law(0.1, 0.01), noise=0.02)
    points["block"] = range(len(points))
    found = fitted(points)
    assert any("no two passes share enough counts" in reason for reason in found.reasons)
    assert found.sigma.low <= 0.1 <= found.sigma.high


def test_without_one_runner_its_throughput_is_extrapolated() -> None:
    found = fitted(study(law(0.1, 0.01), (2, 4, 8, 16)))
    assert any("1 was not measured" in reason for reason in found.reasons)
    assert found.lam.low <= LAM <= found.lam.high


def test_a_missing_measurement_leaves_the_fit_standing() -> None:
    points = study(law(0.1, 0.01), between=0.05).drop(index=7)
    found = fitted(points)
    assert sorted(found.counts["num_seeds"]) == [2, 3, 3, 3, 3]
    assert found.sigma.low <= 0.1 <= found.sigma.high


def test_other_axes_have_their_own_words() -> None:
    assert "One learner gives" in fit_sentence(fitted(study(law(0.1, 0.01)), "num_learners"))


# --- bad input ---


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (
            study(law(0.1, 0.0), (1, 2)),
            "a fit needs 3 counts or more; the study has 1, 2: add counts to num_env_runners in study.space",
        ),
        (
            study(law(0.1, 0.0)).assign(env_steps_per_s=0.0),
            "env_steps_per_s is not a positive number in 15 of 15 measurements",
        ),
        (study(law(0.1, 0.0)).assign(env_steps_per_s=np.nan), "not a positive number"),
        (study(law(0.1, 0.0)).assign(num=0), "num_env_runners is below 1 in 15 of 15 measurements"),
        (study(law(0.1, 0.0)).drop(columns="block"), "no column 'block'"),
        (study(law(0.1, 0.0)).iloc[:0], "a fit needs 3 counts or more; the study has none"),
    ],
)
def test_bad_input_is_one_clear_sentence(points: pd.DataFrame, words: str) -> None:
    with pytest.raises(AnalysisError, match=words):
        fitted(points)


def test_a_hold_out_needs_four_counts() -> None:
    with pytest.raises(
        AnalysisError,
        match=r"needs 4 counts or more; the study has 1, 2, 4: add counts to num_env_runners in study\.space",
    ):
        held(study(law(0.1, 0.0), (1, 2, 4)))


# --- calibration: docs/benchmarks has the coverage on more curves, with more studies ---


CURVES = [
    LAWFUL[name] for name in ("linear", "Amdahl, sigma 0.1", "USL, 0.03, 0.002", "USL, 0.05, 0.01", "USL, 0.2, 0.02")
]


@pytest.mark.slow
def test_intervals_cover_on_curves_that_follow_a_law() -> None:
    rng = np.random.default_rng(11)
    found = [coverage(truth, counts, 1, rng) for truth in CURVES for counts in COUNTS.values()]
    for name in ("hold-out", "new, 2 x", "sigma", "kappa"):
        assert sum(c.hits[name] for c in found) >= fewest_hits(len(found)), name
    for name in ("new, measured", "efficiency", "measured mean"):
        assert np.mean([c.hits[name] for c in found]) >= 0.85, name  # several a study, which depend on each other


def test_kinked_curves_are_held_or_not_claimed() -> None:
    rng = np.random.default_rng(12)
    found = [
        coverage(KINKED[name], (1, 2, 3, 4, 6, 8), 3, rng)
        for name in ("linear to 2, then flat", "linear to 4, then flat")
    ]
    assert np.mean([c.hits["new, measured"] for c in found]) >= 0.85 and sum(
        3 * c.hits["hold-out"] for c in found
    ) >= fewest_hits(6)
    # Nothing that was measured tells of a limit at the largest count.
    assert coverage(KINKED["linear to 8, then flat"], (1, 2, 4, 8), 3, rng).knee_told == 0


@pytest.mark.nightly
def test_intervals_cover_at_their_nominal_rate_on_curves_that_follow_a_law() -> None:
    rng = np.random.default_rng(11)
    found = [coverage(truth, counts, 4, rng) for truth in CURVES for counts in COUNTS.values()]
    # 60 studies: 90 to 99%, less two standard errors.
    for name in ("hold-out", "new, 2 x", "sigma", "kappa"):
        assert np.mean([c.hits[name] for c in found]) >= 0.89, name
    for name in ("new, measured", "efficiency", "measured mean"):
        assert np.mean([c.hits[name] for c in found]) >= 0.91, name


@pytest.mark.nightly
def test_kinked_curves_are_held_at_their_nominal_rate_or_not_claimed() -> None:
    rng = np.random.default_rng(12)
    inside = [
        coverage(KINKED[name], (1, 2, 3, 4, 6, 8), 8, rng)
        for name in ("linear to 2, then flat", "linear to 4, then flat")
    ]
    for found in inside:
        assert found.hits["new, measured"] >= 0.9 and found.hits["hold-out"] >= 0.7
    # Nothing that was measured tells of a limit at the largest count.
    assert coverage(KINKED["linear to 8, then flat"], (1, 2, 4, 8), 8, rng).knee_told == 0
