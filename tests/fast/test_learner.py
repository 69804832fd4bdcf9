"""The fast PPO learner beside RLlib's own: the same weights, to the bit, and the same results, whatever is learned from."""

import copy
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.learner import AddInfosFromEpisodesToTrainBatch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical, TorchDiagGaussian
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.utils.metrics.stats import StatsBase
from ray.rllib.utils.postprocessing.value_predictions import compute_value_targets

from experiments.fast.backprop import DefaultNetworks, PolicyGradient
from experiments.fast.env_runner import FastEnvRunner
from experiments.fast.learner import FastPPOTorchLearner, value_targets
from experiments.rllib.learner import average_over_minibatches
from experiments.rllib.results import MINIBATCH_MEANS

pytestmark = pytest.mark.filterwarnings("ignore")

TIMED = ("timer", "throughput")
UPDATE = {"num_epochs": 3, "minibatch_size": 64, "shuffle_batch_per_epoch": True}


class MultiDiscrete(gym.Env[Any, Any]):
    """Episodes of random length, with actions of two parts."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float64)
    action_space = gym.spaces.MultiDiscrete([3, 2])

    def __init__(self, context: Any = None) -> None:
        self._left = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = int(self.np_random.integers(1, 9))
        return self.np_random.uniform(-1, 1, 3), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        over, by_time = self._left <= 0, bool(self.np_random.integers(2))
        return self.np_random.uniform(-1, 1, 3), float(self.np_random.normal()), over and not by_time, over and by_time, {}


class Images(MultiDiscrete):
    """The same, with small pictures to look at and one action to choose."""

    observation_space = gym.spaces.Box(0, 1, (42, 42, 3), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(self, **how: Any) -> tuple[Any, dict[str, Any]]:
        return self._draw(super().reset(**how)[0]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, *rest = super().step(action)
        return self._draw(observation), *rest

    def _draw(self, observation: np.ndarray) -> np.ndarray:
        return np.broadcast_to(np.abs(observation), (42, 42, 3)).astype(np.float32)


def config_of(env: Any = "CartPole-v1", model: dict[str, Any] | None = None, envs: int = 4, **training: Any) -> PPOConfig:
    config = PPOConfig().environment(env)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=envs, gym_env_vectorize_mode="sync")
    config.training(lr=1e-2, **training)
    config.rl_module(model_config={"fcnet_hiddens": [16, 16], "vf_share_layers": False, **(model or {})})
    config.debugging(seed=3, log_level="ERROR")
    config.reporting(log_gradients=True)
    return config


def learner_of(learner_class: type[Learner], config: PPOConfig, env: Any = None) -> Any:
    torch.manual_seed(0)
    np.random.seed(0)
    config = config.copy(copy_frozen=False)
    config.learners(learner_class=learner_class)
    made = gym.make(config.env) if isinstance(config.env, str) else config.env(None)
    return config.build_learner(env=made)


def both(config: PPOConfig) -> tuple[Any, Any]:
    return learner_of(PPOTorchLearner, config), learner_of(FastPPOTorchLearner, config)


def batches_of(config: PPOConfig, sizes: Sequence[int] = (150, 61, 200), **how: Any) -> list[list[SingleAgentEpisode]]:
    """Episodes of some fragments; they are chunks, that go on in the next and look back on the last, but for those that end."""
    torch.manual_seed(5)
    np.random.seed(5)
    runner = SingleAgentEnvRunner(config=config.copy(copy_frozen=False), worker_index=0)
    return [runner.sample(num_timesteps=size, **how) for size in sizes]


def update(learner: Any, episodes: list[SingleAgentEpisode], number: int = 0, **how: Any) -> Any:
    """An update from copies of the episodes, with generators in a state of their own; its results."""
    np.random.seed(100 + number)
    torch.manual_seed(100 + number)
    timesteps = {"num_env_steps_sampled_lifetime": 150 * number, "num_module_steps_trained_lifetime": 0}
    return learner.update(episodes=copy.deepcopy(episodes), timesteps=timesteps, **(how or UPDATE))


def values(results: Any, prefix: str = "") -> dict[str, Any]:
    """A learner's results by path."""
    if isinstance(results, StatsBase):
        return {prefix: results.peek()}
    return {path: value for key, part in results.items() for path, value in values(part, f"{prefix}/{key}").items()}


