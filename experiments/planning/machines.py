"""The machine or cluster that a study may use: what it has, and what it may become.

Imported before Ray starts: no torch, no RLlib.
"""

import functools
import logging
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
import yaml
from ray._private.utils import resolve_object_store_memory

from experiments.config.errors import ConfigurationError
from experiments.config.schema import HardwareSettings, SuiteConfig
from experiments.config.trial_config import GROUPS
from experiments.contract.words import amount, plural
from experiments.limits.cpus import usable_cpus
from experiments.limits.memory import usable_memory

logger = logging.getLogger(__name__)

_AUTOSCALER_FILE = Path("~/ray_bootstrap_config.yaml").expanduser()
"""The file that `ray up` leaves on the head node. Other autoscalers, as KubeRay's,
tell nobody in the cluster what they may add."""
_MOST_COMING = 1000
MEMORY = "memory"
"""Ray's resource, in bytes."""
_THRESHOLD = "RAY_memory_usage_threshold"
"""Variable with the share of a machine's memory beyond which Ray ends processes."""
_USED_AT_MOST = 0.95
"""Unless it says otherwise (ray_config_def.h)."""
_OWN_BYTES = 1.4 * 2**30
"""Of the driver and Ray's own processes on its machine, as measured."""


@dataclass(frozen=True)
class Node:
    """One machine's schedulable CPUs, GPUs and memory in bytes, and the kinds of its accelerators by Ray's names."""

    num_cpus: float
    num_gpus: float
    accelerator_types: tuple[str, ...] = ()
    memory: float = math.inf  # where nobody says it

    @property
    def resources(self) -> dict[str, float]:
        """As Ray counts them."""
        return {
            "CPU": self.num_cpus,
            "GPU": self.num_gpus,
            MEMORY: self.memory,
            **{accelerator_resource(kind): 1.0 for kind in self.accelerator_types},
        }


@dataclass(frozen=True)
class Cluster:
    """The machines that a study may use; a single one where Ray is started here."""

    nodes: tuple[Node, ...]
    is_declared: bool = False  # what it has was said, and not counted
    is_joined: bool = False  # nodes may come and go
    num_coming: int = 0  # of the nodes, the last are not there yet: an autoscaler may add them
    real_cpus: int = 0  # where others were declared, how many there are
    limited: str = ""  # how many of its CPUs this machine lets a study use, and why

    @property
    def present(self) -> "Cluster":
        """The nodes that are there."""
        return replace(self, nodes=self.nodes[: len(self.nodes) - self.num_coming], num_coming=0)

    @property
    def num_cpus(self) -> float:
        """CPUs of all nodes."""
        return sum(node.num_cpus for node in self.nodes)

    @property
    def num_gpus(self) -> float:
        """GPUs of all nodes."""
        return sum(node.num_gpus for node in self.nodes)

    @property
    def accelerator_types(self) -> tuple[str, ...]:
        """Kinds of the nodes' accelerators."""
        return tuple(dict.fromkeys(kind for node in self.nodes for kind in node.accelerator_types))

    @property
    def memory(self) -> float:
        """Bytes that trials may take on all nodes; inf if nobody says it."""
        return sum(node.memory for node in self.nodes)

    def __str__(self) -> str:
        there = self.present
        where = (
            f"this cluster of {plural(len(there.nodes), 'node')}"
            if self.is_joined or len(self.nodes) > 1
            else "this machine"
        )
        has = "is declared to have" if self.is_declared else "has"
        grows = f", and may grow to {amount(self.num_cpus, self.num_gpus)}" if self.num_coming else ""
        counted = amount(there.num_cpus, there.num_gpus)
        if self.limited:
            counted = f"{self.limited} and {plural(there.num_gpus, 'GPU')}"
        elif self.real_cpus:
            counted = (
                f"{plural(there.num_cpus, 'CPU')} ({self.real_cpus} are there) and {plural(there.num_gpus, 'GPU')}"
            )
        return f"{where} {has} {counted}{grows}"


def local_machine(hardware: HardwareSettings) -> Cluster:
    """This machine as the study may use it: what was declared, else what there is,
    CPUs times `hardware.oversubscribe`.
    """
    real = usable_cpus()
    cpus = hardware.num_cpus if hardware.num_cpus is not None else real.usable * hardware.oversubscribe
    gpus = hardware.num_gpus if hardware.num_gpus is not None else usable_gpus()
    return Cluster(
        (Node(cpus, gpus, _own_accelerator_types() if gpus else (), memory_of_trials(hardware.memory_gib)),),
        is_declared=cpus != real.usable or bool(hardware.num_gpus),
        real_cpus=0 if cpus == real.usable else real.usable,
        limited=str(real) if real.limit and cpus == real.usable else "",
    )


def memory_of_trials(memory_gib: float | None) -> float:
    """Bytes of this machine that trials may take: what was declared, else what it has up to where Ray begins to end
    processes, less Ray's object store at its largest and what the suite and Ray take themselves.
    """
    if memory_gib is not None:
        return memory_gib * 2**30
    there = usable_memory()
    until = float(os.environ.get(_THRESHOLD, _USED_AT_MOST))
    store = int(resolve_object_store_memory(there))
    return max(0.0, until * there - store - _OWN_BYTES)


