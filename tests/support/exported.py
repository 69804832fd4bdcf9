"""Policies with random weights, built from a plan without Ray, and the loop in which anybody runs an exported one."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID

from experiments.config.trial_config import TrialConfig
from experiments.fast.preprocessing.modules import Preprocessed
from experiments.fast.preprocessing.moments import Moments
from experiments.policies.policy import Policy
from experiments.rllib.building import build_algorithm_config, environment_of
from experiments.rllib.made_environments import spaces

SMALL = ("study=single", "seeds=[0]", "evaluation.final_episodes=4")
LSTM = ("++algorithm.rl_module.use_lstm=true", "++algorithm.rl_module.lstm_cell_size=8")


def policy_of(trial: TrialConfig, seed: int = 7) -> Policy:
    """A trial's policy with random weights, so large that it does not act alike everywhere,
    and with statistics, if it has any.
    """
    config, found = build_algorithm_config(trial), spaces(environment_of(trial))
    module = config.copy(copy_frozen=False).get_rl_module_spec(spaces={DEFAULT_MODULE_ID: found}).build()
    torch.manual_seed(seed)
    with torch.no_grad():
        for weights in module.parameters():
            if weights.dim() > 1:
                drawn = torch.randn_like(weights)
                if weights.dim() > 2:  # a picture's light would decide, which is the same everywhere
                    drawn -= drawn.mean((1, 2, 3), keepdim=True)
                weights.copy_(2 * drawn / weights[0].numel() ** 0.5)
            else:
                weights.zero_()  # biases, that would outweigh CartPole's small observations
    if isinstance(module, Preprocessed) and (running := module.preprocessing.of_observations) is not None:
        random = np.random.default_rng(0)
        shape = tuple(running.mean.shape)
        running.set_moments(Moments(random.normal(0, 0.05, shape), random.uniform(0.01, 0.1, shape), 100.0))
    return Policy(trial, module.eval(), None, bool(config.normalize_actions), bool(config.clip_actions), 0)


def played(act: Callable[[Any], Any], facts: Mapping[str, str]) -> list[float]:
    """The returns of the episodes of an exported policy's score.

    Args:
        act: Observations (envs, ...) in the type of the file's input to actions (envs, ...).
        facts: The metadata.
    """
    count, seeds = int(facts["score_episodes"]), json.loads(facts["env_seeds"])
    envs = gym.make_vec(
        facts["env_id"], num_envs=count, vectorization_mode=facts["vectorize_mode"], **json.loads(facts["env_config"])
    )
    observations, _ = envs.reset(seed=seeds if len(seeds) == count else seeds[0])
    returns, running = np.zeros(count), np.ones(count, dtype=bool)
    while running.any():
        observations, rewards, terminated, truncated, _ = envs.step(act(observations.astype(np.float32)))
        returns[running] += rewards[running]
        running &= ~(terminated | truncated)
    envs.close()
    return list(returns.tolist())
