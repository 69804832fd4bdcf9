"""CPU, memory and GPU use of a trial's processes."""

import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from time import perf_counter

import psutil
import torch


class ProcessMonitor:
    """Measures a set of processes on this host between one call and the next.

    Ray's actors are children of its node manager, not of the trial, so a trial's process tree is the list of its actors' processes
    and their children.
    """

    def __init__(self, processes: Iterable[tuple[str, int]]) -> None:
        """Start measuring.

        Args:
            processes: (host name, process id) of each; those of other hosts are left out.
        """
        here = socket.gethostname()
        self._processes: list[psutil.Process] = []
        for host, pid in processes:
            with suppress(psutil.Error):
                if host == here:
                    process = psutil.Process(pid)
                    self._processes += [process, *process.children(recursive=True)]
        self._cpu_s, self._at = self._cpu_seconds(), perf_counter()

    def metrics(self) -> dict[str, float]:
        """The `system/` metrics since the last call."""
        cpu_s, at = self._cpu_seconds(), perf_counter()
        memory = 0
        for process in self._processes:
            with suppress(psutil.Error):
                memory += process.memory_info().rss
        measured = {
            # A process that ended takes its seconds along: never below 0.
            "system/cpu_percent": max(0.0, 100 * (cpu_s - self._cpu_s) / max(at - self._at, 1e-9)),
            "system/memory_mib": memory / 2**20,
        }
        self._cpu_s, self._at = cpu_s, at
        with suppress(ImportError, RuntimeError):  # no NVML on this host
            if torch.cuda.is_available():
                gpus = range(torch.cuda.device_count())
                measured["system/gpu_percent"] = sum(torch.cuda.utilization(gpu) for gpu in gpus) / len(gpus)
        return measured

    def _cpu_seconds(self) -> float:
        total = 0.0
        for process in self._processes:
            with suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system
        return total


def own_memory_bytes() -> int:
    """Resident memory of this process."""
    return int(psutil.Process().memory_info().rss)


def this_process() -> tuple[str, int]:
    """Host name and id of the calling process."""
    return socket.gethostname(), os.getpid()
