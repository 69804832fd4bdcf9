"""A fragment of env steps in arrays, and the episodes that are cut out of them."""

import contextlib
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import tree
from ray.rllib.core.columns import Columns
from ray.rllib.env.env_runner import ENV_STEP_FAILURE
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.metrics import ENV_STEP_TIMER, MODULE_TO_ENV_CONNECTOR, RLMODULE_INFERENCE_TIMER, WEIGHTS_SEQ_NO
from ray.rllib.utils.spaces.space_utils import batch as batch_items
from ray.rllib.utils.spaces.space_utils import unbatch

from experiments.fast.actions import ActionSampler, known_actions, step_function
from experiments.fast.networks.inference import Forward
from experiments.fast.networks.ppo import plain_policy


@dataclass(frozen=True, slots=True)
class EarlierChunk:
    """What RLlib's metrics ask of the earlier chunks of an episode, which it keeps whole until the episode ends: of
    long ones with pictures that is as much as a replay buffer.

    Attributes:
        env_steps: Of the chunk.
        episode_return: Sum of its rewards.
        duration_s: Seconds that it took.
    """

    env_steps: int
    episode_return: float
    duration_s: float

    @staticmethod
    def of(chunk: SingleAgentEpisode) -> "EarlierChunk":
        """A chunk of an episode that goes on."""
        return EarlierChunk(len(chunk), chunk.get_return(), chunk.get_duration_s())

    def __len__(self) -> int:
        return self.env_steps

    def get_return(self) -> float:
        """As `SingleAgentEpisode.get_return`."""
        return self.episode_return

    def get_duration_s(self) -> float:
        """As `SingleAgentEpisode.get_duration_s`."""
        return self.duration_s


