"""The Tune Trainable: train, report on the env-step grid, checkpoint, go on after a fault, stop at the budget."""

import logging
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ray.exceptions import RayError, RayTaskError
from ray.tune import PlacementGroupFactory, Trainable

from experiments.config import own_modules
from experiments.config.errors import first_line
from experiments.config.extension import check_versions
from experiments.config.trial_config import TrialConfig
from experiments.contract import FAILED, FINISHED, depends_on_clock
from experiments.envs.checked import EnvironmentFaultError, named_exit
from experiments.limits.memory import oom_kills
from experiments.rllib import starting_weights
from experiments.rllib.algorithms import promises_bits
from experiments.rllib.checkpoints import SAMPLES
from experiments.rllib.process_state import ProcessState, packages_of
from experiments.rllib.results import NonFiniteError
from experiments.trial import entering
from experiments.trial.attempt import Attempt, LostNodeError, OutOfMemoryError, lost_node, own_nodes
from experiments.trial.event_log import DamagedFileError, RefusedEventError
from experiments.trial.events import Ended, Event, Reported, Restarted, Started, reports
from experiments.trial.failure import is_out_of_memory, reason_for
from experiments.trial.folder import ERROR_FILE, check_checkpoint
from experiments.trial.heartbeat import Heartbeat
from experiments.trial.stored_folder import folder_at
from experiments.trial.training import TrainingLoop
from experiments.trial.tune_keys import (
    DRIVER,
    EVENTS,
    FOLDER,
    FOLLOWED,
    MEASURE_SYSTEM,
    RECYCLE_PROCESS,
    REQUEST,
    TRIAL,
)
from experiments.trial.usage.machine import Machine, placed_on
from experiments.trial.usage.memory_use import MemoryUse
from experiments.trial.usage.pauses import unpaused_s
from experiments.trial.usage.process_memory import ProcessMemory
from experiments.trial.usage.resource_usage import Address

logger = logging.getLogger(__name__)


