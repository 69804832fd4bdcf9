"""Env steps of a local env runner as chunks for a replay buffer, without an episode object for each.

DQN and SAC ask their runner for an env step at a time. `SingleAgentEnvRunner.sample` makes an episode object of each,
copies it twice before it is in the replay buffer, and runs two pipelines of connectors. Here the runner's environments
are stepped directly, the buffer gets the data that it stores, and the runner's episodes are extended when they end, or
after the last step. Actions, transitions and random numbers are the same as RLlib's, to the bit.
"""

import time
from typing import Any

import numpy as np
import torch
import tree
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.columns import Columns
from ray.rllib.env.env_runner import ENV_STEP_FAILURE
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.metrics import (
    ENV_STEP_TIMER,
    RLMODULE_INFERENCE_TIMER,
    SAMPLE_TIMER,
    TIME_BETWEEN_SAMPLING,
    WEIGHTS_SEQ_NO,
)
from ray.rllib.utils.metrics.stats.mean import MeanStats
from ray.rllib.utils.spaces.space_utils import unbatch

from experiments.fast.actions import ActionSampler, as_numpy, item_of, step_function
from experiments.fast.env_runner import FastEnvRunner
from experiments.fast.fragment import EarlierChunk
from experiments.fast.networks.inference import exploration_function
from experiments.fast.networks.q import QNetworks
from experiments.fast.transitions.rows import Chunk


def why_stock(runner: Any) -> str | None:
    """The reason why a runner has to sample by its own `sample`; None if there is none."""
    if not isinstance(runner, FastEnvRunner):
        return "an env runner that is not a FastEnvRunner"
    if reason := runner.why_stock(runner.config.explore, False):
        return reason
    changes = any(type(c).on_sample_end is not RLlibCallback.on_sample_end for c in runner._callbacks)
    if changes or runner.config.callbacks_on_sample_end:
        return "an on_sample_end callback"
    if runner.config.batch_mode != "truncate_episodes" or runner._env_runner_state_server is not None:
        return "whole episodes, or a state server"
    return None


class _OngoingEpisode:
    """The steps of an environment's episode that the runner's episode does not have yet.

    Attributes:
        id_: RLlib's id of the episode.
        t: Env steps of the whole episode.
        stored: Env steps of these that the replay buffer has.
        observations: The new ones, and before them the last one of the runner's episode.
        actions: One for each new step.
        rewards: One for each new step.
        infos: One for each new observation.
        outputs: The module's other outputs for all environments, at each new step.
        weights: The number of the module's weights at each new step.
        first_s: Time of the first new step.
        last_s: Time of the last.
    """

    __slots__ = (
        "actions",
        "first_s",
        "id_",
        "infos",
        "last_s",
        "observations",
        "outputs",
        "rewards",
        "stored",
        "t",
        "weights",
    )

    def __init__(self, episode: SingleAgentEpisode) -> None:
        self.id_ = episode.id_
        self.t = self.stored = episode.t
        self.observations = [episode.observations.data[-1]] if episode.is_reset else []
        self.actions: list[Any] = []
        self.rewards: list[float] = []
        self.infos: list[dict[str, Any]] = []
        self.outputs: list[dict[str, Any]] = []
        self.weights: list[int] = []
        self.first_s = self.last_s = 0.0

    def chunk(self, terminated: bool, truncated: bool) -> Chunk:
        """The steps that the replay buffer does not have yet."""
        steps, started = self.t - self.stored, self.stored
        self.stored = self.t
        observations, actions, rewards = self.observations[-1 - steps :], self.actions[-steps:], self.rewards[-steps:]
        if steps > 1:
            observations, actions = np.stack(observations), np.stack(actions)  # type: ignore[assignment]
        return Chunk.of(self.id_, started, observations, actions, rewards, terminated=terminated, truncated=truncated)


