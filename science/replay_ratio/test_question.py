"""How the best learning rate and the best batch change with the updates per env step."""

import numpy as np
import pandas as pd
import pytest

from analysis.questions.learning_rate_batch import BATCH
from science.replay_ratio.question import PUBLISHED, UPDATES, laws

AXES = ("lr", BATCH, UPDATES)


def study(
    lr_power: float,
    batch_power: float,
    num_seeds: int = 3,
    noise: float = 3.0,
    updates: tuple[float, ...] = (0.25, 1.0, 4.0),
    best_lr: float = 5e-4,
) -> pd.DataFrame:
    """Parabolas of height 400 whose best learning rate and batch are powers of the updates per env step."""
    rng = np.random.default_rng(0)
    rows = []
    for utd in updates:
        for lr in (1e-4, 3e-4, 1e-3, 3e-3):
            for batch in (16, 64, 256):
                away = np.log10([lr / (best_lr * utd**lr_power), batch / (64 * utd**batch_power)])
                for seed in range(num_seeds):
                    value = 400 - 80 * float(away @ away) + noise * rng.standard_normal()
                    rows.append(
                        {
                            "lr": lr,
                            BATCH: batch,
                            UPDATES: utd,
                            "seed": seed,
                            "auc": value,
                            "config": f"{lr} {batch} {utd}",
                        }
                    )
    return pd.DataFrame(rows).assign(status="finished", exploratory=False, repeat=0, failure=None, diverged=False)


def test_the_powers_are_found_and_held_against_the_published_ones() -> None:
    learning_rate, batch = laws(study(lr_power=-0.285, batch_power=0.5), AXES)
    assert learning_rate.exponent.low < -0.285 < learning_rate.exponent.high
    assert learning_rate.rejected == ("unchanged",)
    assert batch.exponent.low < 0.5 < batch.exponent.high
    assert (
        batch.rejected == ("unchanged", "published")
        and f"{PUBLISHED['batch']:g} (Rybkin et al. 2025) are rejected" in batch.sentence
    )


def test_each_value_of_the_other_setting_makes_the_interval_narrower() -> None:
    runs = study(lr_power=-0.285, batch_power=0.0, noise=20.0)
    (alone,) = laws(runs[runs[BATCH] == 64], ("lr", UPDATES))
    together = laws(runs, AXES)[0]
    assert together.exponent.high - together.exponent.low < alone.exponent.high - alone.exponent.low


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        (study(0.0, 0.0, num_seeds=1), "one seed gives no interval"),
        (study(0.0, 0.0, updates=(1.0,)), "it takes three values of the learning rate at two of the updates"),
        (study(0.0, 0.0).query("lr <= 3e-4 or lr > 1e-2"), "it takes three values of the learning rate"),
        (study(0.0, 0.0, best_lr=1e-6), "at the low edge"),
    ],
)
def test_what_cannot_be_told_is_said(runs: pd.DataFrame, words: str) -> None:
    law = laws(runs, AXES)[0]
    assert words in law.sentence and np.isnan(law.exponent.estimate) and law.rejected == ()


def test_nothing_is_asked_where_the_updates_are_not_searched() -> None:
    assert laws(study(0.0, 0.0), ("lr", BATCH)) == []
