"""Staggered environments against others: differences, speed-ups and verdicts, from hand-made frames."""

import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from analysis.stats.interval import Interval
from science.lockstep.question import compare, env_steps_to, speedup_verdict
from science.lockstep.section import sentences_of
from tests.support.study_frames import BUDGET, make_runs

AXES = ("env", "stagger", "num_envs_per_env_runner")
GRID = range(10_000, BUDGET + 1, 10_000)
SHAPES = {8: 128, 128: 8}


def name_of(stagger: bool, envs: int) -> str:
    return f"envs={envs} stagger={stagger}"


def study(
    score: Callable[[bool, int], float],
    speed: Callable[[bool, int], float],
    num_seeds: int = 5,
    diversity: float = 0.02,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Runs and curves: from -1000, straight up to -200 after `BUDGET / speed` env steps,
    a seed is good or bad for all alike.
    """
    rng = np.random.default_rng(0)
    of_seed, noise = rng.normal(0, 20, num_seeds), rng.normal(0, 2, (4, num_seeds))
    ways = [(stagger, envs) for stagger in (False, True) for envs in SHAPES]
    scores = {name_of(*way): list(score(*way) + of_seed + noise[i]) for i, way in enumerate(ways)}
    params = {
        "stagger": {name_of(*way): str(way[0]) for way in ways},  # as MLflow has it
        "num_envs_per_env_runner": {name_of(*way): way[1] for way in ways},
        "num_env_runners": {name_of(*way): 0 for way in ways},
        "train_batch_size_total": {name_of(*way): 1024 for way in ways},
    }
    runs = make_runs(scores, env="pendulum", target=-150.0, score_range=(-3255.0, 0.0), params=params)  # type: ignore[arg-type]
    rows = []
    for run in runs.to_dict("records"):
        stagger, envs = run["stagger"] == "True", run["num_envs_per_env_runner"]
        for steps in GRID:
            grown = min(1.0, steps / BUDGET * speed(stagger, envs) * (1 + 0.01 * run["seed"]))
            value = 0.9 if stagger else diversity
            rows += [
                {**run, "metric": "eval/return_mean", "env_steps": steps, "value": -1000 + 800 * grown},
                {**run, "metric": "train/phase_diversity", "env_steps": steps, "value": value + 0.001 * run["seed"]},
            ]
    return runs, pd.DataFrame(rows)


def test_what_staggering_and_more_environments_bring_is_told_apart() -> None:
    # Staggering brings 100 at 128 environments and nothing at 8; unless they are staggered,
    # 128 are worse than 8 by 100.
    runs, curves = study(lambda stagger, envs: -200.0 - 100 * (envs == 128 and not stagger), lambda stagger, envs: 2.0)
    (found,) = compare(runs, curves, AXES)
    by_score = found.staggered[found.staggered["measure"] == "score"].set_index("environments")
    assert by_score.loc[128, "difference"] == pytest.approx(100, abs=4)
    assert by_score.loc[128, "difference_low"] > 90
    assert by_score.loc[8, "difference"] == pytest.approx(0, abs=4)
    assert (by_score["fragment"].to_dict(), by_score["num_seeds"].to_dict()) == ({8: 128.0, 128: 8.0}, {8: 5, 128: 5})
    more = found.more[found.more["measure"] == "score"].set_index("stagger")
    assert more.loc[False, "difference"] == pytest.approx(-100, abs=4)
    assert more.loc[True, "difference"] == pytest.approx(0, abs=4)
    assert (more["environments"].unique().tolist(), more["than"].unique().tolist()) == ([128], [8])
    told = " ".join(sentences_of(found))
    assert (
        "it helps with 128 x 8 and makes no significant difference with 8 x 128 (5 matched seeds; "
        "Holm over all changes, 5%)"
    ) in told
    assert re.search(
        r"by score, 128 x 8 minus 8 x 128: together -1\d\d\.\d .*\(does not hold\) and staggered .* \(can't tell\)\.",
        told,
    )


def test_phase_diversity_is_the_mean_over_the_trial_with_its_interval() -> None:
    runs, curves = study(lambda stagger, envs: -200.0, lambda stagger, envs: 2.0)
    levels = compare(runs, curves, AXES)[0].levels.set_index(["stagger", "environments"])
    assert levels.loc[(False, 8), "diversity"] == pytest.approx(0.022)  # 0.02 and 0, 1, 2, 3 and 4 thousandths
    assert levels.loc[(True, 128), "diversity"] == pytest.approx(0.902)
    assert (levels["diversity_low"] < levels["diversity"]).all()


def test_a_speedup_is_of_env_steps_to_what_both_reach() -> None:
    runs, curves = study(lambda stagger, envs: -200.0, lambda stagger, envs: 2.5 if stagger else 1.0)
    (found,) = compare(runs, curves, AXES)
    assert found.speedups["speedup"].to_numpy() == pytest.approx([2.5, 2.5], rel=0.03)
    assert found.speedups["in_lockstep"].tolist() == [True, True]
    assert found.speedups["verdict"].tolist() == ["holds", "holds"]
    told = " ".join(sentences_of(found))
    assert (
        "staggered ones take 2 to 3 times fewer env steps. In this range: holds with 8 x 128 and holds with 128 x 8."
        in told
    )


def test_a_trial_that_ended_at_the_target_counts_with_its_last_return_to_the_end() -> None:
    runs, curves = study(lambda stagger, envs: -200.0, lambda stagger, envs: 4.0 if stagger else 1.0)
    (whole,) = compare(runs, curves, AXES)
    staggered = curves["stagger"] == "True"  # which are at their best after a quarter
    (early,) = compare(
        runs.assign(end_env_steps=runs["end_env_steps"].mask(runs["stagger"] == "True", 30_000)),
        curves[~staggered | (curves["env_steps"] <= 30_000)],
        AXES,
    )
    assert early.speedups[["level", "speedup"]].to_numpy() == pytest.approx(
        whole.speedups[["level", "speedup"]].to_numpy()
    )


def test_elsewhere_little_difference_is_what_is_published() -> None:
    runs, curves = study(lambda stagger, envs: -200.0, lambda stagger, envs: 1.1 if stagger else 1.0, diversity=0.8)
    (found,) = compare(runs, curves, AXES)
    assert found.speedups["in_lockstep"].tolist() == [False, False]
    assert found.speedups["verdict"].tolist() == ["holds", "holds"]


def test_where_nothing_is_learned_no_speedup_is_told() -> None:
    runs, curves = study(lambda stagger, envs: -1000.0, lambda stagger, envs: 0.0)
    (found,) = compare(runs, curves, AXES)
    assert found.speedups["speedup"].isna().all()
    assert set(found.speedups["verdict"]) == {"can't tell"}


def test_a_single_seed_gives_numbers_and_no_verdict() -> None:
    runs, curves = study(lambda stagger, envs: -200.0, lambda stagger, envs: 2.5 if stagger else 1.0, num_seeds=1)
    (found,) = compare(runs, curves, AXES)
    assert found.speedups["speedup"].to_numpy() == pytest.approx([2.5, 2.5], rel=0.03)
    assert set(found.speedups["verdict"]) == {"can't tell"}
    assert "staggering cannot be judged" in " ".join(sentences_of(found))


def test_without_phases_it_is_not_known_what_is_published_of_it() -> None:
    runs, curves = study(lambda stagger, envs: -200.0, lambda stagger, envs: 2.5 if stagger else 1.0)
    (found,) = compare(runs, curves[curves["metric"] != "train/phase_diversity"], AXES)
    assert set(found.speedups["verdict"]) == {"can't tell"}
    told = " ".join(sentences_of(found))
    assert "Phase diversity" not in told
    assert "Bharthulwar" not in told


def test_staggering_alone_is_a_question_too_and_without_it_there_is_none() -> None:
    runs, curves = study(lambda stagger, envs: -200.0 + 50 * stagger, lambda stagger, envs: 2.0)
    few = runs[runs["num_envs_per_env_runner"] == 8]
    few = few.assign(config=few["config"].cat.remove_unused_categories())
    (found,) = compare(few, curves, ("stagger",))
    assert found.more.empty
    assert found.staggered["environments"].tolist() == [8, 8]
    assert compare(runs, curves, ("num_envs_per_env_runner",)) == []


def test_env_steps_to_a_level_by_hand() -> None:
    curve = pd.DataFrame({"env_steps": [10, 20, 30, 40], "value": [0.0, 10.0, 5.0, 20.0]})
    assert env_steps_to(curve, 0.0, 40) == 10
    assert env_steps_to(curve, 5.0, 40) == 15  # halfway between two evaluations
    assert env_steps_to(curve, 12.5, 40) == 35
    assert env_steps_to(curve, 21.0, 40) == 40  # never: the budget


@pytest.mark.parametrize(
    ("ends", "in_lockstep", "verdict"),
    [
        ((2.1, 4.0), True, "holds"),
        ((1.9, 4.0), True, "can't tell"),
        ((0.9, 1.9), True, "does not hold"),
        ((0.9, 1.2), False, "holds"),
        ((0.9, 1.3), False, "can't tell"),
        ((1.3, 1.6), False, "does not hold"),
        ((np.nan, np.nan), True, "can't tell"),
        ((2.1, 4.0), None, "can't tell"),
    ],
)
def test_verdicts_on_what_is_published(ends: tuple[float, float], in_lockstep: bool | None, verdict: str) -> None:
    assert speedup_verdict(Interval(float(np.mean(ends)), *ends), in_lockstep) == verdict