def check_room(suite: SuiteConfig, cluster: Cluster) -> None:
    """Make sure that a trial can ever start, as far as written counts say: CPUs of its own process and its runners,
    GPUs of its learners.

    What it needs in all, RLlib says later, which takes seconds to import (`resources.check_fits`).

    Args:
        suite: A study's settings. One that varies its hardware or counts is left alone.
        cluster: The machines that there are.

    Raises:
        ConfigurationError: It never can.
    """
    if any(
        path in GROUPS or path.startswith(("hardware.", "algorithm.env_runners.", "algorithm.learners."))
        for path in suite.study.space
    ):
        return
    own: dict[str, Any] = {}
    for section in ("env_runners", "learners"):
        settings = suite.algorithm.get(section)
        own |= settings if isinstance(settings, Mapping) else {}

    def count(name: str, otherwise: float = 0) -> float:
        found = own.get(name)
        found = getattr(suite.hardware, name, None) if found is None else found
        return found if isinstance(found, int | float) else otherwise

    cpus = 1 + count("num_env_runners") * count("num_cpus_per_env_runner", 1)
    gpus = 0 if suite.hardware.num_gpus == 0 else max(1, count("num_learners")) * count("num_gpus_per_learner")
    if cpus <= cluster.num_cpus and gpus <= cluster.num_gpus:
        return
    room = int((cluster.num_cpus - 1) // (count("num_cpus_per_env_runner", 1) or 1))
    hint = (
        f" The largest number of env runners that fits is {room}: num_env_runners={room}."
        if room > 0 and gpus <= cluster.num_gpus
        else ""
    )
    if gpus > cluster.num_gpus:
        hint += " To learn on CPUs: algorithm.learners.num_gpus_per_learner=0."
    raise ConfigurationError(
        f"hardware={suite.hardware.name} needs {amount(cpus, gpus)} per trial, or more; "
        f"{cluster}.{hint} {ways_to_fit(suite.hardware.name, cpus, gpus, cluster)}"
    )


def ways_to_fit(hardware_name: str, cpus: float, gpus: float, cluster: Cluster) -> str:
    """What to do where a trial needs more than machines of which more can be declared have, in sentences.

    Args:
        hardware_name: The profile.
        cpus: That a trial needs.
        gpus: Likewise.
        cluster: The machines.
    """
    other = "" if hardware_name == "auto" else "Try hardware=auto. "
    declared = f"hardware.num_cpus={math.ceil(max(cpus, cluster.num_cpus))}" + (
        " hardware.num_gpus=0" if gpus > cluster.num_gpus else ""
    )
    return f"{other}To declare logical CPUs beyond the real ones: {declared}."


def joined_cluster() -> Cluster:
    """The nodes of the Ray cluster that this process has joined, and those that its autoscaler may add,
    where that is known here.
    """
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return grown(node_of(resources) for resources in alive)


def node_of(resources: Mapping[str, float]) -> Node:
    """A node by its resources, as Ray or an autoscaler's settings name them."""
    memory = resources.get(MEMORY, math.inf)
    return Node(resources.get("CPU", 0), resources.get("GPU", 0), accelerator_types(resources), memory)


def grown(present: Iterable[Node]) -> Cluster:
    """A joined cluster of nodes that are there and those that may come."""
    there = tuple(present)
    coming = may_come(yaml.safe_load(_AUTOSCALER_FILE.read_text()), len(there)) if _AUTOSCALER_FILE.exists() else ()
    return Cluster((*there, *coming), is_joined=True, num_coming=len(coming))


def may_come(settings: Mapping[str, Any], num_present: int) -> tuple[Node, ...]:
    """The nodes that an autoscaler may add to those that are there.

    Args:
        settings: The cluster file of `ray up`, as it completed it.
        num_present: Nodes that are there, with the head.

    Returns:
        The largest first; each kind as often as it may be there at most.
    """
    head, kinds = settings.get("head_node_type"), settings.get("available_node_types", {})
    most = min(settings.get("max_workers", 0) + 1 - num_present, _MOST_COMING)
    found = [
        node
        for name, kind in kinds.items()
        for node in [node_of(kind.get("resources", {}))]
        for _ in range(min(kind.get("max_workers", settings.get("max_workers", 0)), _MOST_COMING))
        if name != head
    ]
    return tuple(sorted(found, key=lambda node: (node.num_gpus, node.num_cpus), reverse=True)[: max(0, most)])


_ACCELERATOR_TYPE = "accelerator_type:"


def accelerator_resource(kind: str) -> str:
    """The resource by which Ray labels the nodes with a kind of accelerator."""
    return f"{_ACCELERATOR_TYPE}{kind}"


def accelerator_types(resources: Iterable[str]) -> tuple[str, ...]:
    """The kinds of accelerators that resources are labelled with."""
    return tuple(name.removeprefix(_ACCELERATOR_TYPE) for name in resources if name.startswith(_ACCELERATOR_TYPE))


def _own_accelerator_types() -> tuple[str, ...]:
    """The kind of this machine's GPUs, as Ray will label it."""
    from ray._private.accelerators import NvidiaGPUAcceleratorManager

    kind = NvidiaGPUAcceleratorManager.get_current_node_accelerator_type()
    return () if kind is None else (str(kind),)


def usable_gpus() -> int:
    """GPUs of this machine that CUDA_VISIBLE_DEVICES does not hide, as Ray counts them, if torch can use them."""
    from ray._private.accelerators import NvidiaGPUAcceleratorManager

    found = int(NvidiaGPUAcceleratorManager.get_current_node_num_accelerators())
    visible = NvidiaGPUAcceleratorManager.get_current_process_visible_accelerator_ids()
    found = found if visible is None else min(found, len(visible))
    if not found:
        return 0
    import torch  # a second, for those who have a GPU

    if not torch.cuda.is_available():
        _warn_once(
            f"torch {torch.__version__} cannot use the {plural(found, 'GPU')} of this machine: everything runs on CPUs."
        )
        return 0
    return found


@functools.cache
def _warn_once(message: str) -> None:
    logger.warning(message)
