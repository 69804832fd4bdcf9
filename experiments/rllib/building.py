"""From a TrialConfig to RLlib's own AlgorithmConfig, through RLlib's builder methods. Pure.

The builder methods reject unknown names; `update_from_dict` would not.
"""

import contextlib
import copy
import functools
import itertools
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import asdict, replace
from types import ModuleType
from typing import Any

import gymnasium as gym
import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.tune import PlacementGroupFactory

from experiments.config import rllib_settings
from experiments.config.errors import ConfigurationError
from experiments.config.fields import NAME
from experiments.config.schema import EnvSettings
from experiments.config.trial_config import TrialConfig
from experiments.envs import checked, envpool, flattened, masked, plain_actions, stacked
from experiments.fast.switch import make_fast
from experiments.rllib.algorithms import (
    batch_env_steps,
    class_at,
    config_class,
    defaults_of,
    fragments_of_batch,
    is_asynchronous,
    on_policy_batch,
)
from experiments.rllib.allowed_preprocessing import check_allowed
from experiments.rllib.allowed_spaces import ARRAYS, action_scaling, check_spaces, wrong_actions
from experiments.rllib.env_runner import EnvRunner, FastRunner
from experiments.rllib.exploration import put_noise_into_modules
from experiments.rllib.hooks import STAGGERED, log_episode, seed_replay, seed_streams
from experiments.rllib.made_environments import first_sentence, longest_episode, spaces
from experiments.rllib.masks import put_masks_into_modules
from experiments.rllib.n_step_returns import take_returns
from experiments.rllib.ppo import PPOConfig
from experiments.rllib.preprocessing import keep_statistics, put_into_modules
from experiments.rllib.recurrent import make_recurrent
from experiments.rllib.seeding import Role, process_seed

_LARGE_LAYER = 1_000_000


