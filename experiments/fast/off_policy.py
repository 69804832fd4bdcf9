"""RLlib's DQN and SAC with training steps that log together at the end of an iteration.

A training step of `DQN` (ray/rllib/algorithms/dqn/dqn.py), which is SAC's as well, is as a rule one env step and one
update. Around the networks' few hundred microseconds RLlib makes and copies episodes, runs pipelines of connectors,
reduces some two hundred metrics and merges them into others, checks every gradient twice, and sends the weights to
itself through Ray's object store.

Here a call of `training_step` takes all training steps of an iteration: one in a thousand is RLlib's own, so that
everything it logs is there, and the others are lean: the same env steps, samples and updates, to the bit, logged
together at the end.

    algorithm = make_fast(DQNConfig().environment(...)).build_algo()  # experiments.fast.switch
"""

import logging
import math
import time
from collections.abc import Callable
from typing import Any

import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.dqn.dqn import DQN, calculate_rr_weights
from ray.rllib.algorithms.sac.sac import SAC
from ray.rllib.core import DEFAULT_AGENT_ID, DEFAULT_MODULE_ID
from ray.rllib.execution.rollout_ops import synchronous_parallel_sample
from ray.rllib.utils.metrics import (
    ALL_MODULES,
    ENV_RUNNER_RESULTS,
    ENV_RUNNER_SAMPLING_TIMER,
    LEARNER_RESULTS,
    LEARNER_UPDATE_TIMER,
    NUM_AGENT_STEPS_SAMPLED_LIFETIME,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_ENV_STEPS_TRAINED_LIFETIME,
    NUM_TRAINING_STEP_CALLS_PER_ITERATION,
    REPLAY_BUFFER_ADD_DATA_TIMER,
    REPLAY_BUFFER_RESULTS,
    REPLAY_BUFFER_SAMPLE_TIMER,
    REPLAY_BUFFER_UPDATE_PRIOS_TIMER,
    SYNCH_WORKER_WEIGHTS_TIMER,
    TIMERS,
)
from ray.rllib.utils.replay_buffers.prioritized_episode_buffer import PrioritizedEpisodeReplayBuffer

from experiments.fast import stepping
from experiments.fast.q_learner import LeanUpdates
from experiments.fast.replay import (
    N_STEP_BUFFER_PATH,
    FastEpisodeReplayBuffer,
    FastPrioritizedEpisodeReplayBuffer,
    NStepEpisodeReplayBuffer,
)

STOCK_EVERY = 1000
"""Training steps of which one is RLlib's own, so that what only it logs,
such as the times of its connectors, is there."""

BUFFERS: dict[str, type] = {
    "EpisodeReplayBuffer": FastEpisodeReplayBuffer,
    "PrioritizedEpisodeReplayBuffer": FastPrioritizedEpisodeReplayBuffer,
    N_STEP_BUFFER_PATH: NStepEpisodeReplayBuffer,
}
"""The fast replay buffers by the name of RLlib's that they replace, and the suite's own by its dotted path."""

logger = logging.getLogger(__name__)


def _burns_in(config: Any) -> bool:
    """True if RLlib samples sequences from the replay buffer, or the first steps of long ones;
    SAC has no such setting.
    """
    return bool(getattr(config, "burn_in_len", 0))


