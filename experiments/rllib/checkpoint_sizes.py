"""The disk space that a trial's checkpoints take."""

import numpy as np
import tree
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from experiments.config.trial_config import TrialConfig
from experiments.fast.off_policy import BUFFERS
from experiments.rllib.building import environment_of, networks_of
from experiments.rllib.made_environments import spaces
from experiments.rllib.ppo_ewma import PPOEWMAConfig

_CHECKPOINT_BYTES = 100_000
"""Bytes that RLlib writes of an algorithm beside its weights: configuration, metrics, counters.
Measured, as the next three."""
_TRANSITION_BYTES = 200
_PRIORITY_BYTES = 100
_FAST_TRANSITION_BYTES = 90  # with its priority


def checkpoint_bytes(trial: TrialConfig, config: AlgorithmConfig) -> tuple[int, int]:
    """About how many bytes checkpoints of a trial take: the largest of those that it trains on from, since a replay
    buffer fills, and that of a trial that has finished, without the samples.

    Raises:
        ConfigurationError: RLlib cannot build the trial's networks.
    """
    networks = networks_of(trial, config)
    weights = sum(p.nbytes for p in networks.state_dict().values())
    size, samples = _CHECKPOINT_BYTES + 3 * int(weights), 0  # Adam keeps two moments of each
    step = sum(int(np.asarray(space.sample()).nbytes) for space in spaces(environment_of(trial)))
    if isinstance(config, PPOEWMAConfig):
        size += int(weights)
        samples += config.staleness * config.total_train_batch_size * (step + _TRANSITION_BYTES)
    if replay := getattr(config, "replay_buffer_config", None):
        capacity = int(replay["capacity"])
        # each step's; recurrent networks alone have one
        step += sum(state.nbytes for state in tree.flatten(networks.get_initial_state()))
        fast = trial.fast and replay["type"] in BUFFERS and not networks.is_stateful()
        each = step + (_FAST_TRANSITION_BYTES if fast else _TRANSITION_BYTES)
        samples += min(capacity, trial.budget_env_steps) * each
        samples += capacity * _PRIORITY_BYTES if "Prioritized" in str(replay["type"]) and not fast else 0
    return size + samples, size
