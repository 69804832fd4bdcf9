"""Modules with masks of actions: what is ruled out has no probability and no value, and the rest is as without it."""

import functools
import math
from typing import Any

import gymnasium as gym
import masked_envs  # noqa: F401  # registers the environment
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.dqn.default_dqn_rl_module import QF_NEXT_PREDS, QF_PREDS, QF_TARGET_NEXT_PREDS
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from ray.rllib.core.rl_module.apis import TARGET_NETWORK_ACTION_DIST_INPUTS, TargetNetworkAPI
from ray.rllib.core.rl_module.rl_module import RLModule

from experiments.envs.masked import Masked as MaskedEnvironment
from experiments.fast.env_runner import FastEnvRunner
from experiments.fast.masks import Masked, ruled_out
from experiments.fast.networks.inference import chooses_by_number, inference_function
from experiments.fast.networks.ppo import DefaultNetworks, plain_policy
from experiments.fast.networks.q import QNetworks
from experiments.fast.preprocessing.rewards import scale_rewards
from experiments.fast.q_learner import LeanUpdates
from experiments.fast.stepping import DirectSampler
from experiments.rllib.masks import put_masks_into_modules
from tests.support.fast_off_policy import dqn
from tests.support.fast_pairs import assert_same_off_policy, assert_same_on_policy
from tests.support.fast_ppo import config_of
from tests.support.fast_vtrace import CONFIGS, assert_same_updates, vtrace_config
from tests.support.preprocessed import NORMALIZE, seen, with_preprocessing

pytestmark = pytest.mark.filterwarnings("ignore")

SIZE = 3
POLICIES = [PPOConfig, IMPALAConfig, APPOConfig]
DISTRIBUTIONAL = {"num_atoms": 5, "v_min": -2.0, "v_max": 2.0}
NETWORKS: dict[str, dict[str, Any]] = {"separate": {}, "shared": {"vf_share_layers": True, "fcnet_activation": "relu"}}
UPDATE = {"num_epochs": 2, "minibatch_size": 16, "shuffle_batch_per_epoch": True}


@functools.cache
def module_of(config_class: Any, actions: int, atoms: bool = False, seed: int = 0) -> Any:
    """A module for masks in front of three numbers, with larger weights than it begins with."""
    config = config_class().rl_module(model_config={"fcnet_hiddens": [8]})
    if atoms:
        config.training(**DISTRIBUTIONAL)
    assert put_masks_into_modules(config, (SIZE,))
    low = np.array([0.0] * actions + [-1.0] * SIZE, np.float32)
    space = gym.spaces.Box(low, np.ones(actions + SIZE, np.float32))
    torch.manual_seed(seed)
    module = config.get_rl_module_spec(spaces={DEFAULT_MODULE_ID: (space, gym.spaces.Discrete(actions))}).build()
    if isinstance(module, TargetNetworkAPI):
        module.make_target_networks()
    with torch.no_grad():
        for weights in module.parameters():
            weights.mul_(3)
    return module


@st.composite
def masks(draw: Any) -> torch.Tensor:
    """[rows, actions], each of which allows something."""
    rows, actions = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    drawn = draw(arrays(np.bool_, (rows, actions)))
    drawn[np.arange(rows), draw(arrays(np.int64, rows, elements=st.integers(0, actions - 1)))] = True
    return torch.from_numpy(drawn)


def observed(allowed: torch.Tensor, seed: int) -> torch.Tensor:
    """Observations with these masks in front of random numbers."""
    return torch.cat([allowed.float(), torch.randn(len(allowed), SIZE, generator=torch.manual_seed(seed))], dim=1)


FEW = settings(max_examples=40, deadline=None, derandomize=True, database=None)


@FEW
@given(masks())
def test_what_is_ruled_out_is_what_a_mask_does_not_allow_and_nothing_where_it_allows_nothing(
    allowed: torch.Tensor,
) -> None:
    assert torch.equal(ruled_out(observed(allowed, 0), allowed.shape[1]), ~allowed)
    assert not ruled_out(observed(torch.zeros_like(allowed), 0), allowed.shape[1]).any()


