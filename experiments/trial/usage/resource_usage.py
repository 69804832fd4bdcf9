"""CPU, memory and GPU use of a trial's processes, and of what else is on the machine."""

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil

from experiments.limits.kernel_files import text_of
from experiments.trial.usage.gpu_use import GpuUse
from experiments.trial.usage.remote_use import RemoteUse, RoleUse

DRIVER, RUNNERS, LEARNERS = "driver", "runners", "learners"
"""Roles of a trial's processes."""

Address = tuple[str, int]
"""Host name and process id."""

_PRESSURE = Path("/proc/pressure/cpu")


@dataclass(frozen=True)
class _Counts:
    """CPU seconds so far."""

    at: float  # seconds of perf_counter
    of_roles: Mapping[str, float]
    of_study: Mapping[int, float]  # by process id
    busy: float  # of the machine's cores, as the next
    total: float
    stolen: float
    waiting: float | None  # seconds in which something on the machine waited for a CPU


class ProcessMonitor:
    """Measures a trial's processes, and the host of its own one, between one call and the next.

    Ray's actors are children of its node manager, not of the trial, so a trial's process tree is the list of its
    actors' processes and their children. What the study uses is the tree of its driver, or of Ray's node manager where
    the driver is on another host.
    """

    def __init__(
        self,
        roles: Mapping[str, Iterable[Address]],
        driver: Address | None = None,
        elsewhere: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        """Start measuring.

        Args:
            roles: Role of processes to their addresses; those of other hosts are in `elsewhere`.
            driver: The study's driver; None: whoever started this process.
            elsewhere: Role of the processes on other hosts to their handles.
        """
        self._roles = {role: processes_at(addresses) for role, addresses in roles.items()}
        self._root = psutil.Process(
            driver[1] if driver is not None and driver[0] == socket.gethostname() else os.getppid()
        )
        self._gpus, self._elsewhere = GpuUse(), RemoteUse(elsewhere or {})
        self._last = self._count()

    @property
    def processes(self) -> list[psutil.Process]:
        """Those on this host."""
        return [process for of_role in self._roles.values() for process in of_role]

    def close(self) -> None:
        """Measure no more."""
        self._gpus.close()

    def metrics(self) -> dict[str, float]:
        """The `system/` metrics since the last call."""
        last, now = self._last, self._count()
        self._last = now
        seconds = max(now.at - last.at, 1e-9)
        elsewhere, gpu_percents = self._elsewhere.take()
        used: dict[str, RoleUse | None] = {}
        for role, processes in self._roles.items():
            there = elsewhere.get(role, RoleUse(0.0, 0.0))
            # A process that ended takes its seconds along: never below 0.
            cpu = 100 * max(0.0, now.of_roles[role] - last.of_roles[role]) / seconds
            memory_mib = sum(map(memory_bytes, processes)) / 2**20
            used[role] = None if there is None else RoleUse(cpu + there.cpu_percent, memory_mib + there.memory_mib)
        known = {role: use for role, use in used.items() if use is not None}
        measured = {}
        if len(known) == len(used):
            measured["system/cpu_percent"] = sum(use.cpu_percent for use in known.values())
            measured["system/memory_mib"] = sum(use.memory_mib for use in known.values())
        if len(used) > 1:
            measured |= {f"system/{role}_cpu_percent": use.cpu_percent for role, use in known.items()}
            measured |= {f"system/{role}_memory_mib": use.memory_mib for role, use in known.items()}
        own = sum(s - last.of_study.get(pid, 0.0) for pid, s in now.of_study.items())
        measured["system/machine_cpu_percent"] = 100 * (now.busy - last.busy) / max(now.total - last.total, 1e-9)
        measured["system/other_cpu_percent"] = 100 * max(0.0, now.busy - last.busy - own) / seconds
        if now.stolen:
            measured["system/stolen_cpu_percent"] = 100 * (now.stolen - last.stolen) / seconds
        if now.waiting is not None and last.waiting is not None:
            measured["system/cpu_pressure_percent"] = 100 * (now.waiting - last.waiting) / seconds
        gpu_percents += [percent for percent in (self._gpus.take(),) if percent is not None]
        if gpu_percents:
            measured["system/gpu_percent"] = sum(gpu_percents) / len(gpu_percents)
        return measured

    def _count(self) -> _Counts:
        machine = psutil.cpu_times()
        total = sum(machine[:8])  # Linux counts its guests' seconds twice, once beyond these
        idle = machine.idle + getattr(machine, "iowait", 0.0)
        study = {}
        with suppress(psutil.Error):
            study = {
                process.pid: _cpu_seconds(process) for process in [self._root, *self._root.children(recursive=True)]
            }
        roles = {role: sum(map(_cpu_seconds, processes)) for role, processes in self._roles.items()}
        stolen = getattr(machine, "steal", 0.0)
        return _Counts(perf_counter(), roles, study, total - idle, total, stolen, waiting_seconds(text_of(_PRESSURE)))


def waiting_seconds(pressure: str) -> float | None:
    """Seconds so far in which something on the machine waited for a CPU; None if the kernel does not tell.

    Args:
        pressure: Text of the kernel's file: a line `some avg10=1.20 avg60=0.90 avg300=0.50 total=123456`, whose last
            number is microseconds, and others.
    """
    totals = [line.rpartition("total=")[2] for line in pressure.splitlines() if line.startswith("some ")]
    return int(totals[0]) / 1e6 if totals else None


def processes_at(addresses: Iterable[Address]) -> list[psutil.Process]:
    """The processes at the addresses on this host, and those below them."""
    found: list[psutil.Process] = []
    for host, pid in addresses:
        with suppress(psutil.Error):
            if host == socket.gethostname():
                process = psutil.Process(pid)
                found += [process, *process.children(recursive=True)]
    return found


def _cpu_seconds(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0


def memory_bytes(process: psutil.Process) -> int:
    """Resident memory of a process; 0 if it has ended."""
    with suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def own_memory_bytes() -> int:
    """Resident memory of this process."""
    return memory_bytes(psutil.Process())


def this_process() -> Address:
    """Host name and id of the calling process."""
    return socket.gethostname(), os.getpid()
