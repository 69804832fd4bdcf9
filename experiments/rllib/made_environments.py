"""An environment made once for its facts: spaces, its longest episode, whether it brings a vector of its own."""

import functools
import json
import logging
import sys
from dataclasses import replace
from typing import Any

import gymnasium as gym

from experiments.config import own_modules, rllib_settings
from experiments.config.errors import ConfigurationError
from experiments.config.gym_registry import spec_of
from experiments.config.schema import EnvSettings


def has_vector_entry_point(env: EnvSettings) -> bool:
    """True if an environment brings a vector implementation of its own.

    Raises:
        ConfigurationError: It is not installed, or refuses its `env_config`.
    """
    return _made(replace(env, vectorize_mode="sync"))[3]


def spaces(env: EnvSettings) -> tuple[gym.Space[Any], gym.Space[Any]]:
    """Observation and action space of an environment, by making it once.

    Raises:
        ConfigurationError: It is not installed, or refuses its `env_config`.
    """
    return _made(env)[:2]


def longest_episode(env: EnvSettings) -> int:
    """Env steps after which an episode is truncated.

    Raises:
        ConfigurationError: Never: its episodes need not end; or it is not installed, or refuses its `env_config`.
    """
    if (limit := _made(env)[2]) is None:
        raise ConfigurationError(
            f"env.id={env.id}: is registered without a time limit, and what is measured are whole episodes. "
            "Give it one: env.max_episode_steps=1000, or gymnasium.register(..., max_episode_steps=1000)."
        )
    return limit


_Made = tuple[gym.Space[Any], gym.Space[Any], int | None, bool]
"""Observation space, action space, longest episode, whether there is a vector implementation."""


def _made(env: EnvSettings) -> _Made:
    settings = json.dumps(env.env_config, sort_keys=True)
    return _make_once(env.name, env.id, settings, env.vectorize_mode, env.extra, env.max_episode_steps)


@functools.lru_cache(maxsize=32)
def _make_once(
    name: str, gym_id: str, env_config: str, vectorize_mode: str, extra: str | None, max_episode_steps: int | None
) -> _Made:
    settings = json.loads(env_config)
    fix = f" Install it: pip install -e '.[{extra}]'." if extra else ""
    try:
        spec = spec_of(gym_id)  # not the made environment's: one that wraps another has that one's
        if spec.entry_point is not None:
            creator = spec.entry_point
            receiver = gym.envs.registration.load_env_creator(creator) if isinstance(creator, str) else creator
            rllib_settings.check_arguments("env.env_config", settings, receiver)
        # else it writes its warnings into a file in the working directory
        if (mujoco := sys.modules.get("mujoco")) is not None:
            mujoco.set_mju_user_warning(logging.getLogger("mujoco").warning)
        made: Any = gym.make(gym_id, max_episode_steps=max_episode_steps, **settings)
    except ConfigurationError:
        raise
    except (gym.error.DependencyNotInstalled, ImportError) as error:
        raise ConfigurationError(
            f"env={name}: env.id={gym_id} is not installed ({first_sentence(error)}).{fix}"
        ) from error
    except gym.error.Error as error:
        raise ConfigurationError(
            f"env={name}: Gymnasium cannot make env.id={gym_id!r}: {first_sentence(error)}{fix}"
        ) from error
    except (Exception, SystemExit) as error:  # environments raise what they like
        left = own_modules.left_behind(error)
        raise ConfigurationError(
            f"env.env_config of env={name}: {first_sentence(error)}.{left} It is {settings}, for env.id={gym_id}."
        ) from error
    has_vector = spec.vector_entry_point is not None
    found = made.observation_space, made.action_space, made.spec.max_episode_steps, has_vector
    made.close()
    if vectorize_mode == "vector_entry_point" and not has_vector:
        raise ConfigurationError(
            f"env.vectorize_mode={vectorize_mode}: {gym_id} brings no vector implementation of its own. "
            "Try env.vectorize_mode=sync."
        )
    if 0 in (made.observation_space.shape or ()):
        raise ConfigurationError(
            f"env.env_config of env={name}: its observations are empty, of shape {made.observation_space.shape}. "
            f"It is {settings}."
        )
    return found


def first_sentence(error: BaseException) -> str:
    """RLlib's and Gymnasium's messages run over many lines; the first says what is wrong."""
    text = " ".join(str(error).split())
    return text if len(text) <= 400 else text[:397] + "..."
