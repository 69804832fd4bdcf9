"""The machine that a process runs on: its name and its kind.

The standard library only, until a process with Ray asks.
"""

import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.limits.processor import this_processor
from experiments.trial.events import Placed

NODE_GROUP = "ray.io/node-group"
"""Ray's label with the name of the group of nodes that an autoscaler made a node for."""


@dataclass(frozen=True)
class Machine:
    """A machine, as one process on it sees it.

    Attributes:
        host: Its name.
        cpu: The CPU's model.
        gpus: Models of the GPUs that the process has from Ray.
        node_type: Its node group in an autoscaling cluster; "" without one.
    """

    host: str
    cpu: str
    gpus: tuple[str, ...] = ()
    node_type: str = ""


def this_machine() -> Machine:
    """The machine of the calling process; of a process of Ray's with its GPUs and node group."""
    ray, torch = sys.modules.get("ray"), sys.modules.get("torch")
    if ray is None or torch is None or not ray.is_initialized():
        return Machine(socket.gethostname(), this_processor().name)
    # Where Ray has given none, torch may see them all the same.
    gpus = (
        tuple(torch.cuda.get_device_name(gpu) for gpu in range(torch.cuda.device_count())) if ray.get_gpu_ids() else ()
    )
    node_type = ray.get_runtime_context().get_node_labels().get(NODE_GROUP, "")
    return Machine(socket.gethostname(), this_processor().name, gpus, str(node_type))


def placed_on(machines: Sequence[Machine]) -> Placed:
    """The event of a trial whose processes run on some machines."""
    return Placed(
        hosts=_distinct([machine.host for machine in machines]),
        cpus=_distinct([machine.cpu for machine in machines]),
        gpus=_distinct([gpu for machine in machines for gpu in machine.gpus]),
        node_types=_distinct([machine.node_type for machine in machines]),
    )


def _distinct(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))
