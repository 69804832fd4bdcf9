"""CPU, memory and GPU use of a trial's processes on other hosts: they are asked at each report, and say it by the next.

Nobody waits for an answer: a runner may be in the middle of a sample, and an environment's step may take a second.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import psutil
import ray
from ray.exceptions import RayError

from experiments.trial.usage.gpu_use import GpuUse

_gpus: list[GpuUse] = []  # of this process, once it is asked


@dataclass(frozen=True)
class Use:
    """The use of resources by a process and the processes below it.

    Attributes:
        at: Seconds of its own clock.
        cpu_s: CPU seconds so far.
        memory_mib: Resident.
        gpu_percent: Mean since it was last asked; None without a GPU that says it.
    """

    at: float
    cpu_s: float
    memory_mib: float
    gpu_percent: float | None


def own_use(actor: Any = None) -> Use:
    """The use of the calling process; as RLlib's actors take a function."""
    if not _gpus:
        _gpus.append(GpuUse())
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    cpu_s = memory = 0.0
    for process in processes:
        try:
            with process.oneshot():
                times = process.cpu_times()
                cpu_s += times.user + times.system
                memory += process.memory_info().rss
        except psutil.Error:  # ended meanwhile
            continue
    return Use(perf_counter(), cpu_s, memory / 2**20, _gpus[0].take())


@dataclass(frozen=True)
class RoleUse:
    """The use of resources by the processes of a role on other hosts."""

    cpu_percent: float
    memory_mib: float


class RemoteUse:
    """The use of processes on other hosts, between the last two answers of each."""

    def __init__(self, roles: Mapping[str, Sequence[Any]]) -> None:
        """Begin to ask.

        Args:
            roles: Role of processes to their handles, which have `apply` as RLlib's actors.
        """
        self._roles = {role: list(actors) for role, actors in roles.items() if actors}
        self._asked: dict[Any, Any] = {}
        self._answers: dict[Any, list[Use]] = {}
        self._ask()

    def _ask(self) -> None:
        for actor in (actor for actors in self._roles.values() for actor in actors):
            if actor not in self._asked:
                self._asked[actor] = actor.apply.remote(own_use)

    def _take_answers(self) -> None:
        for actor, asked in list(self._asked.items()):
            ready, _ = ray.wait([asked], timeout=0)
            if not ready:
                continue
            del self._asked[actor]
            try:
                self._answers[actor] = [*self._answers.get(actor, [])[-1:], ray.get(asked)]
            except RayError:  # it died: what it used is not known any more
                self._answers.pop(actor, None)

    def take(self) -> tuple[dict[str, RoleUse | None], list[float]]:
        """The use since the last call; asks for the next one.

        Returns:
            Role to use, None while a process of it has not answered twice;
            and the percentages of the GPUs of those that have one.
        """
        self._take_answers()
        self._ask()
        found: dict[str, RoleUse | None] = {}
        for role, actors in self._roles.items():
            pairs = [self._answers.get(actor, []) for actor in actors]
            if any(len(pair) < 2 for pair in pairs):
                found[role] = None
                continue
            cpu = sum(100 * max(0.0, last.cpu_s - first.cpu_s) / max(last.at - first.at, 1e-9) for first, last in pairs)
            found[role] = RoleUse(cpu, sum(last.memory_mib for _, last in pairs))
        newest = [answers[-1].gpu_percent for answers in self._answers.values() if answers]
        return found, [percent for percent in newest if percent is not None]
