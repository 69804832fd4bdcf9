"""The suite's hooks in RLlib: independent streams for every environment, and exact episode statistics."""

import random
from typing import Any

import numpy as np
import torch

from experiments.envs import staggered
from experiments.envs.envpool import EnvPoolVector
from experiments.fast.env_runner import deferrable
from experiments.limits.arithmetic import Arithmetic
from experiments.rllib.seeding import Role, process_seed, stream_seed, stream_seeds

EPISODES = "suite_episodes"
"""Key under `env_runners` of an RLlib result that holds the statistics of the episodes that ended in the iteration."""
STAGGERED = f"{staggered.__name__}:{staggered.ID}"
"""Registered id of environments whose first episodes are cut short."""


def seed_streams(*, seed: int, arithmetic: Arithmetic, env_runner: Any, segment: int = 0, **kwargs: Any) -> None:
    """`on_environment_created`: replace RLlib's `seed + worker_index + i` by independent seeds, before the first reset,
    and say when the first episodes end where they are to be cut short.

    Args:
        seed: The user's replicate number.
        arithmetic: How a runner's process computes.
        env_runner: The runner that has just made its environments, or is about to reset them.
        segment: Which stretch between two checkpoints of the trial comes next.
        **kwargs: Other arguments of RLlib's.
    """
    arithmetic.take()
    index = env_runner.worker_index
    first_env = max(0, index - 1) * env_runner.num_envs
    env_seeds = stream_seeds(seed, Role.ENV, env_runner.num_envs, first_env, segment)
    # An environment with a vector entry point has one generator for all its sub-environments.
    one_generator = env_runner.config.gym_env_vectorize_mode == "vector_entry_point"
    # None: beside remote ones
    one_generator = one_generator and not isinstance(getattr(env_runner.env, "unwrapped", None), EnvPoolVector)
    env_runner._seed = env_seeds[0] if one_generator and env_seeds else env_seeds
    seed_process(process_seed(seed, Role.RUNNER, index, segment))
    if env_runner.env is not None and env_runner.config.env == STAGGERED:
        shares = staggered.first_shares(
            env_runner.num_envs, max(0, index - 1), max(1, env_runner.config.num_env_runners)
        )
        env_runner.env.unwrapped.set_attr(staggered.FIRST_SHARE, shares)


def seed_process(seed: int) -> None:
    """Seed the global generators of this process: Python's, NumPy's, and torch's on every device."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def seed_replay(*, seed: int, algorithm: Any, segment: int = 0, **kwargs: Any) -> None:
    """`on_algorithm_init`: seed the replay buffer, which RLlib leaves to the operating system's entropy
    (`utils/replay_buffers/episode_replay_buffer.py`: `default_rng(seed=None)`).

    Args:
        seed: The user's replicate number.
        algorithm: The algorithm that has just been built.
        segment: Which stretch between two checkpoints of the trial comes next.
        **kwargs: Other arguments of RLlib's.
    """
    if hasattr(algorithm.local_replay_buffer, "rng"):
        algorithm.local_replay_buffer.rng = np.random.default_rng(stream_seed(seed, Role.REPLAY, segment=segment))


@deferrable
def log_episode(*, episode: Any, prev_episode_chunks: Any, metrics_logger: Any, **kwargs: Any) -> None:
    """`on_episode_end`: log sums, since RLlib's `episode_return_mean` is a mean of per-runner means over a window.

    An episode that was cut short is left out: its return is that of a part.

    Args:
        episode: The last chunk of the episode that ended.
        prev_episode_chunks: The episode's earlier chunks, if it spans several fragments.
        metrics_logger: The runner's MetricsLogger.
        **kwargs: Other arguments of RLlib's.
    """
    if episode.infos.data[-1].get(staggered.CUT):
        return
    episode_return = episode.get_return() + sum(chunk.get_return() for chunk in prev_episode_chunks or ())
    metrics_logger.log_value((EPISODES, "return_sum"), episode_return, reduce="sum")
    # episode.t counts from the episode's start. The lengths of earlier chunks don't serve: with a local runner the
    # learner has appended a step to each of them (connectors/learner/add_one_ts_to_episodes_and_truncate.py).
    metrics_logger.log_value((EPISODES, "len_sum"), episode.t, reduce="sum")
    metrics_logger.log_value((EPISODES, "count"), 1, reduce="sum")
    metrics_logger.log_value((EPISODES, "return_min"), episode_return, reduce="min")
    metrics_logger.log_value((EPISODES, "return_max"), episode_return, reduce="max")
