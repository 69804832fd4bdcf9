"""The check that an environment's spaces and an algorithm allow a preprocessing. Pure."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from experiments.config.errors import ConfigurationError
from experiments.config.preprocessing_settings import PreprocessingSettings
from experiments.config.schema import EnvSettings
from experiments.envs import masked, stacked


def check_allowed(
    settings: PreprocessingSettings, env: EnvSettings, space: gym.Space[Any], config: AlgorithmConfig
) -> None:
    """Check a preprocessing against what it is to be used with.

    Args:
        settings: The trial's preprocessing.
        env: The environment.
        space: Space of its observations, one by one.
        config: Built configuration of the algorithm.

    Raises:
        ConfigurationError: It cannot be done; names the key and the fix.
    """
    if config.observation_filter != "NoFilter":
        raise ConfigurationError(
            f"algorithm.env_runners.observation_filter={config.observation_filter}: RLlib's new API stack does nothing "
            "with it. Try preprocessing=normalize_observations."
        )
    seen = masked.beside_mask(space)
    is_vector = isinstance(seen, gym.spaces.Box) and len(seen.shape) == 1 and np.issubdtype(seen.dtype, np.floating)
    if settings.of_observations and not is_vector:
        raise ConfigurationError(
            f"{_first(settings.of_observations)}: env={env.name} has observations {_words(seen)}, "
            "and only vectors of floats can be transformed. Try "
            f"{' '.join(f'preprocessing.{name}={_off(value)}' for name, value in settings.of_observations.items())}."
        )
    if settings.frame_stack > 1:
        _check_frames(settings.frame_stack, env, space)
    n_step = getattr(config, "n_step", 1)
    if settings.clip_rewards is not None and n_step != 1:
        raise ConfigurationError(
            f"preprocessing.clip_rewards={settings.clip_rewards:g}: with algorithm.training.n_step={n_step} rewards "
            "are summed before they are clipped. Try preprocessing.clip_rewards=null or algorithm.training.n_step=1."
        )


def _check_frames(frame_stack: int, env: EnvSettings, space: gym.Space[Any]) -> None:
    key = f"preprocessing.frame_stack={frame_stack}"
    if reason := stacked.why_not(space):
        raise ConfigurationError(f"{key}: {reason} (env={env.name}). Try preprocessing.frame_stack=1.")
    if env.backend == "envpool":
        raise ConfigurationError(f"{key}: EnvPool stacks no frames of other environments. Try env.backend=gymnasium.")
    if env.vectorize_mode == "vector_entry_point":
        raise ConfigurationError(
            f"{key}: frames are stacked around each environment, and with env.vectorize_mode=vector_entry_point there "
            "is one for all. Try env.vectorize_mode=sync."
        )


def _first(settings: Mapping[str, Any]) -> str:
    name, value = next(iter(settings.items()))
    return f"preprocessing.{name}={str(value).lower()}"


def _off(value: Any) -> str:
    return "false" if value is True else "null"


def _words(space: gym.Space[Any]) -> str:
    return f"of shape {space.shape} and type {space.dtype}" if isinstance(space, gym.spaces.Box) else str(space)
