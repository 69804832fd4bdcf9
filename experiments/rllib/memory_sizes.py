"""The memory that a trial's processes take: predicted before it runs, from its networks, batches and replay buffer."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from experiments.config.trial_config import TrialConfig
from experiments.rllib.building import environment_of
from experiments.rllib.checkpoint_sizes import Networks, replay_bytes
from experiments.rllib.made_environments import spaces

# Bytes that were measured: docs/memory.md.
_PROCESS_BYTES = 465 * 2**20
"""Of a process that has imported torch and RLlib, without networks, samples and environments."""
_CUDA_BYTES = 2 * 2**30
"""Of a process that learns on a GPU, beside it: CUDA's libraries and its context."""
_ROW_BYTES = 6000
"""Of a step of a batch, beside its observation: actions, infos, outputs of the networks, advantages, bookkeeping:
between 1,600 (CartPole) and 12,000 (HalfCheetah)."""
_OBSERVATIONS = 6.0
"""Times that a step's observation, as the network takes it, is in memory while a batch is learned from."""


@dataclass(frozen=True)
class ProcessMemory:
    """Bytes that the processes of a trial take, without environments.

    Attributes:
        own: The trial's own process.
        runner: Each of its runners.
        learner: Each of its learners.
        replay: The part of its own that a full replay buffer takes.
    """

    own: int
    runner: int
    learner: int
    replay: int = 0


def process_memory(trial: TrialConfig, config: AlgorithmConfig, networks: Networks) -> ProcessMemory:
    """The most that they are predicted to take.

    Args:
        trial: A trial of the configuration.
        config: The same as RLlib's configuration.
        networks: Sizes of a learner's networks.
    """
    learning = 4 * networks.bytes  # weights, gradients and Adam's two moments
    learning += _CUDA_BYTES if config.num_gpus_per_learner else 0
    row = _ROW_BYTES + _OBSERVATIONS * _taken_bytes(spaces(environment_of(trial))[0])
    batch = int(row * config.train_batch_size_per_learner)
    replay = replay_bytes(trial, config, networks)
    own, sampling = _PROCESS_BYTES + replay, networks.bytes
    if config.num_env_runners:
        sampling += batch * max(1, config.num_learners) // config.num_env_runners
    else:
        own += sampling
    if not config.num_learners:
        own += learning + batch
    return ProcessMemory(own, _PROCESS_BYTES + sampling, _PROCESS_BYTES + learning + batch, replay)


def _taken_bytes(observations: Any) -> int:
    """Of an observation as networks take it: in float32, however it is stored."""
    return int(np.prod(observations.shape or (1,))) * np.dtype(np.float32).itemsize