class DirectSampler:
    """Steps all environments of a local runner until `finish`, which brings the runner's episodes
    and metrics up to date.

    Attributes:
        env_steps: Steps so far, without resets.
    """

    def __init__(self, runner: FastEnvRunner) -> None:
        self._runner, self._explore = runner, runner.config.explore
        if runner._needs_initial_reset:
            runner._reset_envs_and_episodes(self._explore)
        self._was_training = runner.module.training
        runner.module.eval()  # once: RLlib walks the whole module at every step
        self._has_hook = type(runner).on_steps is not FastEnvRunner.on_steps
        self._sample_actions = ActionSampler(runner, self._explore)
        self._networks = QNetworks.of(runner.module) if self._explore else None
        self._forward = exploration_function(runner.module) if self._explore else None
        self.env_steps = self._steps = self._episodes = 0
        self._inference_s = self._env_s = self._sample_s = self._between_s = 0.0
        self._returned_s = time.perf_counter()
        self._weights: list[int] = []
        self._begin()

    def _begin(self) -> None:
        """Begin with the runner's episodes and the input of its module."""
        runner = self._runner
        self._step_envs, self._as_list = step_function(runner.env)
        self._ongoing = [_OngoingEpisode(episode) for episode in runner._ongoing_episodes]
        to_module, runner._cached_to_module = runner._cached_to_module, None
        self._batch = {Columns.OBS: to_module[Columns.OBS]}
        self._device, self._dtype = self._batch[Columns.OBS].device, self._batch[Columns.OBS].dtype
        self._last: tuple[Any, ...] = ()

    def sample(self, num_timesteps: int) -> list[Chunk]:
        """The samples of `runner.sample()` as chunks: `num_timesteps` env steps or a few more,
        the episodes that ended first.
        """
        done: list[Chunk] = []
        taken, start = 0, time.perf_counter()
        self._between_s += start - self._returned_s
        while taken < num_timesteps:
            steps = self._step(taken, done)
            taken = 0 if steps is None else taken + steps
        self.env_steps += taken
        if self._networks is not None:
            self._networks.check_explored()
        chunks = [*done, *(episode.chunk(False, False) for episode in self._ongoing if episode.t > episode.stored)]
        self._runner.on_chunks(chunks)
        self._weights.append(self._runner._weights_seq_no)
        self._returned_s = time.perf_counter()
        self._sample_s += self._returned_s - start
        return chunks

    def _step(self, taken: int, done: list[Chunk]) -> int | None:
        """One step of all environments.

        Returns how many env steps it was; None if it failed and the environments are new.
        """
        runner, start = self._runner, time.perf_counter()
        runner.on_step()
        with torch.no_grad():
            actions, for_env, outputs = self._act(taken)
        stepping = time.perf_counter()
        try:
            observations, rewards, terminated, truncated, infos = self._step_envs(for_env)
        except Exception as error:  # RLlib raises it, or makes new environments
            if runner.handle_failed_step(error) != ENV_STEP_FAILURE:
                raise
            runner._reset_envs_and_episodes(self._explore)
            self._begin()
            return None
        now = time.perf_counter()
        self._inference_s += stepping - start
        self._env_s += now - stepping
        self._steps += 1
        if self._has_hook:
            runner.on_steps(observations[np.newaxis], np.asarray(rewards)[np.newaxis])
        listed = self._as_list(infos)
        weights, steps = runner._weights_seq_no, 0
        for index, episode in enumerate(self._ongoing):
            episode.infos.append(listed[index] if listed else {})
            episode.observations.append(observations[index])
            episode.last_s = now
            if len(episode.observations) == 1:
                continue  # its reset
            steps += 1
            episode.first_s = episode.first_s or now
            episode.actions.append(actions[index])
            episode.rewards.append(rewards[index])
            episode.outputs.append(outputs)
            episode.weights.append(weights)
            episode.t += 1
            if terminated[index] or truncated[index]:
                done.append(episode.chunk(bool(terminated[index]), bool(truncated[index])))
                self._end_episode(index, bool(terminated[index]), bool(truncated[index]))
        # Contiguous, as RLlib's copy is: a product of another layout differs in the last bit.
        self._batch = {Columns.OBS: torch.from_numpy(np.ascontiguousarray(observations)).to(self._device, self._dtype)}
        self._last = observations, actions, rewards, terminated, truncated, listed
        return steps

    def _act(self, taken: int) -> tuple[Any, Any, dict[str, Any]]:
        """Actions, the same as the environments take them, and the module's other outputs."""
        runner = self._runner
        others = runner.config.num_env_runners or 1
        # as RLlib estimates what all runners have sampled
        t = (runner.num_env_steps_sampled_lifetime // others + taken) * others
        if self._networks is not None:
            actions = as_numpy(self._networks.explore(self._batch, t)[Columns.ACTIONS])
            return actions, self._sample_actions.for_env(actions), {}
        module, batch = runner.module, self._batch
        if self._forward is not None:
            outputs = self._forward(batch)
        else:
            outputs = module._forward_exploration(batch, t=t) if self._explore else module._forward_inference(batch)
        actions, for_env, others = self._sample_actions(outputs)
        if (logp := self._sample_actions.log_probabilities()) is not None:
            others.setdefault(Columns.ACTION_LOGP, logp[0])
        return actions, for_env, others

    def _extend(self, index: int) -> SingleAgentEpisode:
        """Add to the runner's episode the steps that it does not have yet."""
        episode, new = self._runner._ongoing_episodes[index], self._ongoing[index]
        episode.observations.data.extend(new.observations[len(new.observations) - len(new.infos) :])
        episode.infos.data.extend(new.infos)
        if new.actions:
            episode.actions.data.extend(new.actions)
            episode.rewards.data.extend(new.rewards)
            columns = {name: [item_of(outputs[name], index) for outputs in new.outputs] for name in new.outputs[0]}
            for name, column in {**columns, WEIGHTS_SEQ_NO: new.weights}.items():
                if name not in episode.extra_model_outputs:
                    episode.extra_model_outputs[name] = InfiniteLookbackBuffer()
                episode.extra_model_outputs[name].data.extend(column)
            episode.t += len(new.actions)
            episode._start_time = episode._start_time or new.first_s
            episode._last_step_time = new.last_s
        if new.infos:
            episode._last_added_observation, episode._last_added_infos = new.observations[-1], new.infos[-1]
        return episode

    def _end_episode(self, index: int, terminated: bool, truncated: bool) -> None:
        """End an episode, and begin the environment's next one."""
        runner, episode = self._runner, self._extend(index)
        episode.is_terminated, episode.is_truncated = terminated, truncated
        runner._make_on_episode_callback("on_episode_end", index, runner._ongoing_episodes)
        runner._done_episodes_for_metrics.append(episode.to_numpy())
        self._episodes += 1
        runner._new_episode(index, runner._ongoing_episodes)
        self._ongoing[index] = _OngoingEpisode(runner._ongoing_episodes[index])

    def finish(self) -> list[dict[str, Any]]:
        """Bring the runner into the state that it has after its own `sample`.

        Returns:
            The results that its `get_metrics` would have returned since the first step.
        """
        runner = self._runner
        for index in range(len(self._ongoing)):
            episode = self._extend(index)
            runner._ongoing_episodes[index] = episode.cut(runner.config.episode_lookback_horizon)
            if episode.t > episode.t_started:
                runner._ongoing_episodes_for_metrics[episode.id_].append(EarlierChunk.of(episode))
        self._prepare_module()
        self._restore()
        runner._log_env_steps(metric=runner._metrics_num_try_env_step, num_steps=self._steps)
        runner._log_env_steps(metric=runner._metrics_num_env_steps_sampled, num_steps=self.env_steps)
        runner._increase_sampled_metrics(self.env_steps, self._episodes)
        runner.metrics.log_value(ENV_STEP_TIMER, self._env_s / self._steps)
        runner.metrics.log_value(RLMODULE_INFERENCE_TIMER, self._inference_s / self._steps)
        runner.on_step_seconds(self._env_s, self._inference_s)
        runner.metrics.log_value(SAMPLE_TIMER, self._sample_s / len(self._weights))
        runner.metrics.log_value(TIME_BETWEEN_SAMPLING, self._between_s / len(self._weights))
        runner.metrics.log_value(WEIGHTS_SEQ_NO, self._weights[-1], window=1)
        runner._time_after_sampling = time.perf_counter()
        return self._metrics()

    def _metrics(self) -> list[dict[str, Any]]:
        """The runner's metrics, in as many parts as its windows need.

        A mean counts as often as there was an episode to log: RLlib's algorithm calls `get_metrics` at every step, and
        takes the mean over an iteration. (Of episodes that end in the same step RLlib takes the mean first.)
        """
        runner, window = self._runner, max(1, self._runner.config.metrics_num_episodes_for_smoothing)
        done, parts = runner._done_episodes_for_metrics, []
        for first in range(0, max(1, len(done)), window):
            runner._done_episodes_for_metrics = done[first : first + window]
            episodes = len(runner._done_episodes_for_metrics)
            parts.append(runner.get_metrics())
            for stats in tree.flatten(parts[-1]):
                if isinstance(stats, MeanStats):
                    stats.values = list(stats.values) * max(1, episodes)
        parts[0][WEIGHTS_SEQ_NO].values = list(self._weights)
        return parts

    def abort(self) -> None:
        """Discard the steps after an error; the environments have to be reset."""
        self._restore()
        self._runner._needs_initial_reset = True

    def _restore(self) -> None:
        if self._was_training:
            self._runner.module.train()

    def _prepare_module(self) -> None:
        runner = self._runner
        observations, actions, rewards, terminated, truncated, infos = self._last
        episodes = [
            # The runner does not have an episode that ended with the last step any more.
            episode if episode.is_reset else SingleAgentEpisode(observations=[observations[index]])
            for index, episode in enumerate(runner._ongoing_episodes)
        ]
        last_step = {
            Columns.OBS: unbatch(observations),
            Columns.ACTIONS: unbatch(actions),
            Columns.REWARDS: rewards,
            Columns.INFOS: infos or [{} for _ in episodes],
            Columns.TERMINATEDS: terminated,
            Columns.TRUNCATEDS: truncated,
        }
        runner.prepare_module(episodes, self._explore, last_step)
