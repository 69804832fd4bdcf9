"""Fast DQN and SAC beside RLlib's own: the same env steps, samples, updates and results, to the bit."""

import logging
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
import tree
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.algorithms.sac.torch.sac_torch_learner import SACTorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.metrics import TD_ERROR_KEY
from ray.rllib.utils.torch_utils import convert_to_torch_tensor
from ray.tune.registry import register_env

from experiments.fast.env_runner import FastEnvRunner, deferrable
from experiments.fast.networks.q import QNetworks
from experiments.fast.off_policy import FastDQN, FastSAC
from experiments.fast.q_learner import FastDQNTorchLearner, FastSACTorchLearner
from experiments.fast.replay import FastPrioritizedEpisodeReplayBuffer
from experiments.fast.stepping import DirectSampler, why_stock
from experiments.fast.switch import make_fast

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = "num_env_steps_sampled_lifetime"
SMALL = {"fcnet_hiddens": [16, 16], "head_fcnet_hiddens": []}
SMALL_SAC = {"fcnet_hiddens": [16, 16], "fusionnet_hiddens": [16]}


def dqn(fast: bool, model: dict[str, Any] | None = None, envs: int = 1, **training: Any) -> Any:
    config = DQNConfig().environment("CartPole-v1")
    config.rl_module(model_config={**SMALL, **(model or {})})
    return settled(config, fast, envs, **training)


def sac(fast: bool, model: dict[str, Any] | None = None, envs: int = 1, env: Any = "Pendulum-v1", **training: Any) -> Any:
    config = SACConfig().environment(env)
    config.rl_module(model_config={**SMALL_SAC, **(model or {})})
    return settled(config, fast, envs, **{"train_batch_size_per_learner": 16, **training})


def settled(config: Any, fast: bool, envs: int, **training: Any) -> Any:
    config.training(**{"num_steps_sampled_before_learning_starts": 60, **training})
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=envs)
    config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=110, log_gradients=True)
    config.debugging(seed=3, log_level="ERROR")
    return make_fast(config) if fast else config


def same(one: Any, other: Any) -> None:
    """Structures of tensors and numbers, to the bit."""
    ones, others = tree.flatten_with_path(one), tree.flatten_with_path(other)
    assert [path for path, _ in ones] == [path for path, _ in others]
    for (path, a), (_, b) in zip(ones, others, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), path


# The learners.

LEARNERS: dict[str, Callable[[bool], Any]] = {
    "dqn": dqn,
    "dqn, default networks": lambda fast: dqn(fast, {"fcnet_hiddens": [256, 256], "head_fcnet_hiddens": [256]}),
    "dqn, relu": lambda fast: dqn(fast, {"fcnet_activation": "relu", "head_fcnet_hiddens": [8], "head_fcnet_activation": "tanh"}),
    "dqn, neither double nor dueling": lambda fast: dqn(fast, double_q=False, dueling=False),
    "dqn, not double": lambda fast: dqn(fast, double_q=False),
    "dqn, not dueling, squared errors": lambda fast: dqn(fast, dueling=False, td_error_loss_fn="mse"),
    "dqn, distribution of returns": lambda fast: dqn(fast, num_atoms=5),
    "dqn, silu": lambda fast: dqn(fast, {"fcnet_activation": "silu"}),
    "dqn, norm clipped": lambda fast: dqn(fast, grad_clip=0.5),
    "dqn, gradients clipped": lambda fast: dqn(fast, grad_clip=0.01, grad_clip_by="value"),
    "dqn, each norm clipped": lambda fast: dqn(fast, grad_clip=0.05, grad_clip_by="norm"),
    "dqn, falling learning rate": lambda fast: dqn(fast, lr=[[0, 1e-2], [300, 1e-4]], tau=0.3, target_network_update_freq=7),
    "sac": sac,
    "sac, norm clipped": lambda fast: sac(fast, grad_clip=0.5),
    "sac, one critic": lambda fast: sac(fast, twin_q=False),
    "sac, falling learning rates": lambda fast: sac(fast, actor_lr=[[0, 1e-2], [300, 1e-4]], tau=0.3),
    "sac, discrete": lambda fast: sac(fast, env="CartPole-v1", target_entropy=0.5),
}


