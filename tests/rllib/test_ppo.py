"""The standard deviation that exploration starts with."""

import gymnasium as gym
import pytest
import torch
from ray.rllib.algorithms import ppo

from experiments.config.errors import ConfigurationError
from experiments.rllib.building import build_algorithm_config
from experiments.rllib.ppo import PPOConfig
from tests.support.suite import PlanOf


def test_actions_start_with_the_standard_deviation_that_is_given_and_everything_else_is_rllibs() -> None:
    env = gym.make("Pendulum-v1")
    modules = []
    for config in (PPOConfig().training(lr=1e-4, log_std_init=-2.0), ppo.PPOConfig()):
        torch.manual_seed(0)
        modules.append(config.rl_module(model_config={"free_log_std": True}).get_rl_module_spec(env=env).build())
    ours, theirs = (module.state_dict() for module in modules)
    assert type(modules[0]) is type(modules[1])
    assert ours.pop("pi.log_std").tolist() == [-2.0] and theirs.pop("pi.log_std").tolist() == [0.0]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("env", ["halfcheetah", "hopper", "walker2d"])
def test_ppo_on_mujoco_starts_where_the_published_settings_do(plan_of: PlanOf, env: str) -> None:
    trial = plan_of("study.space={}", "algorithm=ppo", f"env={env}").trials[0]
    module = build_algorithm_config(trial).get_rl_module_spec(env=gym.make(trial.env.id)).build()
    assert set(module.pi.log_std.tolist()) == {-2.0}


def test_a_start_that_would_be_ignored_is_refused(plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError, match=r"log_std_init=-2\.0 needs algorithm\.rl_module\.free_log_std=true"):
        plan_of("study.space={}", "algorithm=ppo", "env=hopper", "algorithm.rl_module.free_log_std=false")
