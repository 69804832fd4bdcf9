"""The kernel's count of the processes that it killed for want of memory. Standard library only.

A process that it kills ends by SIGKILL, as one that a person kills does: only the count tells them apart.
"""

from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def count_of(text: str) -> int | None:
    """The number in a file's line `oom_kill N`, as memory.events, memory.oom_control and /proc/vmstat have;
    None if it has none.
    """
    found = [line.split()[1] for line in text.splitlines() if line.startswith("oom_kill ")]
    return int(found[0]) if found else None


def counters(cgroup: str, root: Path = _CGROUPS) -> list[Path]:
    """The files that may hold the count of a process' memory cgroup, the nearest first.

    In a container, the cgroup may have a name that only its host knows, and be mounted as if it were the root.

    Args:
        cgroup: The process' /proc/self/cgroup: a line `number:controllers:path` for each hierarchy.
        root: Where cgroups are mounted.
    """
    found = []
    for line in cgroup.splitlines():
        _, controllers, path = line.split(":", 2)
        own = path.strip("/")
        if "memory" in controllers.split(","):  # version 1
            found += [root / "memory" / own / "memory.oom_control", root / "memory/memory.oom_control"]
        elif not controllers:  # version 2, which has no such file where version 1 has the memory
            found += [root / own / "memory.events", root / "memory.events"]
    return [*dict.fromkeys(found), Path("/proc/vmstat")]


def oom_kills() -> int | None:
    """Processes that the kernel killed so far for want of memory: of this process' cgroup, else of the machine;
    None if nobody knows.
    """
    try:
        files = counters(Path("/proc/self/cgroup").read_text())
    except OSError:  # not Linux
        return None
    for file in files:
        try:
            count = count_of(file.read_text())
        except OSError:
            continue
        if count is not None:
            return count
    return None
