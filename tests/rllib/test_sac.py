"""The suite's critics of SAC: observation and action through one perceptron, as Stable-Baselines3 has them."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.algorithms import sac
from ray.rllib.core.columns import Columns
from ray.rllib.core.models.torch.encoder import TorchMultiStreamEncoder

from experiments.rllib.building import build_algorithm_config
from experiments.rllib.sac import SACConfig
from tests.support.suite import PlanOf

VECTORS, ACTIONS = gym.spaces.Box(-1, 1, (3,), np.float32), gym.spaces.Box(-1, 1, (2,), np.float32)


def module_of(config_class: Any, observations: gym.Space[Any] = VECTORS, **model: Any) -> Any:
    config = config_class().rl_module(model_config=model)
    module = config.get_rl_module_spec(spaces={"default_policy": (observations, ACTIONS)}).build()
    module.make_target_networks()
    return module


def shapes(*networks: torch.nn.Module) -> list[tuple[int, ...]]:
    return [tuple(parameter.shape) for network in networks for parameter in network.parameters()]


def test_each_critic_and_target_is_a_perceptron_of_observation_and_action() -> None:
    module = module_of(SACConfig, fcnet_hiddens=[7, 5])
    joined = [(7, 3 + 2), (7,), (5, 7), (5,), (1, 5), (1,)]
    networks = [
        (getattr(module, f"{name}_encoder"), getattr(module, name))
        for name in ("qf", "qf_twin", "target_qf", "target_qf_twin")
    ]
    assert [shapes(*of_one) for of_one in networks] == [joined] * 4
    parameters = [parameter for of_one in networks for network in of_one for parameter in network.parameters()]
    assert len({id(parameter) for parameter in parameters}) == 4 * len(joined)  # none is shared


def test_a_q_value_is_the_perceptrons_of_the_observation_then_the_action() -> None:
    module = module_of(SACConfig, fcnet_hiddens=[7], fcnet_activation="relu", twin_q=False)
    generator = torch.Generator().manual_seed(0)
    observations, actions = (torch.randn(4, width, generator=generator) for width in (3, 2))
    (first, first_bias), (last, last_bias) = (list(network.parameters()) for network in (module.qf_encoder, module.qf))
    hidden = torch.relu(observations @ first[:, :3].T + actions @ first[:, 3:].T + first_bias)
    expected = (hidden @ last.T + last_bias).squeeze(-1)
    found = module.compute_q_values({Columns.OBS: observations, Columns.ACTIONS: actions})
    torch.testing.assert_close(found, expected)


def test_the_policy_is_rllibs() -> None:
    ours, theirs = (module_of(config_class, fcnet_hiddens=[7, 5]) for config_class in (SACConfig, sac.SACConfig))
    assert type(ours) is type(theirs)
    policies = [{n: p.shape for n, p in module.named_parameters() if n.startswith("pi")} for module in (ours, theirs)]
    assert policies[0] == policies[1] != {}


def test_critics_of_images_are_rllibs() -> None:
    images = gym.spaces.Box(0, 1, (12, 12, 2), np.float32)
    module = module_of(SACConfig, images, conv_filters=[[4, 4, 2], [8, 4, 2]], head_fcnet_hiddens=[5])
    assert type(module.qf_encoder) is TorchMultiStreamEncoder


@pytest.mark.parametrize(
    ("config_class", "weights"),
    [("experiments.rllib.sac.SACConfig", 67_329), ("ray.rllib.algorithms.sac.SACConfig", 658_433)],
)
def test_a_study_takes_the_suites_critics_or_by_name_rllibs(plan_of: PlanOf, config_class: str, weights: int) -> None:
    chosen = () if config_class.startswith("experiments") else (f"algorithm.config_class={config_class}",)
    wide = "algorithm.rl_module.fcnet_hiddens=[256,256]"
    trial = plan_of("study.space={}", "algorithm=sac", "env=pendulum", wide, *chosen).trials[0]
    assert trial.algorithm["config_class"] == config_class
    module = build_algorithm_config(trial).get_rl_module_spec(env=gym.make("Pendulum-v1")).build()
    assert sum(p.numel() for network in (module.qf_encoder, module.qf) for p in network.parameters()) == weights
