"""The facts of a configuration that the analysis needs beside its parameters, to diagnose its trials."""

import math
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.impala import IMPALAConfig

from experiments.config.schema import EnvSettings, HardwareSettings
from experiments.limits.cpus import usable_cpus
from experiments.planning.machines import Cluster
from experiments.rllib.made_environments import has_vector_entry_point, spaces


def facts_of(config: AlgorithmConfig, env: EnvSettings, hardware: HardwareSettings, cluster: Cluster) -> dict[str, Any]:
    """Facts under the names of `analysis.questions.facts.Facts`, as JSON can hold them.

    Args:
        config: RLlib's, of the configuration.
        env: The configuration's environment.
        hardware: The configuration's hardware profile.
        cluster: The machines that it runs on; its CPUs may be logical ones.
    """
    _, actions = spaces(env)
    replay: Mapping[str, Any] = getattr(config, "replay_buffer_config", None) or {}
    return {
        "has_vector_entry_point": has_vector_entry_point(env),
        "max_entropy": math.log(actions.n) if isinstance(actions, gym.spaces.Discrete) else None,
        "action_dims": int(np.prod(actions.shape)) if isinstance(actions, gym.spaces.Box) else None,
        # Of its class: an algorithm may have any name.
        "asynchronous": isinstance(config, IMPALAConfig),
        "replays": hasattr(config, "replay_buffer_config"),
        "kl_target": getattr(config, "kl_target", None),
        "replay_capacity": int(replay["capacity"]) if replay else None,
        # Not what was declared: processes share the cores that there are.
        "num_cpus": usable_cpus().usable if hardware.address is None else int(cluster.num_cpus),
        "num_gpus": cluster.num_gpus,
    }
