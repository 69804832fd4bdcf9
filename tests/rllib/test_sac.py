"""The suite's critics of SAC: observation and action through one perceptron, as Stable-Baselines3 has them."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.algorithms import sac
from ray.rllib.algorithms.sac.torch.sac_torch_learner import SACTorchLearner
from ray.rllib.core.columns import Columns
from ray.rllib.core.models.torch.encoder import TorchMultiStreamEncoder

from experiments.fast.sac_learner import FastSACTorchLearner
from experiments.fast.switch import make_fast
from experiments.rllib.building import build_algorithm_config
from experiments.rllib.sac import FastSquaredErrorSACLearner, SACConfig, SquaredErrorSACLearner
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
    theirs = (f"algorithm.config_class={config_class}", "~algorithm.training.td_error_loss_fn")
    chosen = () if config_class.startswith("experiments") else theirs
    wide = "algorithm.rl_module.fcnet_hiddens=[256,256]"
    trial = plan_of("study.space={}", "algorithm=sac", "env=pendulum", wide, *chosen).trials[0]
    assert trial.algorithm["config_class"] == config_class
    module = build_algorithm_config(trial).get_rl_module_spec(env=gym.make("Pendulum-v1")).build()
    assert sum(p.numel() for network in (module.qf_encoder, module.qf) for p in network.parameters()) == weights


@pytest.mark.parametrize(
    ("loss", "learner", "fast"),
    [("mse", SquaredErrorSACLearner, FastSquaredErrorSACLearner), ("huber", SACTorchLearner, FastSACTorchLearner)],
)
def test_the_loss_of_the_critics_is_the_papers_or_by_name_rllibs(
    plan_of: PlanOf, loss: str, learner: type, fast: type
) -> None:
    words = ("study.space={}", "algorithm=sac", "env=pendulum")
    chosen = () if loss == "mse" else (f"algorithm.training.td_error_loss_fn={loss}",)
    for parts, expected in (("true", fast), ("false", learner)):
        trial = plan_of(*words, f"fast={parts}", *chosen).trials[0]
        assert build_algorithm_config(trial).learner_class is expected


@pytest.mark.parametrize(("loss", "low", "high"), [("mse", 8.7, 9.7), ("huber", 14.0, math.inf)])
def test_critics_come_to_the_mean_of_their_targets_where_the_huber_loss_comes_to_a_median(
    loss: str, low: float, high: float
) -> None:
    """A reward of 1 at every step, and one step in ten ends the episode by chance: a value of 1 / (1 - 0.9 gamma)."""
    config = SACConfig().environment("Pendulum-v1").rl_module(model_config={"fcnet_hiddens": [8]})
    config.training(td_error_loss_fn=loss, gamma=0.99, tau=0.1, actor_lr=1e-3, critic_lr=1e-2, initial_alpha=1e-4)
    torch.manual_seed(0)
    learner = make_fast(config).build_learner(env=gym.make("Pendulum-v1"))
    rng, rows = np.random.default_rng(0), 256
    learner.begin_lean()
    for number in range(1500):
        states = rng.normal(size=(2, rows, 3)).astype(np.float32)
        batch = {Columns.OBS: states[0], Columns.NEXT_OBS: states[1], Columns.REWARDS: np.ones(rows)}
        batch[Columns.ACTIONS] = rng.uniform(-1, 1, (rows, 1)).astype(np.float32)
        batch[Columns.TERMINATEDS] = rng.random(rows) < 0.1
        others = {Columns.TRUNCATEDS: np.zeros(rows, bool), "weights": np.ones(rows), "n_step": np.ones(rows, int)}
        learner.lean_update(batch | others, {"num_env_steps_sampled_lifetime": number})
    said = learner.lean_results()["default_policy"]
    assert low < said["qf_mean"].values[-1] < high  # the value is 9.2