class FastOffPolicy(Algorithm):  # type: ignore[misc]  # RLlib ships no type information
    """The common part of the two algorithms.

    Where something is not supported (see `why_stock`), a training step is RLlib's own.

    Attributes:
        on_seconds: Called with the name of one of RLlib's timers and the seconds of lean steps, which
            `metrics.log_time` does not see.
        on_training_step: Called after each training step, RLlib's or lean, with the env steps sampled in the
            algorithm's lifetime. What it changes in modules has to be changed in place.
    """

    on_seconds: Callable[[str, float], None] = staticmethod(lambda timer, seconds: None)
    on_training_step: Callable[[float], None] = staticmethod(lambda env_steps: None)
    local_replay_buffer: Any

    def setup(self, config: Any) -> None:
        """As RLlib's."""
        self._logged_reasons: set[str] = set()
        self._since_stock = STOCK_EVERY
        self._has_learned = False
        self._iteration_began: tuple[int, float, float, float] = (-1, 0.0, 0.0, 0.0)
        super().setup(config)
        if getattr(self, "_module_is_stateful", False) and self._has_fast_buffer():
            rng = self.local_replay_buffer.rng
            self.local_replay_buffer = super()._create_local_replay_buffer_if_necessary(self.config)
            self.local_replay_buffer.rng = rng  # a callback may have seeded it

    def _create_local_replay_buffer_if_necessary(self, config: Any) -> Any:
        """A fast one where `replay_buffer_config` names one of RLlib's for single agents."""
        settings = config.replay_buffer_config or {}
        fast = BUFFERS.get(str(settings.get("type")))
        if fast is None or config.is_multi_agent or not config.enable_env_runner_and_connector_v2 or _burns_in(config):
            return super()._create_local_replay_buffer_if_necessary(config)
        settings["metrics_num_episodes_for_smoothing"] = config.metrics_num_episodes_for_smoothing  # as RLlib does
        return fast(**settings)

    def _has_fast_buffer(self) -> bool:
        return isinstance(self.local_replay_buffer, tuple(BUFFERS.values()))

    def why_stock(self) -> str | None:
        """The reason why training steps have to be RLlib's own; None if there is none."""
        config = self.config
        if not config.enable_env_runner_and_connector_v2 or config.is_offline or config.count_steps_by != "env_steps":
            return "the old API stack, offline data, or steps counted by agent"
        if _burns_in(config):
            return "a burn-in"
        if not self._has_fast_buffer():
            return "a replay buffer that is not a fast one"
        learner = self.learner_group._learner
        if not isinstance(learner, LeanUpdates):
            return "a learner that is not a fast one, or in another process"
        return learner.why_stock()

    def training_step(self) -> None:
        """All training steps of the iteration, which RLlib's count of training steps goes by."""
        reason = self.why_stock()
        self._log_reason(reason)
        self._begin_iteration()
        steps = 0
        while not steps or not (reason or self._is_over(self._sampled(), self._trained())):
            if reason or self._since_stock >= STOCK_EVERY or self._is_first_update_next():
                super().training_step()
                self.on_training_step(self._sampled())
                self._since_stock, taken = 0, 1
                self._has_learned = self._sampled() >= self.config.num_steps_sampled_before_learning_starts
            else:
                taken = self._lean_steps()
                self._since_stock += taken
            steps += taken
        if steps > 1:  # RLlib counts this call
            self.metrics.log_value(NUM_TRAINING_STEP_CALLS_PER_ITERATION, steps - 1, reduce="sum")

    def _lean_steps(self) -> int:
        """Lean training steps until the iteration is over or one of RLlib's is due. Returns how many."""
        lean, steps = _LeanSteps(self), 0
        try:
            while True:
                lean.step()
                self.on_training_step(lean.env_steps)
                steps += 1
                if self._is_over(lean.env_steps, lean.trained) or self._is_first_update_next(lean.env_steps):
                    break
                lean.restore_env_runners()
        except BaseException:
            lean.abort()
            raise
        lean.finish()
        return steps

    def _is_first_update_next(self, env_steps: float | None = None) -> bool:
        """True if the next training step may be the first that learns: RLlib's own,
        since some results begin with it.
        """
        if self._has_learned:
            return False
        config = self.config
        # A runner stops at a fragment's length, up to one env step of each of its environments later.
        envs = config.num_envs_per_env_runner * max(1, config.num_env_runners)
        most = (config.get_rollout_fragment_length() + 1) * envs * calculate_rr_weights(config)[0]
        return bool(
            (self._sampled() if env_steps is None else env_steps) + most
            >= config.num_steps_sampled_before_learning_starts
        )

    def log_seconds(self, timer: str, seconds: float, blocks: int) -> None:
        """Log to one of RLlib's timers what a number of blocks of `metrics.log_time` log,
        each of which takes its share of `seconds`.
        """
        key, mean = (TIMERS, timer), seconds / blocks
        old = self.metrics.peek(key, default=math.nan)
        if not math.isnan(old):
            # What moves the exponential mean, by its factor of 0.01, as far as all of them would.
            mean = old + (mean - old) * (1 - 0.99**blocks) / 0.01
        self.metrics.log_value(key, mean)
        self.on_seconds(timer, seconds)

    def _log_reason(self, reason: str | None) -> None:
        if reason and reason not in self._logged_reasons:
            self._logged_reasons.add(reason)
            logger.info("%s: trains as RLlib does, since there is %s.", type(self).__name__, reason)

    def _sampled(self) -> float:
        return float(self.metrics.peek((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME), default=0))

    def _trained(self) -> float:
        return float(self.metrics.peek((LEARNER_RESULTS, ALL_MODULES, NUM_ENV_STEPS_TRAINED_LIFETIME), default=0))

    def _begin_iteration(self) -> None:
        if self._iteration_began[0] != self.iteration:
            self._iteration_began = self.iteration, time.time(), self._sampled(), self._trained()

    def _is_over(self, sampled: float, trained: float) -> bool:
        """True if RLlib would end the iteration (ray/rllib/algorithms/algorithm.py: `TrainIterCtx.should_stop`)."""
        config, (_, began_s, had_sampled, had_trained) = self.config, self._iteration_began
        least_s, least_sampled, least_trained = (
            config.min_time_s_per_iteration,
            config.min_sample_timesteps_per_iteration,
            config.min_train_timesteps_per_iteration,
        )
        return (
            (not least_s or time.time() - began_s >= least_s)
            and (not least_sampled or sampled - had_sampled >= least_sampled)
            and (not least_trained or trained - had_trained >= least_trained)
        )


