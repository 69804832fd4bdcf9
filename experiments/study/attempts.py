"""The attempts at a study's trials: begun, ended where their node is lost, and counted. Between Tune's trials and Ray's actors."""

from pathlib import Path
from typing import Any, Protocol

import ray
from ray import cloudpickle
from ray.exceptions import ActorUnavailableError, RayError, RayTaskError

from experiments.config.trial_config import TrialConfig
from experiments.metrics import FAILED
from experiments.study.event_stream import EventStream
from experiments.study.recovery import INTERRUPTED, NODE, PROCESS, Loss, why_not_on
from experiments.trial.attempt import Attempt, UnfitNodeError, lost_node
from experiments.trial.trainable import TRIAL, reason_for


def config_of(trial: Any) -> TrialConfig:
    """The TrialConfig of one of Tune's trials."""
    if not hasattr(trial, "_suite_config"):
        trial._suite_config = TrialConfig.from_mapping(trial.config[TRIAL])
    config: TrialConfig = trial._suite_config
    return config


class Nodes(Protocol):
    """The nodes of a cluster that the study has joined."""

    def name(self, node: str) -> str:
        """A node in words, by its id."""

    def refuse(self, node: str, why: str) -> None:
        """Use a node no more, since it cannot run the study's trials."""


class Attempts:
    """Which process is whose, and why the ones before it came to nothing. A trial is one of Tune's."""

    def __init__(self, stream: EventStream, heartbeats: Any, nodes: Nodes | None = None) -> None:
        """Begin attempts.

        Args:
            stream: Of the study's events.
            heartbeats: The actor that takes the processes' signs of life.
            nodes: The cluster's; None: there is this machine alone.
        """
        self._stream, self._heartbeats, self._of_cluster = stream, heartbeats, nodes
        self._numbers: dict[Any, int] = {}
        self._nodes: dict[Any, Any] = {}  # trial: ids of its nodes, or the reference to them
        self._losses: dict[Any, list[Loss]] = {}
        self._ended: dict[Any, Loss] = {}  # trials whose process was ended here, until Tune hears of it

    def begin(self, trial: Any) -> None:
        """A process takes a trial up: before its first step."""
        self._ended.pop(trial, None)
        number = self._numbers[trial] = self._stream.start(config_of(trial))
        last = self._losses.get(trial, [INTERRUPTED])[-1]
        attempt = Attempt(number, last.reason, last.cause, self._heartbeats)
        self._nodes[trial] = trial.temporary_state.ray_actor.begin.remote(attempt)

    def has_ended(self, trial: Any) -> bool:
        """Whether the trial has, so that no other attempt is to begin."""
        return self._stream.has_ended(config_of(trial))

    def number(self, trial: Any) -> int:
        """Of the newest attempt."""
        return self._numbers.get(trial, 0)

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
        """Whether the newest attempt was ended here."""
        return trial in self._ended

    def lost(self, trial: Any) -> None:
        """An attempt came to nothing, with the newest error of the trial: ends the trial if it is not to be taken up again."""
        self._stream.catch_up(config_of(trial))  # it may have ended, and its last message be lost
        loss = self._ended.pop(trial, None) or self._loss(trial)
        losses = self._losses.setdefault(trial, [])
        losses.append(loss)
        if why := why_not_on(losses, config_of(trial).faults):
            self._stream.end(config_of(trial), FAILED, why)

    def _loss(self, trial: Any) -> Loss:
        if (error := _newest_error(trial)) is None:
            return Loss(PROCESS, "no reason was recorded")
        cause = error.cause if isinstance(error, RayTaskError) else error
        own = next(iter(self.nodes(trial)), "")
        if isinstance(cause, UnfitNodeError):
            if self._of_cluster is not None:
                self._of_cluster.refuse(own, str(cause))
            return Loss(NODE, f"{self._name(own)} was not used: {cause}")
        if isinstance(cause, ActorUnavailableError):  # a connection ended, and Ray does not know why: a process that died, it knows of
            return Loss(NODE, f"{self._name(own)} was lost")
        if node := lost_node(error):
            return Loss(NODE, f"{self._name(node)} was lost")
        return Loss(PROCESS, reason_for(error))

    def _name(self, node: str) -> str:
        return "its node" if self._of_cluster is None else self._of_cluster.name(node)


def _newest_error(trial: Any) -> BaseException | None:
    """What a Tune trial failed with: on the driver's disk at once, and in the study's folder when Tune next saves itself."""
    if trial.pickled_error_file is None:
        return None
    with Path(trial.pickled_error_file).open("rb") as file:
        error: BaseException = cloudpickle.load(file)
    return error
