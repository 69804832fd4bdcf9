import numpy as np
import pandas as pd
import pytest

from analysis.questions.claims import Verdict
from analysis.stats.comparisons import beyond_p
from analysis.stats.moderated import paired_differences
from science.batch_invariance.question import (
    BATCH,
    POLICY,
    SMALLER,
    SMALLER_AS_IT_IS,
    STALE,
    Invariance,
    compare_with_base,
    curve_gaps,
)
from science.batch_invariance.section import _invariance_sentence
from tests.support.study_frames import make_curves, make_runs

AXES = (POLICY, BATCH, "adjusted", "staleness")
BASE = "ewma b=2048"
LEVELS = {
    BASE: (400.0, 2048, True, 0),
    "ewma b=128 adjusted": (400.0, 128, True, 0),
    "ewma b=512 adjusted": (400.0, 512, True, 0),
    "ewma b=128": (200.0, 128, False, 0),
    "ewma b=2048 stale=8": (380.0, 2048, True, 8),
}


def runs_of(noise: float, num_seeds: int = 10) -> pd.DataFrame:
    """Scores around a level for each configuration; a seed is good or bad for all alike."""
    rng = np.random.default_rng(0)
    of_seed = rng.normal(0, 20, num_seeds)
    scores = {config: list(level + of_seed + rng.normal(0, noise, num_seeds)) for config, (level, *_) in LEVELS.items()}
    names = (BATCH, "adjusted", "staleness")
    params = {name: {config: values[1 + i] for config, values in LEVELS.items()} for i, name in enumerate(names)}
    params["adjusted"] = {config: str(value) for config, value in params["adjusted"].items()}  # as MLflow has it
    return make_runs(scores, params={POLICY: dict.fromkeys(LEVELS, "ewma"), **params})  # type: ignore[arg-type, dict-item]


def by_change(runs: pd.DataFrame, measure: str = "score") -> dict[str, Invariance]:
    return {found.change: found for found in compare_with_base(runs, AXES) if found.measure == measure}


def test_what_is_within_a_20th_of_the_range_holds_and_what_is_far_beyond_it_does_not() -> None:
    found = by_change(runs_of(noise=3.0))
    assert set(found) == {SMALLER, SMALLER_AS_IT_IS, STALE}
    assert {f.delta for f in found.values()} == {25.0}  # of 500
    assert found[SMALLER].answer is Verdict.HOLDS
    assert sorted(found[SMALLER].differences["batch"]) == [128, 512]
    assert found[SMALLER_AS_IT_IS].answer is Verdict.FAILS
    (row,) = found[SMALLER_AS_IT_IS].differences.to_dict("records")
    assert (
        row["difference"] == pytest.approx(-200, abs=5)
        and row["difference_low"] < row["difference"] < row["difference_high"] < -25
    )
    assert found[STALE].differences["staleness"].tolist() == [8]


def test_with_much_noise_nothing_can_be_told_of_what_is_alike() -> None:
    found = by_change(runs_of(noise=80.0, num_seeds=5))
    assert found[SMALLER].answer is found[STALE].answer is Verdict.OPEN
    sentence = _invariance_sentence(found[SMALLER])
    assert sentence.startswith("PPO-EWMA, smaller batches, settings adjusted, by score: **can't tell in this range**. ")
    assert (
        "at batch 128 and " in sentence and "at batch 512 (5 matched seeds; " in sentence and "delta 25.0" in sentence
    )


@pytest.mark.nightly
def test_equal_ones_seldom_differ_and_ones_at_delta_seldom_hold() -> None:
    rng, wrong, held = np.random.default_rng(1), 0, 0
    for _ in range(200):
        scores = rng.normal(400, 15, (5, 5))
        runs = runs_of(noise=1.0, num_seeds=5)
        runs["score"] = scores.reshape(-1)
        wrong += by_change(runs)[SMALLER].answer is Verdict.FAILS
        runs["score"] = (
            scores - 25 * (runs.drop_duplicates("config")["config"] == "ewma b=128 adjusted").to_numpy()[:, None]
        ).reshape(-1)
        held += by_change(runs)[SMALLER].answer is Verdict.HOLDS
    assert wrong <= 20 and held <= 20


def test_how_surely_a_difference_is_beyond_delta() -> None:
    _, _, pair = paired_differences(np.array([[30.0, 34.0, 32.0, 36.0], [0.0, 0.0, 0.0, 0.0]]))
    near, at, far = (float(beyond_p(pair, delta)[0]) for delta in (0.0, 33.0, 100.0))
    assert near < 0.001 and at == pytest.approx(1.0) and far == 1.0


def test_without_a_proximal_policy_in_the_space_or_a_base_there_is_nothing_to_say() -> None:
    runs = runs_of(noise=3.0)
    assert compare_with_base(runs, (BATCH,)) == []
    assert compare_with_base(runs.assign(status="failed"), AXES) == []
    only = runs[runs["config"] != BASE]
    assert all(found.change != STALE or found.differences.empty for found in compare_with_base(only, AXES))


def test_curves_are_compared_where_all_seeds_have_points() -> None:
    runs = runs_of(noise=3.0, num_seeds=2)
    heights = {BASE: 100.0, "ewma b=128": 70.0}
    points = {
        (config, seed): {"eval/return_mean": [(x, x / 1000, height + 10 * seed) for x in (4000, 8000)]}
        for config, height in heights.items()
        for seed in (0, 1)
    }
    points["ewma b=128", 1]["eval/return_mean"] = points["ewma b=128", 1]["eval/return_mean"][:1]  # cut off
    gaps = curve_gaps(make_curves(runs, points), runs)
    assert gaps[["config", "change", "env_steps", "value", "num_seeds"]].to_numpy().tolist() == [
        ["ewma b=128", SMALLER_AS_IT_IS, 4000, -30.0, 2]
    ]
    assert curve_gaps(make_curves(runs, {}), runs).empty
