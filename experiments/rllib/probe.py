"""The speed of an environment and its networks on this machine, each timed alone for a fraction of a second:
no Ray, no training.
"""

import functools
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModule

from experiments.config.schema import EnvSettings
from experiments.config.trial_config import TrialConfig
from experiments.envs.masked import has_action_mask, sampled_action
from experiments.rllib.building import build_algorithm_config, environment_of
from experiments.rllib.made_environments import spaces

PROBE_S = 0.15
"""Seconds for which each part is timed; what takes longer is timed once."""
_MOST_ROWS, _MOST_NUMBERS = 1024, 2**18
"""Observations, and their numbers, of a timed pass of a network: so many that what a pass takes
in any case does not count."""
_LEARNING = 3.0
"""Times the multiplications of a forward pass that learning takes: backward there are as many for inputs,
and for weights."""


@dataclass(frozen=True)
class NetworkSpeed:
    """Seconds that a learner's networks take on one core, beyond those that any network takes.

    Attributes:
        act_s: Seconds of the policy's forward pass, an observation.
        learn_s: Seconds of learning, a row of a minibatch: forward and backward through all that is trained.
    """

    act_s: float
    learn_s: float


def env_step_s(env: EnvSettings, num_envs: int) -> float:
    """Seconds of one step of as many environments as a runner has, with random actions: the median,
    so that rare resets do not count.

    Environments that take turns are timed as one, and counted; those with a process each step side by side,
    as one does.

    Args:
        env: The environment; of EnvPool, Gymnasium's of the same id.
        num_envs: Environments of the runner.
    """
    together = num_envs if env.vectorize_mode == "vector_entry_point" else 0
    seconds = _step_s(env.id, json.dumps(env.make_arguments, sort_keys=True), together)
    return seconds * (num_envs if env.vectorize_mode == "sync" else 1)


@functools.lru_cache(maxsize=32)
def _step_s(gym_id: str, arguments: str, num_envs: int) -> float:
    """Seconds of a step of one environment; with `num_envs` of all, by the environment's own vector implementation."""
    settings = json.loads(arguments)
    made: Any = (
        gym.make_vec(gym_id, num_envs=num_envs, vectorization_mode="vector_entry_point", **settings)
        if num_envs
        else gym.make(gym_id, disable_env_checker=True, **settings)
    )
    try:
        made.action_space.seed(0)
        observation, _ = made.reset(seed=0)
        actions = itertools.cycle([made.action_space.sample() for _ in range(64)])
        is_masked, ended = has_action_mask(made.observation_space), False
        action: Any = None

        def step() -> None:
            nonlocal observation, ended
            observation, _, terminated, truncated, _ = made.step(action)
            ended = not num_envs and bool(terminated or truncated)

        def prepare() -> None:
            nonlocal observation, action
            if ended:
                observation, _ = made.reset()
            # to draw one takes as long as a step of CartPole
            action = (
                sampled_action(made.action_space, made.observation_space, observation) if is_masked else next(actions)
            )

        prepare()
        return _seconds_of(step, prepare)
    finally:
        made.close()


def network_speed(trial: TrialConfig) -> NetworkSpeed:
    """Time the policy's forward pass, and count from it what learning takes.

    Raises:
        ConfigurationError: RLlib refuses the trial's configuration.
    """
    config = build_algorithm_config(trial)
    observations, actions = spaces(environment_of(trial))
    number = max(1, min(_MOST_ROWS, _MOST_NUMBERS // math.prod(observations.shape or (1,))))
    threads = torch.get_num_threads()
    torch.set_num_threads(trial.threads_per_process)
    try:
        with torch.random.fork_rng(devices=[]):
            module: Any = config.get_rl_module_spec(spaces={DEFAULT_MODULE_ID: (observations, actions)}).build()
        act, learn = _multiplications(module, lambda: module._forward_inference(_rows(observations, 1)))
        with torch.inference_mode():
            batch = _rows(observations, number)
            act_s = _seconds_of(lambda: module._forward_inference(batch)) / number
    finally:
        torch.set_num_threads(threads)
    return NetworkSpeed(act_s, _LEARNING * act_s * learn / max(1, act))


def _rows(observations: gym.Space[Any], number: int) -> Mapping[str, torch.Tensor]:
    observations.seed(0)
    batch = np.stack([np.clip(observations.sample(), -1e3, 1e3)] * number)
    return {Columns.OBS: torch.as_tensor(batch, dtype=torch.float32 if batch.dtype.kind == "f" else None)}


def _multiplications(module: RLModule, forward: Callable[[], Any]) -> tuple[int, int]:
    """Of the layers that run in `forward` with one observation, and of all layers, one that does not run
    as one of its shape that does.
    """
    layers = [m for m in module.modules() if isinstance(getattr(m, "weight", None), torch.Tensor)]
    ran: dict[torch.nn.Module, int] = {}

    def count(layer: Any, inputs: Any, output: torch.Tensor) -> None:
        ran[layer] = output.numel() * layer.weight[0].numel()  # each output is a sum over the weights of its channel

    hooks = [layer.register_forward_hook(count) for layer in layers]
    with torch.inference_mode():
        forward()
    for hook in hooks:
        hook.remove()
    of_shape = {layer.weight.shape: number for layer, number in ran.items()}
    return sum(ran.values()), sum(of_shape.get(layer.weight.shape, layer.weight.numel()) for layer in layers)


def _seconds_of(act: Callable[[], Any], between: Callable[[], Any] = lambda: None) -> float:
    """The median of as many calls as there is time for, the first left out; not the mean,
    so that what else runs counts less.
    """
    act()
    seconds: list[float] = []
    while sum(seconds) < PROBE_S:
        between()
        start = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)
