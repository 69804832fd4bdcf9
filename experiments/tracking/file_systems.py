"""The kind of file system that a path is on."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

# As Linux and macOS name them. 9p and virtiofs are left out: by them a virtual machine sees a disk of its own host.
# fmt: off
_NETWORK = frozenset({
    "nfs", "nfs3", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs", "afs", "afpfs", "ceph", "glusterfs",
    "lustre", "gpfs", "beegfs", "pvfs2", "orangefs", "panfs", "wekafs", "davfs", "webdav",
})
_FUSE = frozenset({  # after `fuse.`
    "sshfs", "s3fs", "goofys", "gcsfuse", "mount-s3", "blobfuse", "blobfuse2", "rclone", "juicefs", "JuiceFS",
    "ceph-fuse", "ceph", "glusterfs", "davfs2", "seaweedfs",
})
# fmt: on


@dataclass(frozen=True)
class Mount:
    """A line of the mount table.

    Attributes:
        point: Where it is mounted, absolute.
        kind: Of the file system: `ext4`, `nfs4`, `fuse.sshfs`.
    """

    point: str
    kind: str


def mounts() -> list[Mount]:
    """This machine's mount table, in the order of mounting; empty where it cannot be read."""
    try:
        return [Mount(partition.mountpoint, partition.fstype) for partition in psutil.disk_partitions(all=True)]
    except (OSError, RuntimeError):
        return []


def network_type(path: Path, table: Sequence[Mount]) -> str | None:
    """The kind of file system that a path is on, if other machines may write to it as well; None if it is a local one.

    Args:
        path: Absolute; need not exist. Links are followed.
        table: The machine's mounts. Of two at the same point, the later one hides the earlier.
    """
    real, kind, depth = path.resolve(), "", -1
    for mount in table:
        parts = len(Path(mount.point).parts)
        if parts >= depth and real.is_relative_to(mount.point):
            kind, depth = mount.kind, parts
    family, _, program = kind.partition(".")
    return kind if kind in _NETWORK or (family == "fuse" and program in _FUSE) else None
