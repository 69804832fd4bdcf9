"""The sides of the comparison in `benchmarks.fast.speed`: each builds its learner once, then trains in turns,
in its own process.
"""

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any
from unittest.mock import patch

from benchmarks.peers import learner
from benchmarks.peers.learner import Turn
from benchmarks.support.harness import BenchmarkError
from experiments.limits import mkl

START_S = 300.0
ENVIRONMENT = "environment"
"""A side of sampling: what the environments take alone."""


def serve(case: str, side: str, settings: Mapping[str, Any], connection: Connection) -> None:
    """Answer `seconds` with the env steps per second of turns that took at least so long;
    the end of the connection is the end.

    Args:
        case: A function of this module.
        side: `stock`, `fast` or `sb3`.
        settings: Its keyword arguments.
        connection: To whoever measures.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # RLlib talks, for as long as this process lives
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    try:
        import torch

        torch.set_num_threads(1)
        turn = globals()[case](side, **settings)
        connection.send("ready")
        while True:
            try:
                at_least_s = connection.recv()
            except EOFError:
                break
            connection.send(learner.rate(turn, at_least_s))
    except Exception:  # noqa: BLE001  # whoever measures raises it
        connection.send(traceback.format_exc())


class Side:
    """A process that serves.

    Attributes:
        pid: Its id.
    """

    def __init__(
        self, name: str, case: str, side: str, settings: Mapping[str, Any], variables: Mapping[str, str] | None = None
    ) -> None:
        """Start it; the first answer comes when it is ready.

        Args:
            name: For messages.
            case: A function of this module.
            side: `stock`, `fast` or `sb3`.
            settings: Its keyword arguments.
            variables: What its process is started with, beside this one's.
        """
        context = multiprocessing.get_context("spawn")
        self._name = name
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(case, side, settings, theirs))
        # peers have torch as it is shipped: experiments/limits/mkl.py
        peers = {mkl.VARIABLE: mkl.SHIPPED} if side in ("sb3", "stock") else {}
        with patch.dict(os.environ, {**peers, **(variables or {})}):
            self._process.start()
        self.pid = self._process.pid
        theirs.close()

    def ask(self, seconds: float) -> None:
        """Begin a turn of at least so long."""
        self._connection.send(seconds)

    def answer(self) -> float:
        """The env steps per second of the turn; of none but its start, 0.

        Raises:
            BenchmarkError: It failed, or said nothing for minutes.
        """
        if not self._connection.poll(START_S):
            raise BenchmarkError(f"{self._name}: nothing for {START_S:.0f} s")
        answer = self._connection.recv()
        if isinstance(answer, str) and answer != "ready":
            raise BenchmarkError(f"{self._name}:\n{answer}")
        return 0.0 if answer == "ready" else float(answer)

    def end(self) -> None:
        """Let it end."""
        self._connection.close()
        self._process.join(30)
        self._process.kill()


def product(side: str, rows: int, terms: int, columns: int) -> Turn:
    """A product of matrices in single precision by `torch`, `numpy` or `onednn`; a turn is of so many operations."""
    import torch

    a, b = torch.rand(rows, terms), torch.rand(terms, columns)
    if side == "numpy":
        import numpy as np

        left, right, into = a.numpy(), b.numpy(), np.empty((rows, columns), np.float32)
        multiply: Callable[[], Any] = lambda: np.matmul(left, right, out=into)  # noqa: E731
    elif side == "onednn":
        weights = b.T.contiguous()
        multiply = lambda: torch.ops.mkldnn._linear_pointwise(a, weights, None, "none", [], "")  # noqa: E731
    else:
        result = torch.empty(rows, columns)
        multiply = lambda: torch.mm(a, b, out=result)  # noqa: E731
    flops = 2 * rows * terms * columns
    times = max(1, 10_000_000 // flops)

    def turn() -> int:
        for _ in range(times):
            multiply()
        return times * flops

    return learner.settled(turn)


PRODUCT = product.__name__


def flops_per_env_step(case: str, settings: Mapping[str, Any]) -> float:
    """Floating-point operations of the products of matrices in RLlib's own parts, an env step, as torch counts them.

    Args:
        case: A function of this module.
        settings: Its keyword arguments.
    """
    from torch.utils.flop_counter import FlopCounterMode

    turn = globals()[case]("stock", **settings)
    turn()
    turn()  # of algorithms with a replay buffer the first ones learn nothing
    with FlopCounterMode(display=False) as counter:
        steps = turn()
    return float(counter.get_total_flops() / steps)


def sampling(side: str, env: str, envs: int, width: int) -> Turn:
    """One local env runner with PPO's module, 4000 env steps a turn; of `environment` its environments alone."""
    if side == ENVIRONMENT:
        return _stepped(env, envs)
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    from experiments.fast.env_runner import FastEnvRunner

    runner_class = FastEnvRunner if side == "fast" else SingleAgentEnvRunner
    return _sampled(runner_class(config=_ppo(env, envs, width).copy(copy_frozen=False), worker_index=0))


