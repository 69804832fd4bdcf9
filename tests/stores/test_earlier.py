"""What earlier studies of a store found, as a search is given it."""

from collections.abc import Callable
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from analysis import AnalysisError
from analysis.document.earlier import earlier_studies
from analysis.load import load_study
from experiments.planning.warm_start import with_prior
from experiments.search.prior import EarlierStudy, Prior
from experiments.search.strategy import Outcome
from tests.support.stored_studies import START_MS, Written, planned, uri_of
from tests.support.suite import PlanOf

LRS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)


def write(
    store: Written, name: str, env: str = "cartpole", algorithm: str = "ppo", after_ms: int = 100, **recorded: Any
) -> str:
    """A study of five learning rates, the third of which is best, each with two seeds; the last one crashes."""
    configs = {f"lr={lr:g}": lr for lr in LRS}
    plan: dict[str, Any] = {
        "study": name,
        "question": "",
        "seeds": [0, 1],
        "axes": {"lr": "algorithm.training.lr"},
        "exclusive": True,
        "phase": "fixed",
        "configurations": [
            {**planned(config, lr), "env": env, "algorithm": algorithm} for config, lr in configs.items()
        ],
        **recorded,
    }
    experiment = f"{name}/{algorithm}-{env}"
    run = store.study(name, experiment, START_MS + after_ms, plan)
    for (config, lr), score in zip(configs.items(), (100.0, 300.0, 480.0, 200.0, None), strict=True):
        for seed in range(2):
            of_trial = {"params": {"lr": lr, "algorithm": algorithm}, "env": env, "algorithm": algorithm}
            if score is None:
                store.trial(run, experiment, config, seed, status="FAILED", failure="diverged", **of_trial)
                continue
            metrics = {"final/score": score + seed, "final/auc": score / 2}
            metrics |= {"final/env_steps_to_target": 1000.0} if score > 475 else {}
            store.trial(run, experiment, config, seed, [(metrics, 2000, 5)], **of_trial)
    return run


def test_a_study_says_what_each_of_its_trials_came_to(copied: Callable[[], Written]) -> None:
    store = copied()
    run = write(store, "before")
    (found,) = earlier_studies(["before"], uri_of(store.folder), "ppo", "cartpole")
    assert {name: found[name] for name in ("name", "run", "env", "algorithm")} == {
        "name": "before/ppo-cartpole", "run": run, "env": "cartpole", "algorithm": "ppo"
    }  # fmt: skip
    trials = found["trials"]
    assert {(trial["point"]["algorithm.training.lr"], trial["seed"]) for trial in trials} == {*product(LRS, (0, 1))}
    outcomes = sorted((Outcome(**trial["outcome"]) for trial in trials), key=lambda one: one.worth("score"))
    assert [one.status for one in outcomes[:2]] == ["failed", "failed"]
    best = outcomes[-1]
    assert best.values == {"score": 481.0, "auc": 240.0, "env_steps_to_target": 1000.0}
    assert (best.target, best.reached) == (475.0, True)
    assert outcomes[2].values["env_steps_to_target"] == 2000.0  # never held: its budget
    assert not outcomes[2].reached


def test_a_search_starts_from_a_study_of_a_store(copied: Callable[[], Written], plan_of: PlanOf) -> None:
    store = copied()
    write(store, "before")
    space = f"study.space={{algorithm.training.lr:{[*LRS]}}}".replace(" ", "")
    plan = plan_of("search=racing", space, "search.from=[before]")
    warm = with_prior(plan, earlier_studies(["before"], uri_of(store.folder), "ppo", "cartpole"))
    assert warm.search is not None and warm.search.prior is not None
    assert warm.search.prior.points[warm.search.prior.order()[0]] == {"algorithm.training.lr": 1e-3}
    assert warm.search.prior.points[warm.search.prior.order()[-1]] == {"algorithm.training.lr": 1e-2}


def test_a_study_says_of_what_it_started_from_whether_that_held(copied: Callable[[], Written]) -> None:
    store = copied()
    prior = asdict(Prior(({"algorithm.training.lr": 1e-3},), (EarlierStudy("before/ppo-cartpole", "abc", (1.0,)),)))
    for name, recorded, weight in (
        ("whole", {"prior": {**prior, "weights": [0.75]}}, 0.75),
        ("running", {"prior": prior}, None),
    ):
        write(store, name, **recorded)
        assert load_study(name, uri_of(store.folder)).earlier == (("before/ppo-cartpole", "abc", weight),)
    write(store, "plain")
    assert load_study("plain", uri_of(store.folder)).earlier == ()


def test_without_names_the_latest_studies_of_the_algorithm_are_found_of_the_environment_first(
    copied: Callable[[], Written],
) -> None:
    store = copied()
    uri = uri_of(store.folder)
    write(store, "elsewhere", env="acrobot", after_ms=100)
    write(store, "other", algorithm="sac", after_ms=200)

    def names(algorithm: str, env: str) -> list[str]:
        return [one["name"] for one in earlier_studies([], uri, algorithm, env)]

    assert names("sac", "pendulum") == ["other/sac-cartpole"]  # of another environment, for want of the same
    assert names("dqn", "cartpole") == []
    write(store, "first", after_ms=300)
    write(store, "second", after_ms=400)
    assert names("ppo", "acrobot") == ["elsewhere/ppo-acrobot"]
    assert names("ppo", "cartpole")[:2] == ["second/ppo-cartpole", "first/ppo-cartpole"]
    assert "elsewhere/ppo-acrobot" not in names("ppo", "cartpole")


def test_a_study_that_is_not_there_is_named(copied: Callable[[], Written], tmp_path: Path) -> None:
    store = copied()
    write(store, "before")
    with pytest.raises(AnalysisError, match=r"There is no study 'befor' in .*near: before"):
        earlier_studies(["befor"], uri_of(store.folder), "ppo", "cartpole")
    with pytest.raises(AnalysisError):
        earlier_studies(["before"], f"sqlite:///{tmp_path}/none.db", "ppo", "cartpole")
