"""PPO's networks without modules and autograd beside RLlib's: the same weights after updates."""

import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns

from experiments.fast.learner import FastPPOTorchLearner
from experiments.fast.networks.ppo import DefaultNetworks, plain_policy
from tests.support.fast_ppo import (
    IMAGES,
    Images,
    assert_same_updates,
    config_of,
    learner_of,
)
from tests.support.matrix import matrix

pytestmark = pytest.mark.filterwarnings("ignore")


@matrix(env=["CartPole-v1", "Pendulum-v1"], shared=[True, False], activation=["relu", "tanh", "linear"])
def test_default_networks_are_known_unless_something_is_changed(env: str, shared: bool, activation: str) -> None:
    config = config_of(env, {"vf_share_layers": shared, "fcnet_activation": activation, "head_fcnet_hiddens": [8]})
    learner = learner_of(FastPPOTorchLearner, config)
    module, parameters = learner.module[DEFAULT_MODULE_ID], learner.get_parameters(learner.module[DEFAULT_MODULE_ID])
    assert DefaultNetworks.is_known(module, parameters)
    assert not DefaultNetworks.is_known(module, parameters[1:])
    hook = parameters[0].register_hook(lambda gradient: gradient)
    assert not DefaultNetworks.is_known(module, parameters)
    hook.remove()
    hook = next(m for m in module.modules() if type(m) is torch.nn.Linear).register_forward_hook(lambda *seen: None)
    assert not DefaultNetworks.is_known(module, parameters)
    hook.remove()
    assert DefaultNetworks.is_known(module, parameters)
    parameters[0].requires_grad_(False)
    assert not DefaultNetworks.is_known(module, parameters)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_weights_are_those_of_rllib_for_other_networks(env: str) -> None:
    for model in (
        {"free_log_std": True, "vf_share_layers": False} if env == "Pendulum-v1" else {"fcnet_activation": "relu"},
        {"fcnet_activation": "silu", "head_fcnet_hiddens": [8], "head_fcnet_activation": "relu"},
        {"fcnet_hiddens": [8], "fcnet_activation": "linear"},
    ):
        assert_same_updates(config_of(env, model))


@matrix(free=[True, False], shared=[True, False], clip=[20.0, 0.01], head=[[], [8]])
def test_weights_are_those_of_rllib_whatever_makes_the_standard_deviations(
    free: bool, shared: bool, clip: float, head: list[int]
) -> None:
    model = {"free_log_std": free, "vf_share_layers": shared, "log_std_clip_param": clip, "head_fcnet_hiddens": head}
    config = config_of("Pendulum-v1", model, entropy_coeff=0.01)
    learner = learner_of(FastPPOTorchLearner, config)
    module = learner.module[DEFAULT_MODULE_ID]
    assert DefaultNetworks.is_known(module, learner.get_parameters(module))
    assert_same_updates(config)


@matrix(free=[True, False], clip=[20.0, 0.01])
def test_the_policy_that_samples_puts_out_what_rllib_s_does(free: bool, clip: float) -> None:
    config = config_of("Pendulum-v1", {"free_log_std": free, "log_std_clip_param": clip})
    module = learner_of(FastPPOTorchLearner, config).module[DEFAULT_MODULE_ID].unwrapped()
    if free:
        module.pi.log_std.data.fill_(0.3)
    batch = {Columns.OBS: torch.randn(5, 3)}
    policy = plain_policy(module)
    assert policy is not None
    with torch.no_grad():
        ours, theirs = (forward(batch)[Columns.ACTION_DIST_INPUTS] for forward in (policy, module._forward_exploration))
    assert torch.equal(ours, theirs)


def test_weights_are_those_of_rllib_from_images() -> None:
    assert_same_updates(config_of(Images, IMAGES, envs=2))


@matrix(strength=1, env=["CartPole-v1", "Pendulum-v1"], kl=[True, False])
def test_weights_are_those_of_rllib_by_autograd_as_well(env: str, kl: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DefaultNetworks, "is_known", lambda module, parameters: False)
    assert_same_updates(config_of(env, use_kl_loss=kl, entropy_coeff=0.01, grad_clip=0.5))
