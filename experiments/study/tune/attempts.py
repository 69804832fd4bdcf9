"""The attempts at a study's trials: begun, ended where their node is lost, and counted.

Between Tune's trials and Ray's actors.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import ray
from ray import cloudpickle, exceptions
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError, RayTaskError

from experiments.config.trial_config import TrialConfig
from experiments.contract import FAILED
from experiments.contract.words import labelled
from experiments.limits.memory import oom_kills
from experiments.study.stream import EventStream
from experiments.study.tune.actor_manager import LostProcessError
from experiments.study.tune.heartbeats import Key
from experiments.study.tune.memory import MemoryOfAttempts, what_to_write
from experiments.study.tune.recovery import INTERRUPTED, MEMORY, NODE, OUT_OF_MEMORY, PROCESS, Loss, why_not_on
from experiments.trial.attempt import Attempt, OutOfMemoryError, UnfitNodeError, lost_node
from experiments.trial.failure import reason_for
from experiments.trial.tune_keys import TRIAL
from experiments.trial.usage.memory_use import left
from experiments.trial.usage.resource_usage import this_process


def config_of(trial: Any) -> TrialConfig:
    """The TrialConfig of one of Tune's trials."""
    if not hasattr(trial, "_suite_config"):
        trial._suite_config = TrialConfig.from_mapping(trial.config[TRIAL])
    config: TrialConfig = trial._suite_config
    return config


_ANSWER_WITHIN_S = 1.0


class Nodes(Protocol):
    """The nodes of a cluster that the study has joined."""

    def name(self, node: str) -> str:
        """A node in words, by its id."""

    def is_here(self, node: str) -> bool:
        """True for the driver's own node, by its id."""

    def refuse(self, node: str, why: str) -> None:
        """Use a node no more, since it cannot run the study's trials."""