def assert_same_results(ours: Any, theirs: Any) -> None:
    found, expected = values(ours), values(theirs)
    assert list(found) == list(expected)
    for path, value in expected.items():
        if not any(word in path for word in TIMED):
            assert float(found[path]) == pytest.approx(float(value), rel=1e-5, abs=1e-6, nan_ok=True), path
    for path in found:
        if "timer" in path:
            assert found[path] >= 0


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and np.array_equal(one.detach().numpy(), other.detach().numpy(), equal_nan=True)


def assert_same_learners(our: Any, their: Any) -> None:
    ours, theirs = our.module[DEFAULT_MODULE_ID].state_dict(), their.module[DEFAULT_MODULE_ID].state_dict()
    assert list(ours) == list(theirs)
    for name, weights in theirs.items():
        assert same(ours[name], weights), name
    for (ours_name, one), (theirs_name, other) in zip(our._named_optimizers.items(), their._named_optimizers.items(), strict=True):
        assert ours_name == theirs_name
        found, expected = one.state_dict(), other.state_dict()
        assert found["param_groups"] == expected["param_groups"]
        assert found["state"].keys() == expected["state"].keys()
        for number, state in expected["state"].items():
            assert found["state"][number].keys() == state.keys()
            for name, value in state.items():
                assert same(found["state"][number][name], value), name
    assert our.curr_kl_coeffs_per_module == their.curr_kl_coeffs_per_module
    assert our._weights_seq_no == their._weights_seq_no
    assert our.module[DEFAULT_MODULE_ID].training == their.module[DEFAULT_MODULE_ID].training
    for parameter, its in zip(our.module[DEFAULT_MODULE_ID].parameters(), their.module[DEFAULT_MODULE_ID].parameters(), strict=True):
        assert (parameter.grad is None) == (its.grad is None)
        assert parameter.grad is None or same(parameter.grad, its.grad)


def assert_same_updates(config: PPOConfig, batches: Sequence[list[SingleAgentEpisode]] | None = None, **how: Any) -> tuple[Any, Any]:
    """Update both learners from the same episodes, one batch after the other, and compare all there is after each."""
    stock, fast = both(config)
    for number, episodes in enumerate(batches or batches_of(config)):
        assert fast.why_stock(episodes) is None
        theirs = update(stock, episodes, number, **how)
        state = np.random.get_state()[1:3], torch.get_rng_state()
        ours = update(fast, episodes, number, **how)
        assert_same_results(ours, theirs)
        assert_same_learners(fast, stock)
        now = np.random.get_state()[1:3]
        assert np.array_equal(state[0][0], now[0]) and state[0][1] == now[1]
        assert torch.equal(state[1], torch.get_rng_state())
    assert not fast._said
    return stock, fast


@pytest.mark.parametrize(("size", "epochs"), [(64, 3), (50, 1), (7, 2), (1, 1), (1000, 3), (None, 1), (None, 3), (154, 2), (77, 2)])
@pytest.mark.parametrize("shuffle", [True, False])
def test_weights_are_those_of_rllib_whatever_the_minibatch(size: int | None, epochs: int, shuffle: bool) -> None:
    assert_same_updates(config_of(), num_epochs=epochs, minibatch_size=size, shuffle_batch_per_epoch=shuffle)


