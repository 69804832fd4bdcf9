"""The Tune Trainable: train, evaluate, report on the env-step grid, checkpoint, go on after a fault, stop at the budget."""

import gc
import json
import logging
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import ray
import torch
from ray.exceptions import ActorDiedError, RayError, RayTaskError
from ray.tune import PlacementGroupFactory, Trainable

from experiments.config.errors import first_line, reason_of
from experiments.config.trial_config import TrialConfig
from experiments.fast.off_policy import FastOffPolicy
from experiments.metrics import (
    LEARNER_SECONDS,
    EpisodeSums,
    NonFiniteError,
    PhaseClock,
    TargetWatch,
    TimeUse,
    area_under_curve,
    check_finite,
    depends_on_clock,
    gradient_steps,
    learner_metrics,
    runner_seconds,
    training_shares,
)
from experiments.rllib import checkpoints as state
from experiments.rllib.building import build_algorithm_config, is_asynchronous, promises_bits, request_for
from experiments.rllib.env_runner import EnvRunner, EnvRunnerError, FastRunner
from experiments.rllib.hooks import EPISODES
from experiments.rllib.learner import average_over_minibatches, log_kl, time_updates
from experiments.rllib.seeding import Role, stream_seeds
from experiments.trial import resource_usage as system
from experiments.trial.evaluation import Evaluation, evaluate
from experiments.trial.folder import STATE_FILE, TRIAL_FILE, Report, Restart, TrialFolder, check_checkpoint
from experiments.trial.resource_usage import Address, ProcessMonitor, own_memory_bytes, this_process

STEP = "report_env_steps"
"""Key of a result: the point on the study's report grid."""
AT_MS = "reported_at_ms"
"""Key of a result: when the report was made, ms since the epoch."""
WEIGHTS = "weights"
"""Key of the last result: digest of the final weights."""
FAILURE = "failure"
"""Key of a trial's last result if it failed: why."""
RESTARTS = "restarts"
"""Key of a result: how often the trial was taken up again."""
REPRODUCIBLE = "reproducible"
"""Key of a result: whether the same trial would come out the same to the bit, as far as this one can tell."""
UNSAVED = "unsaved"
"""Key of a result: what the disk did not take since the last one, and why; empty if it took everything."""

WORN = "worn"
"""Key of a result: whether the trial's process had better not be used for another trial."""

TRIAL = "trial"
"""Key of Tune's config: the TrialConfig as a mapping."""
FOLDER = "folder"
"""Key beside the TrialConfig's own in that mapping: the trial's own folder."""
RESUMED = "resumed"
"""Key of Tune's config: whether an earlier execution of the study was interrupted."""
MEASURE_SYSTEM = "measure_system"
"""Key of Tune's config: whether CPU, memory and GPU use are measured."""
DRIVER = "driver"
"""Key of Tune's config: host and process of the study's driver."""

_MUST_BE_FINITE = ("learner/loss", "learner/policy_loss", "learner/value_loss", "learner/grad_norm")

_MOST_GROWTH = 512 * 2**20
"""Bytes by which a process may grow from its first trial's start: a trial leaves 3 to 4 MB behind, and more after large replay buffers."""

_PROCESSES = {EnvRunner.__name__: "runner", FastRunner.__name__: "runner", "_WrappedExecutable": "learner"}
"""Class of an RLlib actor to what it is."""

logger = logging.getLogger(__name__)