class Trial(Trainable):  # type: ignore[misc]  # Tune ships no type information
    """One (configuration, seed): a pure function of `config["trial"]`.

    Each `step()` trains to the next point of the report grid, so that every configuration reports at the same env
    steps. RLlib's batches seldom end on a grid point: the iteration that ends nearest to it counts as the point.

    A trial goes on from the newest checkpoint in its folder, whoever wrote it: this process before a fault, one that
    was killed, or one of a study that was interrupted. Reports of a stretch that is trained again are made once, and a
    trial whose log holds its end is over.
    """

    @classmethod
    def default_resource_request(cls, config: Mapping[str, Any]) -> PlacementGroupFactory:
        """The request of the trial."""
        request: Mapping[str, Any] = config[TRIAL][REQUEST]
        return PlacementGroupFactory([dict(bundle) for bundle in request["bundles"]], strategy=request["strategy"])

    def get_auto_filled_metrics(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """As Tune's, without the trial's configuration: Tune has it, and would look through it at each result."""
        found: dict[str, Any] = super().get_auto_filled_metrics(*args, **kwargs)
        return {name: value for name, value in found.items() if name != "config"}

    def setup(self, config: Mapping[str, Any]) -> None:
        """Note what to do: the first `step()` does it.

        Tune may set a trial up in a process that is starting, and then give it to one that has become free: the other
        one's `step()` is never called, and it must leave no trace.
        """
        self._trial = TrialConfig.from_mapping(config[TRIAL])
        # The process': a trial that it takes on later finds it.
        self._process: ProcessMemory = self.__dict__.get("_process") or ProcessMemory()
        self._measure_system = bool(config.get(MEASURE_SYSTEM))
        self._followed = bool(config.get(FOLLOWED))
        self._driver: Address | None = config.get(DRIVER)
        self._training: TrainingLoop | None = None
        self._state: ProcessState | None = None  # since the trial came to this process
        self._left = 0.0  # when step() returned
        self._said: list[Event] = []  # since the last result
        self._unwritten: list[Event] = []
        self._unsaved: list[str] = []
        self._machines: tuple[Machine, ...] = ()
        self._faults: list[tuple[str, int]] = []  # reason, and the last report before it
        self._folder = folder_at(config[TRIAL][FOLDER])
        self._logs = Path(self.logdir)  # which is another trial's when this one is let go of
        self._has_folder = False
        self._attempt = Attempt()
        self._memory: MemoryUse | None = None

    def begin(self, attempt: Attempt) -> tuple[str, ...]:
        """Take on an attempt: the driver calls it between `setup` and the first `step()`.

        Returns:
            As `own_nodes`.
        """
        self._attempt = attempt
        return own_nodes()

    def _take_folder(self) -> None:
        """Take the trial's folder, once, with what happened before."""
        if self._has_folder:
            return
        log = self._folder.log
        entering.enter(self._folder, self._attempt.number)
        self._has_folder = True
        events = log.all()
        if log.end is None and not self._attempt.number:
            self._keep(lambda: self._said.extend(log.add(Started())))
            self._attempt = replace(self._attempt, number=log.attempt)
        self._reported = {report.env_steps: report for report in reports(events)}
        restarts = [event for event in events if isinstance(event, Restarted)]
        self._restarts = len(restarts)
        said = [event.reproducible for event in events if isinstance(event, Reported | Restarted)]
        self._reproducible = promises_bits(self._trial) and all(said[-1:])
        if log.end is None and any(event.attempt < self._attempt.number for event in events):
            self._add_restart(self._attempt.reason, self._attempt.cause)

    def step(self) -> dict[str, Any]:
        """Train to the next grid point and report.

        An exception or a runner or learner that died brings the trial back to its last checkpoint,
        `faults.max_restarts` times at most, unless it would only happen again.

        Returns:
            `events`, and whether the trial is `done`.

        Raises:
            UnfitNodeError: This node cannot run the trial.
            LostNodeError: A node with one of its processes is gone.
            OutOfMemoryError: One of its processes was killed for want of memory.
        """
        try:
            self._take_folder()
            over = self._folder.log.end is not None or self._advance()
        except RefusedEventError as error:  # another process has taken the trial up, or the driver has ended it
            logger.warning("%s: given up: %s", self._trial.name, error)
            self._abandon()
            over = True
        return self._result(over)

    def _advance(self) -> bool:
        """Report once, whatever it takes; whether the trial is over."""
        self._count_logging(unpaused_s() - self._left)  # Tune and the driver took in the last report
        while True:
            kills = oom_kills()
            try:
                with named_exit(self._trial.env.id):
                    if self._training is None:
                        self._start()
                    over = self._report()
                self._left = unpaused_s()
                return over
            except RefusedEventError:
                raise
            except Exception as error:  # noqa: BLE001  # whatever an environment or a library raises
                self._abandon()
                if node := lost_node(error):  # the driver finds room elsewhere for all of the trial's processes
                    raise LostNodeError(f"its node has died. Node Id: {node}") from None
                reason = reason_for(error)
                # the driver sees that nothing runs beside the trial when it goes on
                if is_out_of_memory(error, reason, kills):
                    raise OutOfMemoryError(reason) from None
                with suppress(OSError), (self._folder.path / ERROR_FILE).open("a") as file:
                    file.write(traceback.format_exc() + "\n")
                if not self._may_go_on(error, reason):
                    diverged = isinstance(error, NonFiniteError)
                    self._tell(Ended(status=FAILED, env_steps=self._furthest(), reason=reason, diverged=diverged))
                    return True
                died = isinstance(error, RayError) and not isinstance(error, RayTaskError)
                # A function of its seed would have raised again: an environment that did not is none.
                self._reproducible = self._reproducible and died
                self._add_restart(reason, "process" if died else "fault")

    def _may_go_on(self, error: Exception, reason: str) -> bool:
        at = (reason, self._furthest())
        again = at in self._faults  # at the same place
        self._faults.append(at)
        lasting = isinstance(error, NonFiniteError | EnvironmentFaultError)
        return not (lasting or len(self._faults) > self._trial.faults.max_restarts or again)

    def _furthest(self) -> int:
        return max(self._reported, default=0)

    def _add_restart(self, reason: str, cause: str) -> None:
        self._restarts += 1
        self._tell(Restarted(env_steps=self._furthest(), reason=reason, cause=cause, count=self._restarts))

    def _start(self) -> None:
        """Build the algorithm, and go on from the newest checkpoint if there is one."""
        self._take_folder()
        own_modules.check_imported(self._trial.modules)
        check_versions(self._trial.extensions)
        if self._state is None:
            self._state = ProcessState(packages_of(self._trial))
        else:  # after a fault
            self._go_on_without(self._state.changed())
        self._memory = self._memory or MemoryUse(
            lambda size: self._attempt.tell_memory(self._trial.folder_name, size, self._driver, self._logs)
        )
        self._training = training = TrainingLoop(
            self._trial,
            Heartbeat(partial(self._attempt.give_sign, self._trial.folder_name)),
            self._state,
            self._storage,
            self._measure_system,
            self._driver,
        )
        self._state.changed()  # notes what was imported with the environment
        self._memory.add(training.processes())
        if (machines := training.machines()) != self._machines:
            self._machines = machines
            self._tell(placed_on(machines))
        self._process.begin()
        self._pending: list[Event] = []
        if checkpoints := self._folder.checkpoints():
            check_checkpoint(checkpoints[-1])
            saved = training.restore(checkpoints[-1])
            self._pending = [e for e in saved if not isinstance(e, Reported) or e.env_steps not in self._reported]
            kept = training.counters.kept_in_process
            self._go_on_without(sorted(self._state.packages) if kept is None else kept)
            if training.lacks_replay:  # said in the plan
                self._reproducible = False
        elif (start := self._trial.start) is not None:
            parents = self._folder.beside(start.trial).take(start.env_steps)
            check_checkpoint(parents)
            training.take_over(parents)
        elif self._trial.starts_from is not None:
            training.start_from(self._folder.of_study(starting_weights.FILE))
        if self._trial.fast:
            self._process.freeze_once()
        training.begin_window(unpaused_s())

    def _go_on_without(self, kept_in_process: Sequence[str]) -> None:
        """Promise no bits where the process is not as it was when the trial came to where it goes on."""
        if kept_in_process:
            self._reproducible = False
            logger.warning(
                "%s: goes on without the state that code kept in its process: %s",
                self._trial.name,
                ", ".join(kept_in_process),
            )

    def _report(self) -> bool:
        """Train to the next grid point, evaluate, save; whether the trial is over."""
        events: Sequence[Event] = self._pending or self._trained()
        self._pending = []
        for event in events:
            self._tell(event)
        return isinstance(events[-1], Ended)

    def _trained(self) -> list[Event]:
        """Train to the next grid point: its report, and the end if it is the last one."""
        trial, training = self._trial, self._training
        assert training is not None
        now = training.counters
        now.grid_env_steps += trial.report_every_env_steps
        metrics = training.train(lambda collected: now.env_steps + collected / 2 >= now.grid_env_steps)
        last = now.grid_env_steps >= trial.budget_env_steps
        final: dict[str, float] = {}
        if last or now.grid_env_steps % (trial.evaluation.every_env_steps or trial.report_every_env_steps) == 0:
            evaluation, held = training.evaluate()
            metrics.update(evaluation)
            last = last or (held and trial.stop_at_target)
        if last:
            final = training.final_metrics()
        metrics["progress/wall_s"] = training.wall_s()
        metrics.update(self._used())
        if last:
            final |= self._peak()
        report = Reported(env_steps=now.grid_env_steps, metrics=metrics)
        events: list[Event] = [report]
        if last:
            digest = training.weights_digest()
            events.append(
                Ended(status=FINISHED, env_steps=now.grid_env_steps, metrics=final, weights=digest, at_ms=report.at_ms)
            )
        goes_on = not last and now.grid_env_steps % training.checkpoint_every == 0
        if goes_on:
            training.end_segment()
        if last or goes_on:
            self._keep(lambda: self._save(events))
        if goes_on:
            training.begin_segment()
        return events

    def _used(self) -> dict[str, float]:
        """What was used of the time and of the machines since the last report."""
        assert self._training is not None and self._memory is not None, "_start() makes them"
        used = self._training.use_of_time()
        self._memory.note(used.get("system/memory_mib", 0.0))
        return used

    def _peak(self) -> dict[str, float]:
        return {"final/memory_mib": self._memory.peak_mib() if self._memory else 0.0}

    def _save(self, events: Sequence[Event]) -> None:
        """A checkpoint, with the events in it: whoever goes on from it makes those that a kill prevented."""
        training, policy = self._training, self._trial.checkpoint
        assert training is not None
        at, attempt = training.counters.grid_env_steps, self._attempt.number
        goes_on = self._followed or not isinstance(events[-1], Ended)
        write = partial(training.save, events=events, goes_on=goes_on)
        self._folder.add_checkpoint(at, attempt, write, policy.keep, policy.keep_best)

    def _tell(self, event: Event) -> None:
        """Add an event to the log, and then to the next result.

        Of a stretch that is trained again the first reports stand.
        """
        if isinstance(event, Reported):
            first = self._reported.setdefault(event.env_steps, event)
            if first is not event:
                if self._reproducible and _learned(first) != _learned(event):
                    self._reproducible = False
                    logger.warning(
                        "%s: not the same when trained again, at %d env steps", self._trial.name, event.env_steps
                    )
                return
            event = replace(event, unsaved=self._take_unsaved())
        if isinstance(event, Reported | Restarted | Ended):
            event = replace(event, reproducible=self._reproducible)
        self._unwritten.append(event)
        self._keep(self._write_events)
        if self._unwritten:  # a full disk: it is told all the same, and written when there is room
            self._said.append(event)

    def _write_events(self) -> None:
        while self._unwritten:
            self._said += self._folder.log.add(self._unwritten[0], self._attempt.number)
            self._unwritten.pop(0)

    def _take_unsaved(self) -> str:
        unsaved, self._unsaved = "; ".join(self._unsaved), []
        return unsaved

    def _result(self, done: bool) -> dict[str, Any]:
        said, self._said = self._said, []
        newest = next((i for i in reversed(range(len(said))) if isinstance(said[i], Reported)), None)
        if self._unsaved and newest is not None:  # since that report was made
            report = said[newest]
            assert isinstance(report, Reported)
            said[newest] = replace(
                report, unsaved="; ".join(part for part in (report.unsaved, self._take_unsaved()) if part)
            )
        keeps = self._state is not None and bool(self._state.packages)
        recycle = keeps or bool(self._faults) or self._process.has_grown
        return {EVENTS: said, RECYCLE_PROCESS: recycle, "done": done}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Save the algorithm and the trial's counters."""
        assert self._training is not None, "step() starts it"
        self._training.save(Path(checkpoint_dir).absolute())

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        """The inverse of `save_checkpoint`."""
        if self._training is None:
            self._start()
        assert self._training is not None
        self._training.restore(Path(checkpoint_dir).absolute())

    def _keep(self, write: Callable[[], None]) -> None:
        """Write to the trial's folder; a disk that takes no more is said and costs no more than
        what was to be written.
        """
        start = unpaused_s()
        try:
            write()
        except OSError as error:
            self._unsaved.append(f"{error.filename or self._folder.path}: {error.strerror or first_line(error)}")
        finally:
            self._count_logging(unpaused_s() - start)

    def _count_logging(self, seconds: float) -> None:
        if self._training is not None:
            self._training.time.logging_s += seconds

    def reset_config(self, new_config: Mapping[str, Any]) -> bool:
        """Take on another trial in this process: saves the start of a worker and its imports."""
        self.cleanup()
        self.setup(new_config)
        return True

    def cleanup(self) -> None:
        """Stop runners and learners, and let go of the trial's folder."""
        self._stop_watching()
        if self._training is not None:
            self._training.close()
            self._training = None
            self._process.collect()
        sys.stdout.flush()
        if self._has_folder and not self._followed:
            with suppress(OSError, DamagedFileError):  # room on a disk
                self._folder.leave_out_once_over(SAMPLES)
        self._folder.close(self._logs if self._has_folder else None)

    def _stop_watching(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def _abandon(self) -> None:
        """Stop what is left of the algorithm after a fault, by force."""
        self._stop_watching()
        if self._training is not None:
            training, self._training = self._training, None
            training.kill()
            del training
            self._process.collect()


def _learned(report: Reported) -> dict[str, float]:
    """The metrics that must come out the same when a stretch is trained again."""
    return {name: value for name, value in report.metrics.items() if not depends_on_clock(name)}