def test_weights_are_those_of_rllib_where_minibatches_end_with_the_pass() -> None:
    config = config_of()
    (episodes,) = batches_of(config, (150,))
    rows = sum(map(len, episodes)) + len(episodes)
    for size in (rows, rows // 2, 2 * rows):
        assert_same_updates(config, [episodes] * 2, num_epochs=2, minibatch_size=size, shuffle_batch_per_epoch=True)


def test_weights_are_those_of_rllib_for_a_given_number_of_minibatches() -> None:
    assert_same_updates(config_of(), **UPDATE, num_total_minibatches=5)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", MultiDiscrete])
@pytest.mark.parametrize("kl", [True, False])
def test_weights_are_those_of_rllib_for_every_kind_of_action(env: Any, shared: bool, kl: bool) -> None:
    config = config_of(env, {"vf_share_layers": shared}, use_kl_loss=kl, entropy_coeff=0.01, vf_loss_coeff=0.7, vf_clip_param=0.5)
    assert_same_updates(config)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_weights_are_those_of_rllib_for_other_networks(env: str) -> None:
    for model in (
        {"free_log_std": True, "vf_share_layers": False} if env == "Pendulum-v1" else {"fcnet_activation": "relu"},
        {"fcnet_activation": "silu", "head_fcnet_hiddens": [8], "head_fcnet_activation": "relu"},
        {"fcnet_hiddens": [8], "fcnet_activation": "linear"},
    ):
        assert_same_updates(config_of(env, model))


def test_weights_are_those_of_rllib_from_images() -> None:
    model = {"conv_filters": [[4, 4, 2], [8, 4, 2]], "fcnet_hiddens": None, "head_fcnet_hiddens": [16]}
    assert_same_updates(config_of(Images, {name: value for name, value in model.items() if value is not None}, envs=2))


@pytest.mark.parametrize("by", ["value", "norm", "global_norm"])
@pytest.mark.parametrize("clip", [0.001, 0.3, 1e4])
@pytest.mark.parametrize("logged", [True, False])
def test_gradients_are_clipped_and_logged_as_by_rllib(by: str, clip: float, logged: bool) -> None:
    config = config_of(grad_clip=clip, grad_clip_by=by)
    config.reporting(log_gradients=logged)
    assert_same_updates(config)


@pytest.mark.parametrize("logged", [True, False])
def test_gradients_that_are_not_clipped_are_as_in_rllib(logged: bool) -> None:
    config = config_of(grad_clip=None)
    config.reporting(log_gradients=logged)
    assert_same_updates(config)


def test_schedules_are_followed() -> None:
    _, fast = assert_same_updates(config_of(entropy_coeff=[[0, 0.1], [400, 0.0]]))
    assert 0 < fast.entropy_coeff_schedulers_per_module[DEFAULT_MODULE_ID].get_current_value() < 0.1
    config = config_of()
    config.training(lr=[[0, 1e-2], [300, 1e-4]])
    _, fast = assert_same_updates(config)
    assert fast.get_optimizer().param_groups[0]["lr"] == pytest.approx(1e-4)


def test_the_weight_of_the_divergence_follows_what_is_logged() -> None:
    config = config_of(use_kl_loss=True, kl_coeff=0.2, kl_target=1e-4)
    _, fast = assert_same_updates(config)
    assert fast.curr_kl_coeffs_per_module[DEFAULT_MODULE_ID] == pytest.approx(0.2 * 1.5**3)


@pytest.mark.parametrize("ended", ["terminated", "truncated", "ongoing"])
def test_what_comes_after_a_chunk_is_valued_as_by_rllib(ended: str) -> None:
    config = config_of()
    episodes = [episode for batch in batches_of(config) for episode in batch if len(episode) > 2]
    assert {episode.is_terminated for episode in episodes} == {True, False}
    assert any(episode.rewards.lookback for episode in episodes)
    for episode in episodes:
        episode.is_terminated, episode.is_truncated = ended == "terminated", ended == "truncated"
    assert_same_updates(config, [episodes])


def test_episodes_may_be_lists() -> None:
    config = config_of()
    config.env_runners(episodes_to_numpy=False)
    batches = batches_of(config)
    assert not batches[0][0].is_numpy
    assert_same_updates(config, batches)


def test_episodes_of_the_fast_env_runner_are_learned_from() -> None:
    config = config_of("Pendulum-v1", envs=3)
    torch.manual_seed(5)
    runner = FastEnvRunner(config=config, worker_index=0)
    assert_same_updates(config, [runner.sample(num_timesteps=size) for size in (300, 41, 650)])


def test_episodes_stay_as_they_are() -> None:
    config = config_of()
    (episodes,) = batches_of(config, (150,))
    before = [(e.id_, e.t, len(e.observations), len(e.rewards), e.is_truncated) for e in episodes]
    fast = learner_of(FastPPOTorchLearner, config)
    fast.update(training_data=TrainingData(episodes=episodes), timesteps={}, **UPDATE)
    assert [(e.id_, e.t, len(e.observations), len(e.rewards), e.is_truncated) for e in episodes] == before


def test_value_targets_are_those_of_rllib() -> None:
    rng = np.random.default_rng(0)
    values, rewards = rng.normal(size=(2, 500)).astype(np.float32)
    terminateds, truncateds = rng.random((2, 500)) < 0.1
    for gamma, lambda_ in ((0.99, 0.95), (1.0, 1.0), (0.9, 0.0), (0.0, 0.5)):
        expected = compute_value_targets(values, rewards, terminateds, truncateds, gamma, lambda_)
        found = value_targets(values, rewards, terminateds, truncateds, gamma, lambda_)
        assert found.dtype == expected.dtype == np.float32
        assert np.array_equal(found, expected)


def test_a_minibatch_without_a_row_that_counts_changes_nothing_but_moments() -> None:
    # Of one row each: every chunk's last one is only there for its value.
    assert_same_updates(config_of(), batches_of(config_of(), (12, 9)), num_epochs=2, minibatch_size=1, shuffle_batch_per_epoch=True)


def spoil_gradients(learner: Any) -> None:
    """Make every fifth gradient of two parameters infinite."""

    def spoiling() -> Callable[[torch.Tensor], torch.Tensor]:
        calls = iter(range(10**6))
        return lambda gradient: gradient * (math.inf if next(calls) % 5 == 3 else 1.0)

    for parameter in list(learner.module[DEFAULT_MODULE_ID].parameters())[:2]:
        parameter.register_hook(spoiling())


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize(("clip", "by"), [(0.5, "global_norm"), (0.5, "norm"), (0.5, "value"), (None, "value")])
@pytest.mark.parametrize("logged", [True, False])
def test_gradients_that_are_not_finite_are_treated_as_by_rllib(flag: bool, clip: float | None, by: str, logged: bool) -> None:
    config = config_of(grad_clip=clip, grad_clip_by=by)
    config.reporting(log_gradients=logged)
    config.torch_skip_nan_gradients = flag
    stock, fast = both(config)
    before = [p.detach().clone() for p in stock.module[DEFAULT_MODULE_ID].parameters()]
    for learner in (stock, fast):
        spoil_gradients(learner)
    for number, episodes in enumerate(batches_of(config)):
        assert_same_results(update(fast, episodes, number), update(stock, episodes, number))
        for mine, its in zip(fast.module[DEFAULT_MODULE_ID].parameters(), stock.module[DEFAULT_MODULE_ID].parameters(), strict=True):
            assert same(mine, its)
        for mine, its in zip(fast.get_optimizer().state.values(), stock.get_optimizer().state.values(), strict=True):
            assert all(same(mine[name], its[name]) for name in its)
    if not flag:
        assert not all(torch.equal(one, other) for one, other in zip(before, stock.module[DEFAULT_MODULE_ID].parameters(), strict=True))
    assert not fast._said


@pytest.mark.parametrize("clip", [0.5, None])
def test_a_minibatch_that_overflows_is_treated_as_by_rllib(clip: float | None, caplog: pytest.LogCaptureFixture) -> None:
    config = config_of(grad_clip=clip)
    config.torch_skip_nan_gradients = False
    batches = batches_of(config)
    for batch in batches:
        for episode in batch[::3]:
            episode.extra_model_outputs[Columns.ACTION_LOGP].data[-1] = -200.0  # a ratio that is no number any more
    logger = logging.getLogger("ray.rllib.core.learner.torch.torch_learner")  # a Ray that was started before may have quietened it
    logger.addHandler(caplog.handler)
    try:
        with caplog.at_level(logging.WARNING, logger=logger.name):
            stock, fast = assert_same_updates(config, batches, **{**UPDATE, "minibatch_size": 16})
    finally:
        logger.removeHandler(caplog.handler)
    assert DefaultNetworks.is_known(fast.module[DEFAULT_MODULE_ID], fast._adam.parameters)
    skipped = [record for record in caplog.records if "Skipping this update" in record.getMessage()]
    assert bool(skipped) == (clip is None)  # and else set to zero, or what torch takes for it
    assert clip or all(torch.isfinite(weights).all() for weights in stock.module[DEFAULT_MODULE_ID].parameters())


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("activation", ["relu", "tanh", "linear"])
def test_default_networks_are_gone_back_through_by_hand(env: str, shared: bool, activation: str) -> None:
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
def test_weights_are_those_of_rllib_by_autograd_as_well(env: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DefaultNetworks, "is_known", lambda module, parameters: False)
    for kl in (True, False):
        assert_same_updates(config_of(env, use_kl_loss=kl, entropy_coeff=0.01, grad_clip=0.5))


def dist_inputs_of(kind: Any, rows: int, generator: torch.Generator) -> torch.Tensor:
    spread = torch.tensor([1.0, 5.0, 300.0] if kind is TorchCategorical else [0.3, 1.0, 2.0])
    return torch.randn((rows, 6), generator=generator) * spread[torch.randint(3, (rows, 1), generator=generator)]


@pytest.mark.parametrize("kind", [TorchCategorical, TorchDiagGaussian])
@pytest.mark.parametrize("entropy_coeff", [0.0, 0.02, torch.tensor(0.3)])
@pytest.mark.parametrize("kl", [True, False])
@pytest.mark.parametrize("moved", [0.0, 0.1, 3.0])
def test_gradients_by_hand_are_those_of_autograd(kind: Any, entropy_coeff: Any, kl: bool, moved: float) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = 2000
    before = dist_inputs_of(kind, rows, generator)
    now = before + moved * torch.randn(before.shape, generator=generator)
    actions = kind.from_logits(before).sample() if kind is TorchCategorical else torch.randn((rows, 3), generator=generator)
    advantages = torch.randn(rows, generator=generator) * (torch.rand(rows, generator=generator) < 0.9)
    logp = kind.from_logits(before).logp(actions)
    at_bound = torch.rand(rows, generator=generator) < 0.2  # where the clipped and the other are equal, or next to it
    bounds = torch.where(torch.rand(rows, generator=generator) < 0.5, 1.2, 0.8).log()
    logp = torch.where(at_bound, kind.from_logits(now).logp(actions) - bounds, logp)
    block = {Columns.ACTIONS: actions, Columns.ACTION_LOGP: logp, Columns.ACTION_DIST_INPUTS: before, "advantages": advantages}
    weights = torch.where(torch.rand(rows, generator=generator) < 0.9, 1 / rows, 0.0)
    by_hand, by_autograd = (PolicyGradient(kind, kind, 0.2, entropy_coeff) for _ in range(2))
    by_autograd._gradient, by_autograd._of_before = by_autograd._any, lambda dist_inputs: {"before": dist_inputs}
    found, expected = (p(now, p.columns(block, weights, weights * 0.2 if kl else None)) for p in (by_hand, by_autograd))
    different = ~(torch.eq(found, expected) | (found.isnan() & expected.isnan()))
    assert by_hand._gradient != by_autograd._gradient
    assert expected.isfinite().float().mean() > 0.5
    assert not different.any(), (found[different], expected[different])


def test_parameters_without_a_gradient_are_left_alone() -> None:
    config = config_of()
    stock, fast = both(config)
    batches = batches_of(config)
    for number, frozen in enumerate((False, True, False)):
        for learner in (stock, fast):
            for name, parameter in learner.module[DEFAULT_MODULE_ID].named_parameters():
                parameter.requires_grad_(not (frozen and name.startswith("encoder.actor_encoder")))
        assert_same_results(update(fast, batches[number], number), update(stock, batches[number], number))
        assert_same_learners(fast, stock)


def test_frozen_modules_are_left_alone() -> None:
    config = config_of(grad_clip=0.5)
    stock, fast = both(config)
    for learner in (stock, fast):
        learner.module[DEFAULT_MODULE_ID].requires_grad_(False)
    (episodes,) = batches_of(config, (100,))
    assert_same_results(update(fast, episodes), update(stock, episodes))
    assert_same_learners(fast, stock)


def test_a_state_goes_from_rllib_to_fast_and_back() -> None:
    config = config_of(use_kl_loss=True, grad_clip=0.5)
    batches = batches_of(config, (100,) * 6)
    only_stock, stock = learner_of(PPOTorchLearner, config), learner_of(PPOTorchLearner, config)
    fast, back = learner_of(FastPPOTorchLearner, config), learner_of(PPOTorchLearner, config)
    turns = [stock, stock, fast, fast, back, back]
    for number, (learner, episodes) in enumerate(zip(turns, batches, strict=True)):
        if number and learner is not turns[number - 1]:
            learner.set_state(copy.deepcopy(turns[number - 1].get_state()))
            for module_id, coeff in turns[number - 1].curr_kl_coeffs_per_module.items():  # RLlib does not keep it in the state
                learner.curr_kl_coeffs_per_module[module_id] = coeff
        update(learner, episodes, number)
        update(only_stock, episodes, number)
        assert_same_learners(learner, only_stock)


def test_updates_of_rllib_and_fast_ones_can_take_turns() -> None:
    config = config_of(grad_clip=0.5)
    stock, fast = both(config)
    for number, episodes in enumerate(batches_of(config, (100,) * 4)):
        theirs = update(stock, episodes, number)
        if number % 2:
            np.random.seed(100 + number)
            timesteps = {"num_env_steps_sampled_lifetime": 150 * number}
            ours = PPOTorchLearner.update(fast, episodes=copy.deepcopy(episodes), timesteps=timesteps, **UPDATE)
        else:
            ours = update(fast, episodes, number)
        assert_same_results(ours, theirs)
        assert_same_learners(fast, stock)


def test_an_optimizer_state_that_was_loaded_is_gone_on_with() -> None:
    config = config_of()
    batches = batches_of(config, (100,) * 3)
    stock, fast = both(config)
    for number in (0, 1):
        update(fast, batches[number], number)
        update(stock, batches[number], number)
    fast.set_state(copy.deepcopy(stock.get_state()))  # while vectors are laid out for what was there before
    update(fast, batches[2], 2)
    update(stock, batches[2], 2)
    assert_same_learners(fast, stock)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("kl", [True, False])
def test_means_over_minibatches_are_those_of_what_rllib_logs(env: str, kl: bool) -> None:
    config = config_of(env, use_kl_loss=kl, grad_clip=0.5, entropy_coeff=0.01)
    stock, fast = both(config)
    for learner in (stock, fast):
        average_over_minibatches(learner)
    hows = [UPDATE, {"num_epochs": 1}, {"num_epochs": 2}]  # of many minibatches, one, and two
    for number, (episodes, how) in enumerate(zip(batches_of(config), hows, strict=True)):
        theirs, ours = update(stock, episodes, number, **how), update(fast, episodes, number, **how)
        assert len([path for path in values(theirs) if MINIBATCH_MEANS in path]) >= 6
        assert_same_results(ours, theirs)
    assert not fast._said


def test_means_over_minibatches_are_kept_where_an_update_is_rllibs() -> None:
    config = config_of(use_critic=False)
    stock, fast = both(config)
    for learner in (stock, fast):
        average_over_minibatches(learner)
    for number, episodes in enumerate(batches_of(config)):
        assert_same_results(update(fast, episodes, number), update(stock, episodes, number))
    assert fast._said


def test_all_minibatches_but_the_last_are_shown_before_it_is_logged() -> None:
    seen: list[dict[str, torch.Tensor]] = []

    class Watching(FastPPOTorchLearner):
        def minibatch_values(self, module_id: str, values: dict[str, torch.Tensor]) -> None:
            assert module_id == DEFAULT_MODULE_ID
            seen.append(values)

    config = config_of()
    (episodes,) = batches_of(config, (100,))
    rows = sum(map(len, episodes)) + len(episodes)
    update(learner_of(Watching, config), episodes)
    (found,) = seen
    assert {len(column) for column in found.values()} == {math.ceil(3 * rows / 64) - 1}
    assert not any(column.requires_grad for column in found.values())


def own_loss(base: Any) -> Any:
    class Own(base):
        def compute_loss_for_module(self, **how: Any) -> Any:
            return super().compute_loss_for_module(**how) * 2

    return Own


def own_gradients(base: Any) -> Any:
    class Own(base):
        def postprocess_gradients_for_module(self, **how: Any) -> Any:
            return {ref: gradient * 0.5 for ref, gradient in super().postprocess_gradients_for_module(**how).items()}

    return Own


def own_optimizer(base: Any) -> Any:
    class Own(base):
        def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
            parameters = self.get_parameters(self._module[module_id])
            optimizer = torch.optim.SGD(parameters)
            self.register_optimizer(module_id=module_id, optimizer=optimizer, params=parameters, lr_or_lr_schedule=config.lr)

    return Own


def own_update(base: Any) -> Any:
    class Own(base):
        def _update(self, batch: Any) -> Any:
            return super()._update(batch)

    return Own


def own_batch(base: Any) -> Any:
    class Own(base):
        def _make_batch_if_necessary(self, training_data: Any) -> Any:
            batch = super()._make_batch_if_necessary(training_data)
            batch[DEFAULT_MODULE_ID][Postprocessing.ADVANTAGES] *= 2
            return batch

    return Own


OWN = {
    "compute_loss_for_module": own_loss,
    "postprocess_gradients_for_module": own_gradients,
    "configure_optimizers_for_module": own_optimizer,
    "_update": own_update,
    "_make_batch_if_necessary": own_batch,
}


@pytest.mark.parametrize("name", OWN)
def test_what_a_subclass_does_its_own_way_is_left_to_rllib(name: str, caplog: pytest.LogCaptureFixture) -> None:
    config = config_of()
    stock, fast = learner_of(OWN[name](PPOTorchLearner), config), learner_of(OWN[name](FastPPOTorchLearner), config)
    with caplog.at_level(logging.INFO):
        for number, episodes in enumerate(batches_of(config)):
            assert_same_results(update(fast, episodes, number), update(stock, episodes, number))
            assert_same_learners(fast, stock)
    said = f"Own: updated as RLlib does, since there is a {name} of its own."
    assert [record.getMessage() for record in caplog.records].count(said) == 1


def test_what_a_subclass_does_before_and_after_is_done() -> None:
    def own(base: Any) -> Any:
        class Own(base):
            def before_gradient_based_update(self, *, timesteps: Any) -> None:
                super().before_gradient_based_update(timesteps=timesteps)
                self.metrics.log_value("before", timesteps["num_env_steps_sampled_lifetime"], window=1)

            def after_gradient_based_update(self, *, timesteps: Any) -> None:
                super().after_gradient_based_update(timesteps=timesteps)
                self.metrics.log_value("after", self.metrics.peek((DEFAULT_MODULE_ID, "total_loss")), window=1)

        return Own

    config = config_of()
    stock, fast = learner_of(own(PPOTorchLearner), config), learner_of(own(FastPPOTorchLearner), config)
    for number, episodes in enumerate(batches_of(config)):
        ours = update(fast, episodes, number)
        assert {"/before", "/after"} <= set(values(ours))
        assert_same_results(ours, update(stock, episodes, number))
    assert not fast._said


def assert_left_to_rllib(config: PPOConfig, reason: str, change: Callable[[Any], None] = lambda learner: None) -> None:
    stock, fast = both(config)
    for learner in (stock, fast):
        change(learner)
    for number, episodes in enumerate(batches_of(config)):
        assert reason in fast.why_stock(episodes)
        assert_same_results(update(fast, episodes, number), update(stock, episodes, number))
        assert_same_learners(fast, stock)
    assert len(fast._said) == 1


def test_modules_with_a_memory_are_left_to_rllib() -> None:
    assert_left_to_rllib(config_of(model={"use_lstm": True, "max_seq_len": 5, "lstm_cell_size": 8}), "stateful")


def test_training_without_a_critic_is_left_to_rllib() -> None:
    assert_left_to_rllib(config_of(use_critic=False), "value function")


def test_a_learner_connector_of_ones_own_is_left_to_rllib() -> None:
    config = config_of(learner_connector=lambda observations, actions: AddInfosFromEpisodesToTrainBatch())
    assert_left_to_rllib(config, "pipeline")


def test_schedulers_of_torch_are_left_to_rllib() -> None:
    config = config_of()
    config.experimental(_torch_lr_scheduler_classes=[lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)])
    assert_left_to_rllib(config, "scheduler")


