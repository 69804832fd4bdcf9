"""Watches a cluster's nodes while a study runs: those that join are used, those that are lost or cut off are let go."""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray
from ray.tune import PlacementGroupFactory

from experiments.config.errors import ConfigurationError
from experiments.contract.words import labelled
from experiments.planning.machines import Cluster, Node, node_of
from experiments.planning.resources import needs, trials_at_once
from experiments.study.cluster.demand import Demand
from experiments.study.cluster.node_check import JoinCheck, named
from experiments.study.cluster.node_states import Changes, ClusterNode, NodeStates
from experiments.study.tune.attempts import Attempts
from experiments.study.tune.callbacks import DriverCallback
from experiments.study.tune.recovery import NODE, Loss

_LOOK_EVERY_S = 1.0
_ASK_EVERY_S = 5.0
_ANSWER_WITHIN_S = 2.0
_ASKED_AT_ONCE = 32


def machines() -> list[ClusterNode]:
    """The nodes that Ray counts as alive."""
    return [
        ClusterNode(
            node["NodeID"],
            named(node),
            node["NodeManagerAddress"],
            node["NodeManagerPort"],
            node_of(node["Resources"]),
        )
        for node in ray.nodes()
        if node["Alive"]
    ]


class Reachability:
    """Asks each node's manager for a connection, in a thread: an answer from the network does not wait
    for a node that is busy.

    Attributes:
        silent: Ids of the nodes that gave none when they were last asked.
    """

    def __init__(self) -> None:
        self.silent: Set[str] = frozenset()
        self.asked: Iterable[ClusterNode] = ()
        self._closed = threading.Event()
        threading.Thread(target=self._ask, name="Reachability", daemon=True).start()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()

    def _ask(self) -> None:
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            while not self._closed.wait(_ASK_EVERY_S):
                asked = list(self.asked)
                answers = pool.map(_answers, asked)
                self.silent = frozenset(
                    machine.id for machine, answered in zip(asked, answers, strict=True) if not answered
                )


def _answers(machine: ClusterNode) -> bool:
    try:
        socket.create_connection((machine.address, machine.port), timeout=_ANSWER_WITHIN_S).close()
    except OSError:
        return False
    return True


class NodeWatch(DriverCallback):
    """Follows the nodes of a cluster that the study has joined.

    Attributes:
        states: Which nodes there are.
        gave_up: Why the study ended for want of a node; empty if it did not.
    """

    def __init__(
        self,
        check: JoinCheck,
        wait_s: float,
        say: Callable[[str], None],
        resize: Callable[[Iterable[Node]], int],
        more: Callable[[], Sequence[PlacementGroupFactory]],
        stop: Callable[[], None],
    ) -> None:
        """Follow the nodes.

        Args:
            check: Asks nodes that join whether they can run the study's trials.
            wait_s: How long a study may be without a node for any of its trials.
            say: Takes a line for the terminal.
            resize: Takes what the study may use from now on; gives how many trials may run side by side.
            more: What each trial needs that would run as well if there were more nodes.
            stop: Ends the study.
        """
        self.states = NodeStates(machines())
        self.gave_up = ""
        self._check, self._wait_s, self._say, self._resize, self._more, self._stop = (
            check,
            wait_s,
            say,
            resize,
            more,
            stop,
        )
        self._demand = Demand()
        self._own = ray.get_runtime_context().get_node_id()
        self._reachability = Reachability()
        self._next_look = 0.0
        self._waits_since: float | None = None

    def watch(self, attempts: Attempts) -> None:
        """End the attempts whose nodes are lost from now on."""
        self._attempts = attempts

    def name(self, node: str) -> str:
        """A node in words, by its id."""
        return self.states.name(node)

    def is_here(self, node: str) -> bool:
        """True for the driver's own node, by its id."""
        return bool(node == self._own)

    def refuse(self, node: str, why: str) -> None:
        """Use a node no more, since it cannot run the study's trials."""
        if self.states.refuse(node):
            self._say(labelled("node", f"{self.states.name(node)} is not used from now on: {why}"))
            self._resized()

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Look at the nodes, and at the trials on those that are lost."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_EVERY_S
        present = machines()
        self._reachability.asked = [machine for machine in present if machine.id != self._own]
        changes = self.states.update(present, self._reachability.silent, now)
        if changes.any:
            self._said(changes)
        self._admit(trials)
        for trial in trials:
            if lost := [node for node in self._running_on(trial) if self.states.is_lost(node)]:
                self._attempts.end(trial, Loss(NODE, f"{self.states.name(lost[0])} was lost"))
        self._demand.ask(self._more(), {machine.id for machine in present})
        self._wait(trials, now)

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Ask for no more nodes."""
        self._demand.close()

    def _running_on(self, trial: Any) -> tuple[str, ...]:
        """Ids of a trial's nodes; none unless it runs."""
        return self._attempts.nodes(trial) if trial.status == "RUNNING" and not self._attempts.is_ended(trial) else ()

    def close(self) -> None:
        """Ask the nodes no more."""
        self._reachability.close()
        self._check.close()

    def _said(self, changes: Changes) -> None:
        at_once = self._resized()
        elsewhere = "what ran there goes on elsewhere, from its last checkpoint"
        for machine in changes.left:
            self._say(labelled("node", f"{machine.name} is gone: {elsewhere}"))
        for machine in changes.cut_off:
            self._say(labelled("node", f"{machine.name} does not answer: {elsewhere}"))
        for machine in changes.back:
            self._say(labelled("node", f"{machine} answers again: up to {at_once} trials at once"))
        if changes.joined:
            try:
                self._check.ask({machine.id: machine.name for machine in changes.joined})
            except ConfigurationError as error:
                for machine in changes.joined:
                    self.refuse(machine.id, str(error))

    def _admit(self, trials: list[Any]) -> None:
        """Use the nodes that joined and have answered."""
        answers, lines = self._check.answered()
        for node, why in answers.items():
            if why:
                self.refuse(node, why)
                # that waited for room, and found it there
                for trial in [trial for trial in trials if node in self._running_on(trial)]:
                    self._attempts.end(trial, Loss(NODE, f"{self.states.name(node)} is not used"))
            elif (machine := self.states.admit(node)) is not None:
                self._say(labelled("node", f"{machine} joined: up to {self._resized()} trials at once"))
        for line in lines:
            self._say(line)

    def _resized(self) -> int:
        return self._resize(machine.node for machine in self.states.usable.values())

    def _wait(self, trials: list[Any], now: float) -> None:
        """While no node has room for any trial, wait for one, but not for ever."""
        waiting = [trial.placement_group_factory for trial in trials if trial.status == "PENDING"]
        cluster = Cluster(tuple(machine.node for machine in self.states.usable.values()))
        if (
            any(trial.status == "RUNNING" for trial in trials)
            or not waiting
            or any(trials_at_once(r, cluster, 1) for r in waiting)
        ):
            self._waits_since = None
        elif self._waits_since is None:
            self._waits_since = now
            self._say(
                labelled("waiting", f"for {needs(waiting[0])}, at most {self._wait_s:g} s (hardware.wait_for_nodes_s)")
            )
        elif now - self._waits_since > self._wait_s and not self.gave_up:
            self.gave_up = f"want of {needs(waiting[0])}, for {self._wait_s:g} s (hardware.wait_for_nodes_s)"
            self._stop()
