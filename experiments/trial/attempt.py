"""An attempt at a trial: what the driver gives the process that makes it,
and what ends it through no fault of the trial.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.util import get_current_placement_group, placement_group_table

from experiments.trial.usage.memory_use import leave
from experiments.trial.usage.resource_usage import Address, this_process

_NODE_DIED = re.compile(r"its node has died\. Node Id: (\w+)")
"""Ray's message about an actor whose node is gone."""


@dataclass(frozen=True)
class Attempt:
    """A process' turn at a trial, as the driver gives it.

    Attributes:
        number: Number of the attempt in the log: what a process with an earlier one still writes is refused.
            0: the process begins one by itself.
        reason: Why the attempt before it, if there was one, did not end the trial.
        cause: The same, as `Restarted` has it.
        heartbeats: The actor that takes the process' signs of life; None: nobody does.
    """

    number: int = 0
    reason: str = "a process of the trial died"
    cause: str = "process"
    heartbeats: Any = None

    def give_sign(self, trial: str) -> None:
        """Give a sign of life; any process of the trial may.

        Args:
            trial: Name of the trial's folder.
        """
        if self.heartbeats is not None:
            self.heartbeats.add.remote(trial, self.number)

    def tell_memory(self, trial: str, resident_bytes: int, driver: Address | None, logs: Path) -> None:
        """Tell the driver what the trial's processes take: by a file where it is on the same host, since the actor that
        takes the signs of life may be killed beside them, else by that actor.

        Args:
            trial: Name of the trial's folder.
            resident_bytes: Resident memory of the processes.
            driver: Host and process of the study's driver; None if it is not known.
            logs: The folder in which Tune keeps the trial's logs.
        """
        host = this_process()[0]
        if driver is not None and driver[0] == host:
            with suppress(OSError):
                leave(logs, self.number, resident_bytes)
        elif self.heartbeats is not None:
            self.heartbeats.add_memory.remote(trial, self.number, host, resident_bytes)


class UnfitNodeError(RuntimeError):
    """The node that this process is on cannot run the study's trials; the message says why, as a clause."""


class LostNodeError(RuntimeError):
    """A node that had a process of the trial is gone."""


class OutOfMemoryError(RuntimeError):
    """A process of the trial was killed for want of memory; the message is what was seen of its end."""


def lost_node(error: BaseException) -> str:
    """The id of the node whose end an error tells of, in whatever process; "" if it tells of none."""
    found = _NODE_DIED.search(str(error))
    return found[1] if found else ""


def own_nodes() -> tuple[str, ...]:
    """Ids of the nodes that hold the calling trial's processes, its own first."""
    own = ray.get_runtime_context().get_node_id()
    group = get_current_placement_group()
    placed = placement_group_table(group)["bundles_to_node_id"].values() if group else ()
    return tuple(dict.fromkeys((own, *placed)))
