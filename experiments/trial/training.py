"""One RLlib algorithm in training: batch by batch, evaluated, saved and brought back."""

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from ray.rllib.core import DEFAULT_MODULE_ID

from experiments.config.trial_config import TrialConfig
from experiments.contract import RETURN, SCORE
from experiments.fast.off_policy import FastOffPolicy
from experiments.limits.arithmetic import Arithmetic
from experiments.rllib import checkpoints, starting_weights
from experiments.rllib.algorithms import is_asynchronous
from experiments.rllib.building import build_algorithm_config, environment_of
from experiments.rllib.clocks import PhaseClock, training_shares
from experiments.rllib.hooks import EPISODES
from experiments.rllib.learner import average_over_minibatches, log_kl, time_updates
from experiments.rllib.made_environments import longest_episode
from experiments.rllib.no_compiler import leave_out_compiler
from experiments.rllib.pipelines import own_pipelines
from experiments.rllib.process_state import ProcessState
from experiments.rllib.results import (
    LEARNER_SECONDS,
    EpisodeSums,
    check_finite,
    gradient_steps,
    learner_metrics,
    runner_seconds,
    sampled_spans,
)
from experiments.rllib.seeding import Role, stream_seeds
from experiments.rllib.signs_of_life import call_while_working
from experiments.trial.counters import Counters
from experiments.trial.evaluation import Evaluation, KeptEnvironments, Playing, evaluate
from experiments.trial.events import Event, event_of, record_of
from experiments.trial.extension_metrics import ExtensionMetrics
from experiments.trial.folder import STATE_FILE, TRIAL_FILE
from experiments.trial.phase_diversity import Spans, mean_phase_diversity
from experiments.trial.target import TargetWatch, area_under_curve, score_in_time
from experiments.trial.usage import pauses
from experiments.trial.usage.machine import Machine
from experiments.trial.usage.pauses import unpaused_s
from experiments.trial.usage.processes import Processes
from experiments.trial.usage.resource_usage import Address
from experiments.trial.usage.time_use import TimeUse

logger = logging.getLogger(__name__)

_MUST_BE_FINITE = ("learner/loss", "learner/policy_loss", "learner/value_loss", "learner/grad_norm")


