"""Preprocessing in a configuration: what is refused, what its hash is, and what MLflow gets."""

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.config.errors import INVALID, ConfigurationError
from experiments.config.preprocessing_settings import PreprocessingSettings
from experiments.config.trial_config import TrialConfig
from experiments.planning.record import trial_params
from experiments.rllib.building import build_algorithm_config, environment_of
from experiments.rllib.made_environments import spaces
from tests.support.suite import PlanOf, RunSuite

ONE = ("study.space={}", "seeds=[0]")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ("env.id=FrozenLake-v1", "env.vectorize_mode=sync", "preprocessing=normalize"),
            "preprocessing.normalize_observations=true: env=cartpole has observations Discrete",
        ),
        (
            ("preprocessing=symlog", "preprocessing.normalize_observations=true"),
            "Try preprocessing=symlog or preprocessing=normalize.",
        ),
        (
            ("algorithm=dqn", "preprocessing=clip_rewards", "++algorithm.training.n_step=3"),
            "preprocessing.clip_rewards=1: with algorithm.training.n_step=3 rewards are summed "
            "before they are clipped. Try preprocessing.clip_rewards=null or algorithm.training.n_step=1.",
        ),
        (
            ("env.id=FrozenLake-v1", "env.vectorize_mode=sync", "preprocessing=frame_stack"),
            "preprocessing.frame_stack=4: observations Discrete(16) are no vectors or pictures (env=cartpole). "
            "Try preprocessing.frame_stack=1.",
        ),
        (("preprocessing=frame_stack",), "there is one for all. Try env.vectorize_mode=sync."),
        (("env.vectorize_mode=sync", "preprocessing.frame_stack=0"), "preprocessing.frame_stack=0"),
        (
            ("++algorithm.env_runners.observation_filter=MeanStdFilter",),
            (
                "observation_filter=MeanStdFilter: RLlib's new API stack does nothing with it. "
                "Try preprocessing=normalize_observations."
            ),
        ),
        (
            ("++algorithm.rl_module.module_class=tests.support.filtering.OwnModule", "preprocessing=normalize"),
            "preprocessing=normalize: algorithm=ppo has a module class of its own, and only RLlib's default ones "
            "can be preceded by it. Try preprocessing=none.",
        ),
        (("preprocessing.clip_rewards=-1",), "preprocessing.clip_rewards=-1: input should be greater than 0."),
        (("preprocessing.clip_observations=yes",), "preprocessing.clip_observations='yes'"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_fix(overrides: tuple[str, ...], message: str, plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError) as error:
        plan_of("study=smoke", *ONE, *overrides)
    assert message in str(error.value)


def test_pictures_are_not_normalised_and_nothing_is_begun(suite_here: RunSuite, tmp_path: Path) -> None:
    ended = suite_here(
        "study=smoke", "env.id=tiny_envs:tiny/Picture-v0", "env.vectorize_mode=sync", "preprocessing=normalize"
    )
    assert ended.returncode == INVALID
    assert "only vectors of floats can be transformed" in ended.stderr
    assert "Try preprocessing.normalize_observations=false preprocessing.clip_observations=null." in ended.stderr
    assert not (tmp_path / "out").exists()


def test_a_name_that_changes_nothing_is_not_part_of_the_id(plan_of: PlanOf) -> None:
    plain, named, other = (
        plan_of("study=smoke", *ONE, *more).trials[0]
        for more in ((), ("preprocessing.name=nothing",), ("preprocessing=normalize", "preprocessing.clip_rewards=5"))
    )
    assert named.config_id == plain.config_id != other.config_id
    assert replace(other, preprocessing=replace(other.preprocessing, name="mine")).config_id == other.config_id
    assert TrialConfig.from_mapping(other.to_mapping()) == other


def test_it_is_a_parameter_in_mlflow_and_an_axis_of_studies(plan_of: PlanOf) -> None:
    plan = plan_of("study=smoke", "seeds=[0]", "study.space={preprocessing:[none,normalize]}", "env=pendulum")
    assert [trial.label for trial in plan.trials] == ["none", "normalize"]
    assert [trial_params(plan, trial).get("preprocessing") for trial in plan.trials] == [
        None,
        "normalize_observations clip_observations=10 normalize_rewards clip_rewards=10",
    ]
    plan = plan_of("study=smoke", "seeds=[0]", "study.space={preprocessing.normalize_rewards:[false,true]}")
    assert [str(trial.preprocessing) for trial in plan.trials] == ["none", "normalize_rewards"]


def test_frames_are_stacked_wherever_the_environment_is_made(plan_of: PlanOf) -> None:
    trial = plan_of("study=smoke", *ONE, "env=pendulum", "preprocessing=frame_stack").trials[0]
    config = build_algorithm_config(trial)
    assert spaces(trial.env)[0].shape == (3,)
    assert spaces(environment_of(trial))[0].shape == (12,)
    assert config.env == environment_of(trial).id
    assert config.get_rl_module_spec(
        spaces={"default_policy": spaces(environment_of(trial))}
    ).observation_space.shape == (12,)


def test_settings_are_those_of_the_transforms() -> None:
    assert PreprocessingSettings(name="x").of_module == {}
    assert PreprocessingSettings(clip_rewards=2.0).of_module["clip_rewards"] == 2.0
