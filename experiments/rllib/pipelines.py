"""Connectors of a trial's own between environments and module: evaluations pass observations through them,
as RLlib's env runners do.
"""

import copy
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.spaces.space_utils import unbatch

from experiments.fast.actions import MODULE_TO_ENV
from experiments.fast.env_runner import ENV_TO_MODULE


class PipelinePolicy:
    """A policy of environments side by side, one episode after the other in each, by RLlib's pipelines.

    What the connectors have learned of observations so far stays as it is.

    Args:
        module: The trained module.
        env_to_module: RLlib's pipeline; copied.
        module_to_env: RLlib's pipeline; copied.
        observation_space: Observation space of one environment.
        action_space: Action space of one environment.
        explore_at: Env steps sampled by which the module explores as in training; None: its deterministic policy.
    """

    def __init__(
        self,
        module: RLModule,
        env_to_module: Any,
        module_to_env: Any,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        explore_at: int | None = None,
    ) -> None:
        self._explore_at = explore_at
        self._module, self._env_to_module, self._module_to_env = (
            module,
            copy.deepcopy(env_to_module),
            copy.deepcopy(module_to_env),
        )
        for connector in self._env_to_module.connectors:
            if hasattr(connector, "_update_stats"):  # RLlib's MeanStdFilter
                connector._update_stats = False
        self._spaces = {"observation_space": observation_space, "action_space": action_space}
        self._shared: dict[str, Any] = {}
        self._episodes: list[SingleAgentEpisode] = []
        self._actions: Sequence[Any] = ()
        self._outputs: dict[str, Any] = {}

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Observations (envs, ...), of which only the first ones are not known yet, to actions (envs, ...)
        for the environments.
        """
        if not self._episodes:
            self._episodes = [self._first(observation) for observation in unbatch(observations)]
        explore = self._explore_at is not None
        how = {
            "rl_module": self._module,
            "episodes": self._episodes,
            "explore": explore,
            "shared_data": self._shared,
            "metrics": None,
        }
        with torch.no_grad():
            batch = self._env_to_module(batch={}, **how)
            found = (
                self._module._forward_exploration(batch, t=self._explore_at)
                if explore
                else self._module._forward_inference(batch)
            )
            outputs = self._module_to_env(batch=found, **how)
        self._actions = outputs.pop(Columns.ACTIONS)
        for_env = outputs.pop(Columns.ACTIONS_FOR_ENV, self._actions)
        self._outputs = outputs
        return np.asarray(for_env)

    def on_step(
        self, observations: np.ndarray, rewards: np.ndarray, terminated: np.ndarray, truncated: np.ndarray
    ) -> None:
        """Tell what the actions led to, (envs, ...) each; after an episode's end that is the next
        one's first observation.
        """
        for index, (episode, observation) in enumerate(zip(self._episodes, unbatch(observations), strict=True)):
            if episode.is_done:
                self._episodes[index] = self._first(observation)
                continue
            episode.add_env_step(
                observation,
                self._actions[index],
                rewards[index],
                terminated=bool(terminated[index]),
                truncated=bool(truncated[index]),
                extra_model_outputs={name: column[index] for name, column in self._outputs.items()},
            )

    def _first(self, observation: Any) -> SingleAgentEpisode:
        episode = SingleAgentEpisode(**self._spaces)
        episode.add_env_reset(observation)
        return episode


def own_pipelines(algorithm: Any) -> tuple[Any, Any] | None:
    """An algorithm's env-to-module and module-to-env pipelines; None if they are RLlib's default ones."""
    runner = algorithm.env_runner
    # into its connectors RLlib merges those of remote runners; where there is none, into the algorithm's
    if runner is not None:
        pipelines = runner._env_to_module, runner._module_to_env
    else:
        pipelines = algorithm.env_to_module_connector, algorithm.module_to_env_connector
    return None if are_default(*pipelines) else pipelines


def are_default(env_to_module: Any, module_to_env: Any) -> bool:
    """True if pipelines are RLlib's default ones."""
    kinds = tuple(tuple(map(type, pipeline.connectors)) for pipeline in (env_to_module, module_to_env))
    return kinds == (ENV_TO_MODULE, MODULE_TO_ENV)