def test_a_second_module_is_left_to_rllib() -> None:
    def add(learner: Any) -> None:
        torch.manual_seed(1)
        learner.add_module(module_id="other", module_spec=RLModuleSpec.from_module(learner.module[DEFAULT_MODULE_ID]))

    assert_left_to_rllib(config_of(), "more than one module", add)


def test_an_optimizer_with_settings_of_its_own_is_left_to_rllib() -> None:
    def decay(learner: Any) -> None:
        learner.get_optimizer().param_groups[0]["weight_decay"] = 0.1

    assert_left_to_rllib(config_of(), "Adam", decay)


def test_what_cannot_be_tried_here_is_left_to_rllib() -> None:
    config = config_of()
    (episodes,) = batches_of(config, (50,))
    cases: list[tuple[str, Callable[[Any], None]]] = [
        ("more than one learner", lambda learner: setattr(learner.config, "num_learners", 2)),
        ("compiled", lambda learner: setattr(learner, "_torch_compile_forward_train", True)),
        ("scaler", lambda learner: setattr(learner, "_grad_scalers", {})),
        ("nested", lambda learner: setattr(learner.module[DEFAULT_MODULE_ID], "action_space", gym.spaces.Tuple([gym.spaces.Discrete(2)]))),
        ("choice", lambda learner: setattr(learner.config, "policies_to_train", [])),
        ("value function", lambda learner: learner.module._rl_modules.update({DEFAULT_MODULE_ID: Valueless(**SPACES)})),
    ]
    for reason, change in cases:
        fast = learner_of(FastPPOTorchLearner, config)
        assert fast.why_stock(episodes) is None
        change(fast)
        assert reason in fast.why_stock(episodes), reason


