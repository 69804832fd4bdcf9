"""Fast DQN and SAC: checkpoints, runners in other processes, failures, timers, and what is left to RLlib."""

import logging
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from ray.tune.registry import register_env

from experiments.fast.off_policy import FastDQN, FastOffPolicy
from experiments.fast.q_learner import FastDQNTorchLearner
from tests.support.fast_off_policy import STEPS, dqn, sac, same, train, weights

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize("make", [dqn, sac])
def test_a_checkpoint_goes_from_rllib_to_fast_and_back(make: Any, tmp_path: Path) -> None:
    """With the replay buffer beside it, and every random stream seeded anew, as for any resuming."""

    def go_on(config: Any, folder: Path, buffer: Any, buffer_class: Any = None) -> Any:
        algorithm = config.build_algo()
        algorithm.restore_from_path(str(folder))
        if buffer_class is not None:
            algorithm.local_replay_buffer.set_state(buffer.get_state())
        else:
            algorithm.local_replay_buffer = pickle.loads(pickle.dumps(buffer))
        torch.manual_seed(5)
        algorithm.env_runner._seed, algorithm.env_runner._needs_initial_reset = 11, True
        return train(config, 1, algorithm)[0]

    algorithm, _ = train(make(True), 2)
    algorithm.save_to_path(tmp_path / "fast")
    buffer = algorithm.local_replay_buffer
    algorithm.stop()
    same_class = go_on(make(True), tmp_path / "fast", buffer)
    stock = go_on(make(False), tmp_path / "fast", buffer, "other")
    try:
        same(weights(same_class), weights(stock))
        stock.save_to_path(tmp_path / "stock")
        back = go_on(make(True), tmp_path / "stock", stock.local_replay_buffer, "other")
        again = go_on(make(False), tmp_path / "stock", stock.local_replay_buffer)
        same(weights(back), weights(again))
        back.stop()
        again.stop()
    finally:
        same_class.stop()
        stock.stop()


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_what_needs_rllibs_way_is_trained_as_rllib_does(caplog: pytest.LogCaptureFixture) -> None:
    own = type(
        "Own",
        (FastDQNTorchLearner,),
        {"compute_gradients": lambda self, loss, **kwargs: super(own, self).compute_gradients(loss)},
    )
    with caplog.at_level(logging.INFO):
        config = dqn(True).learners(learner_class=own).reporting(min_sample_timesteps_per_iteration=30)
        algorithm, results = train(config, 2)
    try:
        assert algorithm.why_stock() == "a compute_gradients of its own"
        assert results[-1]["num_training_step_calls_per_iteration"] == 30
        said = [record.getMessage() for record in caplog.records]
        assert said.count("FastDQN: trains as RLlib does, since there is a compute_gradients of its own.") == 1
    finally:
        algorithm.stop()


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_a_runner_in_another_process_serves_as_well() -> None:
    config = dqn(True, envs=2).env_runners(num_env_runners=1)
    algorithm, results = train(config, 2)
    try:
        assert isinstance(algorithm, FastDQN)
        assert algorithm.why_stock() is None
        updates = algorithm.learner_group._learner._weights_seq_no
        assert results[-1]["learners"][DEFAULT_MODULE_ID]["num_module_steps_trained_lifetime"] == 32 * updates
        # An update for each fragment of 2 env steps, or 3 if an environment was reset in it.
        assert (results[-1][STEPS] - 60) / 3 < updates < results[-1][STEPS] / 2
        (number,) = algorithm.env_runner_group.foreach_env_runner(
            lambda runner: runner._weights_seq_no, local_env_runner=False
        )
        assert updates - 5 < number <= updates  # the last ones may still be on their way
    finally:
        algorithm.stop()


class Failing(gym.Env[Any, Any]):
    """CartPole; the first that is made fails at a step."""

    def __init__(self, made: list[int], at: int) -> None:
        made.append(at)
        self._inside, self._left = gym.make("CartPole-v1"), at if len(made) == 1 else -1
        self.observation_space, self.action_space = self._inside.observation_space, self._inside.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return self._inside.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        self._left -= 1
        if not self._left:
            raise RuntimeError("the simulator crashed")
        return self._inside.step(action)


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize("restart", [False, True])
def test_an_environment_that_fails_ends_training_or_is_made_anew_as_in_rllib(restart: bool) -> None:
    made: list[int] = []
    register_env("failing", lambda context: Failing(made, at=150))
    config = dqn(True).environment("failing")
    config.fault_tolerance(restart_failed_sub_environments=restart, restart_failed_env_runners=False)
    algorithm = config.build_algo()
    try:
        if restart:
            assert [algorithm.train()[STEPS] for _ in range(3)] == [110, 220, 330]
        else:
            algorithm.train()
            with pytest.raises(RuntimeError) as caught:
                algorithm.train()
            assert "the simulator crashed" in str(caught.value.__cause__)
            assert algorithm.env_runner._needs_initial_reset
    finally:
        algorithm.stop()


def test_timers_are_what_rllib_would_have_logged() -> None:
    told: list[tuple[str, float]] = []
    algorithm: Any = SimpleNamespace(metrics=MetricsLogger(root=True), on_seconds=lambda *timed: told.append(timed))
    one, other = ("timers", "one"), ("timers", "other")
    for number in (1, 40, 7):
        FastOffPolicy.log_seconds(algorithm, "one", 3.0 * number * number, number)
        for _ in range(number):
            algorithm.metrics.log_value(other, 3.0 * number)
        assert algorithm.metrics.peek(one) == pytest.approx(algorithm.metrics.peek(other))
    assert told == [("one", 3.0), ("one", 4800.0), ("one", 147.0)]


@pytest.mark.nightly
@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_it_learns() -> None:
    config = dqn(True, {"fcnet_hiddens": [64, 64]}, lr=1e-3, num_steps_sampled_before_learning_starts=500).debugging(
        seed=1
    )
    algorithm, results = train(config, 90)
    try:
        # A random policy balances for about 20 steps.
        assert max(result["env_runners"]["episode_return_mean"] for result in results[-20:]) > 80
    finally:
        algorithm.stop()
