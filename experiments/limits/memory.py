"""Memory that the processes here may use, and how many of them the kernel killed for want of it."""

import functools
import os
from collections.abc import Iterable
from pathlib import Path

from experiments.limits import cgroups
from experiments.limits.kernel_files import text_of

_VMSTAT = Path("/proc/vmstat")
_LIMITS = ("memory.max", "memory.limit_in_bytes")
"""Of version 2, which has a word where there is none, and 1, which then has more than any machine."""


def usable_memory(folders: Iterable[Path] | None = None) -> int:
    """Bytes of memory that this process and those that it starts may use together: the smallest limit of its cgroups,
    else what the machine has.

    Args:
        folders: Folders of cgroups; None: those of this process.
    """
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    of_cgroups = _own_folders() if folders is None else folders
    texts = (text_of(folder / name).strip() for folder in of_cgroups for name in _LIMITS)
    return min([there, *(int(text) for text in texts if text.isdigit())])


def oom_kills(folders: Iterable[Path] | None = None, machine: Path = _VMSTAT) -> int | None:
    """Processes that the kernel killed so far for want of memory: of this process' cgroup, else of the machine;
    None if nobody knows.

    A process that the kernel kills ends by SIGKILL, as one that a person kills does: only the count tells them apart.
    """
    of_cgroups = _own_folders() if folders is None else folders
    files = (folder / name for folder in of_cgroups for name in ("memory.oom_control", "memory.events"))
    for file in (*files, machine):
        counts = [line.split()[1] for line in text_of(file).splitlines() if line.startswith("oom_kill ")]
        if counts:
            return int(counts[0])
    return None


@functools.cache
def _own_folders() -> tuple[Path, ...]:
    """They stay the same; a study asks at each attempt at a trial."""
    return tuple(cgroups.folders("memory"))
