"""The gradient noise scale of a study: over training, and beside its critical batch."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.questions.learning_rate_batch import BATCH
from science.noise_scale.question import (
    MINIBATCH,
    NETWORKS,
    Beside,
    Rise,
    across_sentences,
    beside_critical_batch,
    over_time,
    rises,
)
from science.noise_scale.testing import curves_of
from tests.support.study_frames import make_runs

SEEDS = 5


def one(growth: float, seeds: int = SEEDS, **how: float) -> Rise:
    runs = make_runs({"base": [400.0] * seeds})
    (found,) = rises(runs, curves_of(runs, growth, **how), np.random.default_rng(0))
    return found


def test_windows_average_both_estimates_and_then_divide() -> None:
    runs = make_runs({"base": [400.0, 410.0]})
    curves = curves_of(runs, growth=16.0, spread=0.0)
    curves.loc[(curves["metric"] == "learner/gradient_square") & (curves["seed"] == 1), "value"] = 6.0
    frame = over_time(runs, curves, np.random.default_rng(0))
    assert frame["noise_scale"].tolist() == pytest.approx([50, 100, 200, 400, 800]), (
        "200 / mean(2, 6), twice as large in each fifth"
    )
    assert frame["env_steps"].tolist() == [10_000, 30_000, 50_000, 70_000, 90_000]
    assert (frame["network"] == "all weights").all() and (frame["num_seeds"] == 2).all()


def test_windows_are_fifths_of_what_a_trial_trained() -> None:
    runs = make_runs({"base": [400.0, 410.0]})
    curves = curves_of(runs, growth=16.0, spread=0.0)
    early = (curves["seed"] == 1).to_numpy()
    curves.loc[early, "env_steps"] //= 2  # the same at twice the pace: it held the target halfway
    runs.loc[runs["seed"] == 1, "end_env_steps"] //= 2
    frame = over_time(runs, curves, np.random.default_rng(0))
    whole = over_time(runs[:1], curves[~early], np.random.default_rng(0))
    assert frame["noise_scale"].tolist() == pytest.approx(whole["noise_scale"].tolist())
    assert frame["env_steps"].tolist() == [7_500, 22_500, 37_500, 52_500, 67_500]
    assert frame["num_seeds"].tolist() == [2] * 5


@pytest.mark.parametrize(
    ("growth", "verdict", "words"),
    [
        (
            32.0,
            "holds",
            (
                "It rises: 32 [32, 32] times as large (5 seeds); the published 10 times "
                "and more (McCandlish et al. 2018) hold too."
            ),
        ),
        (4.0, "holds", "are not reached"),
        (0.2, "does not hold", "It falls"),
    ],
)
def test_whether_it_rises_is_told_with_its_interval(growth: float, verdict: str, words: str) -> None:
    found = one(growth)
    assert found.verdict == verdict and words in found.sentence
    assert "rows in the first fifth" in found.sentence


def test_what_cannot_be_told_is_said() -> None:
    assert one(1.0).verdict == "can't tell"
    alone = one(9.0, seeds=1)
    assert alone.verdict == "can't tell" and "fewer than 5 seeds give no interval" in alone.sentence
    hidden = one(9.0, square=-1.0)
    assert (
        hidden.verdict == "can't tell" and "more rows than these measurements can tell in the last" in hidden.sentence
    )
    assert hidden.sentence.endswith("Whether it rises can't be told in this range (5 seeds).")


def test_a_study_that_measured_nothing_has_no_noise_scale() -> None:
    runs = make_runs({"base": [400.0] * 3})
    curves = curves_of(runs, 2.0).assign(metric="eval/return_mean")
    assert over_time(runs, curves, np.random.default_rng(0)).empty
    assert rises(runs, curves, np.random.default_rng(0)) == []
    assert (
        beside_critical_batch(
            runs.assign(lr=1e-3, **{MINIBATCH: 64}), ("lr", MINIBATCH), False, np.random.default_rng(0)
        )
        == []
    )


def grid(noise_scale: float, critical: float = 200.0, column: str = MINIBATCH, replays: bool = False) -> pd.DataFrame:
    """Runs at four batches that obey E = 20,000 (1 + batch / critical), E in env steps or, with replay,
    in rows of as many updates.
    """
    rng, scores, params, steps, noise = np.random.default_rng(0), {}, {}, {}, {}
    for batch in (16, 64, 256, 1024):
        name = f"b={batch}"
        scores[name] = [500.0] * SEEDS
        params[name] = {"lr": 1e-3, BATCH: 2048.0 if column == MINIBATCH else float(batch), column: float(batch)}
        rows = 20_000 * (1 + batch / critical) / (batch / 16 if replays else 1)
        steps[name] = [float(rows * math.exp(0.05 * rng.normal())) for _ in range(SEEDS)]
        noise[name] = [float(noise_scale * math.exp(0.05 * rng.normal())) for _ in range(SEEDS)]
    columns = ("lr", BATCH, column)
    by_column = {c: {name: params[name][c] for name in scores} for c in columns}
    runs = make_runs(scores, params=None, env_steps_to_target=steps, gradient_noise=noise, budget_env_steps=1_000_000)
    for c, values in by_column.items():
        runs[c] = runs["config"].astype(str).map(values).astype(float)
    return runs.assign(gradient_square=1.0)


def compared(runs: pd.DataFrame, *axes: str, replays: bool = False) -> Beside:
    (found,) = beside_critical_batch(runs, axes, replays, np.random.default_rng(0))
    return found


def test_a_noise_scale_near_the_critical_batch_agrees_with_it() -> None:
    found = compared(grid(200.0), MINIBATCH)
    assert found.verdict == "agree" and found.critical_batch.low < 200 < found.critical_batch.high
    assert "they agree within their intervals" in found.sentence and "batches from 16 to 1,024" in found.sentence


def test_one_that_is_far_from_it_disagrees_by_a_factor() -> None:
    found = compared(grid(20_000.0), MINIBATCH)
    assert found.verdict == "disagree" and found.factor.low < 100 < found.factor.high
    assert "they disagree, by a factor of" in found.sentence


def test_networks_that_are_apart_are_compared_one_by_one() -> None:
    runs = grid(200.0)
    noise = {"gradient_noise_policy": runs["gradient_noise"], "gradient_noise_value": runs["gradient_noise"] / 100}
    apart = {**noise, "gradient_square_policy": 1.0, "gradient_square_value": 1.0}
    found = beside_critical_batch(runs.assign(**apart), (MINIBATCH,), False, np.random.default_rng(0))
    assert [(one.network, one.verdict) for one in found] == [("policy", "agree"), ("value", "disagree")]


def test_rows_that_updates_processed_count_where_samples_are_replayed() -> None:
    found = compared(grid(200.0, column=BATCH, replays=True), BATCH, replays=True)
    assert found.verdict == "agree" and found.critical_batch.low < 200 < found.critical_batch.high


def test_the_outer_batch_is_another_question() -> None:
    runs = grid(200.0, column=BATCH).assign(**{MINIBATCH: 64})
    assert "is another question" in compared(runs, BATCH).sentence


def test_batches_that_never_reach_the_target_cannot_be_compared() -> None:
    found = compared(grid(200.0).assign(env_steps_to_target=np.nan), MINIBATCH)
    assert found.verdict == "can't tell" and "0 of 4 batches reach the target" in found.sentence


def test_environments_are_summed_up_by_verdict() -> None:
    (sentence,) = across_sentences([one(8.0), one(1.0)])
    assert sentence.endswith("it rises in `base`; can't be told in `base`.")
    assert across_sentences([]) == []
    apart = [replace(one(8.0), network=network) for network in NETWORKS.values()]
    assert [words.split("(")[1].split(")")[0] for words in across_sentences(apart)] == ["policy", "value"]
