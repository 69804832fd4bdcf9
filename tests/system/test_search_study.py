"""Searches that are killed and gone on with: real processes, real signals, the real command line."""

import json
import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import optuna
import pytest

from tests.support.driver import Driver
from tests.support.outputs import left_in, reports, run_id
from tests.support.suite import RunSuite

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

SMALL = (
    "study=smoke",
    "study.space={algorithm.training.lr:[1e-4,1e-3,1e-2]}",
    "budget_env_steps=4096",
    "report_every_env_steps=512",
    "checkpoint.every_env_steps=1024",
    "algorithm.training.train_batch_size_per_learner=256",
    "evaluation.final_episodes=5",
    "confirmation.top=1",
    "confirmation.seeds=[70,71]",
    "tracking.tensorboard=false",
    "tracking.system_metrics=false",
    "hardware.num_cpus=2",
)
SEARCHES = {
    "racing": ("search=racing", "search.max_trials=6"),
    "optuna": ("search=optuna", "search.num_samples=6"),
    "asha": ("scheduler=asha", "scheduler.grace_env_steps=1024", "scheduler.reduction_factor=2"),
    "median": ("scheduler=median", "scheduler.grace_env_steps=1024", "scheduler.min_trials=2"),
    "pbt": ("scheduler=pbt", "scheduler.population=4", "scheduler.interval_env_steps=2048"),
}
STOPPING_EARLY = ("asha", "median")
"""They stop by who came first."""


def asked(out: Path) -> list[Any]:
    """What the search asked for, in order."""
    (journal,) = out.glob("studies/*/search.jsonl")
    return [event["asked"] for line in journal.read_text().splitlines() if "asked" in (event := json.loads(line))]


def suggestions(out: Path) -> list[Any]:
    """Optuna's trials."""
    (storage,) = out.glob("studies/*/optuna.db")
    (study,) = optuna.get_all_study_names(f"sqlite:///{storage}")
    return [
        (t.number, t.state.name, t.params, t.values)
        for t in optuna.load_study(study_name=study, storage=f"sqlite:///{storage}").trials
    ]


def best_of(out: Path) -> str:
    """The configuration that MLflow has as the recommended one."""
    with closing(sqlite3.connect(out / "mlflow.db")) as connection:
        ((best,),) = connection.execute("SELECT value FROM tags WHERE key = 'best'")
    return str(best)


def recommended_in(stdout: str) -> str:
    """The configuration that the answer names first; whether it reaches the target depends on the processor."""
    found = re.match(r"(?:Use|No seed .* The best is) (.+?):", stdout.split("answer      ")[1])
    assert found is not None
    return found[1]


def ended(out: Path) -> int:
    """How many trials the search knows to have ended, early or not."""
    return sum(journal.read_text().count('"ended": ') for journal in out.glob("studies/*/search.jsonl"))