def learners(make: Callable[[bool], Any]) -> tuple[Any, Any]:
    found = []
    for fast in (True, False):
        config = make(fast)
        torch.manual_seed(0)
        found.append(config.build_learner(env=gym.make(config.env)))
    assert isinstance(found[0], FastDQNTorchLearner | FastSACTorchLearner)
    assert type(found[1]) in (DQNTorchLearner, SACTorchLearner)
    return found[0], found[1]


def columns(learner: Any, rng: np.random.Generator, rows: int = 24) -> dict[str, Any]:
    module = learner.module[DEFAULT_MODULE_ID]
    observations, discrete = module.observation_space.shape, isinstance(module.action_space, gym.spaces.Discrete)
    actions = rng.integers(0, module.action_space.n, rows) if discrete else rng.uniform(-1, 1, (rows, 1))
    return {
        "obs": rng.normal(size=(rows, *observations)).astype(np.float32),
        "new_obs": rng.normal(size=(rows, *observations)).astype(np.float32),
        "actions": actions.astype(np.int32 if discrete else np.float32),
        "rewards": rng.normal(size=rows) * 20,
        "terminateds": rng.random(rows) < 0.1,
        "truncateds": rng.random(rows) < 0.1,
        "weights": rng.random(rows),
        "n_step": rng.integers(1, 4, rows),
    }


def update(learner: Any, batch: dict[str, Any], t: int, seed: int) -> Any:
    """RLlib's way."""
    torch.manual_seed(seed)
    rows = MultiAgentBatch({DEFAULT_MODULE_ID: SampleBatch(convert_to_torch_tensor(batch))}, env_steps=len(batch["rewards"]))
    return learner.update(batch=rows, timesteps={STEPS: t})