@pytest.mark.parametrize("config_class", POLICIES)
@FEW
@given(masks(), st.integers(0, 99))
def test_policies_are_distributions_over_what_is_allowed(config_class: Any, allowed: torch.Tensor, seed: int) -> None:
    actions, observations = allowed.shape[1], observed(allowed, seed)
    ours, others = (module_of(config_class, actions, seed=number) for number in (0, 1))
    batch = {Columns.OBS: observations}
    inputs = [getattr(ours, f"_forward_{how}")(batch)[Columns.ACTION_DIST_INPUTS] for how in ("inference", "train")]
    if isinstance(ours, TargetNetworkAPI):
        inputs.append(ours.forward_target(batch)[TARGET_NETWORK_ACTION_DIST_INPUTS])
    before = TorchCategorical.from_logits(others._forward_exploration(batch)[Columns.ACTION_DIST_INPUTS])
    for logits in inputs:
        found = TorchCategorical.from_logits(logits)
        assert (found._dist.probs[~allowed] == 0).all()
        assert allowed.gather(1, found.sample(sample_shape=(20,)).T).all()
        assert allowed.gather(1, found.to_deterministic().sample().unsqueeze(1)).all()
        assert all(torch.isfinite(values).all() for values in (logits, found.entropy(), before.kl(found)))
        for row, those in enumerate(allowed):
            alone, alone_before = (
                torch.distributions.Categorical(logits=of[row, those]) for of in (logits, before._dist.logits)
            )
            torch.testing.assert_close(found.entropy()[row], alone.entropy())
            torch.testing.assert_close(
                before.kl(found)[row], torch.distributions.kl_divergence(alone_before, alone), rtol=1e-4, atol=1e-5
            )


@pytest.mark.parametrize("atoms", [False, True], ids=["expected returns", "a distribution of returns"])
@FEW
@given(masks(), st.integers(0, 99))
def test_the_values_of_dqn_are_those_of_what_is_allowed(atoms: bool, allowed: torch.Tensor, seed: int) -> None:
    module, observations = module_of(DQNConfig, allowed.shape[1], atoms), observed(allowed, seed)
    batch = {Columns.OBS: observations, Columns.NEXT_OBS: observations.flip(0)}
    for _ in range(10):  # all actions are random at first
        assert allowed.gather(1, module._forward_exploration(batch, t=0)[Columns.ACTIONS].unsqueeze(1)).all()
    assert allowed.gather(1, module._forward_inference(batch)[Columns.ACTIONS].unsqueeze(1)).all()
    found = module._forward_train(batch)
    for name, those in ((QF_PREDS, allowed), (QF_NEXT_PREDS, allowed.flip(0)), (QF_TARGET_NEXT_PREDS, allowed.flip(0))):
        assert torch.equal(found[name] == -math.inf, ~those)
        assert torch.isfinite(found[name][those]).all()


@pytest.mark.parametrize("config_class", [*POLICIES, DQNConfig])
def test_networks_see_what_is_behind_the_mask_alone(config_class: Any) -> None:
    module = module_of(config_class, 4)
    first = torch.tensor([[True, True, False, True]])
    one, other = observed(first, 0), observed(~first | torch.tensor([[True, False, False, False]]), 0)
    column = QF_PREDS if config_class is DQNConfig else Columns.ACTION_DIST_INPUTS
    forward = module.compute_q_values if config_class is DQNConfig else module._forward_train
    found, its = (forward({Columns.OBS: observations})[column][0] for observations in (one, other))
    assert found[0] == its[0]  # which both allow
    if config_class is not DQNConfig:
        assert torch.equal(*(module.compute_values({Columns.OBS: observations}) for observations in (one, other)))


def test_what_is_ruled_out_gets_no_gradient() -> None:
    module, allowed = module_of(PPOConfig, 4, seed=5), torch.tensor([[True, False, True, True]] * 6)
    found = TorchCategorical.from_logits(
        module._forward_train({Columns.OBS: observed(allowed, 3)})[Columns.ACTION_DIST_INPUTS]
    )
    bias = module.pi.net.mlp[-1].bias
    (gradient,) = torch.autograd.grad((found.entropy() + found.logp(torch.zeros(6))).sum(), bias)
    assert (gradient[1] == 0, bool((gradient[[0, 2, 3]] != 0).all())) == (True, True)


def test_pictures_behind_a_mask_are_seen_as_pictures() -> None:
    config = PPOConfig().rl_module(model_config={"conv_filters": [[4, 4, 2], [8, 3, 2]], "head_fcnet_hiddens": [8]})
    assert put_masks_into_modules(config, (12, 12, 1))
    space = gym.spaces.Box(0, 1, (2 + 144,), np.float32)
    module = config.get_rl_module_spec(spaces={DEFAULT_MODULE_ID: (space, gym.spaces.Discrete(2))}).build()
    assert any(isinstance(part, torch.nn.Conv2d) for part in module.modules())
    assert module._forward_inference({Columns.OBS: torch.rand(3, 146)})[Columns.ACTION_DIST_INPUTS].shape == (3, 2)


def test_modules_without_choices_are_left() -> None:
    config = SACConfig().rl_module(model_config={"fcnet_hiddens": [8]})
    assert not put_masks_into_modules(config, (SIZE,))


def test_a_module_is_restored_from_its_files(tmp_path: Any) -> None:
    module = module_of(DQNConfig, 4)
    module.save_to_path(tmp_path / "module")
    again = RLModule.from_checkpoint(tmp_path / "module")
    assert isinstance(again, Masked)
    batch = {Columns.OBS: observed(torch.tensor([[False, True, True, False]] * 9), 0)}
    assert torch.equal(*(one._forward_inference(batch)[Columns.ACTIONS] for one in (module, again)))


