"""RLlib's single-agent env runner with whole fragments in arrays, instead of an episode object per environment and step.

`SingleAgentEnvRunner` (ray/rllib/env/single_agent_env_runner.py) appends every environment's every step to a Python object, and walks two
pipelines of connectors in between. What these pipelines do by default can be said in a line: the observations go into the module as a
tensor, actions are sampled from what comes out, scaled to the action space, and go into the environments. Here they are run once a
fragment, so that whatever they log and keep is there; the other steps are done directly, and the episodes are cut out of the arrays
when the fragment is complete.

The episodes are the same as RLlib's, to the bit.
"""

import gc
import inspect
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
import torch
from gymnasium.wrappers.vector import DictInfoToList
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.connectors.common import (
    AddObservationsFromEpisodesToBatch,
    AddStatesFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    BatchIndividualItems,
    NumpyToTensor,
    TensorToNumpy,
)
from ray.rllib.connectors.module_to_env import (
    GetActions,
    ListifyDataForVectorEnv,
    NormalizeAndClipActions,
    RemoveSingleTsTimeRankFromBatch,
    UnBatchToIndividualItems,
)
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.env.env_runner import ENV_STEP_FAILURE, EnvRunner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.metrics import (
    ENV_STEP_TIMER,
    ENV_TO_MODULE_CONNECTOR,
    MODULE_TO_ENV_CONNECTOR,
    RLMODULE_INFERENCE_TIMER,
    WEIGHTS_SEQ_NO,
)
from ray.rllib.utils.numpy import convert_to_numpy
from ray.rllib.utils.spaces.space_utils import clip_action, unbatch, unsquash_action

from experiments.fast.networks import plain_policy

_ENV_TO_MODULE = (
    AddObservationsFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    AddStatesFromEpisodesToBatch,
    BatchIndividualItems,
    NumpyToTensor,
)
_MODULE_TO_ENV = (
    GetActions,
    TensorToNumpy,
    UnBatchToIndividualItems,
    RemoveSingleTsTimeRankFromBatch,
    NormalizeAndClipActions,
    ListifyDataForVectorEnv,
)
"""RLlib's default pipelines (algorithms/algorithm_config.py: `build_env_to_module_connector`, `build_module_to_env_connector`)."""

_AT_ONCE = ("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end")
_DEFERRABLE = "rllib_fast_deferrable"

_Function = TypeVar("_Function", bound=Callable[..., Any])

logger = logging.getLogger(__name__)


def deferrable(function: _Function) -> _Function:
    """Mark what need not be called at every step: an `on_episode_end` callback that looks at the episode and not at the environment may be
    called after the fragment, a runner's own `_try_env_step` for steps that fail only.
    """
    setattr(function, _DEFERRABLE, True)
    return function


def is_deferrable(function: Callable[..., Any]) -> bool:
    """Whether a function was marked `deferrable`; looks through `functools.partial`."""
    return bool(getattr(getattr(function, "func", function), _DEFERRABLE, False))


