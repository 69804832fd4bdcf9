"""Room on the disks of this machine."""

import shutil
from pathlib import Path


def free_bytes(path: Path) -> int:
    """Bytes that a person may still write at a path, which need not be there yet."""
    return shutil.disk_usage(_there(path)).free


def used_share(path: Path) -> float:
    """Share of the disk at a path that nobody may write to any more, as `df` has it."""
    usage = shutil.disk_usage(_there(path))
    return usage.used / (usage.used + usage.free)


def _there(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())