def _rl_module(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of RLlib's `rl_module`: the configuration of its own networks, or a module of one's own
    with that and its settings.
    """
    model = DefaultModelConfig(**rllib_settings.default_model(settings))
    if (path := settings.get(rllib_settings.MODULE_CLASS)) is None:
        return {"model_config": model}
    found = class_at(f"algorithm.rl_module.{rllib_settings.MODULE_CLASS}", path, RLModule)
    own = settings.get(rllib_settings.MODEL_CONFIG) or {}
    return {"rl_module_spec": RLModuleSpec(module_class=found, model_config={**asdict(model), **own})}


def build_algorithm_config(trial: TrialConfig) -> AlgorithmConfig:
    """The RLlib configuration of a trial, validated by RLlib.

    Args:
        trial: The trial.

    Returns:
        A configuration that `build_algo()` takes. Evaluation is left out: the trial evaluates by itself
        (`experiments/trial/evaluation.py`).

    Raises:
        ConfigurationError: RLlib refuses it, or a number is outside its range; names the key.
    """
    algorithm = copy.deepcopy(trial.algorithm)  # RLlib writes into what it is given
    check_settings(algorithm)
    _check_counts(algorithm)
    config = config_class(algorithm)()
    for section in rllib_settings.BUILDERS:
        try:
            getattr(config, section)(**algorithm[section])
        except (TypeError, ValueError, AttributeError) as error:
            raise ConfigurationError(
                f"algorithm.{section} of algorithm={algorithm['name']}: {first_sentence(error)}"
            ) from error
    config.rl_module(**_rl_module(algorithm["rl_module"]))
    check_allowed(trial.preprocessing, trial.env, spaces(trial.env)[0], config)
    env, env_config, vectorize_mode = _environment(trial)
    actions = spaces(trial.env)[1]
    if vectorize_mode != "vector_entry_point":
        # RLlib's and the suite's algorithms read no infos; what a person's own reads is not known.
        around = functools.partial(checked.Checked, keep_infos=not _is_known(type(config)))
        env_config = {**env_config, "wrappers": [around]}  # as gymnasium.make_vec takes them
    config.environment(
        env=env,
        env_config=env_config,
        **action_scaling(actions),
        # NaN rewards and observations are caught by the trial itself; RLlib's checker would cost every step.
        disable_env_checking=True,
    )
    if trial.fast:
        make_fast(config)
    runner = FastRunner if trial.fast else EnvRunner
    config.env_runners(env_runner_cls=runner, gym_env_vectorize_mode=vectorize_mode, sample_timeout_s=None)
    config.callbacks(
        on_environment_created=functools.partial(seed_streams, seed=trial.seed, arithmetic=trial.arithmetic),
        on_algorithm_init=functools.partial(seed_replay, seed=trial.seed),
        on_episode_end=log_episode,
    )
    config.debugging(seed=process_seed(trial.seed, Role.ALGORITHM), log_level="WARN", log_sys_usage=False)
    # an asynchronous one can be a fragment
    many_steps = hasattr(config, "replay_buffer_config") or isinstance(config, IMPALAConfig)
    if many_steps and trial.measurement is not None:
        # The first samples of an asynchronous algorithm may take longer than a block.
        config.reporting(min_time_s_per_iteration=trial.measurement.block_s / 2, min_sample_timesteps_per_iteration=1)
    else:
        # One result per report at the finest; one training step of an on-policy algorithm.
        least = max(1, trial.report_every_env_steps // 4) if many_steps else 0
        config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=least)
    config.reporting(log_gradients=True)
    # A fault ends the trial with its reason: RLlib's own restarts would change the result in silence.
    config.fault_tolerance(restart_failed_env_runners=False, ignore_env_runner_failures=False)
    config.checkpointing(export_native_model_files=False)
    _add_preprocessing(trial, config)
    networks = {"own_module": _has_own_module(trial), "own_filters": bool(algorithm["rl_module"].get("conv_filters"))}
    check_spaces(algorithm["name"], type(config), trial.env.name, seen_space(trial), actions, **networks)
    _add_masks(trial, config)
    if algorithm["rl_module"].get("use_lstm"):
        make_recurrent(config, algorithm["name"])
    take_returns(config)
    put_noise_into_modules(config, trial.env.name, actions)
    for settings in trial.extension.values():
        settings.configure(config, trial)
    try:
        config.validate()
    except (ValueError, TypeError, AssertionError, NotImplementedError) as error:
        raise ConfigurationError(
            f"algorithm={algorithm['name']} env={trial.env.name}: {first_sentence(error)}"
        ) from error
    _check_sizes(trial, config)
    return config


def _add_preprocessing(trial: TrialConfig, config: AlgorithmConfig) -> None:
    settings = trial.preprocessing
    if not settings.of_module:
        return
    if not put_into_modules(config, settings.of_module):
        raise ConfigurationError(
            f"preprocessing={settings.name}: algorithm={trial.algorithm['name']} has a module class of its own, "
            "and only RLlib's default ones can be preceded by it. Try preprocessing=none."
        )
    config.callbacks(on_algorithm_init=[config.callbacks_on_algorithm_init, keep_statistics])


def _add_masks(trial: TrialConfig, config: AlgorithmConfig) -> None:
    if is_masked(trial) and not put_masks_into_modules(config, seen_space(trial).shape or ()):
        raise ConfigurationError(
            f"env={trial.env.name} has an action_mask, and algorithm={trial.algorithm['name']} has a module class of "
            "its own: only RLlib's default ones of PPO, IMPALA, APPO and DQN can leave out actions. Try algorithm=ppo."
        )


def environment_of(trial: TrialConfig) -> EnvSettings:
    """The environment that a trial is trained and evaluated on: as its policy sees it,
    with actions as networks choose them.

    Raises:
        ConfigurationError: It has other actions or a mask of them, and one vector implementation for all,
            around which nothing can be put; or its mask cannot be applied.
    """
    env = observed_environment_of(trial)
    space = spaces(trial.env)[1]
    if plain_actions.plain_space(space) is space:
        return env
    if env.vectorize_mode == "vector_entry_point":
        raise ConfigurationError(
            f"env.vectorize_mode=vector_entry_point: {env.name} has actions {space}, which are converted by a wrapper "
            "of each single environment. Try env.vectorize_mode=sync."
        )
    return _wrapped(env, plain_actions)


def observed_environment_of(trial: TrialConfig) -> EnvSettings:
    """A trial's environment as its policy sees it, with actions of its own: its frames stacked,
    its observations flat, a mask of its actions in front of them.
    """
    env = _stacked_environment_of(trial)
    if is_masked(trial):
        _check_mask(trial.env)
        return _wrapped(env, masked)
    return _wrapped(env, flattened) if is_flattened(trial) else env


def _check_mask(env: EnvSettings) -> None:
    if reason := masked.why_not(*spaces(env)):
        raise ConfigurationError(f"env={env.name} {reason} (docs/own_files.md).")
    if env.vectorize_mode == "vector_entry_point":
        raise ConfigurationError(
            f"env.vectorize_mode=vector_entry_point: {env.name} has an action_mask, which a wrapper of each single "
            "environment puts in front of its observations. Try env.vectorize_mode=sync."
        )


def seen_space(trial: TrialConfig) -> gym.Space[Any]:
    """The part of a trial's observations that its networks see, as they get it: all but a mask of actions."""
    seen, _ = spaces(environment_of(trial))
    return masked.seen_space(spaces(trial.env)[0]) if is_masked(trial) else seen


def _stacked_environment_of(trial: TrialConfig) -> EnvSettings:
    frames = trial.preprocessing.frame_stack
    return _wrapped(trial.env, stacked, frame_stack=frames) if frames > 1 else trial.env


def _wrapped(env: EnvSettings, wrapper: ModuleType, **settings: Any) -> EnvSettings:
    inner = {"gym_id": env.id, "env_config": env.make_arguments, **settings}
    return replace(env, id=f"{wrapper.__name__}:{wrapper.ID}", env_config=inner, max_episode_steps=None)


def takes_any_action(trial: TrialConfig) -> bool:
    """True if the policy may take any action that no mask rules out: RLlib's networks and the suite's leave out
    no others.
    """
    return not _has_own_module(trial) and _is_known(config_class(trial.algorithm))


def _is_known(algorithm: type[AlgorithmConfig]) -> bool:
    """True if an algorithm is one of RLlib's or the suite's."""
    return algorithm.__module__.startswith(("ray.rllib.", "experiments."))


def is_flattened(trial: TrialConfig) -> bool:
    """True if observations become floats in a vector because the networks take no others.

    A person's own networks take any array.
    """
    space = spaces(_stacked_environment_of(trial))[0]
    takes_it = _has_own_module(trial) and isinstance(space, ARRAYS) and not flattened.has_other_floats(space)
    return flattened.is_needed(space) and not takes_it and not is_masked(trial)


def is_masked(trial: TrialConfig) -> bool:
    """True if observations say which actions are allowed, and networks choose among these."""
    return masked.has_action_mask(spaces(trial.env)[0]) and not _has_own_module(trial)


def is_unmasked(trial: TrialConfig) -> bool:
    """True if observations say which actions are allowed, and it is left to networks of a person's own to heed it."""
    return masked.has_action_mask(spaces(trial.env)[0]) and _has_own_module(trial)


def _has_own_module(trial: TrialConfig) -> bool:
    return trial.algorithm["rl_module"].get(rllib_settings.MODULE_CLASS) is not None


def _environment(trial: TrialConfig) -> tuple[str, dict[str, Any], str]:
    """The values of RLlib's `env`, `env_config` and `gym_env_vectorize_mode`."""
    env, limit = environment_of(trial), longest_episode(trial.env)
    if env.stagger:
        _check_staggered(trial.env)
        return STAGGERED, {"gym_id": env.id, "env_config": env.make_arguments, "time_limit": limit}, env.vectorize_mode
    if env.backend == "gymnasium":
        return env.id, env.make_arguments, env.vectorize_mode
    if env.env_config:
        raise ConfigurationError(
            f"env.env_config={env.env_config}: EnvPool's environments take none. Try env.backend=gymnasium."
        )
    if env.max_episode_steps is not None:
        raise ConfigurationError(
            f"env.max_episode_steps={env.max_episode_steps}: EnvPool's environments have the limit that is registered. "
            "Try env.backend=gymnasium."
        )
    if reason := envpool.why_not(env.id):
        raise ConfigurationError(f"env.backend=envpool: {reason}.")
    settings = {"gym_id": env.id, "num_threads": trial.threads_per_process}
    return f"{envpool.__name__}:{envpool.ID}", settings, "vector_entry_point"


def _check_staggered(env: EnvSettings) -> None:
    """Raise ConfigurationError where the episode of one environment cannot be ended alone."""
    if env.backend == "envpool":
        raise ConfigurationError(
            "env.stagger=true: EnvPool cannot end the episode of one environment alone. Try env.backend=gymnasium."
        )
    if env.vectorize_mode == "vector_entry_point":
        raise ConfigurationError(
            f"env.stagger=true: the vector implementation that {env.id} brings cannot end the episode "
            "of one environment alone. Try env.vectorize_mode=sync."
        )


def check_settings(algorithm: Mapping[str, Any]) -> None:
    """Check what an algorithm file says, before any count is a number.

    Args:
        algorithm: `conf/algorithm` resolved; counts may be None.

    Raises:
        ConfigurationError: A name, a class, a type or a number is wrong; names the key.
    """
    name = algorithm.get("name")
    if not isinstance(name, str) or not re.match(NAME, name):
        raise ConfigurationError(f"algorithm.name={name!r}: must be a word of letters, digits, '.', '_' and '-'.")
    rllib_settings.check_settings(algorithm, defaults_of(algorithm))


def _check_counts(algorithm: Mapping[str, Any]) -> None:
    if is_asynchronous(algorithm) and algorithm["env_runners"]["num_env_runners"] < 1:
        raise ConfigurationError(
            f"algorithm.env_runners.num_env_runners=0: {algorithm['name']} samples while it learns "
            "and needs a runner actor. Try 1."
        )


def _check_sizes(trial: TrialConfig, config: AlgorithmConfig) -> None:
    batch, minibatch = config.train_batch_size_per_learner, config.minibatch_size
    if minibatch is not None and minibatch > batch:
        raise ConfigurationError(
            f"algorithm.training.minibatch_size={minibatch} is larger than the batch it is taken from: "
            f"algorithm.training.train_batch_size_per_learner={batch}."
        )
    fragments = fragments_of_batch(trial.algorithm)
    if fragments and trial.measurement is None and fragments % config.num_envs_per_env_runner:
        collected = batch_env_steps(config)
        raise ConfigurationError(
            f"algorithm.env_runners.num_envs_per_env_runner={config.num_envs_per_env_runner}: "
            f"{trial.algorithm['name']} trains on whole samples of a runner, "
            f"fragments of {config.get_rollout_fragment_length()} env steps of all its environments, "
            f"so that a batch of {config.total_train_batch_size:,} would be one of {collected:,}. "
            "Try algorithm.env_runners.num_envs_per_env_runner=null, "
            f"or algorithm.training.train_batch_size_per_learner={collected // max(1, config.num_learners)}."
        )
    if (collected := on_policy_batch(trial.algorithm)) > trial.report_every_env_steps:
        raise ConfigurationError(
            f"report_every_env_steps={trial.report_every_env_steps} is finer than one training batch of "
            f"{collected} env steps, so reports would be skipped. Try report_every_env_steps=null or a smaller batch."
        )


def networks_of(trial: TrialConfig, config: AlgorithmConfig) -> Any:
    """The networks of a learner, without their weights: only RLlib knows what fits together
    and fits the environment's observations.

    Raises:
        ConfigurationError: RLlib cannot build them, or what the trial measures cannot be measured of them.
    """
    own = _has_own_module(trial)
    # RLlib cannot make free standard deviations without memory (core/models/torch/heads.py: the legacy constructor of
    # tensors), and a module of a person's own need not know that there are such tensors.
    free = isinstance(config, PPOConfig) or trial.algorithm["rl_module"].get("free_log_std")
    device = "cpu" if own or free else "meta"
    with _networks_refused(trial):
        spec = _networks_spec(trial, config)
        with torch.random.fork_rng(devices=[]), torch.device(device):
            built: Any = spec.build()
        if own:  # RLlib asks for these once samples are there
            for name in ("inference", "exploration", "train"):
                getattr(built, f"get_{name}_action_dist_cls")()
    for settings in trial.extension.values():
        settings.check_networks(built)
    return built


def networks_key(trial: TrialConfig, config: AlgorithmConfig) -> Hashable | None:
    """Equal for trials whose networks have the same shapes and are looked at by the same extensions; None of modules
    of a person's own, which may build what they like.

    Raises:
        ConfigurationError: RLlib cannot build them.
    """
    if _has_own_module(trial):
        return None
    with _networks_refused(trial):
        spec = _networks_spec(trial, config)
    parts = (spec.observation_space, spec.action_space, spec.model_config, trial.extension)
    return (spec.module_class, spec.catalog_class, *map(repr, parts))


def _networks_spec(trial: TrialConfig, config: AlgorithmConfig) -> RLModuleSpec:
    of_env = {DEFAULT_MODULE_ID: spaces(environment_of(trial))}
    return config.copy(copy_frozen=False).get_rl_module_spec(spaces=of_env)


@contextlib.contextmanager
def _networks_refused(trial: TrialConfig) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # RLlib and torch raise what they like
        raise ConfigurationError(
            f"algorithm.rl_module of algorithm={trial.algorithm['name']} env={trial.env.name}: RLlib cannot build "
            f"these networks: {first_sentence(error)}. The section is {dict(trial.algorithm['rl_module'])}."
        ) from error


def wrong_algorithm(algorithm: Mapping[str, Any], env: EnvSettings) -> str:
    """Why an algorithm cannot act in an environment, as a clause; "" if it can.

    Raises:
        ConfigurationError: The environment cannot be made.
    """
    return wrong_actions(algorithm["name"], config_class(algorithm), env.name, spaces(env)[1])


def suits_gpu(algorithm: Mapping[str, Any], env: EnvSettings) -> bool:
    """True if a learner's networks are large enough for a GPU to pay: those of pictures,
    or with layers of a million weights.

    Small ones spend their time on the way to the GPU: Stable-Baselines3 warns of PPO on a GPU
    without a convolutional policy.

    Raises:
        ConfigurationError: The environment is not installed, or refuses its `env_config`.
    """
    seen = masked.beside_mask(spaces(env)[0])
    hidden = algorithm["rl_module"].get("fcnet_hiddens") or ()
    between_layers = [a * b for a, b in itertools.pairwise(hidden)]
    # height, width, channels
    return len(seen.shape or ()) == 3 or max(between_layers, default=0) >= _LARGE_LAYER


def request_for(config: AlgorithmConfig) -> PlacementGroupFactory:
    """The request that RLlib will make of Ray: a bundle for the trial's process, one a runner, one a learner."""
    return config.algo_class.default_resource_request(config)