def together(config_class: Any, envs: int, **settings: Any) -> FastEnvRunner:
    """An env runner with environments that raise where an action is ruled out."""
    config = config_class().environment("masked/Together-v0", env_config=settings)
    config.rl_module(model_config={"fcnet_hiddens": [8]})
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=envs, gym_env_vectorize_mode="vector_entry_point")
    assert put_masks_into_modules(config, (SIZE,))
    return FastEnvRunner(config=config, worker_index=0)


@pytest.mark.parametrize("config_class", [*POLICIES, DQNConfig])
def test_in_100_000_env_steps_nothing_is_chosen_that_is_ruled_out(config_class: Any) -> None:
    runner = together(config_class, 200)
    assert runner.why_stock(explore=True, random_actions=False) is None
    # of which DQN draws all actions from what is allowed at first, and 5% in the end
    sampler = DirectSampler(runner) if config_class is DQNConfig else runner
    sampler.sample(num_timesteps=100_000)
    env = runner.env.unwrapped
    assert env.env_steps >= 100_000
    assert 0.3 < env.ruled_out / (5 * env.env_steps) < 0.5


@pytest.mark.parametrize("config_class", [PPOConfig, DQNConfig])
def test_of_outputs_that_are_not_finite_no_action_is_taken(config_class: Any) -> None:
    runner = together(config_class, 20, nan_at=3)
    sampler = DirectSampler(runner) if config_class is DQNConfig else runner
    with pytest.raises(RuntimeError, match="probab"):
        sampler.sample(num_timesteps=1000)
    assert runner.env.unwrapped.steps == 3


def masked(config: Any, preprocessing: dict[str, Any] | None = None) -> Any:
    """A configuration with an environment that raises where an action is ruled out."""
    config.environment(lambda context: MaskedEnvironment(_from_zero(gym.make("masked/Ruled-v0"))))
    if preprocessing is not None:
        with_preprocessing(config, preprocessing)
    assert put_masks_into_modules(config, (SIZE,))
    return config


def _from_zero(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    return gym.wrappers.TransformAction(env, lambda action: action + 3, gym.spaces.Discrete(5))


def as_built(learner: Any) -> None:
    pass


def begin(learner: Any) -> None:
    """Scale rewards, and begin with statistics of what is behind the mask."""
    scale_rewards(learner)
    learner.module[DEFAULT_MODULE_ID].preprocessing.merge([seen(SIZE)])


@pytest.mark.parametrize("preprocessing", [None, NORMALIZE], ids=["as it is", "normalised"])
@pytest.mark.parametrize("network", NETWORKS)
def test_ppo_trains_as_with_rllib(network: str, preprocessing: dict[str, Any] | None) -> None:
    config = masked(config_of(model=NETWORKS[network], grad_clip=0.5, entropy_coeff=0.01), preprocessing)
    runner, learner = assert_same_on_policy(
        config, sizes=(60, 31), prepare=begin if preprocessing else as_built, **UPDATE
    )
    assert runner.why_stock(True, False) is None
    assert not learner._logged_reasons
    assert plain_policy(runner.module) is not None
    assert chooses_by_number(runner.module)
    module = learner.module[DEFAULT_MODULE_ID]
    assert DefaultNetworks.is_known(module, list(module.parameters()))


@pytest.mark.parametrize("kind", CONFIGS)
def test_impala_and_appo_train_as_with_rllib(kind: str) -> None:
    config = masked(vtrace_config(kind, grad_clip=0.5, entropy_coeff=0.01))
    runner = FastEnvRunner(config=config, worker_index=0)
    assert_same_updates(config, [runner.sample(num_timesteps=size) for size in (60, 31)], num_epochs=2)


@pytest.mark.parametrize(
    "training",
    [{}, {"dueling": False, "double_q": False}, {"n_step": 3, "grad_clip": 1.0}, DISTRIBUTIONAL],
    ids=["default", "plain", "n steps", "distribution of returns"],
)
def test_dqn_trains_as_with_rllib(training: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    if training is not DISTRIBUTIONAL:  # each update has its gradient written out
        monkeypatch.delattr(LeanUpdates, "_step_with_autograd")
    assert_same_off_policy(masked(dqn(False, envs=3, **training)), steps=30)


def test_dqns_networks_are_known() -> None:
    config = masked(dqn(True), NORMALIZE)
    runner = config.env_runner_cls(config=config, worker_index=0)
    learner = config.build_learner(env=runner.env)
    scale_rewards(learner)
    learner._begin_adams()
    assert isinstance(learner._networks, QNetworks)
    assert QNetworks.of(runner.module) is not None
    assert inference_function(runner.module).__name__ == "exploit"
