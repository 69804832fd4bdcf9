"""RLlib's single-agent env runner with whole fragments in arrays, instead of an episode object
per environment and step.

`SingleAgentEnvRunner` (ray/rllib/env/single_agent_env_runner.py) appends every environment's every step to a Python
object, and runs two pipelines of connectors in between. By default these pass the observations to the module as a
tensor, sample actions from its outputs, scale them to the action space, and pass them to the environments. Here they
run once a fragment, which keeps their logs and their state; the other steps are done directly, and the episodes are cut
out of the arrays when the fragment is complete.

The episodes are the same as RLlib's, to the bit.
"""

import gc
import inspect
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.connectors.common import (
    AddObservationsFromEpisodesToBatch,
    AddStatesFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    BatchIndividualItems,
    NumpyToTensor,
)
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics import ENV_TO_MODULE_CONNECTOR

from experiments.fast.actions import MODULE_TO_ENV
from experiments.fast.fragment import EarlierChunk, Fragment, continuation
from experiments.fast.networks.perceptrons import is_overridden
from experiments.fast.transitions.rows import Chunk

ENV_TO_MODULE = (
    AddObservationsFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    AddStatesFromEpisodesToBatch,
    BatchIndividualItems,
    NumpyToTensor,
)
"""RLlib's default pipeline (algorithms/algorithm_config.py: `build_env_to_module_connector`)."""

_AT_ONCE = ("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end")
_DEFERRABLE = "rllib_fast_deferrable"

_Function = TypeVar("_Function", bound=Callable[..., Any])

logger = logging.getLogger(__name__)


def deferrable(function: _Function) -> _Function:
    """Mark a function that need not be called at every step: an `on_episode_end` callback that reads the episode
    and not the environment is called after the fragment, with the length, return and seconds of the earlier chunks,
    a `_try_env_step` of a subclass for failed steps only.
    """
    setattr(function, _DEFERRABLE, True)
    return function


def is_deferrable(function: Callable[..., Any]) -> bool:
    """True if a function was marked `deferrable`; looks through `functools.partial`."""
    return bool(getattr(getattr(function, "func", function), _DEFERRABLE, False))


