"""Whether an environment's spaces and an algorithm allow a preprocessing. Pure."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from experiments.config.errors import ConfigurationError
from experiments.config.preprocessing_settings import PreprocessingSettings


def check_allowed(settings: PreprocessingSettings, env: str, space: gym.Space[Any], config: AlgorithmConfig) -> None:
    """Check a preprocessing against what it is to be used with.

    Args:
        settings: The trial's.
        env: The environment's name.
        space: Of its observations.
        config: The algorithm's, built.

    Raises:
        ConfigurationError: It cannot be done; names the key and the fix.
    """
    is_vector = isinstance(space, gym.spaces.Box) and len(space.shape) == 1 and np.issubdtype(space.dtype, np.floating)
    if settings.of_observations and not is_vector:
        raise ConfigurationError(
            f"{_first(settings.of_observations)}: env={env} has observations {_words(space)}, and only vectors of floats can be "
            f"transformed. Try {' '.join(f'preprocessing.{name}={_off(value)}' for name, value in settings.of_observations.items())}."
        )
    n_step = getattr(config, "n_step", 1)
    if settings.clip_rewards is not None and n_step != 1:
        raise ConfigurationError(
            f"preprocessing.clip_rewards={settings.clip_rewards:g}: with algorithm.training.n_step={n_step} rewards are summed before "
            "they are clipped. Try preprocessing.clip_rewards=null or algorithm.training.n_step=1."
        )


def _first(settings: Mapping[str, Any]) -> str:
    name, value = next(iter(settings.items()))
    return f"preprocessing.{name}={str(value).lower()}"


def _off(value: Any) -> str:
    return "false" if value is True else "null"


def _words(space: gym.Space[Any]) -> str:
    return f"of shape {space.shape} and type {space.dtype}" if isinstance(space, gym.spaces.Box) else str(space)
