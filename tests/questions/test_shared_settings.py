"""The parts of studies and how their settings are paired."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis import AnalysisError
from analysis.questions.shared_settings import MULTIPLES, VALUES, Source, kind_of, parts_of, shared
from tests.support.several_studies import AXES, BATCH, LR, composed, peak, source
from tests.support.study_frames import together, with_status

CARTPOLE = source("A", peak(3e-3))
PENDULUM = source("B", peak(1e-3), "pendulum", base=(1e-3, 1024))


def both_envs() -> Source:
    """One study of two environments, which was composed for the first."""
    return replace(
        CARTPOLE,
        runs=together(CARTPOLE.runs, PENDULUM.runs),
        axes={"env": "env", **CARTPOLE.axes},
        points={**CARTPOLE.points, **PENDULUM.points},
    )


def test_settings_are_paired_as_multiples_of_what_each_starts_from_and_as_values() -> None:
    parts, axes = parts_of([CARTPOLE, PENDULUM], "score")
    assert [part.name for part in parts] == ["cartpole", "pendulum"]
    assert kind_of(parts) == "environment"
    assert [(axis.word, axis.column, axis.is_relative) for axis in axes] == [
        ("learning_rate", "lr", True),
        ("batch_size", "train_batch_size_total", True),
    ]
    assert len(shared(parts, MULTIPLES)) == 10
    assert parts[0].settings[MULTIPLES]["0.1", "0.25"] == "cartpole lr=0.0003 b=512"
    assert parts[1].settings[MULTIPLES]["0.1", "0.25"] == "pendulum lr=0.0001 b=256"
    assert shared(parts, VALUES) == []  # of batches of 512 and 2,048, and of 256 and 1,024


def test_a_setting_that_is_rounded_keeps_its_multiple() -> None:
    rounded = source("B", peak(1e-3), "pendulum", base=(1e-3, 10))  # a quarter of 10 is 2
    parts, _ = parts_of([CARTPOLE, rounded], "score")
    assert len(shared(parts, MULTIPLES)) == 10


def test_values_of_one_study_are_multiples_beside_another_that_has_them() -> None:
    listed = source("B", peak(1e-3), "pendulum", base=(1e-3, 1024), as_values=True)
    parts, _ = parts_of([CARTPOLE, listed], "score")
    assert len(shared(parts, MULTIPLES)) == 10
    unknown = replace(listed, composed=composed("acrobot", "ppo", (1e-3, 1024), listed.space))
    parts, _ = parts_of([CARTPOLE, unknown], "score")
    assert MULTIPLES not in parts[1].settings


def test_values_alone_are_no_multiples() -> None:
    parts, axes = parts_of(
        [source("A", peak(3e-3), as_values=True), source("B", peak(3e-3), "acrobot", as_values=True)], "score"
    )
    assert not any(axis.is_relative for axis in axes)
    assert len(shared(parts, VALUES)) == 10


def test_environments_of_one_study_are_its_parts_and_what_each_starts_from_need_not_be_known() -> None:
    parts, _ = parts_of([both_envs()], "score")
    assert [part.name for part in parts] == ["cartpole", "pendulum"]
    assert len(shared(parts, MULTIPLES)) == 10


def test_an_axis_that_moves_several_settings_is_paired_by_its_factors() -> None:
    runs = PENDULUM.runs.rename(columns={"lr": "lr_multiple"}).assign(algorithm="sac")
    runs["lr_multiple"] /= 1e-3
    moved = composed("pendulum", "sac", (1e-3, 1024), dict(PENDULUM.space))
    moved["algorithm"] |= {"axes": {**AXES, "learning_rate": ["training.actor_lr", "training.critic_lr"]}}
    sac = Source("B", runs, {"lr_multiple": "learning_rate", "train_batch_size_total": BATCH}, {}, moved)
    parts, _ = parts_of([CARTPOLE, sac], "score")
    assert [part.name for part in parts] == ["cartpole, ppo", "pendulum, sac"]
    assert kind_of(parts) == "case"
    assert len(shared(parts, MULTIPLES)) == 10
    assert VALUES not in parts[1].settings


@pytest.mark.parametrize(
    ("changes", "kind", "name"),
    [
        ({"algorithm": "dqn"}, "algorithm", "dqn"),
        ({"budget_env_steps": 20_000}, "budget", "20,000 env steps"),
        ({}, "case", "B"),
    ],
)
def test_parts_are_told_apart_by_what_differs(changes: dict[str, Any], kind: str, name: str) -> None:
    parts, _ = parts_of([CARTPOLE, source("B", peak(3e-3), **changes)], "score")
    assert (kind_of(parts), parts[1].name) == (kind, name)


def test_scores_are_on_the_scale_of_their_environment() -> None:
    hopper = source("B", peak(3e-3), "hopper", target=np.nan, score_range=(np.nan, np.nan))
    found, _ = parts_of([CARTPOLE, hopper], "auc")
    assert found[0].scale == (0.0, 475.0)
    means = found[1].scores.mean(axis=1)
    assert (means.min(), means.max()) == pytest.approx((0.0, 1.0))
    config = str(means.idxmax())
    assert found[1].mean(config) == pytest.approx(found[1].scale[1])
    assert found[0].mean("cartpole lr=0.003 b=512") == pytest.approx(0.8 * 470, abs=10)


def test_a_seed_that_crashed_has_the_lowest_score_and_one_that_is_missing_none() -> None:
    first, second = CARTPOLE.runs["config"].cat.categories[:2]
    runs = with_status(with_status(CARTPOLE.runs, first, [0], "failed"), second, [0, 1, 2, 3, 4], "missing")
    (part, _), _ = parts_of([replace(CARTPOLE, runs=runs), PENDULUM], "score")
    assert part.scores.loc[first, 0] == 0.0
    assert second not in part.scores.index
    assert part.num_seeds == 6


def without(runs: pd.DataFrame, num_seeds: int) -> pd.DataFrame:
    return runs[runs["seed"] < num_seeds]


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([CARTPOLE], "ppo on cartpole is all there is. It takes two environments, algorithms or budgets"),
        (
            [CARTPOLE, replace(PENDULUM, axes={"lr": LR})],
            "batch_size was not searched in all of these studies, so that their settings cannot be paired: search",
        ),
        ([replace(one, axes={"env": "env"}) for one in (CARTPOLE, PENDULUM)], "these studies search no settings"),
        (
            [CARTPOLE, replace(PENDULUM, runs=without(PENDULUM.runs, 1))],
            "ppo on pendulum in study B has no configuration with two finished seeds",
        ),
        (
            [CARTPOLE, replace(PENDULUM, runs=PENDULUM.runs.assign(phase="throughput"))],
            "B measured throughput, where there are no scores: leave that out.",
        ),
        (
            [CARTPOLE, source("B", lambda *_: 5.0, "hopper", noise=0.0, target=np.nan, score_range=(np.nan, np.nan))],
            "ppo on hopper in study B: all settings score the same",
        ),
    ],
)
def test_studies_that_cannot_be_compared_are_refused_with_the_fix(sources: list[Source], message: str) -> None:
    with pytest.raises(AnalysisError) as refused:
        parts_of(sources, "score")
    assert message in str(refused.value)