class FastEnvRunner(SingleAgentEnvRunner):  # type: ignore[misc]  # RLlib ships no type information
    """Drop-in for `SingleAgentEnvRunner`: `config.env_runners(env_runner_cls=FastEnvRunner)`.

    Where something is not supported (see `why_stock`), a fragment is sampled by RLlib's own code;
    the two can alternate.
    """

    env: Any  # RLlib's Optional, narrowed: it is never None while sampling

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._logged_reasons: set[str] = set()
        self._is_frozen = not self.worker_index  # a local runner leaves garbage collection to the process that it is in

    def why_stock(self, explore: bool, random_actions: bool) -> str | None:
        """The reason why RLlib's own code has to sample the next fragment; None if there is none."""
        if random_actions:
            return "random actions"
        if not isinstance(self.module, TorchRLModule) or self.module.is_stateful():
            return "a module that is stateful, or not torch's"
        forward = "forward_exploration" if explore else "forward_inference"
        if is_overridden(self.module, TorchRLModule, forward):
            return f"a {forward} of the module's own"
        if tuple(map(type, self._env_to_module.connectors)) != ENV_TO_MODULE:
            return "an env-to-module pipeline that is not the default one"
        if tuple(map(type, self._module_to_env.connectors)) != MODULE_TO_ENV:
            return "a module-to-env pipeline that is not the default one"
        spaces = self.env.single_observation_space, self.env.single_action_space
        if any(isinstance(space, gym.spaces.Dict | gym.spaces.Tuple) for space in spaces):
            return "a nested observation or action space"
        if not self.episodes_to_numpy:
            return "episodes that stay lists"
        step = inspect.unwrap(type(self)._try_env_step)  # Ray wraps the methods of an actor's class
        if step is not EnvRunner._try_env_step and not is_deferrable(step):
            return "a _try_env_step of its own"
        for name in _AT_ONCE:
            functions = getattr(self.config, f"callbacks_{name}") or ()
            functions = functions if isinstance(functions, list | tuple) else (functions,)
            overriding = any(getattr(type(c), name) is not getattr(RLlibCallback, name) for c in self._callbacks)
            if overriding or any(name != "on_episode_end" or not is_deferrable(f) for f in functions):
                return f"an {name} callback"
        return None

    def _sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> list[SingleAgentEpisode]:
        reason = self.why_stock(explore, random_actions)
        if reason or not num_timesteps:
            reason = reason or "a number of whole episodes"
            if reason not in self._logged_reasons:
                self._logged_reasons.add(reason)
                logger.info("%s: sampled as RLlib does, since there is %s.", type(self).__name__, reason)
            episodes: list[SingleAgentEpisode] = super()._sample(
                num_timesteps=num_timesteps,
                num_episodes=num_episodes,
                explore=explore,
                random_actions=random_actions,
                force_reset=force_reset,
            )
            return episodes
        if force_reset or self._needs_initial_reset:
            self._reset_envs_and_episodes(explore)
        ended: list[SingleAgentEpisode] = []
        while not (fragment := Fragment(self, explore)).collect(num_timesteps):
            # An environment failed and RLlib made new ones. As RLlib, keep the episodes that had ended,
            # and nothing else.
            fragment.episodes()
            ended += self._end(fragment)
            self._reset_envs_and_episodes(explore)
        ongoing = fragment.episodes()
        self._ongoing_episodes = [continuation(episode, self.config.episode_lookback_horizon) for episode in ongoing]
        # The episodes as of the last step. One that ended with it must not consist of arrays here.
        last = list(self._ongoing_episodes)
        for env_index, episode in fragment.ended:
            if not ongoing[env_index].is_reset:
                last[env_index] = SingleAgentEpisode(episode.id_, observations=[episode.observations.data[-1]])
        self.prepare_module(last, explore, fragment.last_step())
        done = ended + self._end(fragment)
        self._done_episodes_for_metrics.extend(done)
        chunks = [episode for episode in ongoing if episode.t > 0]
        for chunk in chunks:
            self._ongoing_episodes_for_metrics[chunk.id_].append(EarlierChunk.of(chunk))
        self._log_env_steps(metric=self._metrics_num_env_steps_sampled, num_steps=fragment.env_steps)
        self._increase_sampled_metrics(fragment.env_steps, len(done))
        if not self._is_frozen:
            # Takes RLlib's modules, which stay, out of Python's full collections: these take 180 ms each otherwise.
            gc.collect()
            gc.freeze()
            self._is_frozen = True
        return done + chunks

    def get_metrics(self) -> Any:
        """As RLlib's, whose metrics of episodes are over a window of the last ones: the others are not looked at."""
        # Ray wraps an actor's methods
        if inspect.unwrap(type(self)._log_episode_metrics) is SingleAgentEnvRunner._log_episode_metrics:
            config, done = self.config, self._done_episodes_for_metrics
            window = max(1, math.ceil(config.metrics_num_episodes_for_smoothing / (config.num_env_runners or 1)))
            for episode in done[:-window]:
                self._ongoing_episodes_for_metrics.pop(episode.id_, None)
            del done[:-window]
        return super().get_metrics()

    def _end(self, fragment: Fragment) -> list[SingleAgentEpisode]:
        """Call `on_episode_end` for the episodes that ended; returns them."""
        for env_index, episode in fragment.ended:
            self._make_on_episode_callback("on_episode_end", env_index, {env_index: episode})
        return [episode for _, episode in fragment.ended]

    def on_step(self) -> None:
        """Hook for subclasses: called at every step of all environments."""

    def on_steps(self, observations: np.ndarray, rewards: np.ndarray) -> None:
        """Hook for subclasses: called with the data of env steps, before episodes are made of them.

        Called as well if the module fails on the last observations: an error that is raised here replaces the module's.

        Args:
            observations: [T, N, ...], of T steps of N environments.
            rewards: [T, N].
        """

    def on_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Hook for subclasses: called with what a `DirectSampler` sampled on this runner,
        whose `sample` is not called then.

        Args:
            chunks: Chunks of episodes, as they go to a replay buffer.
        """

    def on_step_seconds(self, env_step_s: float, inference_s: float) -> None:
        """Hook for subclasses: called with the seconds that all steps of a fragment took.

        Args:
            env_step_s: Seconds in the environments.
            inference_s: Seconds in the policy.
        """

    def prepare_module(self, episodes: list[SingleAgentEpisode], explore: bool, last_step: dict[str, Any]) -> None:
        """Make the module's next input by RLlib's own pipeline.

        Args:
            episodes: One for each environment, as of the last step.
            explore: Whether the next actions are sampled.
            last_step: The last step's columns, which RLlib passes to the pipeline as well.
        """
        self._cached_to_module = self._env_to_module(
            episodes=episodes,
            batch={},
            explore=explore,
            rl_module=self.module,
            shared_data=self._shared_data,
            metrics=self.metrics,
            metrics_prefix_key=(ENV_TO_MODULE_CONNECTOR,),
            **last_step,
        )

    def handle_failed_step(self, error: Exception) -> Any:
        """Handle the error of a step as RLlib does: raise it, or make new environments and return ENV_STEP_FAILURE."""
        failed = _FailedEnv(self.env, error)
        self.env = failed
        try:
            return self._try_env_step(None)
        finally:
            if self.env is failed:
                self.env = failed.env


class _FailedEnv:
    """An environment whose step raises an error."""

    def __init__(self, env: Any, error: Exception) -> None:
        self.env, self._error = env, error

    def step(self, actions: Any) -> Any:
        raise self._error

    def close(self) -> None:
        self.env.close()
