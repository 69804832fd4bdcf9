"""The size of a trial's networks, replay buffer and checkpoints."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import tree
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from experiments.config.trial_config import TrialConfig
from experiments.fast.off_policy import BUFFERS, FastOffPolicy
from experiments.rllib.building import environment_of, networks_key, networks_of
from experiments.rllib.made_environments import spaces
from experiments.rllib.ppo_ewma import PPOEWMAConfig

_CHECKPOINT_BYTES = 100_000
"""Bytes that RLlib writes of an algorithm beside its weights: configuration, metrics, counters.
Measured, as the next three."""
_TRANSITION_BYTES = 200
_PRIORITY_BYTES = 100
_FAST_TRANSITION_BYTES = 90  # with its priority

_sizes: dict[Hashable, "Networks"] = {}
"""Of networks that were built, by what they are like: a study has many configurations of a few networks."""


@dataclass(frozen=True)
class Networks:
    """Sizes of a learner's networks.

    Attributes:
        bytes: Of all weights, those of target networks among them.
        state_bytes: Of the state that recurrent ones keep from step to step.
    """

    bytes: int
    state_bytes: int = 0


def networks_sizes(trial: TrialConfig, config: AlgorithmConfig) -> Networks:
    """Sizes of a trial's networks, which are built where none like them were.

    Raises:
        ConfigurationError: RLlib cannot build them.
    """
    key = networks_key(trial, config)
    if key is not None and key in _sizes:
        return _sizes[key]
    built = networks_of(trial, config)
    weights = sum(p.nbytes for p in built.state_dict().values())
    found = Networks(int(weights), sum(int(state.nbytes) for state in tree.flatten(built.get_initial_state())))
    if key is not None:
        _sizes[key] = found
    return found


def checkpoint_bytes(trial: TrialConfig, config: AlgorithmConfig, networks: Networks) -> tuple[int, int]:
    """About how many bytes checkpoints of a trial take: the largest of those that it trains on from, since a replay
    buffer fills, and that of a trial that has finished, without the samples.
    """
    size = _CHECKPOINT_BYTES + 3 * networks.bytes  # Adam keeps two moments of each
    samples = replay_bytes(trial, config, networks) if trial.checkpoint.replay else 0
    if isinstance(config, PPOEWMAConfig):
        size += networks.bytes
        samples += config.staleness * config.total_train_batch_size * (_step_bytes(trial) + _TRANSITION_BYTES)
    return size + samples, size


def replay_bytes(trial: TrialConfig, config: AlgorithmConfig, networks: Networks) -> int:
    """About how many bytes a trial's replay buffer takes when it is as full as it becomes; 0 without one."""
    replay = getattr(config, "replay_buffer_config", None)
    if not replay:
        return 0
    capacity = int(replay["capacity"])
    # RLlib's own keeps the state of recurrent networks with each step
    fast = issubclass(config.algo_class, FastOffPolicy) and replay["type"] in BUFFERS and not networks.state_bytes
    each = _step_bytes(trial) + networks.state_bytes + (_FAST_TRANSITION_BYTES if fast else _TRANSITION_BYTES)
    samples = min(capacity, trial.budget_env_steps) * each
    return samples + (capacity * _PRIORITY_BYTES if "Prioritized" in str(replay["type"]) and not fast else 0)


def _step_bytes(trial: TrialConfig) -> int:
    """Of an observation and an action."""
    return sum(int(np.asarray(space.sample()).nbytes) for space in spaces(environment_of(trial)))