class Trial(Trainable):  # type: ignore[misc]  # Tune ships no type information
    """One (configuration, seed): a pure function of `config["trial"]`.

    Each `step()` trains to the next point of the report grid, so that every configuration reports at the same env steps. RLlib's
    batches seldom end on a grid point: the iteration that ends nearest to it counts as the point.

    A trial goes on from the newest checkpoint in its folder, whoever wrote it: this process before a fault, one that was killed, or one
    of a study that was interrupted. Reports of a stretch that is trained again are made once.
    """

    @classmethod
    def default_resource_request(cls, config: Mapping[str, Any]) -> PlacementGroupFactory:
        """What the trial's processes need, as RLlib counts it."""
        return request_for(build_algorithm_config(TrialConfig.from_mapping(config[TRIAL])))

    def setup(self, config: Mapping[str, Any]) -> None:
        """Note what to do: the first `step()` does it.

        Tune may set a trial up in a process that is starting, and then give it to one that has become free: the other one's `step()` is
        never called, and it must leave no trace.
        """
        self._trial = TrialConfig.from_mapping(config[TRIAL])
        # These two are the process': a trial that it takes on later finds them.
        self._first_bytes = self.__dict__.get("_first_bytes", 0)  # when it built its first algorithm
        self._settled = self.__dict__.get("_settled", 0)  # times that it was
        self._measure_system = bool(config.get(MEASURE_SYSTEM))
        self._driver: Address | None = config.get(DRIVER)
        torch.set_num_threads(self._trial.threads_per_process)
        self._algorithm: Any = None  # RLlib's, while it lives
        self._left = 0.0  # when step() returned
        self._unsaved: list[str] = []
        self._unwritten: list[Report] = []
        self._faults: list[tuple[str, int]] = []  # reason, and the last report before it
        self._folder = TrialFolder(Path(config[TRIAL][FOLDER]))
        self._resumed = bool(config.get(RESUMED))
        self._has_folder = False

    def _take_folder(self) -> None:
        """Take the trial's folder, once, with what was reported before."""
        if self._has_folder:
            return
        taken_up_before = self._folder.last_beat() is not None
        self._folder.open()
        self._has_folder = True
        self._reported = {report.env_steps: report for report in self._folder.reports()}
        self._restarts = self._folder.restarts()
        self._reproducible = promises_bits(self._trial) and all(r.kind != "fault" for r in self._restarts)
        if taken_up_before and self._resumed:
            self._add_restart("the study was interrupted", "study")
        elif taken_up_before:
            self._add_restart("a process of the trial died", "process")

    def step(self) -> dict[str, Any]:
        """Train to the next grid point and report.

        An exception or a runner or learner that died brings the trial back to its last checkpoint, `faults.max_restarts` times at most,
        unless it would only happen again.

        Returns:
            The metrics of the contract, flat; `report_env_steps` is the grid point. If the trial has failed, `failure` says why.
        """
        self._take_folder()
        self._count_logging(perf_counter() - self._left)  # Tune and the driver took in the last report
        while True:
            try:
                if self._algorithm is None:
                    self._start()
                result = self._report()
                self._left = perf_counter()
                return result
            except Exception as error:  # noqa: BLE001  # whatever an environment or a library raises
                self._abandon()
                reason = reason_for(error)
                with suppress(OSError), (self._folder.path / "error.txt").open("a") as file:
                    file.write(traceback.format_exc() + "\n")
                if not self._may_go_on(error, reason):
                    return self._result({}, self._furthest(), done=True) | {FAILURE: reason, WORN: True}
                died = isinstance(error, RayError) and not isinstance(error, RayTaskError)
                # A function of its seed would have raised again: an environment that did not is none.
                self._reproducible = self._reproducible and died
                self._add_restart(reason, "process" if died else "fault")

    def _may_go_on(self, error: Exception, reason: str) -> bool:
        if isinstance(error, NonFiniteError) or len(self._faults) >= self._trial.faults.max_restarts:
            return False
        at = (reason, self._furthest())
        if at in self._faults:  # for the second time at the same place
            return False
        self._faults.append(at)
        return True

    def _furthest(self) -> int:
        return max(self._reported, default=0)

    def _add_restart(self, reason: str, kind: str) -> None:
        restart = Restart(reason, self._furthest(), now_ms(), kind)
        self._restarts.append(restart)
        self._keep(lambda: self._folder.add_restart(restart))

    def _start(self) -> None:
        """Build the algorithm, and go on from the newest checkpoint if there is one."""
        self._take_folder()
        self._wall_start = perf_counter()
        config = build_algorithm_config(self._trial)
        # With Tune's storage RLlib keeps its own log folder within the study's, instead of one in the home directory.
        self._algorithm = algorithm = config.algo_class(config=config, storage=self._storage)
        algorithm.learner_group.foreach_learner(average_over_minibatches)
        algorithm.learner_group.foreach_learner(time_updates)
        algorithm.learner_group.foreach_learner(log_kl)
        self._first_bytes = self._first_bytes or own_memory_bytes()
        self._clock = PhaseClock()
        self._clock.attach(algorithm.metrics)
        if isinstance(algorithm, FastOffPolicy):
            algorithm.on_seconds = self._clock.add
        self._has_kl = bool(getattr(config, "use_kl_loss", False))
        self._epochs = (config.num_epochs or 1) if config.minibatch_size is not None else 1
        self._minibatches = config.minibatch_size is not None
        self._monitor_of_trial = ProcessMonitor(self._processes(), self._driver) if self._measure_system else None

        self._grid_env_steps = 0
        self._env_steps = self._iterations = self._updates = 0
        self._train_s = self._wall_before_s = 0.0
        self._warm: tuple[int, float, float] | None = None  # env steps, training seconds and trained steps at the first report
        self._trained = 0.0  # steps that the learner consumed
        self._curve: list[tuple[float, float]] = []
        self._watch = TargetWatch(self._trial.env.target)
        self._pending: Report | None = None
        if checkpoints := self._folder.checkpoints():
            check_checkpoint(checkpoints[-1])
            self.load_checkpoint(str(checkpoints[-1]))
        elif (start := self._trial.start) is not None:
            self._take_over(self._folder.beside(start.trial).checkpoint(start.env_steps))
        if self._trial.fast and not self._settled:
            _settle()
            self._settled = 1
        self._asynchronous = is_asynchronous(self._trial.algorithm)
        self._begin_window(perf_counter())

    def _begin_window(self, start: float) -> None:
        """Of the wall-clock whose use is told with the next report."""
        self._window_start, self._time = start, TimeUse(self._asynchronous)

    def _report(self) -> dict[str, Any]:
        """Train to the next grid point, evaluate, save."""
        trial = self._trial
        if (pending := self._pending) is not None:
            self._pending = None
            return self._made(pending)
        self._grid_env_steps += trial.report_every_env_steps
        grid = self._grid_env_steps
        metrics = self._train_until(lambda collected: self._env_steps + collected / 2 >= grid)
        last = self._grid_env_steps >= trial.budget_env_steps
        every = trial.evaluation.every_env_steps or trial.report_every_env_steps
        if last or self._grid_env_steps % every == 0:
            evaluation = self._evaluate(Role.EVALUATION, trial.evaluation.episodes)
            metrics.update(evaluation.metrics())
            check_finite(evaluation.metrics(), self._env_steps)
            self._curve.append((self._grid_env_steps, metrics["eval/return_mean"]))
            held = self._watch.see(metrics["eval/return_mean"], self._grid_env_steps, self._train_s)
            last = last or (held and trial.stop_at_target)
        if last:
            metrics.update(self._final_metrics())
        metrics["progress/wall_s"] = self._wall_s()
        metrics.update(self._use_of_time())
        report = Report(self._grid_env_steps, now_ms(), metrics, last, state.weights_digest(self._algorithm) if last else "")
        boundary = self._grid_env_steps % self._checkpoint_every() == 0
        if last or boundary:
            # With the report in it: whoever goes on from this checkpoint makes the report that a kill prevented.
            self._keep(lambda: self._save(report))
        if boundary and not last:
            self._begin_segment()
        return self._made(report)

    def _made(self, report: Report) -> dict[str, Any]:
        """Keep a report, once: of a stretch that is trained again the first reports stand."""
        first = self._reported.setdefault(report.env_steps, report)
        if first is report:
            self._unwritten.append(report)
            self._keep(self._write_reports)
        elif self._reproducible and _learned(first) != _learned(report):
            self._reproducible = False
            logger.warning("%s: not the same when trained again, at %d env steps", self._trial.name, report.env_steps)
        return self._result(first.metrics, first.env_steps, first.done, first.at_ms) | ({WEIGHTS: first.weights} if first.done else {})

    def _write_reports(self) -> None:
        """Those as well that a full disk did not take before."""
        while self._unwritten:
            self._folder.add_report(self._unwritten[0])
            self._unwritten.pop(0)

    def _result(self, metrics: Mapping[str, float], env_steps: int, done: bool, at_ms: int = 0) -> dict[str, Any]:
        unsaved, self._unsaved = "; ".join(self._unsaved), []
        return {
            **metrics,
            STEP: env_steps,
            AT_MS: at_ms or now_ms(),
            RESTARTS: len(self._restarts),
            REPRODUCIBLE: self._reproducible,
            UNSAVED: unsaved,
            WORN: bool(self._faults) or own_memory_bytes() - self._first_bytes > _MOST_GROWTH,
            "timesteps_total": env_steps,
            "done": done,
        }

    def _train_until(self, is_enough: Callable[[int], bool]) -> dict[str, float]:
        """Train on; the metrics of what was trained.

        Args:
            is_enough: Takes the env steps of the last iteration and says whether it was the last one.
        """
        episodes = EpisodeSums()
        start_env_steps, start_s, start_trained, batches = self._env_steps, self._train_s, self._trained, 0
        learner: dict[str, float] = {}
        while True:
            before = self._env_steps
            self._folder.beat()
            start = perf_counter()
            result = self._algorithm.train()
            self._train_s += perf_counter() - start
            runners = result.get("env_runners", {})
            learners = result.get("learners", {})
            module = learners.get("default_policy", {})
            updating_s = float(learners.get("__all_modules__", {}).get(LEARNER_SECONDS, 0.0))
            self._time.add(runner_seconds(runners), updating_s / max(1, self._algorithm.config.num_learners))
            self._env_steps = int(runners.get("num_env_steps_sampled_lifetime", self._env_steps))
            self._iterations += 1
            steps = gradient_steps(module)
            self._updates += steps
            batches += int(result.get("num_training_step_calls_per_iteration", 1)) if self._minibatches else steps
            episodes.add(runners.get(EPISODES, {}))
            check_finite(episodes.metrics(), self._env_steps)
            if steps:  # without one RLlib reports NaN losses, which are no fault
                self._trained += float(module["num_module_steps_trained"]) / self._epochs
                learner = learner_metrics(module, self._has_kl)
                check_finite({k: v for k, v in learner.items() if k in _MUST_BE_FINITE}, self._env_steps)
            collected = self._env_steps - before
            if collected <= 0:
                raise RuntimeError(f"no env steps were sampled in an iteration of {perf_counter() - start:.0f} s: the runners are gone")
            if is_enough(collected):
                break
        seconds, sampled = self._train_s - start_s, self._env_steps - start_env_steps
        if self._warm is None:
            self._warm = (self._env_steps, self._train_s, self._trained)
        self._phases = self._clock.take()
        return {
            **episodes.metrics(),
            **{name: value for name, value in learner.items() if value == value},
            **training_shares(self._phases, seconds),
            "throughput/env_steps_per_s": sampled / seconds,
            "throughput/trained_steps_per_s": (self._trained - start_trained) / seconds,
            "progress/env_steps": self._env_steps,
            "progress/iterations": self._iterations,
            "progress/updates": self._updates,
            "progress/train_s": self._train_s,
            **({"progress/batch_env_steps": sampled / batches} if batches else {}),
        }

    def _use_of_time(self) -> dict[str, float]:
        """Where the wall-clock went since the last report, and what of the machine was used."""
        now = perf_counter()
        metrics = self._time.shares(now - self._window_start, self._phases)
        if self._monitor_of_trial is not None:
            metrics.update(self._monitor_of_trial.metrics())
            if (share := self._time.runner_cpu_share()) is not None:
                metrics["system/runner_cpu_share"] = share
        self._begin_window(now)
        self._time.logging_s = perf_counter() - now
        return metrics

    def _evaluate(self, role: Role, episodes: int) -> Evaluation:
        start = perf_counter()
        try:
            return self._evaluation(role, episodes)
        finally:
            self._time.evaluation_s += perf_counter() - start

    def _evaluation(self, role: Role, episodes: int) -> Evaluation:
        config = self._algorithm.config
        seeds = stream_seeds(self._trial.seed, role, episodes)
        # An episode longer than the whole budget may have no end.
        most = self._trial.budget_env_steps
        return evaluate(self._module(), self._trial.env, seeds, config.normalize_actions, config.clip_actions, self._folder.beat, most)

    def _module(self) -> Any:
        """The module with the learner's newest weights, in this process: a remote runner's may lag."""
        runner = self._algorithm.env_runner
        if runner is not None and runner.module is not None:
            if self._algorithm.config.num_env_runners:
                weights = self._algorithm.learner_group.get_state(components="learner/rl_module", inference_only=True)
                runner.module.set_state(weights["learner"]["rl_module"]["default_policy"])
            return runner.module
        return self._algorithm.get_module()

    def _final_metrics(self) -> dict[str, float]:
        score = self._evaluate(Role.FINAL_EVALUATION, self._trial.evaluation.final_episodes)
        check_finite(score.metrics(), self._env_steps)
        return {
            "final/score": float(score.returns.mean()),
            "final/auc": area_under_curve(self._curve, self._trial.budget_env_steps),
            **self._watch.metrics(),
            **self._final_speed(),
        }

    def _final_speed(self) -> dict[str, float]:
        warm_env_steps, warm_s, warm_trained = self._warm if self._warm and self._warm[0] < self._env_steps else (0, 0.0, 0.0)
        seconds = self._train_s - warm_s
        return {
            "final/env_steps_per_s": (self._env_steps - warm_env_steps) / seconds,
            "final/trained_steps_per_s": (self._trained - warm_trained) / seconds,
            "final/train_s": self._train_s,
            "final/wall_s": self._wall_s(),
        }

    def _wall_s(self) -> float:
        return self._wall_before_s + perf_counter() - self._wall_start

    def _processes(self) -> dict[str, list[Address]]:
        own = this_process()
        runners = self._algorithm.env_runner_group.foreach_env_runner(lambda _: this_process(), local_env_runner=False)
        learners = [r.get() for r in self._algorithm.learner_group.foreach_learner(lambda _: this_process())]
        found = {system.DRIVER: [own], system.RUNNERS: list(runners), system.LEARNERS: [a for a in learners if a != own]}
        return {role: addresses for role, addresses in found.items() if addresses}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Save the algorithm and the trial's counters."""
        self._write(Path(checkpoint_dir).absolute(), None)

    def _save(self, report: Report) -> None:
        policy = self._trial.checkpoint
        self._folder.add_checkpoint(report.env_steps, lambda folder: self._write(folder, report), policy.keep, policy.keep_best)

    def _write(self, folder: Path, report: Report | None) -> None:
        state.save(self._algorithm, folder)
        counters = {
            "grid_env_steps": self._grid_env_steps,
            "env_steps": self._env_steps,
            "iterations": self._iterations,
            "updates": self._updates,
            "train_s": self._train_s,
            "trained": self._trained,
            "wall_s": self._wall_s(),
            "warm": self._warm,
            "curve": self._curve,
            "reached": self._watch.reached,
            "since": self._watch.since,
            "return_mean": self._curve[-1][1] if self._curve else None,
            "report": vars(report) if report else None,
        }
        (folder / STATE_FILE).write_text(json.dumps(counters))
        (folder / TRIAL_FILE).write_text(json.dumps(self._trial.to_mapping()))

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        """The inverse of `save_checkpoint`, on an algorithm that was just built."""
        folder = Path(checkpoint_dir).absolute()
        if self._algorithm is None:
            self._start()
        state.restore(self._algorithm, folder)
        counters = self._restore_counters(folder)
        if counters["report"] and counters["grid_env_steps"] not in self._reported:
            self._pending = Report(**counters["report"])
        self._begin_segment()

    def _take_over(self, checkpoint: Path) -> None:
        """Go on where another trial ended, with this one's settings."""
        check_checkpoint(checkpoint)
        state.take_over(self._algorithm, checkpoint)
        self._restore_counters(checkpoint)
        self._begin_segment()

    def _restore_counters(self, folder: Path) -> dict[str, Any]:
        counters: dict[str, Any] = json.loads((folder / STATE_FILE).read_text())
        self._grid_env_steps, self._env_steps = counters["grid_env_steps"], counters["env_steps"]
        self._iterations, self._updates = counters["iterations"], counters["updates"]
        self._train_s, self._wall_before_s, self._trained = counters["train_s"], counters["wall_s"], counters["trained"]
        self._warm = tuple(counters["warm"]) if counters["warm"] else None
        self._curve = [(x, y) for x, y in counters["curve"]]
        self._watch.reached = tuple(counters["reached"]) if counters["reached"] else None
        self._watch.since = tuple(counters["since"]) if counters["since"] else None
        return counters

    def _checkpoint_every(self) -> int:
        return self._trial.checkpoint.every_env_steps or self._trial.budget_env_steps

    def _begin_segment(self) -> None:
        segment = self._grid_env_steps // self._checkpoint_every()
        state.begin_segment(self._algorithm, self._trial.seed, self._trial.threads_per_process, segment)

    def _keep(self, write: Callable[[], None]) -> None:
        """Write to the trial's folder; a disk that takes no more is said and costs no more than what was to be written."""
        start = perf_counter()
        try:
            write()
        except OSError as error:
            self._unsaved.append(f"{error.filename or self._folder.path}: {error.strerror or first_line(error)}")
        finally:
            self._count_logging(perf_counter() - start)

    def _count_logging(self, seconds: float) -> None:
        if self._algorithm is not None:
            self._time.logging_s += seconds

    def reset_config(self, new_config: Mapping[str, Any]) -> bool:
        """Take on another trial in this process, unless the last one left it `worn`: saves the start of a worker and its imports."""
        self.cleanup()
        self.setup(new_config)
        return True

    def cleanup(self) -> None:
        """Stop runners and learners, and let go of the trial's folder."""
        if self._algorithm is not None:
            # Not stop(): RLlib's waits half a second for a monitor that is off.
            self._algorithm.cleanup()
            self._algorithm = None
            self._forget()
        self._folder.close()

    def _forget(self) -> None:
        """Free what an algorithm left behind."""
        if self._settled == 1:  # with the first algorithm, which is gone
            _settle()
            self._settled = 2
        else:
            gc.collect()

    def _abandon(self) -> None:
        """Stop what is left of the algorithm after a fault, by force: a runner may hang, and its CPU is needed."""
        if self._algorithm is None:
            return
        algorithm, self._algorithm = self._algorithm, None
        learners = algorithm.learner_group._worker_manager.actors().values() if algorithm.learner_group.is_remote else []
        for actor in [*algorithm.env_runner_group._worker_manager.actors().values(), *learners]:
            ray.kill(actor)
        with suppress(Exception):
            algorithm.cleanup()
        del algorithm
        self._forget()


def _settle() -> None:
    """Take what is there now, such as RLlib's modules, out of Python's full collections: they took 180 ms each."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _learned(report: Report) -> dict[str, float]:
    """What must come out the same when a stretch is trained again."""
    return {name: value for name, value in report.metrics.items() if not depends_on_clock(name)}


def reason_for(error: BaseException) -> str:
    """Why a trial cannot go on, in a line: what went wrong where it went wrong, in whatever process."""
    if isinstance(error, RayTaskError):
        return reason_for(error.cause)
    if isinstance(error, EnvRunnerError):
        return str(error)
    if isinstance(error, ActorDiedError):
        text = str(error).strip()
        what = next((process for actor, process in _PROCESSES.items() if actor in text), "process")
        return f"a {what} of the trial died: {text.splitlines()[-1].partition('. ')[0].strip()}"
    return reason_of(error)


def now_ms() -> int:
    """Now, ms since the epoch."""
    return time.time_ns() // 1_000_000