class FastEnvRunner(SingleAgentEnvRunner):  # type: ignore[misc]  # RLlib ships no type information
    """Drop-in for `SingleAgentEnvRunner`: `config.env_runners(env_runner_cls=FastEnvRunner)`.

    Where something needs RLlib's way (see `why_stock`), a fragment is sampled by RLlib's own code; the two can take turns.
    """

    env: Any  # RLlib's Optional, narrowed: it is there whenever there is something to sample

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._said: set[str] = set()
        self._settled = not self.worker_index  # whoever owns a process may freeze it

    def why_stock(self, explore: bool, random_actions: bool) -> str | None:
        """Why the next fragment has to be sampled by RLlib's own code; None if it need not."""
        if random_actions:
            return "random actions"
        if not isinstance(self.module, TorchRLModule) or self.module.is_stateful():
            return "a module that is stateful, or not torch's"
        if tuple(map(type, self._env_to_module.connectors)) != _ENV_TO_MODULE:
            return "an env-to-module pipeline that is not the default one"
        if tuple(map(type, self._module_to_env.connectors)) != _MODULE_TO_ENV:
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
            if reason and reason not in self._said:
                self._said.add(reason)
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
        given_up: list[SingleAgentEpisode] = []
        while not (fragment := _Fragment(self, explore)).collect(num_timesteps):
            # An environment failed and all were made anew. RLlib keeps the episodes that had ended, and nothing else.
            fragment.episodes()
            given_up += self._end(fragment)
            self._reset_envs_and_episodes(explore)
        ongoing = fragment.episodes()
        self._ongoing_episodes = [_continuation(episode, self.config.episode_lookback_horizon) for episode in ongoing]
        # In the last step's state. An episode that ended with it may not be an array here.
        last = list(self._ongoing_episodes)
        for env_index, episode in fragment.ended:
            if not ongoing[env_index].is_reset:
                last[env_index] = SingleAgentEpisode(episode.id_, observations=[episode.observations.data[-1]])
        self._cached_to_module = self._env_to_module(
            episodes=last,
            batch={},
            explore=explore,
            rl_module=self.module,
            shared_data=self._shared_data,
            metrics=self.metrics,
            metrics_prefix_key=(ENV_TO_MODULE_CONNECTOR,),
            **fragment.last_step(),
        )
        done = given_up + self._end(fragment)
        self._done_episodes_for_metrics.extend(done)
        chunks = [episode for episode in ongoing if episode.t > 0]
        for chunk in chunks:
            self._ongoing_episodes_for_metrics[chunk.id_].append(chunk)
        self._log_env_steps(metric=self._metrics_num_env_steps_sampled, num_steps=fragment.env_steps)
        self._increase_sampled_metrics(fragment.env_steps, len(done))
        if not self._settled:
            # What is there now stays: of Python's full collections, 180 ms each, this process would do nothing but walk RLlib's modules.
            gc.collect()
            gc.freeze()
            self._settled = True
        return done + chunks

    def _end(self, fragment: "_Fragment") -> list[SingleAgentEpisode]:
        """Call back for the episodes that ended."""
        for env_index, episode in fragment.ended:
            self._make_on_episode_callback("on_episode_end", env_index, {env_index: episode})
        return [episode for _, episode in fragment.ended]

    def see(self, observations: np.ndarray, rewards: np.ndarray) -> None:
        """For subclasses: look at what a fragment collected, before episodes are made of it.

        Called as well if the module cannot act on the last observations; what is raised here comes first.

        Args:
            observations: [T, N, ...], of T steps of N environments.
            rewards: [T, N].
        """

    def see_seconds(self, env_step_s: float, inference_s: float) -> None:
        """For subclasses: take in what the steps of a fragment took, all in all.

        Args:
            env_step_s: Seconds in the environments.
            inference_s: Seconds in the policy.
        """

    def _step_failed(self, error: Exception) -> Any:
        """RLlib's own answer to a step that raised: raises as well, or makes the environments anew."""
        failed = _FailedEnv(self.env, error)
        self.env = failed
        try:
            return self._try_env_step(None)
        finally:
            if self.env is failed:
                self.env = failed.env


class _FailedEnv:
    def __init__(self, env: Any, error: Exception) -> None:
        self.env, self._error = env, error

    def step(self, actions: Any) -> Any:
        raise self._error

    def close(self) -> None:
        self.env.close()


