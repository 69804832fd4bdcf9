"""The algorithms of `conf/algorithm` by what they are, and not by their names."""

import functools
from typing import Any

import gymnasium as gym
import yaml
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig

from experiments.rllib.algorithms import config_class
from tests.support.suite import ALGORITHMS, ROOT


@functools.cache
def class_of(algorithm: str) -> type[AlgorithmConfig]:
    """RLlib's class, or the suite's, by an algorithm's file."""
    return config_class(yaml.safe_load((ROOT / "conf" / "algorithm" / f"{algorithm}.yaml").read_text()))


def suits(algorithm: str, action_space: gym.Space[Any]) -> bool:
    """Whether an algorithm takes such actions: what RLlib derives from SAC, continuous ones, and what else it derives
    from DQN, discrete ones.
    """
    found = class_of(algorithm)
    if issubclass(found, SACConfig):
        return isinstance(action_space, gym.spaces.Box)
    return isinstance(action_space, gym.spaces.Discrete) or not issubclass(found, DQNConfig)


def env_of(algorithm: str) -> str:
    """An environment that an algorithm can act in."""
    return "cartpole" if suits(algorithm, gym.spaces.Discrete(2)) else "pendulum"


ON_POLICY = tuple(name for name in ALGORITHMS if not issubclass(class_of(name), (DQNConfig, SACConfig)))
"""Those that take any actions."""
