"""CPU, memory and GPU use of a trial's processes, and of what else is on the machine."""

import os
import socket
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter

import psutil
import torch

DRIVER, RUNNERS, LEARNERS = "driver", "runners", "learners"
"""What the processes of a trial do."""

Address = tuple[str, int]
"""Host name and process id."""


@dataclass(frozen=True)
class _Counts:
    """CPU seconds so far."""

    at: float  # seconds of perf_counter
    of_roles: Mapping[str, float]
    of_study: Mapping[int, float]  # by process id
    busy: float  # of the machine's cores, as the next
    total: float


class GpuUse:
    """The mean use of the GPUs that this process sees, from samples that a thread takes.

    A GPU says how busy it was in the last second or less. Asked at a report, it would tell of the evaluation before it, when it idles.
    """

    def __init__(self, every_s: float = 0.5) -> None:
        self._samples: list[float] = []
        self._closed = threading.Event()
        if torch.cuda.is_available():
            threading.Thread(target=self._sample, args=(every_s,), name="GpuUse", daemon=True).start()

    def _sample(self, every_s: float) -> None:
        with suppress(Exception):  # no nvidia-ml-py, or a GPU that does not say it, as a slice of one (MIG): NVML has errors of its own
            while not self._closed.wait(every_s):
                gpus = range(torch.cuda.device_count())
                self._samples.append(sum(torch.cuda.utilization(gpu) for gpu in gpus) / len(gpus))

    def take(self) -> float | None:
        """The mean since the last call, in percent; None if there was no sample."""
        taken, self._samples = self._samples, []
        return sum(taken) / len(taken) if taken else None

    def close(self) -> None:
        """End the thread."""
        self._closed.set()


class ProcessMonitor:
    """Measures a trial's processes on this host, and the host itself, between one call and the next.

    Ray's actors are children of its node manager, not of the trial, so a trial's process tree is the list of its actors' processes
    and their children. What the study uses is the tree of its driver, or of Ray's node manager where the driver is on another host.
    """

    def __init__(self, roles: Mapping[str, Iterable[Address]], driver: Address | None = None) -> None:
        """Start measuring.

        Args:
            roles: What the processes do to their addresses; those of other hosts are left out.
            driver: Of the study; None: whoever called this process into being.
        """
        here = socket.gethostname()
        self._roles: dict[str, list[psutil.Process]] = {}
        for role, addresses in roles.items():
            found = self._roles[role] = []
            for host, pid in addresses:
                with suppress(psutil.Error):
                    if host == here:
                        process = psutil.Process(pid)
                        found += [process, *process.children(recursive=True)]
        self._root = psutil.Process(driver[1] if driver is not None and driver[0] == here else os.getppid())
        self._gpus = GpuUse()
        self._last = self._count()

    def close(self) -> None:
        """Measure no more."""
        self._gpus.close()

    def metrics(self) -> dict[str, float]:
        """The `system/` metrics since the last call."""
        last, now = self._last, self._count()
        self._last = now
        seconds = max(now.at - last.at, 1e-9)
        # A process that ended takes its seconds along: never below 0.
        cpu = {role: 100 * max(0.0, now.of_roles[role] - last.of_roles[role]) / seconds for role in self._roles}
        memory = {role: sum(map(_memory_bytes, processes)) / 2**20 for role, processes in self._roles.items()}
        measured = {"system/cpu_percent": sum(cpu.values()), "system/memory_mib": sum(memory.values())}
        if len(self._roles) > 1:
            measured |= {f"system/{role}_cpu_percent": percent for role, percent in cpu.items()}
            measured |= {f"system/{role}_memory_mib": mib for role, mib in memory.items()}
        own = sum(s - last.of_study.get(pid, 0.0) for pid, s in now.of_study.items())
        measured["system/machine_cpu_percent"] = 100 * (now.busy - last.busy) / max(now.total - last.total, 1e-9)
        measured["system/other_cpu_percent"] = 100 * max(0.0, now.busy - last.busy - own) / seconds
        if (percent := self._gpus.take()) is not None:
            measured["system/gpu_percent"] = percent
        return measured

    def _count(self) -> _Counts:
        machine = psutil.cpu_times()
        total = sum(machine[:8])  # Linux counts its guests' seconds twice, once beyond these
        idle = machine.idle + getattr(machine, "iowait", 0.0)
        study = {}
        with suppress(psutil.Error):
            study = {process.pid: _cpu_seconds(process) for process in [self._root, *self._root.children(recursive=True)]}
        roles = {role: sum(map(_cpu_seconds, processes)) for role, processes in self._roles.items()}
        return _Counts(perf_counter(), roles, study, total - idle, total)


def _cpu_seconds(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0


def _memory_bytes(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def own_memory_bytes() -> int:
    """Resident memory of this process."""
    return int(psutil.Process().memory_info().rss)


def this_process() -> Address:
    """Host name and id of the calling process."""
    return socket.gethostname(), os.getpid()