@pytest.mark.usefixtures("ray_instance")
@pytest.mark.nightly
@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_that_is_killed_twice_goes_on_with_no_trial_lost_and_none_run_twice(
    name: str, tmp_path: Path, suite_here: RunSuite
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    Driver(out, *SMALL, *SEARCHES[name]).until(lambda: ended(out) >= 2).kill()
    before = asked(out)
    Driver(out, f"resume={run_id(out, 'study')}").until(lambda: ended(out) >= 5).kill()
    resumed = suite_here(f"resume={run_id(out, 'study')}", with_ray=True)
    assert resumed.returncode == 0
    found = left_in(out / "mlflow.db")
    assert asked(out)[: len(before)] == before
    assert set(found.statuses.values()) == {"FINISHED"}
    assert max(Counter(found.points).values()) == 1
    assert len(found.statuses) - 1 == len(asked(out)) == len(reports(out))
    confirmed = [tags for tags in found.tags.values() if tags["phase"] == "confirm"]
    assert len(confirmed) == 4 and {tags["exploratory"] for tags in confirmed} == {"false"}
    assert all(tags["exploratory"] == "true" for tags in found.tags.values() if tags["phase"] == "search")
    if name not in STOPPING_EARLY:
        assert Driver(whole, *SMALL, *SEARCHES[name]).end() == 0
        left = left_in(whole / "mlflow.db")
        assert asked(out) == asked(whole)
        assert found.learned == left.learned
        assert found.weights == left.weights
    if name == "optuna":
        assert suggestions(out) == suggestions(whole)
        assert {state for _, state, _, _ in suggestions(out)} == {"COMPLETE"}
    assert recommended_in(resumed.stdout) == best_of(out)


@pytest.mark.usefixtures("ray_instance")
def test_a_limit_ends_a_search_keeps_what_was_done_and_confirms_what_it_found(
    suite_here: RunSuite, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = suite_here(*SMALL, "search=racing", f"max_env_steps={6 * 4096}", with_ray=True)
    assert done.returncode == 0
    phases = Counter(ask["phase"] for ask in asked(out))
    assert phases["search"] == 3 and 2 <= phases["confirm"] <= 3
    assert f"limit       max_env_steps={6 * 4096} ended the study after {sum(phases.values())} trials" in done.stdout
    assert best_of(out).startswith("lr=")
    assert recommended_in(done.stdout) == best_of(out)


@pytest.mark.nightly
@pytest.mark.usefixtures("ray_instance")
def test_a_limited_grid_ends_with_whole_configurations_and_concludes_from_what_it_has(
    suite_here: RunSuite, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = suite_here(*SMALL, f"max_env_steps={5 * 4096}", "seeds=[0,1]", with_ray=True)
    assert done.returncode == 0
    assert [(ask["seed"], ask["phase"]) for ask in asked(out)] == [(seed, "fixed") for seed in (0, 0, 0, 1, 1)]
    found = left_in(out / "mlflow.db")
    assert {tags["exploratory"] for tags in found.tags.values()} == {"false"}
    assert recommended_in(done.stdout) == best_of(out)


JOINT = (
    "study=joint",
    "study.space={algorithm.training.lr:[1e-4,3e-3],algorithm.env_runners.num_env_runners:[0,1]}",  # base: 3e-3
    *SMALL[2:7],
    "env.target=12",  # which CartPole holds from the start
    "seeds=[0,1]",
    "search.rounds=1",
    "search.max_seeds=3",
    "search.measurement={warmup_s:0.0,seconds:0.4,max_seconds:0.8,block_s:0.1}",
    *SMALL[7:],
)


@pytest.mark.usefixtures("ray_instance")
def test_a_joint_search_measures_alone_learns_side_by_side_and_goes_on_after_a_kill(
    tmp_path: Path, suite_here: RunSuite
) -> None:
    out = tmp_path / "out"
    Driver(out, *JOINT).until(lambda: ended(out) >= 3).kill()
    before = asked(out)
    resumed = suite_here(f"resume={run_id(out, 'study')}", with_ray=True)
    assert resumed.returncode == 0
    assert asked(out)[: len(before)] == before
    assert list(dict.fromkeys(ask["phase"] for ask in asked(out))) == ["throughput", "search", "confirm"]
    found = left_in(out / "mlflow.db")
    assert set(found.statuses.values()) == {"FINISHED"}
    assert max(Counter(found.points).values()) == 1
    assert {tags["exclusive"] for tags in found.tags.values() if tags["phase"] != "search"} == {"true"}
    assert {tags["exploratory"] for tags in found.tags.values() if tags["phase"] != "confirm"} == {"true"}
    answer = resumed.stdout.split("answer      ")[1]
    assert "starting included, by 2 seeds" in answer
    assert "Other layouts (runners x environments of each) are predicted to take " in answer
    assert "refuse" not in resumed.stdout
    assert "none: " not in resumed.stdout
