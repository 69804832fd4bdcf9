"""The cgroups that a process is in: the folders in which the kernel tells their limits and counts."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
"""Where cgroups are mounted."""


def folders(controller: str, root: Path = ROOT, cgroup: str | None = None) -> Iterator[Path]:
    """The folders of this process' cgroups, each before the one that it is within: limits of all of them hold.

    In a container, a cgroup may have a name that only its host knows, and be mounted as if it were the root.

    Args:
        controller: `cpu` or `memory`.
        root: The folder in which cgroups are mounted.
        cgroup: Of /proc/self/cgroup, a line `number:controllers:path` for each hierarchy; None: what it says.
    """
    if cgroup is None:
        try:
            cgroup = Path("/proc/self/cgroup").read_text()
        except OSError:  # not Linux
            return
    for line in cgroup.splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):  # version 1
            mounts = [root / controller]
        elif not controllers:  # version 2, which may be mounted beside version 1
            mounts = [root, root / "unified"]
        else:
            continue
        for mount in mounts:
            own = mount / path.strip("/")
            yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(mount) and folder.is_dir())
