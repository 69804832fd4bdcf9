"""From a TrialConfig to RLlib's own AlgorithmConfig, through RLlib's builder methods. Pure.

The builder methods reject unknown names; `update_from_dict` would not.
"""

import functools
import importlib
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import gymnasium as gym
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from experiments.callbacks import log_episode, seed_replay, seed_streams
from experiments.errors import ConfigurationError
from experiments.resolve import TrialConfig
from experiments.schema import EnvSettings
from experiments.seeding import Role, process_seed

SECTIONS = ("training", "env_runners", "learners", "rl_module")
"""What an algorithm file may hold beside `name` and `config_class`; each is an RLlib builder method of the same name."""

_POSITIVE = ("lr", "actor_lr", "critic_lr", "alpha_lr", "train_batch_size_per_learner", "minibatch_size", "num_epochs", "grad_clip")
_FRACTION = ("gamma", "lambda_", "tau")
_COUNT = ("num_env_runners", "num_learners", "num_gpus_per_learner")


def config_class(algorithm: Mapping[str, Any]) -> type[AlgorithmConfig]:
    """The RLlib class that `algorithm.config_class` names.

    Raises:
        ConfigurationError: It cannot be imported or is not an AlgorithmConfig.
    """
    path = algorithm.get("config_class")
    if not isinstance(path, str) or "." not in path:
        raise ConfigurationError(f"algorithm.config_class={path!r}: must be the dotted path of an RLlib AlgorithmConfig.")
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        raise ConfigurationError(f"algorithm.config_class={path!r}: there is no such class.") from None
    if not (isinstance(found, type) and issubclass(found, AlgorithmConfig)):
        raise ConfigurationError(f"algorithm.config_class={path!r}: is not an RLlib AlgorithmConfig.")
    return found


def is_asynchronous(algorithm: Mapping[str, Any]) -> bool:
    """Whether the algorithm samples while it learns (IMPALA, APPO), and so needs a runner actor."""
    return issubclass(config_class(algorithm), IMPALAConfig)


def on_policy_batch(algorithm: Mapping[str, Any]) -> int:
    """Env steps of one training batch, which no report can be finer than; 0 for algorithms that replay.

    Args:
        algorithm: With its counts settled.
    """
    default = config_class(algorithm)()
    if hasattr(default, "replay_buffer_config"):
        return 0
    per_learner = algorithm["training"].get("train_batch_size_per_learner", default.train_batch_size_per_learner)
    return int(per_learner) * max(1, int(algorithm["learners"]["num_learners"])) if isinstance(per_learner, int | float) else 0


def build_algorithm_config(trial: TrialConfig) -> AlgorithmConfig:
    """The RLlib configuration of a trial, validated by RLlib.

    Args:
        trial: The trial.

    Returns:
        A configuration that `build_algo()` takes. Evaluation is left out: the trial evaluates by itself
        (`experiments/evaluation.py`).

    Raises:
        ConfigurationError: RLlib refuses it, or a number is outside its range; names the key.
    """
    algorithm = trial.algorithm
    _check_numbers(algorithm)
    config = config_class(algorithm)()
    for section in ("training", "env_runners", "learners"):
        try:
            getattr(config, section)(**algorithm[section])
        except (TypeError, ValueError, AttributeError) as error:
            raise ConfigurationError(f"algorithm.{section} of algorithm={algorithm['name']}: {_first_sentence(error)}") from error
    config.rl_module(model_config=_model_config(algorithm["rl_module"]))
    config.environment(
        env=trial.env.id,
        env_config=dict(trial.env.env_config),
        # NaN rewards and observations are caught by the trial itself; RLlib's checker would cost every step.
        disable_env_checking=True,
    )
    config.env_runners(gym_env_vectorize_mode=trial.env.vectorize_mode, sample_timeout_s=None)
    config.callbacks(
        on_environment_created=functools.partial(seed_streams, seed=trial.seed, threads=trial.threads_per_process),
        on_algorithm_init=functools.partial(seed_replay, seed=trial.seed),
        on_episode_end=log_episode,
    )
    config.debugging(seed=process_seed(trial.seed, Role.ALGORITHM), log_level="WARN", log_sys_usage=False)
    config.reporting(
        min_time_s_per_iteration=0,
        # One result per report at the finest; an asynchronous step can be as short as a fragment.
        min_sample_timesteps_per_iteration=_iteration_env_steps(trial, config),
        log_gradients=True,
    )
    # A fault ends the trial with its reason: RLlib's own restarts would change the result in silence.
    config.fault_tolerance(restart_failed_env_runners=False, ignore_env_runner_failures=False)
    config.checkpointing(export_native_model_files=False)
    _check_action_space(trial, config)
    try:
        config.validate()
    except (ValueError, TypeError, AssertionError, NotImplementedError) as error:
        raise ConfigurationError(f"algorithm={algorithm['name']} env={trial.env.name}: {_first_sentence(error)}") from error
    _check_sizes(trial, config)
    return config


