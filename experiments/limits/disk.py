"""Room on the disks of this machine."""

import shutil
from pathlib import Path


def free_bytes(path: Path) -> int:
    """Bytes that a person may still write at a path, which need not be there yet."""
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    return shutil.disk_usage(there).free
