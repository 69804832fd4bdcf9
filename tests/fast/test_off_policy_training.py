"""Training of fast DQN and SAC is that of RLlib: weights, samples and all results."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
from ray.rllib.core import DEFAULT_MODULE_ID

from experiments.fast import off_policy
from experiments.fast.env_runner import FastEnvRunner
from experiments.fast.off_policy import BUFFERS, FastDQN, FastSAC
from experiments.fast.q_learner import FastDQNTorchLearner
from experiments.fast.replay import N_STEP_BUFFER_PATH, FastPrioritizedEpisodeReplayBuffer
from experiments.fast.sac_learner import FastSACTorchLearner
from experiments.fast.stepping import why_stock
from tests.support.fast_off_policy import dqn, sac, same, train, weights

pytestmark = pytest.mark.filterwarnings("ignore")


SEVERAL_UPDATES = {
    "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 150},
    "training_intensity": 96.0,
    "target_network_update_freq": 20,
}
ALGORITHMS: dict[str, Callable[[bool], Any]] = {
    "dqn": dqn,
    "dqn, n steps, 5 environments": lambda fast: dqn(fast, envs=5, n_step=3, training_intensity=8.0).env_runners(
        rollout_fragment_length=4
    ),
    "dqn, uniform, several updates a step": lambda fast: dqn(fast, **SEVERAL_UPDATES),
    "dqn, whole returns of n steps": lambda fast: dqn(
        fast, n_step=5, replay_buffer_config={"type": N_STEP_BUFFER_PATH, "capacity": 150}
    ),
    "dqn, distribution of returns": lambda fast: dqn(fast, num_atoms=3),
    "sac": sac,
    "sac, 2 environments": lambda fast: sac(fast, envs=2, n_step=2, grad_clip=1.0).env_runners(
        rollout_fragment_length=2
    ),
}
"""Of these, one iteration has 110 env steps, of which the first 60 are not learned from."""
NIGHTLY = pytest.mark.nightly
TRAINED = [
    ("dqn", 3),
    pytest.param("dqn, n steps, 5 environments", 4, marks=pytest.mark.slow),
    pytest.param("dqn, uniform, several updates a step", 2, marks=pytest.mark.slow),
    ("dqn, whole returns of n steps", 2),
    pytest.param("sac", 2, marks=pytest.mark.slow),
    ("sac, 2 environments", 2),
    pytest.param("dqn", 5, marks=NIGHTLY),
    pytest.param("dqn, n steps, 5 environments", 5, marks=NIGHTLY),
    pytest.param("dqn, uniform, several updates a step", 4, marks=NIGHTLY),
    pytest.param("dqn, distribution of returns", 3, marks=NIGHTLY),
    pytest.param("sac", 4, marks=NIGHTLY),
    pytest.param("sac, 2 environments", 4, marks=NIGHTLY),
]


@functools.cache
def trained_by_rllib(name: str, iterations: int) -> tuple[list[Any], Any, Any, Any]:
    """Results, weights of the learner and of the runner, and the state of the buffer's generator."""
    algorithm, results = train(ALGORITHMS[name](False), iterations)
    state = algorithm.local_replay_buffer.rng.bit_generator.state
    found = results, weights(algorithm), algorithm.env_runner.module.get_state(), state
    algorithm.stop()
    return found


def flat(results: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if not isinstance(results, dict):
        return {path: results}
    return {key: value for name, part in results.items() for key, value in flat(part, (*path, str(name))).items()}


def on_the_clock(path: tuple[str, ...]) -> bool:
    words = ("time", "throughput", "connector", "perf", "date", "duration", "pid", "config", "sum_episodes")
    return any(word in part for word in words for part in path) or path[-1] == "sample"


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize(("name", "iterations"), TRAINED)
def test_training_is_that_of_rllib_with_all_its_results(
    name: str, iterations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if iterations > 2:  # the others are without a step of RLlib's own once they learn
        monkeypatch.setattr(off_policy, "STOCK_EVERY", 100)
    expected, learner_weights, runner_weights, generator_state = trained_by_rllib(name, iterations)
    fast, found = train(ALGORITHMS[name](True), iterations)
    try:
        assert type(fast) is (FastSAC if name.startswith("sac") else FastDQN)
        assert isinstance(fast.local_replay_buffer, tuple(BUFFERS.values()))
        assert fast.local_replay_buffer.capacity == fast.config.replay_buffer_config["capacity"]
        assert isinstance(fast.env_runner, FastEnvRunner)
        assert isinstance(fast.learner_group._learner, FastDQNTorchLearner | FastSACTorchLearner)
        assert fast.why_stock() is None
        assert why_stock(fast.env_runner) is None
        same(weights(fast), learner_weights)
        same(fast.env_runner.module.get_state(), runner_weights)
        assert fast.local_replay_buffer.rng.bit_generator.state == generator_state
        for ours, theirs in zip(map(flat, found), map(flat, expected), strict=True):
            assert {path for path in theirs if path[0] != "perf"} <= set(ours)
            for path, value in theirs.items():
                # RLlib's are means of means where several episodes end in a step.
                episodes = path[0] == "env_runners" and "_mean" in path[1] and fast.config.num_envs_per_env_runner > 1
                if not on_the_clock(path) and not episodes and isinstance(value, int | float):
                    assert ours[path] == pytest.approx(value, rel=1e-6, nan_ok=True), path
        assert found[-1]["learners"][DEFAULT_MODULE_ID]["num_module_steps_trained_lifetime"] > 500
    finally:
        fast.stop()


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_rllibs_own_dqn_takes_the_fast_buffer() -> None:
    path = "experiments.fast.replay.FastPrioritizedEpisodeReplayBuffer"
    settings = {"type": path, "capacity": 400, "alpha": 0.6, "beta": 0.4}
    _, learner_weights, _, _ = trained_by_rllib("dqn", 3)
    mixed, _ = train(dqn(False, replay_buffer_config=settings), 3)
    try:
        assert isinstance(mixed.local_replay_buffer, FastPrioritizedEpisodeReplayBuffer)
        same(weights(mixed), learner_weights)
    finally:
        mixed.stop()