class Attempts:
    """Which process is whose, and why the ones before it came to nothing. A trial is one of Tune's.

    Attributes:
        memory: What the attempts take of it.
    """

    def __init__(
        self,
        stream: EventStream,
        heartbeats: Any,
        nodes: Nodes | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Begin attempts.

        Args:
            stream: The stream of the study's events.
            heartbeats: The actor that takes the processes' signs of life.
            nodes: The nodes of the cluster; None: there is this machine alone.
            say: Takes a line for the terminal.
        """
        self.memory = MemoryOfAttempts()
        self._stream, self._heartbeats, self._of_cluster, self._say = stream, heartbeats, nodes, say
        self._numbers: dict[Any, int] = {}
        self._nodes: dict[Any, Any] = {}  # trial: ids of its nodes, or the reference to them
        self._losses: dict[Any, list[Loss]] = {}
        self._ended: dict[Any, Loss] = {}  # trials whose process was ended here, until Tune hears of it
        self._kills: dict[Any, int | None] = {}  # trial: the kernel's, when the newest attempt began
        self._explained = 0  # of the kernel's, by trials that were lost

    def begin(self, trial: Any) -> None:
        """A process takes a trial up: before its first step."""
        self._ended.pop(trial, None)
        number = self._numbers[trial] = self._stream.start(config_of(trial))
        last = self._losses.get(trial, [INTERRUPTED])[-1]
        attempt = Attempt(number, last.reason, last.cause, self._heartbeats)
        self._kills[trial] = oom_kills()
        self._nodes[trial] = trial.temporary_state.ray_actor.begin.remote(attempt)

    def has_ended(self, trial: Any) -> bool:
        """True for a trial that has ended, so that no other attempt is to begin."""
        return self._stream.has_ended(config_of(trial))

    def key(self, trial: Any) -> Key:
        """Of the newest attempt, as `Heartbeats` has it."""
        return config_of(trial).folder_name, self._numbers.get(trial, 0)

    def goes_on_alone(self, trial: Any) -> bool:
        """True for a trial that ran out of memory, and is taken up again with no other one under way."""
        return [loss.cause for loss in self._losses.get(trial, [])[-1:]] == [MEMORY]

    def nodes(self, trial: Any) -> tuple[str, ...]:
        """Ids of the nodes that hold the newest attempt's processes, its own first; none while they are not known."""
        found = self._nodes.get(trial, ())
        if isinstance(found, ray.ObjectRef) and ray.wait([found], timeout=0)[0]:
            try:
                self._nodes[trial] = ray.get(found)
            except RayError:  # the process is gone
                self._nodes[trial] = ()
        found = self._nodes.get(trial, ())
        return found if isinstance(found, tuple) else ()

    def end(self, trial: Any, loss: Loss) -> None:
        """End the newest attempt, whose node may be out of reach: the trial then goes on elsewhere."""
        self._ended[trial] = loss
        if (actor := trial.temporary_state.ray_actor) is not None:
            ray.kill(actor)

    def is_ended(self, trial: Any) -> bool:
        """True if the newest attempt was ended here."""
        return trial in self._ended

    def lost(self, trial: Any) -> None:
        """An attempt came to nothing, with the newest error of the trial:
        ends the trial if it is not to be taken up again.
        """
        self._stream.catch_up(config_of(trial))  # it may have ended, and its last message be lost
        loss = self._ended.pop(trial, None) or self._loss(trial)
        losses = self._losses.setdefault(trial, [])
        losses.append(loss)
        if why := why_not_on(losses, config_of(trial).faults):
            advice = f". {what_to_write(config_of(trial))}" if loss.cause == MEMORY else ""
            self._stream.end(config_of(trial), FAILED, f"{why}{advice}")
        elif loss.cause == MEMORY and not self.has_ended(trial):
            config, at_once = config_of(trial), len(self._others(trial))
            fewer = f". Fewer trials at once: hardware.max_concurrent_trials={at_once}" if at_once else ""
            self._say(
                labelled(
                    "memory",
                    f"{config.label} seed {config.seed} is run again with no other trial under way: "
                    f"{loss.reason}{fewer}",
                )
            )

    def _others(self, trial: Any) -> list[Any]:
        """The other trials that are under way."""
        return [other for other in self._numbers if other is not trial and other.status == "RUNNING"]

    def _out_of_memory(self, trial: Any) -> Loss:
        trials = [trial, *self._others(trial)]
        keys = [self.key(each) for each in trials]
        with suppress(RayError):  # of trials on other hosts; what the watchdog was told before is known in any case
            self.memory.update(ray.get(self._heartbeats.memory.remote(keys), timeout=_ANSWER_WITHIN_S))
        for each, key in zip(trials, keys, strict=True):
            if (found := left(Path(each.storage.trial_working_directory))) is not None and found[0] == key[1]:
                self.memory.update({key: (this_process()[0], found[1])})
        return Loss(MEMORY, OUT_OF_MEMORY + self.memory.lost(keys[0], keys[1:], time.monotonic()))

    def _is_killed_by_kernel(self, trial: Any) -> bool:
        """True if a process that died is one of those that the kernel killed for want of memory:
        of another machine, nobody knows.
        """
        if self._of_cluster is not None and not self._of_cluster.is_here(next(iter(self.nodes(trial)), "")):
            return False
        now, before = oom_kills(), self._kills.get(trial)
        if now is None or before is None or now <= max(before, self._explained):
            return False
        self._explained = max(before, self._explained) + 1
        return True

    def _loss(self, trial: Any) -> Loss:
        if (error := _newest_error(trial)) is None:
            return Loss(PROCESS, "no reason was recorded")
        cause = error.cause if isinstance(error, RayTaskError | LostProcessError) else error
        own = next(iter(self.nodes(trial)), "")
        if isinstance(cause, UnfitNodeError):
            if self._of_cluster is not None:
                self._of_cluster.refuse(own, str(cause))
            return Loss(NODE, f"{self._name(own)} was not used: {cause}")
        if isinstance(cause, exceptions.OutOfMemoryError | OutOfMemoryError):
            self._is_killed_by_kernel(trial)  # if so, that kill explains no other loss
            return self._out_of_memory(trial)
        if (
            isinstance(cause, ActorDiedError | ActorUnavailableError)
            and not lost_node(cause)
            and self._is_killed_by_kernel(trial)
        ):
            return self._out_of_memory(trial)
        # a connection ended, and Ray does not know why: a process that died, it knows of
        if isinstance(cause, ActorUnavailableError):
            return Loss(NODE, f"{self._name(own)} was lost")
        if node := lost_node(error):
            return Loss(NODE, f"{self._name(node)} was lost")
        return Loss(PROCESS, reason_for(cause))

    def _name(self, node: str) -> str:
        return "its node" if self._of_cluster is None else self._of_cluster.name(node)


def _newest_error(trial: Any) -> BaseException | None:
    """The error of a Tune trial: on the driver's disk at once, and in the study's folder
    when Tune next saves itself.
    """
    if trial.pickled_error_file is None:
        return None
    with Path(trial.pickled_error_file).open("rb") as file:
        error: BaseException = cloudpickle.load(file)
    return error
