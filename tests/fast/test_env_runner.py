"""The fast env runner beside RLlib's own: the same episodes, to the bit, whatever is sampled."""

import logging
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import ray
import torch
import tree
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from experiments.fast.env_runner import FastEnvRunner, deferrable
from tests.support.fast_sampling import (
    ACTIONS,
    DISCRETE,
    ODD,
    Spaces,
    assert_same,
    assert_same_samples,
    both,
    config_of,
    runner_of,
    sample,
)
from tests.support.matrix import matrix

pytestmark = pytest.mark.filterwarnings("ignore")


@matrix(strength=1, envs=[3, 16, 1], mode=["sync", "vector_entry_point"])
def test_episodes_are_those_of_rllib_over_fragments_of_odd_sizes(envs: int, mode: str) -> None:
    fast = assert_same_samples(config_of(envs=envs, gym_env_vectorize_mode=mode), ODD)
    assert fast.why_stock(explore=True, random_actions=False) is None


@pytest.mark.parametrize("env", ["Acrobot-v1", "Pendulum-v1", "MountainCarContinuous-v0"])
def test_episodes_are_those_of_rllib_on_other_environments(env: str) -> None:
    assert_same_samples(config_of(env=env, envs=3), (450, 8, 700))


@matrix(strength=1, name=list(ACTIONS), normalize=[True, False])
def test_episodes_are_those_of_rllib_for_every_kind_of_action(name: str, normalize: bool) -> None:
    config = config_of(env=lambda context: Spaces(ACTIONS[name]), normalize_actions=normalize, clip_actions=True)
    assert_same_samples(config, ODD)


@pytest.mark.parametrize("horizon", [0, 1, 4])
def test_chunks_look_back_as_far_as_those_of_rllib(horizon: int) -> None:
    assert_same_samples(
        config_of(env=lambda context: Spaces(DISCRETE), episode_lookback_horizon=horizon), (20, 2, 4, 4, 1, 30)
    )


def test_actions_without_exploration_are_those_of_rllib() -> None:
    assert_same_samples(config_of(), ODD, explore=False)
    assert_same_samples(config_of(env="Pendulum-v1"), ODD, explore=False)


@pytest.mark.parametrize(
    ("algorithm", "env"), [(DQNConfig, "CartPole-v1"), (SACConfig, "Pendulum-v1"), (IMPALAConfig, "CartPole-v1")]
)
def test_modules_of_other_algorithms_act_as_in_rllib(algorithm: type[AlgorithmConfig], env: str) -> None:
    fast = assert_same_samples(config_of(algorithm, env=env, envs=2), (1, 1, 1, 30, 2, 500))
    assert fast.why_stock(explore=True, random_actions=False) is None


def test_environments_in_processes_of_their_own_are_the_same() -> None:
    assert_same_samples(config_of(envs=2, gym_env_vectorize_mode="async"), (50, 3, 200))


def test_fragments_of_rllib_and_fast_ones_can_take_turns() -> None:
    stock, fast = both(config_of(env=lambda context: Spaces(DISCRETE)))
    hows: list[dict[str, Any]] = [
        {"num_timesteps": 30},
        {"num_episodes": 3},
        {"num_timesteps": 11},
        {"num_timesteps": 30, "force_reset": True},
    ]
    for how in hows:
        torch.manual_seed(8)
        expected = stock.sample(**how)
        torch.manual_seed(8)
        assert_same(fast.sample(**how), expected)


def test_weights_and_their_number_are_those_that_were_set() -> None:
    stock, fast = both(config_of())
    for number in (3, 4):
        torch.manual_seed(number)
        state = {
            "rl_module": {name: torch.randn_like(value) for name, value in stock.module.state_dict().items()},
            "weights_seq_no": number,
        }
        for runner in (stock, fast):
            runner.set_state(state)
        expected, found = sample(stock, [40]), sample(fast, [40])
        assert_same(found[0][0], expected[0][0])
        assert set(found[0][0][0].get_extra_model_outputs("weights_seq_no")) == {number}


def test_a_state_goes_from_rllib_to_fast_and_back() -> None:
    stock, fast = both(config_of())
    torch.manual_seed(5)
    with torch.no_grad():
        for weights in stock.module.parameters():
            weights.normal_()
    fast.set_state(stock.get_state())
    back = runner_of(SingleAgentEnvRunner, config_of())
    back.set_state(fast.get_state())
    assert all(
        torch.equal(one, other) for one, other in zip(stock.module.parameters(), back.module.parameters(), strict=True)
    )


def test_episodes_are_told_of_once_they_ended(caplog: pytest.LogCaptureFixture) -> None:
    seen: dict[str, list[tuple[float, int, int]]] = {"stock": [], "fast": []}

    def callback(name: str) -> Callable[..., None]:
        @deferrable
        def on_episode_end(*, episode: Any, prev_episode_chunks: Any, env_index: int, **kwargs: Any) -> None:
            whole = episode.get_return() + sum(chunk.get_return() for chunk in prev_episode_chunks)
            seen[name].append((whole, episode.t, env_index))

        return on_episode_end

    config = config_of(env=lambda context: Spaces(DISCRETE))
    for name, runner_class in (("stock", SingleAgentEnvRunner), ("fast", FastEnvRunner)):
        config.callbacks(on_episode_end=callback(name))
        runner = runner_of(runner_class, config)
        sample(runner, ODD)
        if name == "fast":
            assert runner.why_stock(explore=True, random_actions=False) is None
    assert seen["stock"]
    assert seen["fast"] == seen["stock"]


