"""Policies that start near uniform, with a standard deviation of their own for each action."""

from typing import Any

import gymnasium as gym
import pytest
import torch
from ray.rllib.algorithms import ppo
from ray.rllib.core.models.torch.heads import TorchFreeLogStdMLPHead, TorchMLPHead

from experiments.rllib.building import build_algorithm_config
from experiments.rllib.ppo import PPOConfig
from tests.support.suite import PlanOf


def module_of(config: Any, env: str, **model: Any) -> Any:
    torch.manual_seed(0)
    return config.rl_module(model_config=model).get_rl_module_spec(env=gym.make(env)).build()


def test_the_last_layers_are_those_of_stable_baselines3_and_the_others_rllibs() -> None:
    ours, theirs = (
        module_of(config, "CartPole-v1", vf_share_layers=False) for config in (PPOConfig(), ppo.PPOConfig())
    )
    assert type(ours) is type(theirs) and type(ours.pi) is TorchMLPHead
    for head, gain in ((ours.pi, 0.01), (ours.vf, 1.0)):
        (last,) = (layer for layer in head.net.modules() if isinstance(layer, torch.nn.Linear))
        torch.testing.assert_close(last.weight @ last.weight.T, gain**2 * torch.eye(len(last.weight)))
        assert not last.bias.any()
    shapes = [{name: values.shape for name, values in module.state_dict().items()} for module in (ours, theirs)]
    assert shapes[0] == shapes[1]


def test_continuous_actions_have_a_standard_deviation_each_that_starts_where_it_is_given() -> None:
    for config, start in ((PPOConfig(), 0.0), (PPOConfig().training(lr=1e-4, log_std_init=-2.0), -2.0)):
        head = module_of(config, "Pendulum-v1").pi
        assert type(head) is TorchFreeLogStdMLPHead and head.log_std.tolist() == [start]
        recurrent = module_of(config, "Pendulum-v1", use_lstm=True).pi
        assert type(recurrent) is TorchMLPHead and recurrent.net.mlp[-1].bias.tolist() == [0.0, start]


@pytest.mark.parametrize(("env", "start"), [("halfcheetah", -2.0), ("hopper", 0.0), ("walker2d", -1.0)])
def test_ppo_on_mujoco_starts_where_its_settings_say(plan_of: PlanOf, env: str, start: float) -> None:
    trial = plan_of("study.space={}", "algorithm=ppo", f"env={env}").trials[0]
    module = build_algorithm_config(trial).get_rl_module_spec(env=gym.make(trial.env.id)).build()
    assert set(module.pi.log_std.tolist()) == {start}


def test_a_study_takes_these_or_by_name_rllibs(plan_of: PlanOf) -> None:
    for words, head in (
        ((), TorchFreeLogStdMLPHead),
        (("algorithm.config_class=ray.rllib.algorithms.ppo.PPOConfig",), TorchMLPHead),
    ):
        trial = plan_of("study.space={}", "algorithm=ppo", "env=pendulum", *words).trials[0]
        module = build_algorithm_config(trial).get_rl_module_spec(env=gym.make("Pendulum-v1")).build()
        assert type(module.pi) is head
