"""Environments that a command line asks for, beside a policy's own."""

import pytest

from experiments.config.errors import ConfigurationError
from experiments.policies.other_environments import is_of_environment, variants
from tests.support.suite import PlanOf
from tests.support.trials import tiny


def test_without_a_word_there_is_the_trials_own(plan_of: PlanOf) -> None:
    trial = tiny(plan_of, "env=pendulum")
    (own,) = variants(trial, {})
    assert (own.name, own.env, dict(own.point)) == ("as trained", trial.env, {})


def test_lists_are_the_axes_of_a_grid_and_the_trials_own_comes_first(plan_of: PlanOf) -> None:
    found = variants(
        tiny(plan_of, "env=pendulum"), {"env.env_config.g": "[5,10.5]", "env.max_episode_steps": "[50,100]"}
    )
    names = ["as trained", *(f"g={g} max_episode_steps={steps}" for g in ("5", "10.5") for steps in (50, 100))]
    assert [variant.name for variant in found] == names
    assert found[2].env.make_arguments == {"g": 5, "max_episode_steps": 100}
    assert found[2].point == {"env_config.g": 5, "max_episode_steps": 100}


def test_another_environment_by_its_file_or_its_id(plan_of: PlanOf) -> None:
    trial = tiny(plan_of, "env=cartpole")
    assert variants(trial, {"env": "cartpole"})[1].env == trial.env
    assert variants(trial, {"env.id": "CartPole-v0"})[1].env.id == "CartPole-v0"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"env": "pendulum"}, r"env=pendulum: the policy was trained on observations Box\(.*4,.* of CartPole-v1"),
        ({"env.id": "MountainCar-v0"}, "env.id=MountainCar-v0: the policy was trained on observations"),
        ({"env": "cartpol"}, "conf/env has no file cartpol.yaml"),
        ({"env.id": "CartPole-v7"}, "Gymnasium knows no such id"),
        ({"env.env_config.gravity": "5"}, "gravity"),
        ({"env.env_config.sutton_barto_reward": "[]"}, "empty list"),
        ({"env.env_config.sutton_barto_reward": "[1"}, "is no value"),
        ({"env.env_config.sutton_barto_reward": str(list(range(101)))}, "make 101 environments"),
        ({"env.max_episode_steps": "-3"}, "max_episode_steps=-3"),
    ],
)
def test_what_cannot_be_tried_is_refused_with_the_reason(plan_of: PlanOf, given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        variants(tiny(plan_of, "env=cartpole"), given)


def test_settings_that_no_evaluation_depends_on_are_not_taken() -> None:
    assert all(map(is_of_environment, ("env", "env.id", "env.max_episode_steps", "env.env_config.g")))
    assert not any(map(is_of_environment, ("env.target", "env.env_config", "env.env_config.", "env.name", "algorithm")))