class _Fragment:
    """Some steps of all environments of a runner, one after the other, and the episodes that they are.

    Attributes:
        env_steps: Steps so far; a reset is none.
        ended: Index of the environment and episode, of those that ended, in the order in which they did.
    """

    def __init__(self, runner: FastEnvRunner, explore: bool) -> None:
        self.env_steps = 0
        self.ended: list[tuple[int, SingleAgentEpisode]] = []
        self._runner, self._explore, self._num_envs = runner, explore, runner.num_envs
        # One item per step; of observations, actions and flags an array with an item per environment.
        self._observations: list[Any] = []
        self._actions: list[Any] = []
        self._rewards: list[Any] = []
        self._terminated: list[Any] = []
        self._truncated: list[Any] = []
        self._resets: list[Any] = []
        self._infos: list[Any] = []
        self._seconds: list[float] = []
        self._outputs: list[dict[str, Any]] = []  # tensors, of all steps but the first
        self._first_outputs: dict[str, list[Any]] = {}

    def collect(self, num_timesteps: int) -> bool:
        """Step all environments until there are `num_timesteps` env steps; False if a step failed and the environments are new."""
        runner = self._runner
        module, training = runner.module, runner.module.training
        module.eval()  # once: RLlib walks the whole module at every step
        try:
            with torch.no_grad():
                return self._collect(num_timesteps)
        except Exception:
            if self._observations:
                runner.see(np.stack(self._observations), np.stack(self._rewards))
            raise
        finally:
            if training:
                module.train()

    def _collect(self, num_timesteps: int) -> bool:
        runner, num_envs = self._runner, self._num_envs
        step_envs, as_list = _stepper(runner.env)
        forward, policy = self._forward(), _Policy(runner, self._explore)
        resets = np.array([not episode.is_reset for episode in runner._ongoing_episodes])
        to_module, runner._cached_to_module = runner._cached_to_module, None
        device, dtype = to_module[Columns.OBS].device, to_module[Columns.OBS].dtype
        inference_s = env_s = 0.0
        while self.env_steps < num_timesteps:
            start = time.perf_counter()
            if not self._observations:
                actions, for_env = self._first_actions(forward(to_module, 0))
            else:
                # Contiguous, as RLlib's copy is: a product of another layout differs in the last bit.
                batch = {Columns.OBS: torch.from_numpy(np.ascontiguousarray(self._observations[-1])).to(device, dtype)}
                outputs = forward(batch, self.env_steps)
                actions, for_env = policy(outputs)
                self._outputs.append(outputs)
            stepping = time.perf_counter()
            try:
                observations, rewards, terminated, truncated, infos = step_envs(for_env)
            except Exception as error:  # RLlib decides what becomes of it
                if runner._step_failed(error) != ENV_STEP_FAILURE:
                    raise
                del self._outputs[max(0, len(self._actions) - 1) :]
                self._resets.append(resets)
                return False
            now = time.perf_counter()
            inference_s += stepping - start
            env_s += now - stepping
            self._observations.append(observations)
            self._actions.append(actions)
            self._rewards.append(rewards)
            self._terminated.append(terminated)
            self._truncated.append(truncated)
            self._resets.append(resets)
            self._infos.append(as_list(infos))
            self._seconds.append(now)
            self.env_steps += num_envs - int(np.count_nonzero(resets))
            resets = (terminated | truncated) & ~resets  # what an environment says of itself at its reset does not count
        self._resets.append(resets)
        steps = len(self._actions)
        runner._log_env_steps(metric=runner._metrics_num_try_env_step, num_steps=steps)
        runner.metrics.log_value(ENV_STEP_TIMER, env_s / steps)
        runner.metrics.log_value(RLMODULE_INFERENCE_TIMER, inference_s / steps)
        runner.see_seconds(env_s, inference_s)
        return True

    def _forward(self) -> Callable[[dict[str, Any], int], dict[str, Any]]:
        """The module's forward pass, at an env step of this fragment."""
        runner = self._runner
        if policy := plain_policy(runner.module):
            return lambda batch, env_steps: policy(batch)
        if not self._explore:
            return lambda batch, env_steps: runner.module._forward_inference(batch)
        others = runner.config.num_env_runners or 1
        before = runner.num_env_steps_sampled_lifetime // others  # as RLlib estimates what all runners have sampled
        return lambda batch, env_steps: runner.module._forward_exploration(batch, t=(before + env_steps) * others)

    def _first_actions(self, outputs: dict[str, Any]) -> tuple[Any, Any]:
        """The first step's actions, through RLlib's own pipeline."""
        runner = self._runner
        outputs = runner._module_to_env(
            rl_module=runner.module,
            batch=outputs,
            episodes=runner._ongoing_episodes,
            explore=self._explore,
            shared_data=runner._shared_data,
            metrics=runner.metrics,
            metrics_prefix_key=(MODULE_TO_ENV_CONNECTOR,),
        )
        actions = outputs.pop(Columns.ACTIONS)
        for_env = outputs.pop(Columns.ACTIONS_FOR_ENV, actions)
        self._first_outputs = outputs
        return actions, for_env

    def episodes(self) -> list[SingleAgentEpisode]:
        """Cut the episodes out of what was collected: the last of each environment, and in `ended` those that ended.

        The runner's ongoing episodes grow in place, and are arrays then.
        """
        runner = self._runner
        ongoing = list(runner._ongoing_episodes)
        if not self._observations:
            return ongoing
        spaces = runner.env.single_observation_space, runner.env.single_action_space
        blank = SingleAgentEpisode(observation_space=spaces[0], action_space=spaces[1])
        observations, rewards = np.stack(self._observations), np.stack(self._rewards)
        runner.see(observations, rewards)
        columns = _Columns(_by_env(observations), _by_env(np.stack(self._actions)), _by_env(rewards), self._columns_of_outputs())
        ended = _by_env(np.stack(self._resets[1:]))
        found: list[tuple[int, int, SingleAgentEpisode]] = []
        for env_index in range(self._num_envs):
            start = 0
            for last in np.flatnonzero(ended[env_index]).tolist():
                episode = ongoing[env_index]
                self._extend(episode, columns, env_index, start, last + 1)
                episode.is_terminated = self._terminated[last][env_index]
                episode.is_truncated = self._truncated[last][env_index]
                found.append((last, env_index, episode))
                ongoing[env_index] = _like(blank)
                start = last + 1
            if start < len(self._actions):
                self._extend(ongoing[env_index], columns, env_index, start, len(self._actions))
        self.ended = [(env_index, episode) for _, env_index, episode in sorted(found, key=lambda one: one[:2])]
        return ongoing

    def _columns_of_outputs(self) -> dict[str, np.ndarray]:
        columns = {}
        for name, first in self._first_outputs.items():
            rest = [outputs[name] for outputs in self._outputs]
            steps = [np.stack(first)[np.newaxis], *([convert_to_numpy(torch.stack(rest))] if rest else [])]
            columns[name] = _by_env(np.concatenate(steps))
        shape = self._num_envs, len(self._actions)
        columns[WEIGHTS_SEQ_NO] = np.full(shape, self._runner._weights_seq_no)
        return columns

    def _extend(self, episode: SingleAgentEpisode, columns: "_Columns", env_index: int, start: int, stop: int) -> None:
        """Add the steps from `start` to `stop` of an environment to an episode; the first is its reset, if it had none."""
        infos = [self._infos[step][env_index] if self._infos[step] else {} for step in range(start, stop)]
        _add(episode.observations, columns.observations[env_index, start:stop])
        episode.infos.data.extend(infos)
        seconds = self._seconds
        if len(episode.observations) == stop - start:  # without those of an earlier fragment
            episode._start_time = seconds[start]
            start += 1
        if start < stop:
            _add(episode.actions, columns.actions[env_index, start:stop])
            _add(episode.rewards, columns.rewards[env_index, start:stop])
            for name, outputs in columns.outputs.items():
                if name not in episode.extra_model_outputs:
                    episode.extra_model_outputs[name] = InfiniteLookbackBuffer()
                _add(episode.extra_model_outputs[name], outputs[env_index, start:stop])
            episode.t += stop - start
            episode._last_step_time = seconds[stop - 1]
            if episode._start_time is None:
                episode._start_time = seconds[start]
        episode._last_added_observation = columns.observations[env_index, stop - 1]
        episode._last_added_infos = infos[-1]

    def last_step(self) -> dict[str, Any]:
        """What RLlib hands to the env-to-module pipeline beside the episodes."""
        return {
            Columns.OBS: unbatch(self._observations[-1]),
            Columns.ACTIONS: unbatch(self._actions[-1]),
            Columns.REWARDS: self._rewards[-1],
            Columns.INFOS: self._infos[-1] or [{} for _ in range(self._num_envs)],
            Columns.TERMINATEDS: self._terminated[-1],
            Columns.TRUNCATEDS: self._truncated[-1],
        }