SPACES = {"observation_space": gym.spaces.Box(-1, 1, (4,)), "action_space": gym.spaces.Discrete(2)}


class Valueless(TorchRLModule):
    def setup(self) -> None:
        self.policy = torch.nn.Linear(4, 2)

    def _forward(self, batch: dict[str, Any], **how: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.policy(batch[Columns.OBS])}


class Noisy(Valueless, ValueFunctionAPI):
    """Draws random numbers in its forward pass, and looks at more than the observations."""

    def setup(self) -> None:
        super().setup()
        self.value, self.drop, self.unused = torch.nn.Linear(5, 1), torch.nn.Dropout(0.2), torch.nn.Linear(2, 2)

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        both = torch.cat([self.drop(batch[Columns.OBS]), batch[Columns.REWARDS].unsqueeze(-1)], dim=-1)
        return self.value(both).squeeze(-1)


def test_modules_of_ones_own_are_learned_by() -> None:
    config = config_of()
    config.rl_module(rl_module_spec=RLModuleSpec(module_class=Noisy))
    _, fast = assert_same_updates(config)
    assert fast.module[DEFAULT_MODULE_ID].unused.weight.grad is None


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("outputs", lambda episode: episode.extra_model_outputs.pop(Columns.ACTION_LOGP)),
        ("several agents", lambda episode: setattr(episode, "module_id", DEFAULT_MODULE_ID)),
        ("without a step", lambda episode: setattr(episode, "t", episode.t_started)),
        ("nested", lambda episode: setattr(episode.observations, "data", {"a": episode.observations.data})),
    ],
)
def test_episodes_of_another_kind_are_left_to_rllib(reason: str, change: Callable[[SingleAgentEpisode], Any]) -> None:
    config = config_of()
    (episodes,) = batches_of(config, (100,))
    fast = learner_of(FastPPOTorchLearner, config)
    for episode in (episodes[0], episodes[-1]):
        changed = copy.deepcopy(episodes)
        change(changed[episodes.index(episode)])
        assert reason in fast.why_stock(changed)


