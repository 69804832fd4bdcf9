"""CPUs that this process may use, which in containers and under schedulers are fewer than there are."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.limits import cgroups

_OF_SLURM = "SLURM_CPUS_PER_TASK"


@dataclass(frozen=True)
class Cpus:
    """CPUs of a machine.

    Attributes:
        usable: How many a process may use: 1 or more.
        there: How many there are.
        limit: The reason why they are fewer: `affinity`, `cgroup quota` or `SLURM_CPUS_PER_TASK`; "" if they are not.
    """

    usable: int
    there: int
    limit: str = ""

    def __str__(self) -> str:
        counted = f"{self.usable} of {self.there}" if self.limit else str(self.usable)
        plural = "" if (self.there if self.limit else self.usable) == 1 else "s"
        return f"{counted} CPU{plural}" + (f" ({self.limit})" if self.limit else "")


def usable_cpus(environment: Mapping[str, str] = os.environ) -> Cpus:
    """Those of this machine that this process may use.

    Affinity has cpusets and the binding of Slurm in it. Of a quota that is no whole number the rest is left to others.
    """
    there = os.cpu_count() or 1
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else there
    return least(there, bound, quota(cgroups.folders("cpu")), environment.get(_OF_SLURM, ""))


def least(there: int, bound: int, quota: float | None, of_slurm: str) -> Cpus:
    """The smallest limit.

    Args:
        there: CPUs of the machine.
        bound: CPUs that the process is bound to.
        quota: CPUs that its cgroups may use at most; None without a quota.
        of_slurm: CPUs of a task, as Slurm was asked for them, where nothing binds it to them; "" outside of Slurm.
    """
    usable, limit = (bound, "affinity") if bound < there else (there, "")
    if quota is not None and quota < usable:
        usable, limit = max(1, int(quota)), "cgroup quota"
    if not limit and of_slurm.isdigit() and 0 < int(of_slurm) < there:
        usable, limit = int(of_slurm), _OF_SLURM
    return Cpus(usable, there, limit)


def quota(folders: Iterable[Path]) -> float | None:
    """The smallest quota of some cgroups, in CPUs; None where none has one."""
    found = []
    for folder in folders:
        limit, period = _numbers(folder / "cpu.max") or (
            *(_numbers(folder / "cpu.cfs_quota_us") or (-1,)),
            *(_numbers(folder / "cpu.cfs_period_us") or (1,)),
        )
        if limit > 0:
            found.append(limit / period)
    return min(found, default=None)


def _numbers(file: Path) -> tuple[int, ...]:
    """The whole numbers of a file; -1 for `max`; none if it is not there."""
    try:
        return tuple(-1 if word == "max" else int(word) for word in file.read_text().split())
    except (OSError, ValueError):
        return ()
