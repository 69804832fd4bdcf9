"""Which nodes of a cluster a study uses: pure, fed with what is seen of them. No Ray."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from experiments.contract.words import amount
from experiments.planning.machines import Node

CUT_OFF_S = 20.0
"""A node that answers nothing for so long is taken for cut off: Ray itself waits for a minute or more,
as the cluster's head is set."""


@dataclass(frozen=True)
class ClusterNode:
    """A node of the cluster.

    Attributes:
        id: The node's id in Ray.
        name: Host name and address.
        address: Network address of its node manager.
        port: Port of its node manager.
        node: What it can hold.
    """

    id: str
    name: str
    address: str
    port: int
    node: Node

    def __str__(self) -> str:
        return f"{self.name}, {amount(self.node.num_cpus, self.node.num_gpus)}"


@dataclass(frozen=True)
class Changes:
    """The changes of nodes since the last look.

    Attributes:
        joined: Those that are new: not used until they are admitted.
        left: Those that are gone, and were not cut off before.
        cut_off: Those that answer nothing, and count as lost.
        back: Those that were cut off, and answer again.
    """

    joined: tuple[ClusterNode, ...] = ()
    left: tuple[ClusterNode, ...] = ()
    cut_off: tuple[ClusterNode, ...] = ()
    back: tuple[ClusterNode, ...] = ()

    @property
    def any(self) -> bool:
        """True if there is one."""
        return bool(self.joined or self.left or self.cut_off or self.back)


class NodeStates:
    """The nodes that are there, and which of them a study does not use."""

    def __init__(self, present: Iterable[ClusterNode]) -> None:
        """Begin with the nodes that are there."""
        self._present = {machine.id: machine for machine in present}
        self._names = {node: machine.name for node, machine in self._present.items()}  # also of those that are gone
        self._silent_since: dict[str, float] = {}
        self._cut_off: set[str] = set()
        self._refused: set[str] = set()
        # those that joined, and have not answered whether they can run the study's trials
        self._asked: set[str] = set()

    def update(self, present: Iterable[ClusterNode], silent: Set[str], now: float) -> Changes:
        """Take in what is seen.

        Args:
            present: The nodes that Ray counts as alive.
            silent: Ids of those that answered nothing when they were last asked.
            now: Seconds on a monotonic clock.
        """
        before, self._present = self._present, {machine.id: machine for machine in present}
        self._silent_since = {node: self._silent_since.get(node, now) for node in silent if node in self._present}
        self._asked = {node for node in self._present if node in self._asked or node not in self._names}
        self._names |= {node: machine.name for node, machine in self._present.items()}
        cut_off = {node for node, since in self._silent_since.items() if now - since >= CUT_OFF_S}
        were_cut_off, self._cut_off = self._cut_off, cut_off
        return Changes(
            joined=tuple(machine for node, machine in self._present.items() if node not in before),
            left=tuple(
                machine for node, machine in before.items() if node not in self._present and node not in were_cut_off
            ),
            cut_off=tuple(self._present[node] for node in sorted(cut_off - were_cut_off)),
            back=tuple(self._present[node] for node in sorted(were_cut_off - cut_off) if node in self._present),
        )

    def admit(self, node: str) -> ClusterNode | None:
        """Use a node that has joined from now on; None: it is gone."""
        self._asked.discard(node)
        return self._present.get(node)

    def refuse(self, node: str) -> bool:
        """Use a node no more, since it cannot run the study's trials; whether it was used so far."""
        new = node not in self._refused
        self._asked.discard(node)
        self._refused.add(node)
        return new

    def name(self, node: str) -> str:
        """A node in words."""
        return self._names.get(node, f"node {node[:8]}")

    def answers(self, nodes: Iterable[str]) -> bool:
        """True if none of some nodes is gone, or answered nothing when it was last asked."""
        return all(node in self._present and node not in self._silent_since for node in nodes)

    def is_lost(self, node: str) -> bool:
        """True for a node that is gone or cut off."""
        return node not in self._present or node in self._cut_off

    @property
    def unused(self) -> Set[str]:
        """Ids of the nodes that are there and are not used."""
        return (self._cut_off | self._refused | self._asked) & set(self._present)

    @property
    def usable(self) -> Mapping[str, ClusterNode]:
        """The nodes that are used, by id."""
        return {node: machine for node, machine in self._present.items() if node not in self.unused}