def test_batches_are_left_to_rllib() -> None:
    config = config_of()
    stock, fast = both(config)
    for number, episodes in enumerate(batches_of(config)):
        batch = stock._make_batch_if_necessary(TrainingData(episodes=copy.deepcopy(episodes)))
        for learner in (stock, fast):
            np.random.seed(number)
            learner.update(batch=copy.deepcopy(batch), timesteps={}, **UPDATE)
        assert_same_learners(fast, stock)
    assert fast._said == {"something else to learn from than episodes"}


def test_an_update_from_nothing_fails_as_in_rllib() -> None:
    errors = []
    for learner in both(config_of()):
        with pytest.raises(IndexError) as caught:
            learner.update(episodes=[], timesteps={}, **UPDATE)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_training_is_the_same_as_with_rllibs_runner_and_learner(env: str) -> None:
    trained = []
    for runner_class, learner_class in ((SingleAgentEnvRunner, PPOTorchLearner), (FastEnvRunner, FastPPOTorchLearner)):
        config = config_of(env, train_batch_size_per_learner=300, minibatch_size=64, num_epochs=3)
        config.learners(learner_class=learner_class)
        config.env_runners(env_runner_cls=runner_class)
        config.reporting(min_time_s_per_iteration=0)
        torch.manual_seed(0)
        np.random.seed(0)
        algorithm = config.build_algo()
        results = [algorithm.train() for _ in range(3)]
        trained.append((results, algorithm.get_state()["learner_group"]["learner"]["rl_module"][DEFAULT_MODULE_ID]))
        algorithm.stop()
    (expected, theirs), (found, ours) = trained
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
    for our, their in zip(found, expected, strict=True):
        mine, its = plain(our["learners"]), plain(their["learners"])
        assert list(mine) == list(its)
        for path in its:
            if not any(word in path for word in TIMED):
                assert mine[path] == pytest.approx(its[path], rel=1e-5, abs=1e-6, nan_ok=True), path
        # But for the length of episodes: RLlib's learner appends a step to chunks that a local runner still counts.
        for name in ("episode_return_mean", "episode_return_min", "num_episodes_lifetime", "num_env_steps_sampled_lifetime"):
            assert our["env_runners"].get(name) == pytest.approx(their["env_runners"].get(name), nan_ok=True), name


def plain(results: Any, prefix: str = "") -> dict[str, float]:
    if not isinstance(results, dict):
        return {prefix: results}
    return {path: value for key, part in results.items() for path, value in plain(part, f"{prefix}/{key}").items()}