def _iteration_env_steps(trial: TrialConfig, config: AlgorithmConfig) -> int:
    """Env steps after which RLlib's `train()` returns: 0 for one training step of an on-policy algorithm."""
    if hasattr(config, "replay_buffer_config") or isinstance(config, IMPALAConfig):
        return min(trial.report_every_env_steps, max(1, trial.report_every_env_steps // 4))
    return 0


def _model_config(section: Mapping[str, Any]) -> DefaultModelConfig:
    known = {f.name for f in fields(DefaultModelConfig)}
    if unknown := sorted(set(section) - known):
        raise ConfigurationError(
            f"algorithm.rl_module.{unknown[0]}: RLlib's DefaultModelConfig has no such field. It has: {', '.join(sorted(known))}."
        )
    return DefaultModelConfig(**section)


def _check_numbers(algorithm: Mapping[str, Any]) -> None:
    for section in SECTIONS:
        if not isinstance(algorithm.get(section), Mapping):
            raise ConfigurationError(f"algorithm.{section}: must be a mapping of settings (it may be empty).")
        for name, value in algorithm[section].items():
            key = f"algorithm.{section}.{name}"
            if isinstance(value, float) and math.isnan(value):
                raise ConfigurationError(f"{key}={value}: is not a number.")
            if isinstance(value, bool) or not isinstance(value, int | float):
                if name in (*_POSITIVE, *_FRACTION, *_COUNT) and value is not None and not isinstance(value, list):
                    raise ConfigurationError(f"{key}={value!r}: must be a number.")
                continue
            if name in _POSITIVE and not 0 < value < math.inf:
                raise ConfigurationError(f"{key}={value}: must be above 0 and finite.")
            if name in _FRACTION and not 0 <= value <= 1:
                raise ConfigurationError(f"{key}={value}: must be between 0 and 1.")
            if name in _COUNT and value < 0:
                raise ConfigurationError(f"{key}={value}: must be 0 or more.")
            if name.endswith(("batch_size", "_size_per_learner", "num_epochs")) and isinstance(value, float):
                raise ConfigurationError(f"{key}={value}: must be a whole number.")
    if algorithm["env_runners"]["num_envs_per_env_runner"] < 1:
        raise ConfigurationError("algorithm.env_runners.num_envs_per_env_runner: must be 1 or more.")
    if is_asynchronous(algorithm) and algorithm["env_runners"]["num_env_runners"] < 1:
        raise ConfigurationError(
            f"algorithm.env_runners.num_env_runners=0: {algorithm['name']} samples while it learns and needs a runner actor. Try 1."
        )
    if unknown := sorted(set(algorithm) - {"name", "config_class", *SECTIONS}):
        raise ConfigurationError(f"algorithm.{unknown[0]}: there is no such section. There are: {', '.join(SECTIONS)}.")


def _check_sizes(trial: TrialConfig, config: AlgorithmConfig) -> None:
    batch, minibatch = config.train_batch_size_per_learner, config.minibatch_size
    if minibatch is not None and minibatch > batch:
        raise ConfigurationError(
            f"algorithm.training.minibatch_size={minibatch} is larger than the batch it is taken from: "
            f"algorithm.training.train_batch_size_per_learner={batch}."
        )
    if (collected := on_policy_batch(trial.algorithm)) > trial.report_every_env_steps:
        raise ConfigurationError(
            f"report_every_env_steps={trial.report_every_env_steps} is finer than one training batch of "
            f"{collected} env steps, so reports would be skipped. Try report_every_env_steps=null or a smaller batch."
        )


def spaces(env: EnvSettings) -> tuple[gym.Space[Any], gym.Space[Any]]:
    """Observation and action space of an environment, by making it once.

    Raises:
        ConfigurationError: It is not installed, or refuses its `env_config`.
    """
    fix = f" Install it: pip install -e '.[{env.extra}]'." if env.extra else ""
    try:
        made: Any = gym.make(env.id, **env.env_config)
    except (gym.error.DependencyNotInstalled, ImportError) as error:
        raise ConfigurationError(f"env={env.name}: {env.id} is not installed ({_first_sentence(error)}).{fix}") from error
    except gym.error.Error as error:
        raise ConfigurationError(f"env={env.name}: Gymnasium cannot make env.id={env.id!r}: {_first_sentence(error)}{fix}") from error
    except (TypeError, ValueError, AssertionError) as error:
        raise ConfigurationError(f"env.env_config of env={env.name}: {_first_sentence(error)}") from error
    found = made.observation_space, made.action_space
    made.close()
    return found


def _check_action_space(trial: TrialConfig, config: AlgorithmConfig) -> None:
    _, action_space = spaces(trial.env)
    algorithm = trial.algorithm["name"]
    family = {base.__name__ for base in type(config).__mro__}
    discrete = isinstance(action_space, gym.spaces.Discrete)
    if "SACConfig" in family and discrete:
        raise ConfigurationError(
            f"algorithm={algorithm} needs continuous actions, but env={trial.env.name} has {action_space}. "
            "Try algorithm=ppo or algorithm=dqn, or env=pendulum."
        )
    if "DQNConfig" in family and "SACConfig" not in family and not discrete:
        raise ConfigurationError(
            f"algorithm={algorithm} needs discrete actions, but env={trial.env.name} has {action_space}. "
            "Try algorithm=ppo or algorithm=sac, or env=cartpole."
        )


def _first_sentence(error: BaseException) -> str:
    """RLlib's and Gymnasium's messages run over many lines; the first says what is wrong."""
    text = " ".join(str(error).split())
    return text if len(text) <= 400 else text[:397] + "..."