class Fragment:
    """Consecutive steps of all environments of a runner, and their episodes.

    Args:
        runner: A `FastEnvRunner`.
        explore: Whether to sample actions.

    Attributes:
        env_steps: Steps so far, without resets.
        ended: Index of the environment and episode, of the episodes that ended, in that order.
    """

    def __init__(self, runner: Any, explore: bool) -> None:
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
        self._outputs: list[dict[str, Any]] = []  # of all steps but the first
        self._first_outputs: dict[str, list[Any]] = {}
        self._policy = ActionSampler(runner, explore)

    def collect(self, num_timesteps: int) -> bool:
        """Step all environments until there are `num_timesteps` env steps; False if a step failed
        and the environments are new.
        """
        runner = self._runner
        module, training = runner.module, runner.module.training
        module.eval()  # once: RLlib walks the whole module at every step
        try:
            with torch.no_grad():
                policy = plain_policy(module)
                with known_actions(runner.env, module) if policy else contextlib.nullcontext():
                    return self._collect(num_timesteps, self._forward_function(policy))
        except Exception:
            if self._observations:
                runner.on_steps(np.stack(self._observations), np.stack(self._rewards))
            raise
        finally:
            if training:
                module.train()

    def _collect(self, num_timesteps: int, forward: Callable[[dict[str, Any], int], dict[str, Any]]) -> bool:
        runner, num_envs = self._runner, self._num_envs
        step_envs, as_list = step_function(runner.env)
        policy = self._policy
        resets = np.array([not episode.is_reset for episode in runner._ongoing_episodes])
        to_module, runner._cached_to_module = runner._cached_to_module, None
        device, dtype = to_module[Columns.OBS].device, to_module[Columns.OBS].dtype
        inference_s = env_s = 0.0
        on_step = runner.on_step
        while self.env_steps < num_timesteps:
            on_step()
            start = time.perf_counter()
            if not self._observations:
                actions, for_env = self._first_actions(forward(to_module, 0))
            else:
                # Contiguous, as RLlib's copy is: a product of another layout differs in the last bit.
                batch = {Columns.OBS: torch.from_numpy(np.ascontiguousarray(self._observations[-1])).to(device, dtype)}
                actions, for_env, outputs = policy(forward(batch, self.env_steps))
                self._outputs.append(outputs)
            stepping = time.perf_counter()
            try:
                observations, rewards, terminated, truncated, infos = step_envs(for_env)
            except Exception as error:  # RLlib raises it, or makes new environments
                if runner.handle_failed_step(error) != ENV_STEP_FAILURE:
                    raise
                del self._outputs[max(0, len(self._actions) - 1) :]
                self._resets.append(resets)
                return False
            now = time.perf_counter()
            inference_s += stepping - start
            env_s += now - stepping
            self._observations.append(observations)
            self._actions.append(actions)
            # Copies: environments may use the same buffers again, or give lists.
            self._rewards.append(np.array(rewards))
            self._terminated.append(np.array(terminated))
            self._truncated.append(np.array(truncated))
            self._resets.append(resets)
            self._infos.append(as_list(infos))
            self._seconds.append(now)
            self.env_steps += num_envs - int(np.count_nonzero(resets))
            resets = np.logical_or(terminated, truncated) & ~resets  # the flags of a reset are not those of a step
        self._resets.append(resets)
        steps = len(self._actions)
        runner._log_env_steps(metric=runner._metrics_num_try_env_step, num_steps=steps)
        runner.metrics.log_value(ENV_STEP_TIMER, env_s / steps)
        runner.metrics.log_value(RLMODULE_INFERENCE_TIMER, inference_s / steps)
        runner.on_step_seconds(env_s, inference_s)
        return True

    def _forward_function(self, policy: Forward | None) -> Callable[[dict[str, Any], int], dict[str, Any]]:
        """The module's forward pass, at an env step of this fragment; `policy` is it without the calls of its parts,
        if there is such.
        """
        runner = self._runner
        if policy is not None:
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
        """Cut the episodes out of the arrays: returns the last of each environment, and sets `ended`.

        The runner's ongoing episodes are extended in place; their data become arrays.
        """
        runner = self._runner
        ongoing = list(runner._ongoing_episodes)
        if not self._observations:
            return ongoing
        spaces = runner.env.single_observation_space, runner.env.single_action_space
        blank = SingleAgentEpisode(observation_space=spaces[0], action_space=spaces[1])
        observations, rewards = np.stack(self._observations), np.stack(self._rewards)
        runner.on_steps(observations, rewards)
        columns = _Columns(
            _by_env(observations), _by_env(np.stack(self._actions)), _by_env(rewards), self._output_columns()
        )
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
                self._extend(ongoing[env_index], columns, env_index, start, len(self._actions), goes_on=True)
        self.ended = [(env_index, episode) for _, env_index, episode in sorted(found, key=lambda one: one[:2])]
        return ongoing

    def _output_columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        if (logp := self._policy.log_probabilities()) is not None:
            # of a step that failed there are no outputs
            for outputs, its_logp in zip(self._outputs, logp, strict=False):
                outputs.setdefault(Columns.ACTION_LOGP, its_logp)
        for name, first in self._first_outputs.items():
            rest = [outputs[name] for outputs in self._outputs]
            if tree.is_nested(first[0]):
                columns[name] = [list(items) for items in zip(first, *map(unbatch, rest), strict=True)]
            else:
                columns[name] = _by_env(np.stack([np.stack(first), *rest]))
        shape = self._num_envs, len(self._actions)
        columns[WEIGHTS_SEQ_NO] = np.full(shape, self._runner._weights_seq_no)
        return columns

    def _extend(
        self,
        episode: SingleAgentEpisode,
        columns: "_Columns",
        env_index: int,
        start: int,
        stop: int,
        goes_on: bool = False,
    ) -> None:
        """Add the steps from `start` to `stop` of an environment to an episode; the first is its reset, if it had none.

        One that goes on gets copies: RLlib keeps its chunks until it ends, and each would keep the whole fragment
        of all environments.
        """
        infos = [self._infos[step][env_index] if self._infos[step] else {} for step in range(start, stop)]
        _add(episode.observations, columns.observations[env_index][start:stop], goes_on)
        episode.infos.data.extend(infos)
        seconds = self._seconds
        if len(episode.observations) == stop - start:  # without those of an earlier fragment
            episode._start_time = seconds[start]
            start += 1
        if start < stop:
            _add(episode.actions, columns.actions[env_index][start:stop], goes_on)
            _add(episode.rewards, columns.rewards[env_index][start:stop], goes_on)
            for name, outputs in columns.outputs.items():
                if name not in episode.extra_model_outputs:
                    episode.extra_model_outputs[name] = InfiniteLookbackBuffer()
                _add(episode.extra_model_outputs[name], outputs[env_index][start:stop], goes_on)
            episode.t += stop - start
            episode._last_step_time = seconds[stop - 1]
            if episode._start_time is None:
                episode._start_time = seconds[start]
        episode._last_added_observation = episode.observations.data[-1]
        episode._last_added_infos = infos[-1]

    def last_step(self) -> dict[str, Any]:
        """The columns of the last step, which RLlib passes to the env-to-module pipeline beside the episodes."""
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
    """The data of a fragment, [N, T, ...] for N environments and T steps: an episode is a slice of it.

    Nested outputs are lists of lists: an item for each environment and step.
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    outputs: dict[str, Any]


def _by_env(array: np.ndarray) -> np.ndarray:
    """[T, N, ...] as [N, T, ...]."""
    return np.ascontiguousarray(array.swapaxes(0, 1))


def _add(buffer: InfiniteLookbackBuffer, items: Any, copies: bool) -> None:
    """Add steps to a buffer, whose data becomes an array, or a structure of such."""
    if isinstance(items, list):
        buffer.data = batch_items([*buffer.data, *items])
    elif buffer.data:
        buffer.data = np.concatenate([np.stack(buffer.data), items])
    else:
        buffer.data = items.copy() if copies else items
    buffer.finalized = True


def _like(blank: SingleAgentEpisode) -> SingleAgentEpisode:
    """Another episode without data, of the same spaces, without RLlib's constructor:
    it walks both spaces, for 40 us.
    """
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


def continuation(episode: SingleAgentEpisode, lookback: int) -> SingleAgentEpisode:
    """The next chunk of an episode, by `SingleAgentEpisode.cut`, with lists that can be appended to."""
    cut = episode.cut(lookback)
    for buffer in (cut.observations, cut.actions, cut.rewards, *cut.extra_model_outputs.values()):
        nested = not isinstance(buffer.data, list | np.ndarray)
        buffer.data = unbatch(tree.map_structure(np.array, buffer.data)) if nested else list(np.array(buffer.data))
        buffer.finalized = False
    return cut