class _LeanSteps:
    """Consecutive lean training steps, until `finish`.

    Attributes:
        is_local: Whether the env runner is in this process.
        env_steps: Sampled in the algorithm's lifetime.
        trained: Rows trained on in the algorithm's lifetime.
    """

    def __init__(self, algorithm: FastOffPolicy) -> None:
        self._algorithm, self._learner = algorithm, algorithm.learner_group._learner
        self._group = algorithm.env_runner_group
        self._seconds: dict[str, tuple[float, int]] = {}
        self.is_local = self._group.num_remote_workers() <= 0
        self.env_steps, self.trained = algorithm._sampled(), algorithm._trained()
        self._learned = False
        self._sampler: stepping.DirectSampler | None = None
        config = algorithm.config
        self._store, self._train = calculate_rr_weights(config)
        self._batch_size = config.total_train_batch_size
        self._sample_settings = {
            "n_step": config.n_step,
            "gamma": config.gamma,
            "beta": config.replay_buffer_config.get("beta"),
        }
        if self.is_local:
            runner = algorithm.env_runner
            reason = stepping.why_stock(runner)
            algorithm._log_reason(reason)
            if reason is None:
                self._sampler = stepping.DirectSampler(runner)
                self._fragment = runner.config.get_rollout_fragment_length(runner.worker_index) * runner.num_envs
            ours, theirs = runner.module.state_dict(), self._learner.module[DEFAULT_MODULE_ID].state_dict()
            self._weights = [theirs[name] for name in ours], list(ours.values())
        self._learner.begin_lean()

    def step(self) -> None:
        """Take one training step, as RLlib's."""
        algorithm, buffer, learner = self._algorithm, self._algorithm.local_replay_buffer, self._learner
        clock = time.perf_counter
        for _ in range(self._store):
            start = clock()
            found = self._sample()
            sampled = clock()
            if self._sampler is None:
                buffer.add(found)
            else:
                buffer.add_chunks(found)
            self._add_seconds(ENV_RUNNER_SAMPLING_TIMER, sampled - start)
            self._add_seconds(REPLAY_BUFFER_ADD_DATA_TIMER, clock() - sampled)
        if self.env_steps < algorithm.config.num_steps_sampled_before_learning_starts:
            return
        timesteps = {
            NUM_ENV_STEPS_SAMPLED_LIFETIME: self.env_steps,
            NUM_AGENT_STEPS_SAMPLED_LIFETIME: {DEFAULT_AGENT_ID: self.env_steps},
        }
        for _ in range(self._train):
            start = clock()
            columns = buffer.sample_columns(self._batch_size, **self._sample_settings)
            sampled = clock()
            errors = learner.lean_update(columns, timesteps)
            updated = clock()
            if isinstance(buffer, PrioritizedEpisodeReplayBuffer):
                buffer.update_priorities(errors.cpu().numpy())
            self._add_seconds(REPLAY_BUFFER_SAMPLE_TIMER, sampled - start)
            self._add_seconds(LEARNER_UPDATE_TIMER, updated - sampled)
            self._add_seconds(REPLAY_BUFFER_UPDATE_PRIOS_TIMER, clock() - updated)
            self.trained += self._batch_size
        self._learned = True
        start = clock()
        self._synchronise()
        self._add_seconds(SYNCH_WORKER_WEIGHTS_TIMER, clock() - start)

    def _sample(self) -> Any:
        """Chunks, or RLlib's episodes."""
        algorithm = self._algorithm
        if self._sampler is not None:
            before = self._sampler.env_steps
            chunks = self._sampler.sample(self._fragment)
            self.env_steps += self._sampler.env_steps - before
            return chunks
        episodes, results = synchronous_parallel_sample(
            worker_set=self._group,
            concat=True,
            sample_timeout_s=algorithm.config.sample_timeout_s,
            _uses_new_env_runners=True,
            _return_metrics=True,
        )
        algorithm.metrics.aggregate(results, key=ENV_RUNNER_RESULTS)
        self.env_steps = algorithm._sampled()
        return episodes

    def restore_env_runners(self) -> None:
        """As RLlib does between two training steps."""
        if not self.is_local and (restored := self._algorithm.restore_env_runners(self._group)):
            self._algorithm._make_on_env_runners_recreated_callbacks(
                config=self._algorithm.config, env_runner_group=self._group, restored_env_runner_indices=restored
            )

    def _synchronise(self) -> None:
        """Give the env runners the learner's weights."""
        if not self.is_local:
            self._group.sync_weights(
                from_worker_or_learner_group=self._algorithm.learner_group,
                policies={DEFAULT_MODULE_ID},
                inference_only=True,
            )
            return
        learners, runners = self._weights
        torch._foreach_copy_(runners, learners)
        self._algorithm.env_runner._weights_seq_no = self._learner._weights_seq_no

    def _add_seconds(self, timer: str, seconds: float) -> None:
        total, blocks = self._seconds.get(timer, (0.0, 0))
        self._seconds[timer] = total + seconds, blocks + 1

    def finish(self) -> None:
        """Log all steps."""
        algorithm = self._algorithm
        if self._sampler is not None:
            for results in self._sampler.finish():
                algorithm.metrics.aggregate([results], key=ENV_RUNNER_RESULTS)
        if self._learned:
            algorithm.metrics.aggregate([algorithm.local_replay_buffer.get_metrics()], key=REPLAY_BUFFER_RESULTS)
            algorithm.metrics.aggregate([self._learner.lean_results()], key=LEARNER_RESULTS)
        for timer, (seconds, blocks) in self._seconds.items():
            algorithm.log_seconds(timer, seconds, blocks)

    def abort(self) -> None:
        """Discard what was not logged, after an error."""
        self._learner.abort_lean()
        if self._sampler is not None:
            self._sampler.abort()


class FastDQN(FastOffPolicy, DQN):  # type: ignore[misc]
    """Drop-in for `DQN`; lean steps need the other parts that `experiments.fast.switch.make_fast` sets."""


class FastSAC(FastOffPolicy, SAC):  # type: ignore[misc]
    """Drop-in for `SAC`, as `FastDQN` is for `DQN`."""