def _stepped(env: str, envs: int) -> Turn:
    import gymnasium as gym

    together = gym.make_vec(env, num_envs=envs, vectorization_mode=_mode(env))
    together.reset(seed=0)
    together.action_space.seed(0)
    actions = [together.action_space.sample() for _ in range(4000 // envs)]

    def turn() -> int:
        for action in actions:
            together.step(action)
        return len(actions) * envs

    return learner.settled(turn)


def _sampled(runner: Any) -> Turn:
    def turn() -> int:
        steps = sum(len(episode) for episode in runner.sample(num_timesteps=4000))
        runner.get_metrics()
        return steps

    return learner.settled(turn)


def pooled(side: str, env: str, envs: int) -> Turn:
    """The fast runner on Gymnasium's environments, and on EnvPool's if the side is `fast`."""
    if side != "fast":
        return sampling("fast", env, envs, 64)
    from experiments.envs import envpool
    from experiments.fast.env_runner import FastEnvRunner

    config = _ppo(env, envs, 64).copy(copy_frozen=False)
    config.environment(f"{envpool.__name__}:{envpool.ID}", env_config={"gym_id": env})
    config.env_runners(gym_env_vectorize_mode="vector_entry_point")
    return _sampled(FastEnvRunner(config=config, worker_index=0))


def ppo(side: str, env: str, envs: int, width: int, minibatch: int, epochs: int) -> Turn:
    """PPO with a batch of 4000 env steps, everything in this process."""
    if side == "sb3":
        return learner.ppo(learner.SB3, env, envs, width, minibatch, epochs)
    config = _ppo(env, envs, width)
    config.training(train_batch_size_per_learner=4000, minibatch_size=minibatch, num_epochs=epochs)
    _start_ray(1)
    return _trained(config, side)


def preprocessed(side: str, words: list[str]) -> Turn:
    """A study's trial in this process, with normalisation if the side is `fast`."""
    from benchmarks.support.commanded import plan_of_command
    from experiments.rllib.building import build_algorithm_config

    how = "normalize" if side == "fast" else "none"
    alone = ("study.space={}", "hardware.num_env_runners=0", f"preprocessing={how}")
    config = build_algorithm_config(plan_of_command([*words, *alone]).configurations[0].trial(0))
    _start_ray(1)
    return _trained(config, side)


def _start_ray(num_cpus: int) -> None:
    """Of one's own: RLlib would join any cluster that it finds."""
    import ray

    ray.init(address="local", num_cpus=num_cpus, include_dashboard=False, log_to_driver=False)


def _ppo(env: str, envs: int, width: int) -> Any:
    from ray.rllib.algorithms.ppo import PPOConfig

    config = PPOConfig()
    config.environment(env, disable_env_checking=True)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=envs, gym_env_vectorize_mode=_mode(env))
    config.rl_module(
        model_config={"fcnet_hiddens": [width, width], "fcnet_activation": "tanh", "vf_share_layers": False}
    )
    config.training(lr=3e-4, grad_clip=0.5, use_kl_loss=False, vf_clip_param=float("inf"), lambda_=0.95)
    config.debugging(seed=0, log_level="ERROR")
    return config


def _mode(env: str) -> str:
    import gymnasium as gym

    return "vector_entry_point" if gym.spec(env).vector_entry_point is not None else "sync"


def _trained(config: Any, side: str) -> Turn:
    from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME

    from experiments.fast.switch import make_fast

    algorithm, seen = (make_fast(config) if side == "fast" else config).build_algo(), [0]

    def turn() -> int:
        result = algorithm.train()
        before, seen[0] = seen[0], int(result[ENV_RUNNER_RESULTS][NUM_ENV_STEPS_SAMPLED_LIFETIME])
        return seen[0] - before

    return learner.settled(turn)


def replay(side: str, algorithm: str, critics: str = "rllib", **training: Any) -> Turn:
    """DQN on CartPole or SAC on Pendulum, one environment and one update for each of its steps.

    SAC's critics are RLlib's or, as `sb3`, of Stable-Baselines3's shape.
    """
    if side == "sb3":
        return learner.replay(learner.SB3, algorithm)
    from ray.rllib.algorithms.dqn import DQNConfig
    from ray.rllib.algorithms.sac import SACConfig

    from experiments.rllib import sac

    config = {"dqn": DQNConfig, "sac": sac.SACConfig if critics == "sb3" else SACConfig}[algorithm]()
    config.environment({"dqn": "CartPole-v1", "sac": "Pendulum-v1"}[algorithm], disable_env_checking=True)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=1)
    if algorithm == "dqn":
        config.rl_module(model_config={"fcnet_hiddens": [64, 64], "fcnet_activation": "relu", "head_fcnet_hiddens": []})
    elif critics == "sb3":  # its networks and loss, and those of conf/algorithm/sac.yaml
        config.rl_module(model_config={"fcnet_hiddens": [256, 256], "fcnet_activation": "relu"})
        config.training(td_error_loss_fn="mse")
    config.training(
        train_batch_size_per_learner=learner.BATCH[algorithm],
        num_steps_sampled_before_learning_starts=learner.WARM_UP,
        **training,
    )
    config.debugging(seed=0, log_level="ERROR")
    # as many as in a peer's call; fewer where one takes 70 ms
    steps = 500 if algorithm == "dqn" else 200 if critics == "sb3" else 50
    config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=steps)
    _start_ray(1)
    return _trained(config, side)