@pytest.mark.parametrize("name", ["on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end"])
def test_a_callback_that_has_to_come_at_once_is_left_to_rllib(name: str, caplog: pytest.LogCaptureFixture) -> None:
    calls: dict[str, int] = {}

    def count(**kwargs: Any) -> None:
        calls[kwargs["env_runner"].__class__.__name__] = calls.get(kwargs["env_runner"].__class__.__name__, 0) + 1

    config = config_of(env=lambda context: Spaces(DISCRETE))
    config.callbacks(**{name: count})
    with caplog.at_level(logging.INFO):
        fast = assert_same_samples(config, ODD)
    assert fast.why_stock(explore=True, random_actions=False) == f"an {name} callback"
    assert calls["FastEnvRunner"] == calls["SingleAgentEnvRunner"] > 0
    assert [r.getMessage() for r in caplog.records].count(
        f"FastEnvRunner: sampled as RLlib does, since there is an {name} callback."
    ) == 1


def test_a_connector_of_ones_own_is_left_to_rllib() -> None:
    fast = assert_same_samples(config_of(env_to_module_connector=lambda env, spaces, device: MeanStdFilter()), ODD)
    assert "env-to-module" in fast.why_stock(explore=True, random_actions=False)


def test_an_environment_that_fails_is_made_anew_as_in_rllib() -> None:
    made: list[int] = []

    def make(context: Any) -> gym.Env[Any, Any]:
        made.append(len(made))
        return Spaces(DISCRETE, fail_at=20 if len(made) == 1 else None)

    config = config_of(env=make, envs=2)
    config.fault_tolerance(restart_failed_sub_environments=True)
    stock = runner_of(SingleAgentEnvRunner, config)
    expected, _ = sample(stock, (10, 60, 9))
    made.clear()
    fast = runner_of(FastEnvRunner, config)
    found, _ = sample(fast, (10, 60, 9))
    for ours, theirs in zip(found, expected, strict=True):
        assert_same(ours, theirs)


def test_the_error_of_an_environment_is_that_of_rllib() -> None:
    config = config_of(env=lambda context: Spaces(DISCRETE, fail_at=20), envs=2)
    errors = []
    for runner in both(config):
        with pytest.raises(RuntimeError) as caught:
            sample(runner, (100,))
        errors.append(
            (type(caught.value), str(caught.value), type(caught.value.__cause__), str(caught.value.__cause__))
        )
    assert errors[0] == errors[1]
    assert "the simulator crashed" in str(errors[0])


class Spoilt(Spaces):
    """Its observations are NaN from the first step on."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, *rest = super().step(action)
        return observation * np.nan, *rest


def test_the_error_of_probabilities_that_are_nan_is_that_of_rllib() -> None:
    errors = []
    for runner in both(config_of(env=lambda context: Spoilt(DISCRETE))):
        with pytest.raises(RuntimeError) as caught:
            runner.sample(num_timesteps=40)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("window", [2, 1000])
def test_metrics_of_episodes_are_those_of_rllib(window: int) -> None:
    config = config_of(env=lambda context: Spaces(DISCRETE), num_env_runners=0)
    config.reporting(metrics_num_episodes_for_smoothing=window)
    found = []
    for runner in both(config):
        sample(runner, (3, 100, 30))
        results = runner.get_metrics()
        names = [name for name in results if "episode" in name and not ("duration" in name or "sum" in name)]
        found.append({name: tree.map_structure(lambda stats: stats.peek(), results[name]) for name in names})
        assert not runner._done_episodes_for_metrics
        under_way = {episode.id_ for episode in runner._ongoing_episodes}
        assert {*runner._ongoing_episodes_for_metrics} <= under_way
    assert found[0] == found[1]
    assert found[0]["episode_len_max"] > found[0]["episode_len_min"]


def test_whoever_looks_at_a_fragment_sees_all_of_it_before_the_module_does() -> None:
    class Looking(FastEnvRunner):
        def on_steps(self, observations: np.ndarray, rewards: np.ndarray) -> None:
            assert np.isfinite(observations).all(), "non-finite"

    runner = runner_of(Looking, config_of(env=lambda context: Spoilt(DISCRETE)))
    with pytest.raises(AssertionError, match="non-finite"):
        runner.sample(num_timesteps=40)


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_a_runner_in_a_process_of_its_own_samples_the_same() -> None:
    found = []
    for runner_class in (SingleAgentEnvRunner, FastEnvRunner):
        config = config_of(env="Pendulum-v1", envs=2, num_env_runners=1, env_runner_cls=runner_class)
        runner = ray.remote(runner_class).remote(config=config, worker_index=1, num_workers=1)
        found.append([ray.get(runner.sample.remote(num_timesteps=size)) for size in (30, 501)])
        if runner_class is FastEnvRunner:
            assert ray.get(runner.why_stock.remote(True, False)) is None
        ray.kill(runner)
    for theirs, ours in zip(*found, strict=True):
        assert_same(ours, theirs)