class TrainingLoop:
    """A trial's algorithm while it lives, with its counters and clocks.

    Attributes:
        algorithm: The algorithm of RLlib.
        counters: Counts of the trial so far.
        time: Use of the wall-clock since the last report.
    """

    def __init__(
        self,
        trial: TrialConfig,
        heartbeat: Callable[[], None],
        state: ProcessState,
        storage: Any = None,
        measure_system: bool = False,
        driver: Address | None = None,
    ) -> None:
        """Build the algorithm, untrained.

        Args:
            trial: The trial to train.
            heartbeat: Leaves a sign of life; called by every process of the trial whenever it has done something.
            state: State of the trial's process, since the trial came to it.
            storage: Tune's: RLlib keeps its own log folder within the study's, instead of one in the home directory.
            measure_system: Whether CPU, memory and GPU use are measured.
            driver: Host and process of the study's driver.
        """
        leave_out_compiler()
        pauses.begin()
        self._paused_before = pauses.so_far()
        self._trial, self._heartbeat, self._state = trial, heartbeat, state
        self._wall_start = unpaused_s()
        trial.arithmetic.take()
        config = build_algorithm_config(trial)
        self.algorithm = algorithm = config.algo_class(config=config, storage=storage)
        algorithm.learner_group.foreach_learner(partial(_compute_so, arithmetic=trial.arithmetic))
        for watch in (average_over_minibatches, time_updates, log_kl):
            algorithm.learner_group.foreach_learner(watch)
        self._measured = ExtensionMetrics(trial, algorithm, {each.name for each in fields(Counters)})
        self._clock = PhaseClock()
        self._clock.attach(algorithm.metrics)
        if isinstance(algorithm, FastOffPolicy):
            algorithm.on_seconds = self._clock.add
        call_while_working(algorithm, heartbeat)
        self._has_kl = bool(getattr(config, "use_kl_loss", False))
        self._has_minibatches = config.minibatch_size is not None
        self._epochs = (config.num_epochs or 1) if self._has_minibatches else 1
        self._processes = Processes(algorithm)
        self._monitor = self._processes.measured(driver) if measure_system else None
        if state.packages:
            self._processes.note_state(state.packages)
        self._asynchronous = is_asynchronous(trial.algorithm)
        self.counters = Counters(start_s=unpaused_s() - self._wall_start)
        self._environments: checkpoints.Environments = {}
        self._scored: checkpoints.Weights | None = None
        self.lacks_replay = False
        self._kept = KeptEnvironments()
        self.begin_window(unpaused_s())

    def begin_window(self, start: float) -> None:
        """Begin the wall-clock whose use the next report tells.

        Args:
            start: When it begins, in seconds of `unpaused_s`.
        """
        self._window_start, self.time = start, TimeUse(self._asynchronous)
        self._paused_by_then = pauses.so_far()

    @property
    def _num_pauses(self) -> int:
        """Since the last report."""
        return (pauses.so_far() - self._paused_by_then).count

    def train(self, is_enough: Callable[[int], bool]) -> dict[str, float]:
        """Train on.

        Args:
            is_enough: Takes the env steps of the last iteration and says whether it was the last one.

        Returns:
            The metrics of what was trained.

        Raises:
            NonFiniteError: A return, a loss or a gradient is not finite.
            RuntimeError: Nothing was sampled.
        """
        now = self.counters
        episodes = EpisodeSums()
        start_env_steps, start_s, start_trained, batches = now.env_steps, now.train_s, now.trained, 0
        learner: dict[str, float] = {}
        sampled_together: list[Spans] = []
        while True:
            before = now.env_steps
            self._heartbeat()
            start = unpaused_s()
            result = self.algorithm.train()
            now.train_s += unpaused_s() - start
            runners = result.get("env_runners", {})
            learners = result.get("learners", {})
            module = learners.get("default_policy", {})
            self._measured.add(result)
            updating_s = float(learners.get("__all_modules__", {}).get(LEARNER_SECONDS, 0.0))
            self.time.add(runner_seconds(runners), updating_s / max(1, self.algorithm.config.num_learners))
            now.env_steps = int(runners.get("num_env_steps_sampled_lifetime", now.env_steps))
            now.iterations += 1
            steps = gradient_steps(module)
            now.updates += steps
            batches += int(result.get("num_training_step_calls_per_iteration", 1)) if self._has_minibatches else steps
            episodes.add(runners.get(EPISODES, {}))
            sampled_together += [np.concatenate(spans) for spans in sampled_spans(runners)]
            check_finite(episodes.metrics(), now.env_steps)
            if steps:  # without one RLlib reports NaN losses, which are no fault
                now.trained += float(module["num_module_steps_trained"]) / self._epochs
                learner = learner_metrics(module, self._has_kl)
                check_finite({k: v for k, v in learner.items() if k in _MUST_BE_FINITE}, now.env_steps)
                self._count_staleness(learner.get("learner/staleness_updates", math.nan), steps)
            collected = now.env_steps - before
            if collected <= 0:
                raise RuntimeError(
                    f"no env steps were sampled in an iteration of {unpaused_s() - start:.0f} s: the runners are gone"
                )
            if is_enough(collected):
                break
        seconds, sampled = now.train_s - start_s, now.env_steps - start_env_steps
        if now.warm is None:
            now.warm = (now.env_steps, now.train_s, now.trained)
        self._phases = self._clock.take()
        return {
            **episodes.metrics(),
            **self._phase_diversity(sampled_together, episodes),
            **{name: value for name, value in learner.items() if value == value},
            **self._measured.report(),
            # What RLlib was at in a pause would have its seconds.
            **({} if self._num_pauses else training_shares(self._phases, seconds)),
            "throughput/env_steps_per_s": sampled / seconds,
            "throughput/trained_steps_per_s": (now.trained - start_trained) / seconds,
            "progress/env_steps": now.env_steps,
            "progress/iterations": now.iterations,
            "progress/updates": now.updates,
            "progress/train_s": now.train_s,
            **({"progress/batch_env_steps": sampled / batches} if batches else {}),
        }

    def _phase_diversity(self, batches: Sequence[Spans], episodes: EpisodeSums) -> dict[str, float]:
        """How evenly batches are spread over the episode."""
        if episodes.count:
            self.counters.episode_len = episodes.len_sum / episodes.count
        episode_len = self.counters.episode_len or longest_episode(self._trial.env)
        return {"train/phase_diversity": mean_phase_diversity(batches, episode_len)} if batches else {}

    def _count_staleness(self, updates: float, steps: int) -> None:
        """Count how old the samples of an asynchronous algorithm's gradient steps were: others' are always as old."""
        if self._asynchronous and not math.isnan(updates):
            self.counters.staleness_sum += steps * updates
            self.counters.staleness_steps += steps

    def use_of_time(self) -> dict[str, float]:
        """Where the wall-clock went since the last report, and what of the machine was used; the next window begins.

        Where there was a pause, it is counted, and no shares are known.
        """
        now, num_pauses = unpaused_s(), self._num_pauses
        if num_pauses:
            metrics = {"throughput/pauses": float(num_pauses)}
        else:
            metrics = self.time.shares(now - self._window_start, self._phases)
        if self._monitor is not None:
            metrics.update(self._monitor.metrics())
            if not num_pauses and (share := self.time.runner_cpu_share()) is not None:
                metrics["system/runner_cpu_share"] = share
        self.begin_window(now)
        self.time.logging_s = unpaused_s() - now
        return metrics

    def evaluate(self) -> tuple[dict[str, float], bool]:
        """The `eval/` metrics at the last grid point, and whether the target is held by now.

        Raises:
            NonFiniteError: A return is not finite.
        """
        now = self.counters
        metrics = self._evaluation(Role.EVALUATION, self._trial.evaluation.episodes, self._kept).metrics()
        check_finite(metrics, now.env_steps)
        now.curve.append((now.grid_env_steps, metrics[RETURN]))
        now.at_s.append(now.start_s + now.train_s)
        watch = TargetWatch(self._trial.env.target, now.since, now.reached)
        held = watch.on_evaluation(metrics[RETURN], now.grid_env_steps, now.train_s)
        now.since, now.reached = watch.since, watch.reached
        return metrics, held

    def final_metrics(self) -> dict[str, float]:
        """The `final/` metrics.

        Raises:
            NonFiniteError: A return is not finite.
        """
        now = self.counters
        if self._asynchronous:  # its learner goes on with what it was sent: what is scored is what is saved
            self._scored = checkpoints.weights(self.algorithm)
        score = self._evaluation(Role.FINAL_EVALUATION, self._trial.evaluation.final_episodes)
        check_finite(score.metrics(), now.env_steps)
        warm_env_steps, warm_s, warm_trained = now.warm if now.warm and now.warm[0] < now.env_steps else (0, 0.0, 0.0)
        seconds = now.train_s - warm_s
        return {
            SCORE: float(score.returns.mean()),
            "final/auc": area_under_curve(now.curve, self._trial.budget_env_steps),
            **TargetWatch(self._trial.env.target, now.since, now.reached).metrics(),
            **self._in_time(float(score.returns.mean())),
            "final/env_steps_per_s": (now.env_steps - warm_env_steps) / seconds,
            "final/trained_steps_per_s": (now.trained - warm_trained) / seconds,
            **self.staleness(),
            **self._measured.final(),
            **self.seconds(),
        }

    def staleness(self) -> dict[str, float]:
        """The `final/` metric of how old the samples were that it learned from, of an asynchronous algorithm."""
        now = self.counters
        return {"final/staleness_updates": now.staleness_sum / now.staleness_steps} if now.staleness_steps else {}

    def _in_time(self, score: float) -> dict[str, float]:
        now, minutes = self.counters, self._trial.objective.minutes
        end = (now.start_s + now.train_s, score)
        return {} if minutes is None else score_in_time(now.curve, now.at_s, 60 * minutes, end)

    def seconds(self) -> dict[str, float]:
        """The `final/` metrics of how long it took."""
        paused_s = self.paused_s()
        return {
            "final/start_s": self.counters.start_s,
            "final/train_s": self.counters.train_s,
            "final/wall_s": self.wall_s(),
            **({"final/paused_s": paused_s} if paused_s else {}),
        }

    def _evaluation(self, role: Role, episodes: int, kept: KeptEnvironments | None = None) -> Evaluation:
        start = unpaused_s()
        config = self.algorithm.config
        seeds = stream_seeds(self._trial.seed, role, episodes)
        how = Playing(
            config.normalize_actions,
            config.clip_actions,
            max_env_steps=self._trial.budget_env_steps,  # an episode that is longer may have no end
            pipelines=own_pipelines(self.algorithm),
            alive=self._heartbeat,
        )
        try:
            return evaluate(self._module(), environment_of(self._trial), seeds, how, kept)
        finally:
            self.time.evaluation_s += unpaused_s() - start

    def _module(self) -> Any:
        """The module with the learner's newest weights, in this process: a remote runner's may lag."""
        runner = self.algorithm.env_runner
        if runner is not None and runner.module is not None:
            if self._scored is not None:
                runner.module.set_state(self._scored[DEFAULT_MODULE_ID])
            elif self.algorithm.config.num_env_runners:
                weights = self.algorithm.learner_group.get_state(components="learner/rl_module", inference_only=True)
                runner.module.set_state(weights["learner"]["rl_module"][DEFAULT_MODULE_ID])
            return runner.module
        return self.algorithm.get_module()

    def wall_s(self) -> float:
        """Seconds of the trial so far, all but pauses included."""
        return self.counters.wall_s + unpaused_s() - self._wall_start

    def paused_s(self) -> float:
        """Seconds of pauses so far."""
        return self.counters.paused_s + (pauses.so_far() - self._paused_before).seconds

    def weights_digest(self) -> str:
        """As `checkpoints.weights_digest`, of the weights that `save` saves."""
        return checkpoints.weights_digest(self._scored or checkpoints.weights(self.algorithm))

    def processes(self) -> list[psutil.Process]:
        """The trial's processes on this host."""
        return self._processes.here() if self._monitor is None else self._monitor.processes

    def machines(self) -> tuple[Machine, ...]:
        """The machine of each of the trial's processes, its own first."""
        return self._processes.machines()

    def save(self, folder: Path, events: Sequence[Event] = (), goes_on: bool = True) -> None:
        """Save the algorithm and the counters.

        Args:
            folder: Folder of the checkpoint, absolute, existing.
            events: Events to save with them: whoever goes on from this checkpoint makes those that a kill prevented.
            goes_on: Whether somebody may train on from it.

        Raises:
            OSError: The disk takes no more.
        """
        with_replay = self._trial.checkpoint.replay
        checkpoints.save(self.algorithm, folder, self._environments, self._scored, goes_on, with_replay)
        state = {
            "counters": {
                **asdict(self.counters),
                "wall_s": self.wall_s(),
                "paused_s": self.paused_s(),
                **self._measured.states(),
            },
            "events": [record_of(event) for event in events],
            "return_mean": self.counters.curve[-1][1] if self.counters.curve else None,
        }
        (folder / STATE_FILE).write_text(json.dumps(state))
        (folder / TRIAL_FILE).write_text(json.dumps(self._trial.to_mapping()))

    def restore(self, folder: Path) -> list[Event]:
        """The inverse of `save`; the events that were saved."""
        self._environments, self.lacks_replay = checkpoints.restore(self.algorithm, folder)
        return self._restored(folder)

    def take_over(self, folder: Path) -> None:
        """Go on where another trial ended, with this one's settings."""
        checkpoints.take_over(self.algorithm, folder)
        self._restored(folder)

    def start_from(self, file: Path) -> None:
        """Start from the weights of the trained policy that the study keeps, in place of those of the trial's seed."""
        assert self._trial.starts_from is not None
        starting_weights.put(self.algorithm, file, self._trial.starts_from)

    def _restored(self, folder: Path) -> list[Event]:
        state: Mapping[str, Any] = json.loads((folder / STATE_FILE).read_text())
        known = {each.name for each in fields(Counters)}
        self.counters = Counters(**{name: value for name, value in state["counters"].items() if name in known})
        self._measured.restore(state["counters"])
        self.begin_segment()
        return [event_of(record) for record in state["events"]]

    @property
    def checkpoint_every(self) -> int:
        """Env steps between two checkpoints."""
        return self._trial.checkpoint.every_env_steps or self._trial.budget_env_steps

    def end_segment(self) -> None:
        """Before the checkpoint that another segment begins from, here or after an interruption."""
        self._environments = checkpoints.environments(self.algorithm)
        if self._state.packages:
            changed = sorted({*self._state.changed(), *self._processes.changed_state()})
            if changed and not self.counters.kept_in_process:
                logger.warning(
                    "%s: its code keeps state in the process, not in checkpoints: %s",
                    self._trial.name,
                    ", ".join(changed),
                )
            self.counters.kept_in_process = changed

    def begin_segment(self) -> None:
        """As `checkpoints.begin_segment`."""
        segment = self.counters.grid_env_steps // self.checkpoint_every
        seed, arithmetic = self._trial.seed, self._trial.arithmetic
        checkpoints.begin_segment(self.algorithm, seed, arithmetic, segment, self._environments)
        self._environments = {}

    def close(self) -> None:
        """Stop runners and learners."""
        self._stop_measuring()
        self._kept.close()
        # Not stop(): RLlib's waits half a second for a monitor that is off.
        self.algorithm.cleanup()

    def kill(self) -> None:
        """Stop what is left after a fault, by force: a runner may hang, and its CPU is needed."""
        self._stop_measuring()
        with suppress(Exception):
            self._kept.close()
        self._processes.kill()
        with suppress(Exception):
            self.algorithm.cleanup()

    def _stop_measuring(self) -> None:
        if self._monitor is not None:
            self._monitor.close()


def _compute_so(learner: Any, arithmetic: Arithmetic) -> None:
    """In the process of a learner, which may be another one."""
    arithmetic.take()
