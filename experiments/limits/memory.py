"""The kernel's count of the processes that it killed for want of memory.

A process that the kernel kills ends by SIGKILL, as one that a person kills does: only the count tells them apart.
"""

from collections.abc import Iterable
from pathlib import Path

from experiments.limits import cgroups

_VMSTAT = Path("/proc/vmstat")


def oom_kills(folders: Iterable[Path] | None = None, machine: Path = _VMSTAT) -> int | None:
    """Processes that the kernel killed so far for want of memory: of this process' cgroup, else of the machine;
    None if nobody knows.
    """
    of_cgroups = cgroups.folders("memory") if folders is None else folders
    files = (folder / name for folder in of_cgroups for name in ("memory.oom_control", "memory.events"))
    for file in (*files, machine):
        counts = [line.split()[1] for line in _text(file).splitlines() if line.startswith("oom_kill ")]
        if counts:
            return int(counts[0])
    return None


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
