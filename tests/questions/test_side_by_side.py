"""Studies beside each other: which settings differ, which configurations are shared, what may be compared,
and what the difference is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.questions.side_by_side import Side, compare, comparisons, differing, flat, obstacles, shared
from tests.support.study_frames import make_runs

LR, BATCH = "algorithm.training.lr", "algorithm.training.batch"
BASE = {
    "env.name": "cartpole", "env.id": "CartPole-v1", "env.target": 475.0, "budget_env_steps": 100_000,
    "stop_at_target": False, "evaluation.episodes": 20, "evaluation.every_env_steps": None,
    "report_every_env_steps": 4000, BATCH: 512,
}  # fmt: skip
HOST = {"cpu": "a CPU", "cpu_count": 8, "host": "here"}


def side(
    letter: str,
    scores: Mapping[str, Sequence[float]],
    lrs: Mapping[str, float],
    paths: Sequence[str] = (LR,),
    **changed: Any,
) -> Side:
    settings = {
        config: {**BASE, LR: lr, **{k.replace("__", "."): v for k, v in changed.items()}} for config, lr in lrs.items()
    }
    points = {config: {path: settings[config][path] for path in paths} for config in lrs}
    return Side(letter, make_runs(scores), tuple(paths), points, settings, {"seeds": [0, 1, 2]}, HOST)


def seeds_from(runs: pd.DataFrame, first: int) -> pd.DataFrame:
    return runs.assign(seed=runs["seed"] + first)


A = side("A", {"lr=1": [400.0, 410.0, 420.0], "lr=2": [300.0, 320.0, 310.0]}, {"lr=1": 1.0, "lr=2": 2.0})
B = side("B", {"slow": [390.0, 395.0, 412.0], "fast": [100.0, 90.0, 140.0]}, {"slow": 1, "fast": 3.0})


def test_nested_settings_are_flat_by_their_paths() -> None:
    assert flat({"a": {"b": 1, "c": {"d": [1, 2]}}, "e": None}) == {"a.b": 1, "a.c.d": [1, 2], "e": None}


def test_settings_differ_in_their_values_and_equal_numbers_do_not() -> None:
    other = side("B", {"x": [1.0, 2.0]}, {"x": 1}, evaluation__episodes=5, budget_env_steps=100_000.0, fresh=True)
    found = {row.path: row.values for row in differing([A, replace(other, overall={"seeds": [0, 1]})])}
    assert found == {
        LR: ((1.0, 2.0), (1,)),
        "evaluation.episodes": ((20,), (5,)),
        "fresh": ((), (True,)),
        "seeds": (([0, 1, 2],), ([0, 1],)),
    }


def test_configurations_are_shared_by_the_values_of_what_either_searched_whatever_they_are_called() -> None:
    assert shared(A, B) == [("lr=1", "slow")]
    both = side("B", {"x": [1.0], "y": [2.0]}, {"x": 1.0, "y": 1.0}, (LR, BATCH))
    both = replace(both, settings={**both.settings, "y": {**both.settings["y"], BATCH: 64}})
    assert shared(A, both) == [("lr=1", "x")]  # y has another batch, which A did not search and has fixed
    elsewhere = side("B", {"x": [1.0]}, {"x": 1.0}, env__name="acrobot")
    assert shared(A, elsewhere) == []


def test_an_algorithm_that_was_searched_tells_configurations_apart() -> None:
    algorithms = replace(B, paths=("algorithm", LR), runs=B.runs.assign(algorithm=["ppo"] * 3 + ["dqn"] * 3))
    assert shared(A, algorithms) == [("lr=1", "slow")]
    assert shared(A, replace(algorithms, runs=B.runs.assign(algorithm="dqn"))) == []


@pytest.mark.parametrize(
    ("changed", "score", "steps", "speed"),
    [
        ({}, "", "", ""),
        (
            {"env__id": "CartPole-v0"},
            "the environments differ: env.id CartPole-v1 in A, CartPole-v0 in B",
            "env.id",
            "env.id",
        ),
        ({"env__env_config.x": 1}, "env.env_config.x none in A, 1 in B", "env.env_config", "env.env_config"),
        ({"budget_env_steps": 5}, "different budgets: budget_env_steps 100000 in A, 5 in B", "", ""),
        ({"env__target": 400.0}, "", "the targets differ: env.target 475 in A, 400 in B", ""),
        ({"evaluation__episodes": 5}, "", "evaluated differently: evaluation.episodes 20 in A, 5 in B", ""),
        ({"report_every_env_steps": 1000}, "", "report_every_env_steps 4000 in A, 1000 in B", ""),
        ({BATCH: 64}, "", "", ""),  # is what is compared
    ],
)
def test_what_may_not_be_compared_says_why(changed: dict[str, Any], score: str, steps: str, speed: str) -> None:
    other = side("B", {"slow": [1.0, 2.0, 3.0]}, {"slow": 1.0}, **changed)
    for measure, expected in (("score", score), ("env_steps_to_target", steps), ("env_steps_per_s", speed)):
        found = "; ".join(obstacles(A, "lr=1", other, "slow", measure))
        assert expected in found
        assert bool(expected) == bool(found), found


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            replace(B, host={**HOST, "cpu": "another"}),
            "the machines differ: A ran on a CPU with 8 CPUs, B ran on another with 8 CPUs",
        ),
        (
            replace(B, host={**HOST, "gpus": ["a GPU"]}),
            "A ran on a CPU with 8 CPUs, 0 GPUs, B ran on a CPU with 8 CPUs, 1 GPUs",
        ),
        (replace(B, host={}), "the machine of a study is unknown"),
        (replace(B, num_nodes=2), "B ran on several nodes"),
        (replace(B, runs=B.runs.assign(exclusive=False)), "trials of B ran side by side"),
        (replace(B, runs=B.runs.assign(phase="throughput")), "B measured throughput by itself"),
    ],
)
def test_throughput_is_compared_between_trials_alone_on_machines_of_one_kind(other: Side, message: str) -> None:
    assert obstacles(A, "lr=1", replace(B, host={**HOST, "host": "another name"}), "slow", "env_steps_per_s") == []
    assert message in "; ".join(obstacles(A, "lr=1", other, "slow", "env_steps_per_s"))


def test_nothing_is_compared_where_settings_were_not_recorded() -> None:
    assert obstacles(A, "lr=1", replace(B, settings={}), "slow", "score") == [
        "B ran with settings that were not recorded"
    ]


def test_common_seeds_are_paired() -> None:
    (row,) = compare(A, B, [("lr=1", "slow")], "score").to_dict("records")
    assert row["difference"] == pytest.approx(np.mean([10.0, 15.0, 8.0]))
    assert (row["num_common"], row["num_a"], row["num_b"], row["paired"]) == (3, 3, 3, True)
    assert row["difference_low"] < row["difference"] < row["difference_high"]


def test_without_common_seeds_the_test_is_welchs() -> None:
    other = replace(B, runs=seeds_from(B.runs, 100))
    (row,) = compare(A, other, [("lr=1", "slow")], "score").to_dict("records")
    assert row["difference"] == pytest.approx(410.0 - 399.0)
    assert (row["num_common"], row["paired"]) == (0, False)
    few = replace(B, runs=seeds_from(B.runs, 2))  # one seed in common says nothing
    assert not compare(A, few, [("lr=1", "slow")], "score")["paired"].any()


def test_speeds_are_compared_by_their_ratio() -> None:
    fast = replace(A, runs=A.runs.assign(env_steps_per_s=[2000.0, 2100.0, 1900.0, 500.0, 400.0, 450.0]))
    slow = replace(B, runs=B.runs.assign(env_steps_per_s=[1000.0, 1050.0, 950.0, 300.0, 200.0, 250.0]))
    (row,) = compare(fast, slow, [("lr=1", "slow")], "env_steps_per_s").to_dict("records")
    assert row["difference"] == pytest.approx(2.0)
    assert row["difference_low"] < 2.0 < row["difference_high"]


def test_env_steps_to_target_count_up_to_the_smaller_budget() -> None:
    longer = make_runs(
        {"slow": [480.0] * 3}, budget_env_steps=400_000, env_steps_to_target={"slow": [50_000.0, 300_000.0, np.nan]}
    )
    shorter = make_runs({"lr=1": [480.0] * 3}, env_steps_to_target={"lr=1": [50_000.0, 60_000.0, np.nan]})
    (row,) = compare(
        replace(A, runs=shorter), replace(B, runs=longer), [("lr=1", "slow")], "env_steps_to_target"
    ).to_dict("records")
    assert row["difference"] == pytest.approx(np.mean([0.0, 60_000.0 - 100_000.0, 0.0]))


def test_all_comparisons_by_a_measure_are_corrected_together_and_what_cannot_be_compared_is_not_counted() -> None:
    third = side("C", {"x": [1.0, 2.0, 3.0]}, {"x": 1.0}, env__id="CartPole-v0")
    pairs = {("A", "B"): [("lr=1", "slow"), ("lr=2", "fast")], ("A", "C"): [("lr=1", "x")], ("B", "C"): []}
    found = comparisons([A, B, third], pairs)
    scores = found[found["measure"] == "score"].set_index(["a", "b", "config_a"])
    assert scores["p"].notna().tolist() == [True, True, False]
    smaller = min(scores["p"].iloc[:2])
    assert scores["p_adjusted"].min() == pytest.approx(2 * smaller)
    assert "env.id" in scores.loc[("A", "C", "lr=1"), "obstacles"][0]


@pytest.mark.slow
def test_two_draws_of_the_same_are_called_different_in_about_5_percent() -> None:
    rng = np.random.default_rng(0)
    p = []
    for _ in range(150):
        drawn = [make_runs({c: list(rng.normal(400, 20, 5)) for c in ("lr=1", "lr=2")}) for _ in range(2)]
        other = replace(A, letter="B", runs=seeds_from(drawn[1], 100))
        p += list(compare(replace(A, runs=drawn[0]), other, [("lr=1", "lr=1")], "score")["p"])
    assert stats.binom.cdf(np.sum(np.array(p) < 0.05), 150, 0.05) < 0.995