@dataclass(frozen=True)
class _Columns:
    """A fragment's data, [N, T, ...] of N environments and T steps, so that an episode is a slice."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    outputs: dict[str, np.ndarray]


class _Policy:
    """From a module's outputs to actions: what RLlib's default module-to-env pipeline does, on whole batches."""

    def __init__(self, runner: FastEnvRunner, explore: bool) -> None:
        self._dtype = np.float32 if np.issubdtype(runner.env.single_action_space.dtype, np.floating) else np.int32
        self._sample = runner._module_to_env.connectors[0]._get_actions
        self._module, self._explore = runner.module, explore
        self._categorical = explore and runner.module.get_exploration_action_dist_cls() is TorchCategorical
        scaling = runner._module_to_env.connectors[_MODULE_TO_ENV.index(NormalizeAndClipActions)]
        is_box = isinstance(runner.env.single_action_space, gym.spaces.Box)
        self._space = runner.env.single_action_space if is_box and (scaling.normalize_actions or scaling.clip_actions) else None
        self._scale = unsquash_action if scaling.normalize_actions else clip_action

    def __call__(self, outputs: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Actions, and the same as the environments take them; the outputs are left with what else an episode keeps."""
        if self._categorical and Columns.ACTIONS not in outputs:
            # As torch.distributions.Categorical does it, without the object around it.
            logits = outputs[Columns.ACTION_DIST_INPUTS]
            logits = logits - logits.logsumexp(dim=-1, keepdim=True)
            chosen = torch.multinomial(torch.nn.functional.softmax(logits, dim=-1), 1, True)
            outputs[Columns.ACTION_LOGP] = logits.gather(-1, chosen).squeeze(-1)
            actions = chosen.squeeze(-1)
        else:
            self._sample(outputs, self._module, self._explore)
            actions = outputs.pop(Columns.ACTIONS)
        taken = actions.cpu().numpy().astype(self._dtype, copy=False)  # 32 bits, as RLlib converts it
        return taken, taken if self._space is None else self._scale(taken, self._space)