def lean(learner: Any, batch: dict[str, Any], t: int, seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    return learner.lean_update(batch, {STEPS: t})


def assert_same_learners(fast: Any, stock: Any) -> None:
    same(fast.module.get_state(), stock.module.get_state())
    same(fast._get_optimizer_state(), stock._get_optimizer_state())
    assert fast._weights_seq_no == stock._weights_seq_no
    assert dict(fast.last_update_ts_by_mid) == dict(stock.last_update_ts_by_mid)


def leaves(results: Any) -> dict[tuple[str, ...], Any]:
    return dict(tree.flatten_with_path(results))


@pytest.mark.parametrize("name", LEARNERS)
def test_lean_updates_are_those_of_rllib(name: str) -> None:
    fast, stock = learners(LEARNERS[name])
    assert fast.why_stock() is None
    rng = np.random.default_rng(1)
    results = []
    for number in range(24):
        batch, t = columns(stock, rng), 15 * number
        if number == 12:  # RLlib's own way in between
            results_of_lean = fast.lean_results()
            update(fast, batch, t, number)
            update(stock, batch, t, number)
            continue
        if number in (0, 13):
            fast.begin_lean()
        found = lean(fast, batch, t, number)
        expected = update(stock, batch, t, number)
        same(found.double().numpy(), np.array(expected[DEFAULT_MODULE_ID].pop(TD_ERROR_KEY).peek()[0]))
        if number < 12:
            results.append(expected)
    fast.lean_results()
    assert_same_learners(fast, stock)
    assert_same_results(results_of_lean, results)


def assert_same_results(found: Any, expected: list[Any]) -> None:
    """One result of many updates beside those of each of them."""
    ours, theirs = leaves(found), [leaves(result) for result in expected]
    assert set(ours) == set(theirs[-1])
    for path, stats in ours.items():
        each = np.ravel([result[path].peek() for result in theirs if path in result]).tolist()
        if type(stats).__name__ == "MeanStats":
            assert list(stats.values) == [value for value in each if not math.isnan(value)] or math.isnan(each[0]), path
        elif type(stats).__name__ in ("SumStats", "LifetimeSumStats"):
            assert stats.peek() == sum(each), path
        elif type(stats).__name__ == "MaxStats":
            assert stats.peek() == np.nanmax(each), path


def test_what_is_not_finite_is_dealt_with_as_in_rllib(caplog: pytest.LogCaptureFixture) -> None:
    fast, stock = learners(lambda fast: dqn(fast, td_error_loss_fn="mse", grad_clip=None))
    rng = np.random.default_rng(1)
    for name in ("ray", "ray.rllib"):
        caplog.set_level(logging.WARNING, logger=name)
    fast.begin_lean()
    for number in range(12):
        batch = columns(stock, rng)
        if number in (4, 7, 8):
            batch["rewards"][3] = math.inf if number == 4 else math.nan
        caplog.clear()
        lean(fast, batch, number, number)
        ours = [record.getMessage() for record in caplog.records]
        caplog.clear()
        update(stock, batch, number, number)
        assert ours == [record.getMessage() for record in caplog.records]
        assert bool(ours) == (number in (4, 7, 8))
    fast.lean_results()
    assert_same_learners(fast, stock)


def test_a_loss_of_ones_own_is_called_with_what_it_needs() -> None:
    class Regularised:
        def compute_loss_for_module(self, *, module_id: str, config: Any, batch: Any, fwd_out: Any) -> torch.Tensor:
            loss = super().compute_loss_for_module(module_id=module_id, config=config, batch=batch, fwd_out=fwd_out)  # type: ignore[misc]
            return loss + sum((p**2).sum() for p in self.module[module_id].encoder.parameters())  # type: ignore[attr-defined]

    def make(fast: bool) -> Any:
        base = FastDQNTorchLearner if fast else DQNTorchLearner
        return dqn(fast).learners(learner_class=type("Own", (Regularised, base), {}))

    fast, stock = (make(one).build_learner(env=gym.make("CartPole-v1")) for one in (True, False))
    stock.module.set_state(fast.module.get_state())
    rng = np.random.default_rng(1)
    fast.begin_lean()
    for number in range(6):
        batch = columns(stock, rng)
        lean(fast, batch, number, number)
        update(stock, batch, number, number)
    fast.lean_results()
    assert_same_learners(fast, stock)


@pytest.mark.parametrize("hook", ["postprocess_gradients", "compute_gradients", "after_gradient_based_update", "_uncompiled_update"])
def test_a_learner_with_hooks_of_its_own_is_left_to_rllib(hook: str) -> None:
    own = type("Own", (FastDQNTorchLearner,), {hook: lambda self, *args, **kwargs: getattr(super(own, self), hook)(*args, **kwargs)})
    learner = dqn(True).learners(learner_class=own).build_learner(env=gym.make("CartPole-v1"))
    assert learner.why_stock() == f"a {hook} of its own"


def test_every_value_reaches_a_logger_that_someone_has_wrapped() -> None:
    fast, _ = learners(dqn)
    seen: list[Any] = []
    log_value = fast.metrics.log_value

    def wrapped(key: Any, value: Any, **how: Any) -> None:
        log_value(key, value, **how)
        if key[-1] == "qf_loss":
            seen.append(value)

    fast.metrics.log_value = wrapped
    rng = np.random.default_rng(1)
    fast.begin_lean()
    for number in range(5):
        lean(fast, columns(fast, rng), number, number)
    results = fast.lean_results()
    assert results[DEFAULT_MODULE_ID]["qf_loss"].values == seen
    assert len(set(seen)) == 5


# Env steps.


def runner_of(runner_class: Any, config: Any) -> Any:
    config = config.copy(copy_frozen=False)
    config.env_runners(env_runner_cls=runner_class)
    torch.manual_seed(0)
    return runner_class(config=config, worker_index=0)


def scramble(runner: Any, number: int) -> None:
    """Other weights, as after an update."""
    torch.manual_seed(100 + number)
    with torch.no_grad():
        for weights in runner.module.parameters():
            weights.normal_()
    runner._weights_seq_no = number + 1
    torch.manual_seed(200 + number)


def by_number(ids: list[str], seen: dict[str, int]) -> list[int]:
    return [seen.setdefault(id_, len(seen)) for id_ in ids]


@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("make", [dqn, sac])
def test_env_steps_are_those_of_rllibs_runner(make: Any, size: int, envs: int) -> None:
    config = make(True, envs=envs)
    fast, stock = runner_of(FastEnvRunner, config), runner_of(SingleAgentEnvRunner, config)
    assert why_stock(fast) is None
    ours: dict[str, int] = {}
    theirs: dict[str, int] = {}
    number = 0
    for stretch_length in (40, 3, 1, 260 // size // envs):
        stretch = DirectSampler(fast)
        for _ in range(stretch_length):
            number += 1
            scramble(stock, number)
            expected = stock.sample(num_timesteps=size * envs)
            state = torch.get_rng_state()
            scramble(fast, number)
            found = stretch.sample(size * envs)
            assert torch.equal(state, torch.get_rng_state())
            assert by_number([chunk.id_ for chunk in found], ours) == by_number([episode.id_ for episode in expected], theirs)
            for chunk, episode in zip(found, expected, strict=True):
                assert (chunk.t_started, len(chunk.rewards)) == (episode.t_started, len(episode))
                same(np.asarray(chunk.observations[0]), episode.get_observations())
                same(np.asarray(chunk.actions[0]), episode.get_actions())
                same(np.asarray(chunk.rewards), episode.get_rewards())
                assert chunk.ended == episode.is_terminated + 2 * episode.is_truncated
        (results,) = stretch.finish()
        assert_same_metrics(results, stock.get_metrics())
        # RLlib's own way goes on from there.
        number += 1
        scramble(stock, number)
        expected = stock.sample(num_timesteps=5)
        scramble(fast, number)
        found = fast.sample(num_timesteps=5)
        assert [len(episode) for episode in found] == [len(episode) for episode in expected]
        for our, their in zip(found, expected, strict=True):
            for name in ("observations", "actions", "rewards"):
                same(getattr(our, f"get_{name}")(), getattr(their, f"get_{name}")())
            same(dict(our.extra_model_outputs["weights_seq_no"].get_state()), dict(their.extra_model_outputs["weights_seq_no"].get_state()))
            our.validate()


def assert_same_metrics(ours: Any, theirs: Any) -> None:
    ours, theirs = leaves(ours), leaves(theirs)
    assert set(ours) >= {path for path in theirs if "connector" not in str(path)}
    for path in ("episode_return_mean", "episode_len_mean", "episode_return_max", "num_env_steps_sampled", "num_episodes"):
        if (path,) in theirs:  # some come with the first episode that ends
            assert ours[(path,)].peek() == pytest.approx(theirs[(path,)].peek(), nan_ok=True), path


def test_episodes_that_end_are_told_of_with_all_that_rllib_has_in_them() -> None:
    seen: dict[str, list[Any]] = {}

    def told(name: str) -> Callable[..., None]:
        @deferrable
        def on_episode_end(*, episode: Any, prev_episode_chunks: Any, **kwargs: Any) -> None:
            chunks = [*prev_episode_chunks, episode]
            outputs = {k: np.concatenate([np.asarray(c.get_extra_model_outputs(k)) for c in chunks]) for k in episode.extra_model_outputs}
            whole = sum(chunk.get_return() for chunk in chunks)
            seen.setdefault(name, []).append((whole, episode.t, episode.is_terminated, episode.is_truncated, outputs))

        return on_episode_end

    for name, runner_class in (("fast", FastEnvRunner), ("stock", SingleAgentEnvRunner)):
        runner = runner_of(runner_class, sac(True, envs=2).callbacks(on_episode_end=told(name)))
        torch.manual_seed(7)
        if name == "stock":
            for _ in range(450):
                runner.sample(num_timesteps=2)
        else:
            for length in (100, 350):
                stretch = DirectSampler(runner)
                for _ in range(length):
                    stretch.sample(2)
                stretch.finish()
    assert len(seen["stock"]) == 4
    for our, their in zip(seen["fast"], seen["stock"], strict=True):
        assert our[:4] == (pytest.approx(their[0]), *their[1:4])
        assert set(our[4]) == set(their[4]) > {"action_logp"}
        for key, values in our[4].items():
            same(values, their[4][key])


def test_actions_are_those_of_the_module() -> None:
    for make in (dqn, lambda fast: dqn(fast, dueling=False)):
        module = runner_of(SingleAgentEnvRunner, make(True)).module
        networks = QNetworks.of(module)
        assert networks is not None
        for t in (0, 4000, 4000, 20000):
            batch = {"obs": torch.randn(50, 4)}
            torch.manual_seed(t)
            expected = module.forward_exploration(batch, t=t)["actions"]
            torch.manual_seed(t)
            with torch.no_grad():
                assert torch.equal(networks.explore(batch, t=t)["actions"], expected)


def test_runners_that_need_rllibs_way_are_left_to_it() -> None:
    def on_sample_end(**kwargs: Any) -> None:
        pass

    assert "FastEnvRunner" in str(why_stock(runner_of(SingleAgentEnvRunner, dqn(True))))
    assert why_stock(runner_of(FastEnvRunner, dqn(True).callbacks(on_sample_end=on_sample_end))) == "an on_sample_end callback"
    assert why_stock(runner_of(FastEnvRunner, dqn(True).callbacks(on_episode_step=on_sample_end))) == "an on_episode_step callback"


# The algorithms.

ALGORITHMS: dict[str, tuple[Callable[[bool], Any], int]] = {
    "dqn": (dqn, 5),
    "dqn, n steps, 5 environments": (
        lambda fast: dqn(fast, envs=5, n_step=3, training_intensity=8.0).env_runners(rollout_fragment_length=4),
        5,
    ),
    "dqn, uniform, several updates a step": (
        lambda fast: dqn(
            fast,
            replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 150},
            training_intensity=96.0,
            target_network_update_freq=20,
        ),
        4,
    ),
    "dqn, distribution of returns": (lambda fast: dqn(fast, num_atoms=3), 3),
    "sac": (sac, 4),
    "sac, 2 environments": (lambda fast: sac(fast, envs=2, n_step=2, grad_clip=1.0).env_runners(rollout_fragment_length=2), 4),
}


def flat(results: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if not isinstance(results, dict):
        return {path: results}
    return {key: value for name, part in results.items() for key, value in flat(part, (*path, str(name))).items()}


def on_the_clock(path: tuple[str, ...]) -> bool:
    words = ("time", "throughput", "connector", "perf", "date", "duration", "pid", "config", "sum_episodes")
    return any(word in part for word in words for part in path) or path[-1] == "sample"


def train(config: Any, iterations: int, algorithm: Any = None) -> tuple[Any, list[Any]]:
    algorithm = algorithm or config.build_algo()
    algorithm.local_replay_buffer.rng = np.random.default_rng(7)
    return algorithm, [algorithm.train() for _ in range(iterations)]


def weights(algorithm: Any) -> Any:
    return algorithm.learner_group._learner.module.get_state()


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize("name", ALGORITHMS)
def test_training_is_that_of_rllib_with_all_its_results(name: str) -> None:
    make, iterations = ALGORITHMS[name]
    (stock, expected), (fast, found) = train(make(False), iterations), train(make(True), iterations)
    try:
        assert fast.why_stock() is None
        assert why_stock(fast.env_runner) is None
        same(weights(fast), weights(stock))
        same(fast.env_runner.module.get_state(), stock.env_runner.module.get_state())
        assert fast.local_replay_buffer.rng.bit_generator.state == stock.local_replay_buffer.rng.bit_generator.state
        for ours, theirs in zip(map(flat, found), map(flat, expected), strict=True):
            assert {path for path in theirs if path[0] != "perf"} <= set(ours)
            for path, value in theirs.items():
                # RLlib's are means of means where several episodes end in a step.
                episodes = path[0] == "env_runners" and "_mean" in path[1] and fast.config.num_envs_per_env_runner > 1
                if not on_the_clock(path) and not episodes and isinstance(value, int | float):
                    assert ours[path] == pytest.approx(value, rel=1e-6, nan_ok=True), path
        assert found[-1]["learners"][DEFAULT_MODULE_ID]["num_module_steps_trained_lifetime"] > 500
    finally:
        stock.stop()
        fast.stop()


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
        return train(config, 2, algorithm)[0]

    algorithm, _ = train(make(True), 3)
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
    own = type("Own", (FastDQNTorchLearner,), {"compute_gradients": lambda self, loss, **kwargs: super(own, self).compute_gradients(loss)})
    with caplog.at_level(logging.INFO):
        algorithm, results = train(dqn(True).learners(learner_class=own), 2)
    try:
        assert algorithm.why_stock() == "a compute_gradients of its own"
        assert results[-1]["num_training_step_calls_per_iteration"] == 110
        said = [record.getMessage() for record in caplog.records]
        assert said.count("FastDQN: trains as RLlib does, since there is a compute_gradients of its own.") == 1
    finally:
        algorithm.stop()


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_a_runner_in_another_process_serves_as_well() -> None:
    config = dqn(True, envs=2).env_runners(num_env_runners=1)
    algorithm, results = train(config, 3)
    try:
        assert isinstance(algorithm, FastDQN)
        assert algorithm.why_stock() is None
        updates = algorithm.learner_group._learner._weights_seq_no
        assert results[-1]["learners"][DEFAULT_MODULE_ID]["num_module_steps_trained_lifetime"] == 32 * updates
        # An update for each fragment of 2 env steps, or 3 if an environment was reset in it.
        assert (results[-1][STEPS] - 60) / 3 < updates < results[-1][STEPS] / 2
        (number,) = algorithm.env_runner_group.foreach_env_runner(lambda runner: runner._weights_seq_no, local_env_runner=False)
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


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_timers_are_what_rllib_would_have_logged() -> None:
    algorithm = dqn(True).build_algo()
    try:
        one, other = ("timers", "one"), ("timers", "other")
        for number in (1, 40, 7):
            algorithm.log_seconds("one", 3.0 * number * number, number)
            for _ in range(number):
                algorithm.metrics.log_value(other, 3.0 * number)
            assert algorithm.metrics.peek(one) == pytest.approx(algorithm.metrics.peek(other))
    finally:
        algorithm.stop()


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_configurations_lead_to_the_fast_parts() -> None:
    for config, algorithm_class in ((dqn(True), FastDQN), (sac(True), FastSAC)):
        algorithm = config.build_algo()
        try:
            assert type(algorithm) is algorithm_class
            assert isinstance(algorithm.local_replay_buffer, FastPrioritizedEpisodeReplayBuffer)
            assert algorithm.local_replay_buffer.capacity == config.replay_buffer_config["capacity"]
            assert isinstance(algorithm.env_runner, FastEnvRunner)
            assert isinstance(algorithm.learner_group._learner, FastDQNTorchLearner | FastSACTorchLearner)
        finally:
            algorithm.stop()


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_rllibs_own_dqn_takes_the_fast_buffer() -> None:
    path = "experiments.fast.replay.FastPrioritizedEpisodeReplayBuffer"
    settings = {"type": path, "capacity": 400, "alpha": 0.6, "beta": 0.4}
    (stock, _), (mixed, _) = train(dqn(False), 3), train(dqn(False, replay_buffer_config=settings), 3)
    try:
        assert isinstance(mixed.local_replay_buffer, FastPrioritizedEpisodeReplayBuffer)
        same(weights(mixed), weights(stock))
    finally:
        stock.stop()
        mixed.stop()


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_it_learns() -> None:
    config = dqn(True, {"fcnet_hiddens": [64, 64]}, lr=1e-3, num_steps_sampled_before_learning_starts=500).debugging(seed=1)
    algorithm, results = train(config, 90)
    try:
        # A random policy balances for about 20 steps.
        assert max(result["env_runners"]["episode_return_mean"] for result in results[-20:]) > 80
    finally:
        algorithm.stop()