def waiting(side: str, algorithm: str, costs_ms: list[float]) -> Turn:
    """IMPALA or APPO with a runner process for each cost of an env step; the side is `fast`, or `asks`,
    which does not wait for samples.
    """
    from ray.tune.registry import register_env

    from experiments.envs.synthetic import Synthetic

    config = _asynchronous(algorithm, 4, 25, len(costs_ms))
    register_env("uneven", lambda context: Synthetic(step_cost_ms=costs_ms[context.worker_index - 1], mode="wait"))
    config.environment("uneven")
    config.env_runners(gym_env_vectorize_mode="sync")
    config.training(timeout_s_sampler_manager=0.01 if side == "fast" else 1e-9)  # RLlib's 0 would be replaced
    return _trained(config, "fast")


def asynchronous(side: str, algorithm: str, envs: int, fragment: int) -> Turn:
    """IMPALA or APPO with one runner process on CartPole."""
    return _trained(_asynchronous(algorithm, envs, fragment, 1), side)


def slow(side: str, algorithm: str, runners: int) -> Turn:
    """The same with several, of 4 environments each, on CartPole whose steps wait for 1 ms."""
    from benchmarks.support import waiting

    config = _asynchronous(algorithm, 4, 50, runners)
    config.environment(f"{waiting.__name__}:WaitingCartPole-v0")
    config.env_runners(gym_env_vectorize_mode="sync")
    return _trained(config, side)


def _asynchronous(algorithm: str, envs: int, fragment: int, runners: int) -> Any:
    from ray.rllib.algorithms.appo import APPOConfig
    from ray.rllib.algorithms.impala import IMPALAConfig

    _start_ray(2 + 2 * runners)
    config = {"appo": APPOConfig, "impala": IMPALAConfig}[algorithm]()
    config.environment("CartPole-v1", disable_env_checking=True)
    config.env_runners(
        num_env_runners=runners,
        num_envs_per_env_runner=envs,
        rollout_fragment_length=fragment,
        gym_env_vectorize_mode="vector_entry_point",
    )
    config.rl_module(model_config={"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh", "vf_share_layers": False})
    config.training(train_batch_size_per_learner=max(500, envs * fragment))
    config.debugging(seed=0, log_level="ERROR")
    config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=4000)
    return config
