"""Environments that have no file of their own."""

from typing import Any

import gymnasium as gym
import pytest

from experiments.config.errors import ConfigurationError
from experiments.config.gym_registry import name_of, spec_of, with_registry
from experiments.config.schema import EnvSettings, EvaluationSettings
from experiments.config.trial_config import TrialConfig
from tests.support.suite import PlanOf, RunSuite

GENERAL = {"name": None, "target": "registered"}
SINGLE = "study.space={}"


@pytest.mark.parametrize(
    ("gym_id", "name"),
    [
        ("Walker2d-v5", "walker2d-v5"),
        ("ale_py:ALE/Pong-v5", "ale-pong-v5"),
        ("my.envs:_My Env-v0", "my-env-v0"),
        ("tiny/Count-v0", "tiny-count-v0"),
    ],
)
def test_a_name_is_the_id_in_characters_that_folders_and_run_names_take(gym_id: str, name: str) -> None:
    assert name_of(gym_id) == name


def test_name_and_target_come_from_the_registry() -> None:
    found = with_registry({**GENERAL, "id": "Acrobot-v1"})
    assert found == {"name": "acrobot-v1", "id": "Acrobot-v1", "target": -100.0}


def test_an_environment_without_a_reward_threshold_has_no_target() -> None:
    assert with_registry({**GENERAL, "id": "Pendulum-v1"})["target"] is None


@pytest.mark.parametrize(
    "env", [{"name": "mine", "id": "Acrobot-v1", "target": 3.0}, {"name": "mine", "id": "No-v1", "target": None}]
)
def test_what_a_file_says_stays(env: dict[str, Any]) -> None:
    assert with_registry(env) == env


def test_a_file_of_ones_own_may_leave_the_target_to_the_registry() -> None:
    assert with_registry({"name": "mine", "id": "CartPole-v1", "target": "registered"})["target"] == 475.0


@pytest.mark.parametrize(
    ("gym_id", "near"),
    [
        ("CartPoll-v1", "CartPole-v1"),
        ("cartpole-v1", "CartPole-v1"),
        ("CartPole", "CartPole-v"),
        ("zzzzzz", "pprint_registry"),
    ],
)
def test_an_unknown_id_is_refused_with_the_nearest(gym_id: str, near: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"env.id={gym_id}: Gymnasium knows no such id.*{near}"):
        spec_of(gym_id)


def test_an_unknown_id_of_any_file_is_refused_with_the_nearest(plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError, match=r"The nearest are .*Acrobot-v1"):
        plan_of("env=acrobot", "env.id=Acrobat-v1", SINGLE)


@pytest.mark.parametrize(
    "file",
    [("env=gym",), ("env=cartpole", "env.vectorize_mode=sync", "env.name=tiny-endless-v0")],
    ids=["any id", "a file of its own"],
)
def test_an_environment_whose_episodes_need_not_end_is_refused_until_it_gets_a_limit(
    plan_of: PlanOf, file: tuple[str, ...]
) -> None:
    given = (*file, "env.id=tiny_envs:tiny/Endless-v0", SINGLE)
    with pytest.raises(ConfigurationError, match=r"without a time limit.*env.max_episode_steps=1000"):
        plan_of(*given)
    plan = plan_of(*given, "env.max_episode_steps=50")
    assert plan.experiment == "lr_batch/ppo-tiny-endless-v0"
    assert plan.trials[0].env.make_arguments == {"max_episode_steps": 50}


def test_a_module_that_cannot_be_imported_is_named(plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError, match=r"env.id=no_such_module:Env-v0: its module cannot be imported"):
        plan_of("env=gym", "env.id=no_such_module:Env-v0", SINGLE)


def test_any_id_is_planned_under_its_own_name(plan_of: PlanOf) -> None:
    plan = plan_of("env=gym", "env.id=MountainCarContinuous-v0", "algorithm=sac", SINGLE)
    (trial, *_) = plan.trials
    assert plan.experiment == "lr_batch/sac-mountaincarcontinuous-v0"
    assert trial.label == "sac-mountaincarcontinuous-v0"
    assert (trial.env.target, trial.budget_env_steps, trial.report_every_env_steps) == (90.0, 500_000, 10_000)
    assert plan.composed["env"]["name"] == "mountaincarcontinuous-v0"


def test_name_target_and_arguments_can_be_given(plan_of: PlanOf) -> None:
    given = ("env.name=windy", "env.target=null", "env.env_config={g:9.0}")
    env = plan_of("env=gym", "env.id=Pendulum-v1", *given, SINGLE).trials[0].env
    assert (env.name, env.target, env.make_arguments) == ("windy", None, {"g": 9.0})


def test_a_missing_id_exits_with_2_and_an_example(suite_here: RunSuite) -> None:
    refused = suite_here("env=gym", "dry_run=true")
    assert refused.returncode == 2
    assert (
        "env.id is missing: which of Gymnasium's environments, for example env=gym env.id=Walker2d-v5" in refused.stderr
    )


def test_a_time_limit_of_ones_own_holds_and_changes_the_configuration(plan_of: PlanOf) -> None:
    with_limit, without = (
        plan_of("env=pendulum", SINGLE, *more).trials[0] for more in (["env.max_episode_steps=7"], [])
    )
    assert with_limit.config_id != without.config_id
    made: Any = gym.make(with_limit.env.id, **with_limit.env.make_arguments)
    made.reset(seed=0)
    truncated = [made.step(made.action_space.sample())[3] for _ in range(7)]
    assert truncated == [False] * 6 + [True]


def test_a_limit_that_is_not_given_leaves_ids_as_they_were_before_there_was_one() -> None:
    trial = TrialConfig(
        algorithm={
            "name": "a",
            "config_class": "b.C",
            "training": {},
            "env_runners": {},
            "learners": {},
            "rl_module": {},
        },
        env=EnvSettings("pendulum", "Pendulum-v1", {}, "sync", 100, 10, None, (None, None)),
        seed=0,
        budget_env_steps=100,
        report_every_env_steps=10,
        evaluation=EvaluationSettings(1, 1),
        stop_at_target=False,
        threads_per_process=1,
    )
    assert trial.config_id == "61650925"
