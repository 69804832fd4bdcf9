"""Room for more trials, asked of a cluster's autoscaler, which adds nodes for what no node has room for."""

from collections.abc import Sequence, Set

from ray.tune import PlacementGroupFactory
from ray.util import remove_placement_group
from ray.util.placement_group import PlacementGroup

from experiments.study.cluster.placement import StudyPlacement

MOST = 32
"""Trials that are worth asking for at the same time: when nodes have come for these, there is time to ask for more."""


class Demand:
    """Asks for the places of trials on nodes that are not there yet, and lets them go when one comes,
    for the trials to ask.

    What is asked for takes nothing from the nodes that are there, and is forgotten by Ray with this process.
    """

    def __init__(self) -> None:
        """Ask for nothing."""
        self._asked: list[PlacementGroup] = []
        self._nodes: Set[str] = frozenset()

    def ask(self, requests: Sequence[PlacementGroupFactory], nodes: Set[str]) -> None:
        """Ask for some trials' places, in the place of what was asked for before.

        Args:
            requests: What each needs.
            nodes: Ids of the nodes that are there.
        """
        if nodes != self._nodes:
            self.close()
            self._nodes = frozenset(nodes)
        while len(self._asked) > len(requests):
            remove_placement_group(self._asked.pop())
        self._asked += [
            StudyPlacement(request, lambda: self._nodes).to_placement_group()
            for request in requests[len(self._asked) :]
        ]

    def close(self) -> None:
        """Ask for nothing any more."""
        while self._asked:
            remove_placement_group(self._asked.pop())