def _stepper(env: Any) -> tuple[Callable[[Any], Any], Callable[[Any], list[dict[str, Any]] | None]]:
    """An environment's step, and what makes a list of its infos; None if they are all empty."""
    if type(env) is not DictInfoToList:
        return env.step, lambda infos: infos
    # Without the list of empty infos that the wrapper makes at every step.
    return env.env.step, lambda infos: env._convert_info_to_list(infos) if infos else None


def _by_env(array: np.ndarray) -> np.ndarray:
    """[T, N, ...] as [N, T, ...]."""
    return np.ascontiguousarray(array.swapaxes(0, 1))


def _add(buffer: InfiniteLookbackBuffer, items: np.ndarray) -> None:
    """Add steps to a buffer, which is an array then."""
    buffer.data = np.concatenate([np.stack(buffer.data), items]) if buffer.data else items
    buffer.finalized = True


def _like(blank: SingleAgentEpisode) -> SingleAgentEpisode:
    """Another episode without data, of the same spaces: RLlib's constructor walks both, for 40 us."""
    episode = SingleAgentEpisode.__new__(SingleAgentEpisode)
    for name in SingleAgentEpisode.__slots__:
        value = getattr(blank, name)
        if isinstance(value, InfiniteLookbackBuffer):
            buffer = InfiniteLookbackBuffer.__new__(InfiniteLookbackBuffer)
            vars(buffer).update(vars(value), data=[])
            value = buffer
        setattr(episode, name, {} if isinstance(value, dict) else value)
    episode.id_ = uuid.uuid4().hex
    return episode


def _continuation(episode: SingleAgentEpisode, lookback: int) -> SingleAgentEpisode:
    """`SingleAgentEpisode.cut`, ready to be added to."""
    cut = episode.cut(lookback)
    for buffer in (cut.observations, cut.actions, cut.rewards, *cut.extra_model_outputs.values()):
        buffer.data, buffer.finalized = list(np.array(buffer.data)), False
    return cut
